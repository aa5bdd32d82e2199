// SPDX-License-Identifier: BSD-3-Clause
//
// Opening UCX, see ucx.h and docs/design/ucx.md.
//
// A process has one UCX for good: its libraries patch the allocator, start threads and keep tables, so that closing
// or exchanging them is not an option.  They also take over the signals of crashes (before 1.20), which
// is for the program to decide: what was set before is put back.
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/files.h"
#include "base/log.h"
#include "net/ucx/load.h"
#include "net/ucx/ucx.h"

whi_ucp_calls whi_ucp;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint32_t version;  // 0: none is open
static char path[PATH_MAX];
static char reason[512];

static const int crash_signals[] = {SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGABRT};
enum { SIGNALS = sizeof(crash_signals) / sizeof(crash_signals[0]) };

static void *open_quietly(const char *file) {
    struct sigaction before[SIGNALS];
    for (int i = 0; i < SIGNALS; i++)
        (void)sigaction(crash_signals[i], NULL, &before[i]);
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    for (int i = 0; i < SIGNALS; i++)
        (void)sigaction(crash_signals[i], &before[i], NULL);
    return library;
}

// find opens the library.  A folder may be an installation, or what a wheel unpacks to.
static void *find(const char *dir) {
    if (!dir || !*dir)
        return open_quietly("libucp.so.0");
    static const char *const places[] = {"lib/libucp.so.0", "libucx/lib/libucp.so.0",
                                         "lib64/libucp.so.0", "libucp.so.0"};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        char file[PATH_MAX];
        if (snprintf(file, sizeof(file), "%s/%s", dir, places[i]) >= (int)sizeof(file))
            continue;
        void *library = open_quietly(file);
        if (library)
            return library;
    }
    return NULL;
}

// fill takes the functions out of the library; NULL, or the name of one that is missing.
static const char *fill(void *library, whi_ucp_calls *calls) {
#define TAKE(name)                                                                                 \
    *(void **)&calls->name = dlsym(library, #name);                                                \
    if (!calls->name)                                                                              \
        return #name;
    WHI_UCP_CALLS(TAKE)
#undef TAKE
    return NULL;
}

// UCX grows files in memory, of some MiB, without asking whether it may.
enum { FILES_OF_UCX = 64 << 20 };

static wh_status open_locked(const char *dir) {
    if (!whi_may_have_file(FILES_OF_UCX)) {
        snprintf(reason, sizeof(reason),
                 "UCX would end this process, which may not have files of 64 MiB (ulimit -f)");
        return WH_ENOLANE;
    }
    void *library = find(dir);
    if (!library) {
        const char *error = dlerror();
        snprintf(reason, sizeof(reason), "UCX cannot be opened%s%s: %.400s",
                 dir && *dir ? " in " : "", dir && *dir ? dir : "",
                 error ? error : "libucp.so.0 is not there");
        return WH_ENOLANE;
    }
    whi_ucp_calls calls;
    const char *missing = fill(library, &calls);
    if (missing) {
        snprintf(reason, sizeof(reason), "this UCX is too old (1.13 is the oldest): it has no %s",
                 missing);
        return WH_ENOLANE;
    }
    unsigned major, minor, patch;
    calls.ucp_get_version(&major, &minor, &patch);
    if (major != UCP_API_MAJOR || minor < WHI_UCX_OLDEST) {
        snprintf(reason, sizeof(reason), "UCX %u.%u.%u is not one that can be used: %d.%d or newer",
                 major, minor, patch, UCP_API_MAJOR, WHI_UCX_OLDEST);
        return WH_ENOLANE;
    }
    Dl_info info;
    if (dladdr(*(void **)&calls.ucp_get_version, &info) && info.dli_fname)
        snprintf(path, sizeof(path), "%s", info.dli_fname);
    whi_ucp = calls;
    atomic_store(&version, major << 16 | minor << 8 | patch);
    whi_log(WHI_INFO, "I-UCX-01", "UCX %u.%u.%u: %s", major, minor, patch, path);
    return WH_OK;
}

wh_status whi_ucx_load(const char *dir, const char **why) {
    if (atomic_load(&version))
        return WH_OK;
    pthread_mutex_lock(&lock);
    wh_status status = atomic_load(&version) ? WH_OK : open_locked(dir);
    pthread_mutex_unlock(&lock);
    if (status != WH_OK)
        *why = reason;
    return status;
}

uint32_t whi_ucx_version(void) {
    return atomic_load(&version);
}

const char *whi_ucx_path(void) {
    return atomic_load(&version) ? path : "";
}
