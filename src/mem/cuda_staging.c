// SPDX-License-Identifier: BSD-3-Clause
//
// What staging needs of CUDA: pinned memory, and streams of ours, see whi_mem_staging.
//
// A device has one stream for each direction, since its copy engines work at one time, and one for copies
// between devices and within one.  They are made when they are first needed, and like the device's context stay until the process ends.
#include <pthread.h>
#include <stdatomic.h>

#include "mem/cuda.h"

enum { DIRECTIONS = WHI_MEM_WITHIN + 1 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(whi_cuda_stream) streams[WHI_CUDA_DEVICES_MAX][DIRECTIONS];

static wh_status pin(int device, size_t size, void **ptr) {
    wh_status status = whi_cuda_enter_device(device);
    if (status != WH_OK)
        return status;
    status = WHI_CUDA(cuMemHostAlloc, ptr, size, WHI_CUDA_HOST_PORTABLE);
    whi_cuda_leave();
    return status;
}

static void unpin(int device, void *ptr) {
    // In a forked child the memory is the parent's.
    if (whi_cuda_open() != WH_OK || whi_cuda_enter_device(device) != WH_OK)
        return;
    (void)!WHI_CUDA(cuMemFreeHost, ptr);
    whi_cuda_leave();
}

static wh_status make_stream(int device, _Atomic(whi_cuda_stream) *place) {
    whi_cuda_stream made;
    wh_status status = whi_cuda_enter_device(device);
    if (status != WH_OK)
        return status;
    status = WHI_CUDA(cuStreamCreate, &made, WHI_CUDA_STREAM_NON_BLOCKING);
    whi_cuda_leave();
    if (status == WH_OK)
        atomic_store(place, made);
    return status;
}

static wh_status stream_of(int device, whi_mem_direction direction, void **stream) {
    if (device < 0 || device >= WHI_CUDA_DEVICES_MAX || direction > WHI_MEM_WITHIN)
        return WH_EINVAL;
    _Atomic(whi_cuda_stream) *place = &streams[device][direction];
    wh_status status = WH_OK;
    if (!atomic_load(place)) {
        pthread_mutex_lock(&lock);
        if (!atomic_load(place))
            status = make_stream(device, place);
        pthread_mutex_unlock(&lock);
    }
    if (status == WH_OK)
        *stream = atomic_load(place);
    return status;
}

static void settle(whi_mem_direction direction) {
    if (whi_cuda_open() != WH_OK)
        return;
    for (int device = 0; device < WHI_CUDA_DEVICES_MAX; device++) {
        whi_cuda_stream stream = atomic_load(&streams[device][direction]);
        if (!stream || whi_cuda_enter_device(device) != WH_OK)
            continue;
        (void)!WHI_CUDA(cuStreamSynchronize, stream);
        whi_cuda_leave();
    }
}

const whi_mem_staging whi_cuda_staging = {
    .pin = pin, .unpin = unpin, .stream = stream_of, .settle = settle};
