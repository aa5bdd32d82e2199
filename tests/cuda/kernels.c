// SPDX-License-Identifier: BSD-3-Clause
//
// The test driver's modules and launches, see driver.h.
//
// A module of PTX is run as C: the library beside the driver has Wherry's kernels from the same source
// (program.c).  Its kernels must be in the text, with arguments of the same size, so that a text that is
// older than the source is noticed.  So is machine code in a fatbin, of which only the names are looked at, and which must
// have some for the device.  A "cubin" is a shared object in the same form.  A kernel touches what its
// device could: its own memory, managed and pinned memory, at addresses aligned as the access is; anything
// else ends the device for the process, as in the real one.
#include "driver.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct module {
    void *library;
    char *text;  // of PTX, else NULL
    char *code;  // machine code, of a fatbin, else NULL
    size_t code_size;
    size_t args_size;
    struct function *functions;
};

struct function {
    struct function *next;  // of the module
    void (*run)(const void *args, unsigned long long block);
    struct module *module;
    size_t args_size;
};

typedef struct grid {
    struct function *function;
    unsigned blocks;
    CUdevice device;
    unsigned char args[];
} grid;

static _Atomic long launches, code_launches;
static _Atomic long modules;  // that are loaded
static __thread CUdevice running_on;

// Where what cannot be touched goes.
static void *nowhere(unsigned long long at, size_t size) {
    static __thread _Alignas(64) unsigned char scratch[64];
    if (!device_broken(ILLEGAL_ADDRESS))
        fprintf(stderr, "test driver: a kernel on device %d touches %zu bytes at 0x%llx\n",
                running_on, size, at);
    return scratch;
}

static void *reach(unsigned long long at, size_t size) {
    char *where;
    if (at % size == 0 && translate_for(at, size, running_on, &where))
        return where;
    return nowhere(at, size);
}

PUBLIC long cutest_launches(void);
long cutest_launches(void) {
    return atomic_load(&launches);
}

// Those of them that were of machine code in a fatbin.
PUBLIC long cutest_code_launches(void);
long cutest_code_launches(void) {
    return atomic_load(&code_launches);
}

// ---- Modules.

// A fatbin: a head of `head` bytes, and entries of `size` bytes behind theirs.
typedef struct fatbin_head {
    uint32_t magic;
    uint16_t version, head;
    uint64_t size;
} fatbin_head;

typedef struct fatbin_entry {
    uint16_t kind, version;
    uint32_t head;
    uint64_t size;
    uint32_t unused[3], architecture;
} fatbin_entry;

enum { FATBIN = 0xba55ed50, MACHINE_CODE = 2 };

// Code for a device is for all later minor versions, too.
static bool runs_on(uint32_t architecture, CUdevice device) {
    int major = 0, minor = 0;
    (void)cuDeviceGetAttribute(&major, MAJOR, device);
    (void)cuDeviceGetAttribute(&minor, MINOR, device);
    return architecture / 10 == (uint32_t)major && architecture % 10 <= (uint32_t)minor;
}

static CUresult take_code(const char *image, CUmodule made) {
    fatbin_head head;
    memcpy(&head, image, sizeof(head));
    const char *at = image + head.head, *end = at + head.size;
    for (fatbin_entry entry; at < end; at += entry.head + entry.size) {
        memcpy(&entry, at, sizeof(entry));
        if (entry.kind != MACHINE_CODE || !runs_on(entry.architecture, current()->device))
            continue;
        made->code_size = entry.size;
        made->code = malloc(entry.size);
        if (!made->code)
            return OUT_OF_MEMORY;
        memcpy(made->code, at + entry.head, entry.size);
        return SUCCESS;
    }
    return NO_BINARY_FOR_GPU;
}

static void open_program(CUmodule made) {
    made->library = dlopen("libcutest-program.so", RTLD_NOW | RTLD_LOCAL);
}

static void *open_object(const unsigned char *image) {
    // As long as its section headers, which come last, say.
    unsigned long long sections;
    unsigned short size, count;
    memcpy(&sections, image + 0x28, sizeof(sections));
    memcpy(&size, image + 0x3a, sizeof(size));
    memcpy(&count, image + 0x3c, sizeof(count));
    size_t length = sections + (size_t)size * count;
    char path[64];
    int fd = memfd_create("cubin", MFD_CLOEXEC);
    if (fd < 0 || write(fd, image, length) != (ssize_t)length)
        return NULL;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);  // of which each has its name, so it stays open
}

static CUresult ready(CUmodule made) {
    void *(**place)(unsigned long long, size_t) = dlsym(made->library, "cutest_reach");
    const size_t *size = dlsym(made->library, "cutest_args_size");
    if (!place || !size)
        return INVALID_IMAGE;
    if (!*place)  // a kernel of another device's module may be reading it: they share the program
        *place = reach;
    made->args_size = *size;
    return SUCCESS;
}

static CUresult load(const char *image, CUmodule made) {
    static const uint32_t fatbin = FATBIN;
    if (!memcmp(image, &fatbin, sizeof(fatbin))) {
        CUresult result = take_code(image, made);
        if (result != SUCCESS)
            return result;
        open_program(made);
    } else if (!memcmp(image, "\177ELF", 4)) {
        made->library = open_object((const unsigned char *)image);
    } else if (strstr(image, "\n.version ") && strstr(image, "\n.target ")) {
        open_program(made);
        made->text = strdup(image);
    }
    return made->library ? ready(made) : INVALID_IMAGE;
}

PUBLIC CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                                   int *options, void **values);
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, int *options,
                            void **values) {
    BEGIN(CONTEXT);
    (void)count, (void)options, (void)values;
    CUmodule made = calloc(1, sizeof(*made));
    if (!made)
        return OUT_OF_MEMORY;
    CUresult result = load(image, made);
    if (result == SUCCESS) {
        *module = made;
        atomic_fetch_add(&modules, 1);
    } else {
        free(made->text);
        free(made->code);
        free(made);
    }
    return result;
}

PUBLIC CUresult cuModuleUnload(CUmodule module);
CUresult cuModuleUnload(CUmodule module) {
    BEGIN(CONTEXT);
    dlclose(module->library);
    for (CUfunction next, f = module->functions; f; f = next) {
        next = f->next;
        free(f);
    }
    free(module->text);
    free(module->code);
    free(module);
    atomic_fetch_sub(&modules, 1);
    return SUCCESS;
}

PUBLIC long cutest_modules(void);
long cutest_modules(void) {
    return atomic_load(&modules);
}

// The bytes of arguments that a kernel of PTX has; 0: it is not in the text.
static size_t declared(const char *text, const char *name) {
    char entry[128];
    snprintf(entry, sizeof(entry), ".entry %s(", name);
    const char *at = strstr(text, entry);
    const char *bytes = at ? strchr(at, '[') : NULL;
    return bytes ? strtoul(bytes + 1, NULL, 10) : 0;
}

// Whether the module has it, with arguments as the source says; machine code has its name.
static bool has(CUmodule module, const char *name) {
    if (module->text)
        return declared(module->text, name) == module->args_size;
    return !module->code || memmem(module->code, module->code_size, name, strlen(name) + 1);
}

PUBLIC CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    BEGIN(CONTEXT);
    void *run = dlsym(module->library, name);
    if (!run || !has(module, name))
        return NOT_FOUND;
    CUfunction made = calloc(1, sizeof(*made));
    if (!made)
        return OUT_OF_MEMORY;
    *(void **)&made->run = run;
    made->module = module;
    made->next = module->functions;
    module->functions = made;
    made->args_size = module->args_size;
    *function = made;
    return SUCCESS;
}

// ---- Launches.

static void run_grid(work *w) {
    grid *g = w->arg;
    running_on = g->device;
    for (unsigned long long block = 0; block < g->blocks; block++)
        g->function->run(g->args, block);
    free(g);
}

PUBLIC CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                               unsigned grid_z, unsigned block_x, unsigned block_y,
                               unsigned block_z, unsigned shared, CUstream stream, void **args,
                               void **extra);
CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                        CUstream stream, void **args, void **extra) {
    BEGIN(CONTEXT);
    // Kernels of ours say how many threads a block has.
    if (!grid_x || grid_x > 0x7fffffff || grid_y != 1 || grid_z != 1 || block_x != 256 ||
        block_y != 1 || block_z != 1 || shared || extra)
        return INVALID_VALUE;
    grid *g = malloc(sizeof(*g) + function->args_size);
    if (!g)
        return OUT_OF_MEMORY;
    *g = (grid){.function = function, .blocks = grid_x, .device = current()->device};
    memcpy(g->args, args[0], function->args_size);
    CUresult result = submit(stream, &(work){.fn = run_grid, .arg = g});
    if (result == SUCCESS) {
        atomic_fetch_add(&launches, 1);
        atomic_fetch_add(&code_launches, function->module->code != NULL);
    } else {
        free(g);
    }
    return result;
}
