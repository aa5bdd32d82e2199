// SPDX-License-Identifier: BSD-3-Clause
//
// Devices and their contexts, see cuda.h.
//
// The idea: all work is done in the primary context of a device, the one that the runtime API and
// every library on top of it use, so that a process has one context per device whoever comes first.
// It is pushed for the time of one call and popped again.  The invariant: a device's entry is
// written once, under the lock, before `there` says so, and stays until the process ends: nobody
// knows when the last user of device memory is gone.
#include <pthread.h>
#include <stdatomic.h>

#include "base/log.h"
#include "mem/cuda.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static whi_cuda_device devices[WHI_CUDA_DEVICES_MAX];
static _Atomic bool there[WHI_CUDA_DEVICES_MAX];

wh_status whi_cuda_enter(whi_cuda_context context) {
    return WHI_CUDA(cuCtxPushCurrent_v2, context);
}

void whi_cuda_leave(void) {
    whi_cuda_context popped;
    (void)!WHI_CUDA(cuCtxPopCurrent_v2, &popped);
}

static wh_status make_stream(whi_cuda_device *made) {
    wh_status status = whi_cuda_enter(made->context);
    if (status != WH_OK)
        return status;
    status = WHI_CUDA(cuStreamCreate, &made->stream, WHI_CUDA_STREAM_NON_BLOCKING);
    whi_cuda_leave();
    return status;
}

static wh_status make(int number, whi_cuda_device *made) {
    int device;
    wh_status status = WHI_CUDA(cuDeviceGet, &device, number);
    if (status == WH_OK)
        status = WHI_CUDA(cuDevicePrimaryCtxRetain, &made->context, device);
    if (status != WH_OK)
        return status;
    status = make_stream(made);
    if (status != WH_OK)
        (void)!WHI_CUDA(cuDevicePrimaryCtxRelease_v2, device);
    return status;
}

static wh_status make_once(int number) {
    if (atomic_load(&there[number]))
        return WH_OK;
    whi_cuda_device made;
    wh_status status = make(number, &made);
    if (status != WH_OK)
        return status;
    devices[number] = made;
    atomic_store_explicit(&there[number], true, memory_order_release);
    return WH_OK;
}

wh_status whi_cuda_device_of(int number, const whi_cuda_device **device) {
    wh_status status = whi_cuda_ready();
    if (status != WH_OK)
        return status;
    int count = whi_cuda_devices();
    if (number < 0 || number >= count || number >= WHI_CUDA_DEVICES_MAX) {
        whi_log(WHI_ERROR, "E-CUDA-02",
                "cuda has devices 0 to %d, and no device %d (CUDA_VISIBLE_DEVICES may hide some)",
                count - 1, number);
        return WH_ENOTFOUND;
    }
    if (!atomic_load_explicit(&there[number], memory_order_acquire)) {
        pthread_mutex_lock(&lock);
        status = make_once(number);
        pthread_mutex_unlock(&lock);
    }
    if (status == WH_OK)
        *device = &devices[number];
    return status;
}

wh_status whi_cuda_enter_device(int number) {
    const whi_cuda_device *device;
    wh_status status = whi_cuda_device_of(number, &device);
    return status == WH_OK ? whi_cuda_enter(device->context) : status;
}

static wh_status default_context(whi_cuda_context *context) {
    whi_cuda_context current = NULL;
    wh_status status = WHI_CUDA(cuCtxGetCurrent, &current);
    const whi_cuda_device *first;
    if (status == WH_OK && !current) {
        status = whi_cuda_device_of(0, &first);
        if (status == WH_OK)
            current = first->context;
    }
    if (status == WH_OK)
        *context = current;
    return status;
}

wh_status whi_cuda_context_of(whi_cuda_stream stream, whi_cuda_context *context) {
    wh_status status = whi_cuda_ready();
    if (status != WH_OK)
        return status;
    if ((uintptr_t)stream <= WHI_CUDA_STREAM_PER_THREAD)
        return default_context(context);
    return WHI_CUDA(cuStreamGetCtx, stream, context);
}
