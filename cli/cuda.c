// SPDX-License-Identifier: BSD-3-Clause
//
// Asking CUDA's driver, see cuda.h.
//
// What a driver or device does not say is taken for not there.  All that is made here is given back.
#include "cli/cuda.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <wherry/wherry.h>

const char *const cuda_feature_names[CUDA_FEATURES] = {
    [CUDA_IPC] = "IPC",
    [CUDA_VIRTUAL] = "virtual memory",
    [CUDA_POOLS] = "memory pools",
    [CUDA_MANAGED] = "managed memory",
};

// Numbers of the driver's interface (CU_DEVICE_ATTRIBUTE_*).
enum { MAJOR = 75, MINOR = 76, MANAGED = 83, VIRTUAL = 102, DESCRIPTORS = 103, POOLS = 115 };

typedef struct handle {  // CUipcMemHandle
    char bytes[64];
} handle;

static struct {
    int (*count)(int *count);
    int (*device)(int *device, int ordinal);
    int (*name)(char *name, int size, int device);
    int (*memory)(size_t *bytes, int device);
    int (*attribute)(int *value, int attribute, int device);
    int (*reach)(int *can, int device, int other);
    int (*retain)(void **context, int device);
    int (*give_back)(int device);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*alloc)(unsigned long long *ptr, size_t size);
    int (*release)(unsigned long long ptr);
    int (*ipc)(handle *handle, unsigned long long ptr);
} driver;

// find looks an entry point up; NULL: this driver has none.
static void find(void *library, void *place, const char *name) {
    *(void **)place = dlsym(library, name);
}

static bool find_all(void) {
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!library)
        return false;
    find(library, &driver.count, "cuDeviceGetCount");
    find(library, &driver.device, "cuDeviceGet");
    find(library, &driver.name, "cuDeviceGetName");
    find(library, &driver.memory, "cuDeviceTotalMem_v2");
    find(library, &driver.attribute, "cuDeviceGetAttribute");
    find(library, &driver.reach, "cuDeviceCanAccessPeer");
    find(library, &driver.retain, "cuDevicePrimaryCtxRetain");
    find(library, &driver.give_back, "cuDevicePrimaryCtxRelease_v2");
    find(library, &driver.push, "cuCtxPushCurrent_v2");
    find(library, &driver.pop, "cuCtxPopCurrent_v2");
    find(library, &driver.alloc, "cuMemAlloc_v2");
    find(library, &driver.release, "cuMemFree_v2");
    find(library, &driver.ipc, "cuIpcGetMemHandle");
    return driver.count && driver.device;
}

static int attribute(int device, int which) {
    int value = 0;
    return driver.attribute && driver.attribute(&value, which, device) == 0 ? value : 0;
}

// exports tries whether memory of a device has a handle for other processes.
static bool exports(int device) {
    void *context = NULL;
    unsigned long long ptr = 0;
    handle made;
    if (!driver.ipc || !driver.retain || !driver.give_back || !driver.push || !driver.pop ||
        !driver.alloc || !driver.release || driver.retain(&context, device) != 0)
        return false;
    bool can = false;
    if (driver.push(context) == 0) {
        if (driver.alloc(&ptr, 1) == 0) {
            can = driver.ipc(&made, ptr) == 0;
            (void)driver.release(ptr);
        }
        (void)driver.pop(&context);
    }
    (void)driver.give_back(device);
    return can;
}

static void ask_device(cuda_facts *facts, int ordinal) {
    cuda_device *d = &facts->devices[ordinal];
    int device = 0;
    if (driver.device(&device, ordinal) != 0)
        return;
    if (!driver.name || driver.name(d->name, sizeof d->name, device) != 0)
        snprintf(d->name, sizeof d->name, "a device without a name");
    if (driver.memory)
        (void)driver.memory(&d->memory, device);
    d->major = attribute(device, MAJOR);
    d->minor = attribute(device, MINOR);
    d->has[CUDA_VIRTUAL] = attribute(device, VIRTUAL) && attribute(device, DESCRIPTORS);
    d->has[CUDA_POOLS] = attribute(device, POOLS);
    d->has[CUDA_MANAGED] = attribute(device, MANAGED);
    d->has[CUDA_IPC] = exports(device);
    for (int other = 0; other < facts->count && driver.reach; other++) {
        int far = 0, can = 0;
        if (other != ordinal && driver.device(&far, other) == 0 &&
            driver.reach(&can, device, far) == 0)
            d->reaches[other] = can;
    }
}

// find_nvrtc looks for the library that compiles kernels at run time, of the newest version first.
static void find_nvrtc(cuda_facts *facts) {
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
                                        "libnvrtc.so"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        void *library = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
        int (*version)(int *, int *) = NULL;
        int major = 0, minor = 0;
        if (!library)
            continue;
        find(library, &version, "nvrtcVersion");
        bool known = version && version(&major, &minor) == 0;
        if (known)
            snprintf(facts->nvrtc, sizeof facts->nvrtc, "%s (%d.%d)", names[i], major, minor);
        dlclose(library);
        if (known)
            return;
    }
}

void cuda_ask(cuda_facts *facts) {
    int count = 0;
    *facts = (cuda_facts){.count = 0};
    // The library has initialised the driver, if there is one that works.
    bool works = wh_mem_kinds() & 1u << WH_MEM_CUDA;
    if (!works || !find_all() || driver.count(&count) != 0)
        return;
    facts->count = count < CUDA_DEVICES_MAX ? count : CUDA_DEVICES_MAX;
    for (int i = 0; i < facts->count; i++)
        ask_device(facts, i);
    find_nvrtc(facts);
}

const char *cuda_features_text(const cuda_device *device, bool has, char *text, size_t size) {
    size_t used = 0;
    snprintf(text, size, "nothing");
    for (int i = 0; i < CUDA_FEATURES; i++) {
        if (device->has[i] == has && used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "",
                                     cuda_feature_names[i]);
    }
    return text;
}
