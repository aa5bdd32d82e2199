// SPDX-License-Identifier: BSD-3-Clause
//
// Opening the CUDA driver, see cuda_driver.h and docs/design/cuda.md.
//
// The idea: there are two steps.  The driver is *known* once libcuda is in the process, whoever
// brought it there: then pointers can be asked about.  It is *open* once somebody wants CUDA memory
// of us: only then is it loaded and initialised, since that takes long, and since a process that
// has initialised it can no longer fork into children that use it.  Both happen at most once, are
// never undone, and are announced by an atomic that is written last.  Looking takes no lock but that
// of a plain assignment, because a library's constructor may make a worker, under the lock of the
// dynamic linker.
#include "mem/cuda_driver.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/fork.h"
#include "base/log.h"
#include "mem/mem.h"

#define LIBRARY "libcuda.so.1"

enum { UNTRIED, OPEN, FAILED };

whi_cuda_calls whi_cuda;

static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;  // nothing is called under it
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool known;                     // the table is filled
static _Atomic bool unfit;                     // the library is there, and cannot be used
static _Atomic int state;                      // of opening: UNTRIED...
static _Atomic bool forked;                    // this is a child of the process that has opened it
static _Atomic unsigned long long seen_loads;  // of libraries, by whi_cuda_notice
static int devices;                            // valid when `state` is OPEN
static char reason[512];                       // valid when `state` is not UNTRIED

static bool is_known(void) {
    return atomic_load_explicit(&known, memory_order_acquire);
}

bool whi_cuda_known(void) {
    return is_known() && !atomic_load_explicit(&forked, memory_order_relaxed);
}

// ---- Errors.

typedef struct meaning {
    int first, last;  // results
    wh_status status;
    const char *advice;
} meaning;

static const meaning meanings[] = {
    {WHI_CUDA_INVALID_VALUE, WHI_CUDA_INVALID_VALUE, WH_EINVAL,
     "the memory may have been freed meanwhile"},
    {WHI_CUDA_OUT_OF_MEMORY, WHI_CUDA_OUT_OF_MEMORY, WH_ENOMEM,
     "free device memory, or let the library that caches it give it back"},
    {WHI_CUDA_NOT_INITIALIZED, WHI_CUDA_NOT_INITIALIZED, WH_ENOTSUP,
     "in a process that was forked from one that uses CUDA it does not work: start processes with "
     "exec (Python's multiprocessing: spawn or forkserver)"},
    {WHI_CUDA_DEINITIALIZED, WHI_CUDA_DEINITIALIZED, WH_ECLOSED,
     "the process is ending: do this before exit handlers run"},
    {WHI_CUDA_STUB_LIBRARY, WHI_CUDA_STUB_LIBRARY, WH_ENOTSUP,
     "this libcuda is the toolkit's stub for linking: take its folder out of LD_LIBRARY_PATH"},
    {WHI_CUDA_NO_DEVICE, WHI_CUDA_NO_DEVICE, WH_ENOTFOUND,
     "see nvidia-smi, CUDA_VISIBLE_DEVICES, and which devices the container was given"},
    {WHI_CUDA_INVALID_DEVICE, WHI_CUDA_INVALID_DEVICE, WH_ENOTFOUND,
     "see nvidia-smi and CUDA_VISIBLE_DEVICES"},
    {WHI_CUDA_INVALID_CONTEXT, WHI_CUDA_INVALID_CONTEXT, WH_ESYSTEM,
     "was the device reset (cudaDeviceReset)? Then this process must start again"},
    {WHI_CUDA_NO_BINARY_FOR_GPU, WHI_CUDA_NO_BINARY_FOR_GPU, WH_ENOTSUP,
     "the code is for other devices"},
    {WHI_CUDA_INVALID_HANDLE, WHI_CUDA_INVALID_HANDLE, WH_EINVAL,
     "the stream may have been destroyed"},
    {WHI_CUDA_ILLEGAL_ADDRESS, WHI_CUDA_ILLEGAL_ADDRESS, WH_ESYSTEM,
     "a kernel or copy touched memory that is not there, and the device is lost to this process: "
     "compute-sanitizer finds the place"},
    {WHI_CUDA_CONTEXT_IS_DESTROYED, WHI_CUDA_CONTEXT_IS_DESTROYED, WH_ESYSTEM,
     "the device was reset (cudaDeviceReset): this process must start again"},
    {WHI_CUDA_LAUNCH_FAILED, WHI_CUDA_LAUNCH_FAILED, WH_ESYSTEM,
     "a kernel of this process failed, and the device is lost to it: compute-sanitizer finds it"},
    {WHI_CUDA_SYSTEM_DRIVER_MISMATCH, WHI_CUDA_SYSTEM_DRIVER_MISMATCH, WH_ENOTSUP,
     "libcuda and the kernel's module are of different releases: reboot, or install one"},
    {WHI_CUDA_CAPTURE_UNSUPPORTED, WHI_CUDA_CAPTURE_LAST, WH_ESYSTEM,
     "a stream of this process is being captured into a graph: do not communicate meanwhile"},
};

static const meaning *meaning_of(int result) {
    static const meaning other = {0, 0, WH_ESYSTEM, "see dmesg for messages of the driver (Xid)"};
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
        if (result >= meanings[i].first && result <= meanings[i].last)
            return &meanings[i];
    return &other;
}

void whi_cuda_describe(char *text, size_t size, int result, const char *call) {
    const char *name = NULL, *means = NULL;
    if (whi_cuda.cuGetErrorName(result, &name) != WHI_CUDA_SUCCESS || !name)
        name = "an error unknown to this driver";
    if (whi_cuda.cuGetErrorString(result, &means) != WHI_CUDA_SUCCESS || !means)
        means = "no description";
    snprintf(text, size, "%s failed with %s (%d, %s); %s", call, name, result, means,
             meaning_of(result)->advice);
}

wh_status whi_cuda_check(int result, const char *call) {
    if (__builtin_expect(result == WHI_CUDA_SUCCESS, 1))
        return WH_OK;
    char text[512];
    whi_cuda_describe(text, sizeof(text), result, call);
    whi_log(WHI_ERROR, "E-CUDA-01", "%s", text);
    return meaning_of(result)->status;
}

wh_status whi_cuda_try(int result, const char *call) {
    if (result == WHI_CUDA_SUCCESS)
        return WH_OK;
    char text[512];
    whi_cuda_describe(text, sizeof(text), result, call);
    whi_log(WHI_INFO, "I-CUDA-02", "%s", text);
    return WH_ENOTSUP;
}

// ---- The library.

// fill takes the entry points out of the library; NULL, or the name of one that is missing.
static const char *fill(void *library, whi_cuda_calls *calls) {
#define TAKE(name, args)                                                                           \
    *(void **)&calls->name = dlsym(library, #name);                                                \
    if (!calls->name)                                                                              \
        return #name;
    WHI_CUDA_CALLS(TAKE)
#undef TAKE
    calls->virtual_memory = true;
#define TRY(name, args)                                                                            \
    *(void **)&calls->name = dlsym(library, #name);                                                \
    calls->virtual_memory &= calls->name != NULL;
    WHI_CUDA_VIRTUAL_CALLS(TRY)
#undef TRY
    return NULL;
}

static void publish(const whi_cuda_calls *calls) {
    pthread_mutex_lock(&known_lock);
    if (!is_known()) {
        whi_cuda = *calls;
        atomic_store_explicit(&known, true, memory_order_release);
        // From now on a pointer could be a device's.
        atomic_fetch_add(&whi_mem_device_allocations, 1);
    }
    pthread_mutex_unlock(&known_lock);
}

// know makes the driver known; false: it cannot be used, and `why` says why.
static bool know(void *library, char *why, size_t size) {
    whi_cuda_calls calls;
    int version = 0;
    const char *missing = fill(library, &calls);
    if (!missing && calls.cuDriverGetVersion(&version) == WHI_CUDA_SUCCESS &&
        version >= WHI_CUDA_OLDEST) {
        publish(&calls);
        return true;
    }
    if (missing)
        snprintf(why, size, "this libcuda has no %s: it needs a driver of CUDA 11.0 or newer",
                 missing);
    else
        snprintf(why, size, "the driver of CUDA %d.%d is too old: 11.0 is needed", version / 1000,
                 version % 1000 / 10);
    atomic_store_explicit(&unfit, true, memory_order_relaxed);
    return false;
}

// ---- Noticing.

typedef struct search {
    unsigned long long seen, loads;
    bool found;
} search;

// Looks at one loaded object.  The first tells how many loads there were, so that a look after
// which nothing was loaded ends there.
static int look_at(struct dl_phdr_info *object, size_t size, void *arg) {
    (void)size;
    search *s = arg;
    s->loads = object->dlpi_adds;
    if (s->loads == s->seen)
        return 1;
    const char *slash = object->dlpi_name ? strrchr(object->dlpi_name, '/') : NULL;
    const char *name = slash ? slash + 1 : object->dlpi_name;
    // A distribution may give the file its release as a name: libcuda.so.550.54.
    s->found = name && !strncmp(name, "libcuda.so", sizeof("libcuda.so") - 1);
    return s->found;
}

void whi_cuda_notice(void) {
    if (is_known() || atomic_load_explicit(&unfit, memory_order_relaxed))
        return;
    search s = {.seen = atomic_load(&seen_loads)};
    (void)dl_iterate_phdr(look_at, &s);
    void *library =
        s.found ? dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD | RTLD_NODELETE) : NULL;
    char why[128];
    if (library)
        (void)know(library, why, sizeof(why));
    atomic_store(&seen_loads, s.loads);  // only now: who sees it need not look
}

// ---- Opening.  Under open_lock.

static wh_status fail(wh_status status) {
    atomic_store_explicit(&state, FAILED, memory_order_release);
    return status;
}

static void on_fork(void *arg) {
    (void)arg;
    if (atomic_load(&state) != FAILED)  // nothing was initialised then
        atomic_store(&forked, true);
}

static whi_fork_node fork_node = {.fn = on_fork};

static wh_status refuse(int result, const char *call) {
    whi_cuda_describe(reason, sizeof(reason), result, call);
    return fail(WH_ENOTSUP);
}

static void tell_devices(void) {
    int version = 0;
    (void)whi_cuda.cuDriverGetVersion(&version);
    size_t used =
        (size_t)snprintf(reason, sizeof(reason), "driver of CUDA %d.%d, %d device%s",
                         version / 1000, version % 1000 / 10, devices, devices == 1 ? "" : "s");
    for (int i = 0, device; i < devices && used + 80 < sizeof(reason); i++) {
        char name[64];
        if (whi_cuda.cuDeviceGet(&device, i) != WHI_CUDA_SUCCESS ||
            whi_cuda.cuDeviceGetName(name, sizeof(name), device) != WHI_CUDA_SUCCESS)
            return;
        used +=
            (size_t)snprintf(reason + used, sizeof(reason) - used, "%s %s", i ? "," : ":", name);
    }
}

static wh_status initialise(void) {
    int result = whi_cuda.cuInit(0);
    if (result != WHI_CUDA_SUCCESS)
        return refuse(result, "cuInit");
    result = whi_cuda.cuDeviceGetCount(&devices);
    if (result == WHI_CUDA_SUCCESS && devices < 1)
        result = WHI_CUDA_NO_DEVICE;
    if (result != WHI_CUDA_SUCCESS)
        return refuse(result, "cuDeviceGetCount");
    tell_devices();
    atomic_store_explicit(&state, OPEN, memory_order_release);
    whi_log(WHI_INFO, "I-CUDA-01", "%s", reason);
    return WH_OK;
}

static wh_status open_locked(void) {
    if (atomic_load(&state) != UNTRIED)
        return atomic_load(&state) == OPEN ? WH_OK : WH_ENOTSUP;
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        const char *error = dlerror();
        snprintf(reason, sizeof(reason),
                 "the CUDA driver cannot be opened: %.300s; it comes with "
                 "NVIDIA's driver, and into a container with its runtime",
                 error ? error : LIBRARY);
        return fail(WH_ENOTSUP);
    }
    if (!know(library, reason, sizeof(reason)))
        return fail(WH_ENOTSUP);
    // Before the driver is initialised: no child may miss that it was.
    wh_status status = whi_fork_register(&fork_node);
    return status == WH_OK ? initialise() : status;
}

wh_status whi_cuda_open(void) {
    if (__builtin_expect(atomic_load_explicit(&forked, memory_order_relaxed), 0))
        return WH_EFORKED;
    int now = atomic_load_explicit(&state, memory_order_acquire);
    if (__builtin_expect(now != UNTRIED, 1))
        return now == OPEN ? WH_OK : WH_ENOTSUP;
    pthread_mutex_lock(&open_lock);
    wh_status status = open_locked();
    pthread_mutex_unlock(&open_lock);
    return status;
}

wh_status whi_cuda_ready(void) {
    wh_status status = whi_cuda_open();
    if (__builtin_expect(status != WH_OK, 0))
        whi_log(WHI_ERROR, "E-CUDA-09", "no CUDA memory: %s", whi_cuda_reason());
    return status;
}

int whi_cuda_devices(void) {
    return atomic_load_explicit(&state, memory_order_acquire) == OPEN ? devices : 0;
}

const char *whi_cuda_reason(void) {
    wh_status status = whi_cuda_open();
    if (status == WH_EFORKED)
        return "this process was forked after CUDA was initialised, and CUDA does not work in such "
               "a one: start processes with exec (Python's multiprocessing: spawn or forkserver)";
    return status == WH_ENOMEM ? "out of memory" : reason;
}
