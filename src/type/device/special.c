// SPDX-License-Identifier: BSD-3-Clause
//
// Asking for, making and finding special kernels, see special.h.
//
// What makes one special are the numbers of its loops, its word and direction, and the device's instruction set; on disk it is
// the text that says so, and what compiles it.  An entry is made at the first use and stays; its
// kernel is made by the call that has used it often enough.  Everything is under the lock.
#include "type/device/special.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/config.h"
#include "base/hash.h"
#include "mem/code_cache.h"
#include "mem/nvrtc.h"
#include "type/device/program.h"

enum {
    USES = 8,           // before it is worth compiling: a message of many chunks has as many
    ENTRIES_MAX = 512,  // of a process; what comes later stays with the general kernels
    TEXT_MAX = 2048,    // of definitions: 13 loops of two numbers
};

// What a kernel is special for.
typedef struct key {
    uint32_t capability, word, transpose, narrow, unpack, ndims;
    int64_t sizes[WHI_DEVICE_LOOPS], strides[WHI_DEVICE_LOOPS];
} key;

typedef struct special {
    unsigned uses;
    bool ready;
    const whi_mem_ops *ops;
    int device;  // that asked first: code is for all of its kind
    key of;
    char kernel[32];
    const char *names[2];
    whi_mem_program program;
    char text[TEXT_MAX];  // the definitions
} special;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static whi_hash all;  // hash of the key -> special
static _Atomic bool enabled;
static char folder[4096];
static whi_code_cache cache;
static int capabilities[WHI_MEM_PROGRAM_DEVICES];

// ---- Settings, which are of the process.

static void set_up(void) {
    whi_config cfg;
    whi_config_init(&cfg);
    (void)!whi_config_load_env(&cfg, environ, NULL, NULL);  // whoever makes a context is told
    whi_hash_init(&all);
    enabled = cfg.kernel_compile;
    cache.most = cfg.kernel_cache_max;
    if (whi_code_cache_folder(cfg.kernel_cache, folder, sizeof(folder)))
        cache.folder = folder;
}

static int capability_of(const whi_mem_ops *ops, int device) {
    int *known = &capabilities[device];
    if (!*known && ops->kernels->capability(device, known) != WH_OK)
        *known = -1;
    return *known;
}

// ---- The text.

static int put_numbers(char *text, int at, const char *name, const int64_t *numbers, unsigned n) {
    at += snprintf(text + at, (size_t)(TEXT_MAX - at), "#define WHI_CONST_%s {", name);
    for (unsigned i = 0; i < n; i++)
        at += snprintf(text + at, (size_t)(TEXT_MAX - at), "%" PRId64 "ll,", numbers[i]);
    return at + snprintf(text + at, (size_t)(TEXT_MAX - at), "}\n");
}

// The definitions.  26 numbers of 22 characters fit.
static void write_text(const key *k, char *text) {
    int at = snprintf(text, TEXT_MAX,
                      "// sm_%u wherry_%s_%u\n#define WHI_CONST_LOOPS %u\n"
                      "#define WHI_CONST_NARROW %u\n#define WHI_CONST_UNPACK %u\n",
                      k->capability, k->transpose ? "transpose" : "move", k->word, k->ndims,
                      k->narrow, k->unpack);
    at = put_numbers(text, at, "SIZES", k->sizes, k->ndims);
    (void)put_numbers(text, at, "STRIDES", k->strides, k->ndims);
}

// The whole program: definitions, the source, and the one kernel that is wanted of it.
static char *write_source(const special *s) {
    static const char *const types[] = {"whi_d8", "whi_d16", "whi_d32", "whi_d64", "whi_word16"};
    size_t size = strlen(s->text) + strlen(whi_device_source) + 128;
    char *source = whi_malloc(size);
    if (source)
        snprintf(source, size, "%s%s\nWHI_DEFINE_%s(%u, %s)\n", s->text, whi_device_source,
                 s->of.transpose ? "TRANSPOSE" : "MOVE", s->of.word,
                 types[__builtin_ctz(s->of.word)]);
    return source;
}

// ---- Making.

// The key on disk: the text, and what it was made of and with.
static char *write_name(const special *s) {
    size_t size = strlen(s->text) + 128;
    char *name = whi_malloc(size);
    if (name)
        snprintf(name, size, "%s// source %016" PRIx64 " NVRTC %d\n", s->text,
                 whi_hash_bytes(whi_device_source, strlen(whi_device_source)), whi_nvrtc_version());
    return name;
}

static wh_status make_code(const special *s, void **code) {
    char *name = write_name(s), *source = NULL;
    size_t size;
    if (!name)
        return WH_ENOMEM;
    if (whi_code_cache_get(&cache, name, code, &size)) {
        whi_free(name);
        return WH_OK;
    }
    source = write_source(s);
    wh_status status =
        source ? whi_nvrtc_compile(source, (int)s->of.capability, code, &size) : WH_ENOMEM;
    if (status == WH_OK)
        whi_code_cache_put(&cache, name, *code, size);
    whi_free(source);
    whi_free(name);
    return status;
}

static void make(special *s) {
    void *code;
    write_text(&s->of, s->text);
    wh_status status = make_code(s, &code);
    if (status == WH_ENOTSUP)
        enabled = false;  // NVRTC knows these devices, or it does not
    if (status == WH_OK) {
        s->program.image = code;
        s->ready = s->ops->kernels->load(s->device, &s->program) == WH_OK;
    }
}

// ---- Finding.  Under the lock.

static special *new_entry(const whi_mem_ops *ops, int device, uint64_t hash, const key *k) {
    special *s = whi_hash_count(&all) < ENTRIES_MAX ? whi_calloc(1, sizeof(*s)) : NULL;
    if (!s)
        return NULL;
    s->ops = ops;
    s->device = device;
    s->of = *k;
    snprintf(s->kernel, sizeof(s->kernel), "wherry_%s_%u", k->transpose ? "transpose" : "move",
             k->word);
    s->names[0] = s->kernel;
    s->program.names = s->names;
    if (whi_hash_put(&all, hash, s) == WH_OK)
        return s;
    whi_free(s);
    return NULL;
}

static special *find(const whi_mem_ops *ops, int device, const key *k) {
    uint64_t hash = whi_hash_bytes(k, sizeof(*k));
    special *s = whi_hash_get(&all, hash);
    if (!s)
        return new_entry(ops, device, hash, k);
    return memcmp(&s->of, k, sizeof(*k)) == 0 ? s : NULL;  // of two with one hash the first has it
}

static key key_of(const whi_device_args *args, unsigned word, bool transpose) {
    key k;
    memset(&k, 0, sizeof(k));
    k.word = word;
    k.transpose = transpose;
    k.narrow = args->narrow;
    k.unpack = args->unpack;
    k.ndims = args->ndims;
    for (unsigned d = 0; d < args->ndims; d++) {
        k.sizes[d] = (int64_t)args->loop[d].size.by;
        k.strides[d] = args->loop[d].stride;
    }
    return k;
}

whi_mem_program *whi_device_special(const whi_mem_ops *ops, int device, const whi_device_args *args,
                                    unsigned word, bool transpose) {
    pthread_once(&once, set_up);
    if (!enabled || args->tables || !args->ndims)
        return NULL;
    key k = key_of(args, word, transpose);
    special *s = NULL;
    pthread_mutex_lock(&lock);
    int capability = capability_of(ops, device);
    k.capability = (uint32_t)capability;
    if (capability > 0)
        s = find(ops, device, &k);
    if (s && s->uses < USES && ++s->uses == USES)
        make(s);
    bool ready = s && s->ready;
    pthread_mutex_unlock(&lock);
    return ready ? &s->program : NULL;
}
