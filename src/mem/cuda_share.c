// SPDX-License-Identifier: BSD-3-Clause
//
// CUDA memory for other processes of the host, see whi_mem_sharing and docs/design/cuda.md.
//
// The idea: a handle covers a whole allocation, or a block of virtual memory (cuda_virtual.h), and is opened in the primary context of the device that the memory lies on,
// which the driver wants to be the only context of a process to open memory of that device.  A device goes by its UUID,
// since CUDA_VISIBLE_DEVICES gives it another number in each process.  Nothing is kept here: whoever opens a mapping closes it.
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "mem/cuda_virtual.h"

static_assert(sizeof(whi_cuda_ipc_handle) == sizeof(((whi_mem_handle *)0)->bytes), "it fits");
static_assert(sizeof(whi_cuda_uuid) == sizeof(((whi_mem_handle *)0)->device), "it fits");

static wh_status name_of(int number, whi_cuda_uuid *uuid) {
    int device;
    wh_status status = WHI_CUDA_TRY(cuDeviceGet, &device, number);
    return status == WH_OK ? WHI_CUDA_TRY(cuDeviceGetUuid, uuid, device) : status;
}

// number_of finds the device of a name, or returns `otherwise`.
static int number_of(const uint8_t *name, int otherwise) {
    int count = whi_cuda_devices();
    for (int i = 0; i < count && i < WHI_CUDA_DEVICES_MAX; i++) {
        whi_cuda_uuid uuid;
        if (name_of(i, &uuid) == WH_OK && !memcmp(uuid.bytes, name, sizeof(uuid.bytes)))
            return i;
    }
    return otherwise;
}

// can_export says whether the driver makes handles of this memory: not of managed memory, nor of pools.
static bool can_export(const void *ptr) {
    int attribute = WHI_CUDA_POINTER_IPC_CAPABLE;
    unsigned long long capable = 0;  // a yes of any width
    void *answer = &capable;
    int result =
        whi_cuda.cuPointerGetAttributes(1, &attribute, &answer, (whi_cuda_ptr)(uintptr_t)ptr);
    return result == WHI_CUDA_SUCCESS && capable;
}

static wh_status export_allocation(const whi_cuda_pointer *p, whi_mem_handle *handle) {
    whi_cuda_ipc_handle made;
    wh_status status = WHI_CUDA_TRY(cuIpcGetMemHandle, &made, p->base);
    if (status != WH_OK)
        return status;
    *handle = (whi_mem_handle){.id = p->id, .base = p->base, .length = p->length};
    memcpy(handle->bytes, made.bytes, sizeof(made.bytes));
    return WH_OK;
}

static wh_status export_memory(const void *ptr, whi_mem_handle *handle) {
    whi_cuda_pointer p;
    whi_cuda_ask(ptr, &p);
    bool inside = (whi_cuda_ptr)(uintptr_t)ptr - p.base < p.length;
    if (p.type != WHI_CUDA_MEMORY_DEVICE || p.managed || !inside)
        return WH_ENOTSUP;
    whi_cuda_uuid uuid;
    wh_status status = name_of(p.device, &uuid);
    if (status == WH_OK)
        status = whi_cuda_enter_device(p.device);
    if (status != WH_OK)
        return status;
    status = can_export(ptr) ? export_allocation(&p, handle)
                             : whi_cuda_virtual_export((whi_cuda_ptr)(uintptr_t)ptr, handle);
    whi_cuda_leave();
    if (status == WH_OK)
        memcpy(handle->device, uuid.bytes, sizeof(uuid.bytes));
    return status;
}

static void close_there(whi_cuda_ptr ptr) {
    (void)!WHI_CUDA_TRY(cuIpcCloseMemHandle, ptr);
}

static wh_status open_there(const whi_mem_handle *handle, whi_mem_mapping *mapping) {
    whi_cuda_ipc_handle bytes;
    whi_cuda_ptr ptr;
    memcpy(bytes.bytes, handle->bytes, sizeof(bytes.bytes));
    wh_status status =
        WHI_CUDA_TRY(cuIpcOpenMemHandle_v2, &ptr, bytes, WHI_CUDA_IPC_LAZY_PEER_ACCESS);
    if (status != WH_OK)
        return status;
    // What is behind a handle the driver knows, and not who has sent it.
    whi_cuda_pointer p;
    whi_cuda_ask((void *)(uintptr_t)ptr, &p);
    if (p.type != WHI_CUDA_MEMORY_DEVICE || ptr - p.base >= p.length) {
        close_there(ptr);
        return WH_ENOTSUP;
    }
    mapping->base = (void *)(uintptr_t)ptr;
    mapping->length = p.base + p.length - ptr;
    return WH_OK;
}

static wh_status open_mapping(const whi_mem_handle *handle, int device, whi_mem_mapping *mapping) {
    wh_status status = whi_cuda_ready();
    if (status != WH_OK)
        return status;
    whi_mem_mapping made = {.device = number_of(handle->device, device)};
    status = whi_cuda_enter_device(made.device);
    if (status != WH_OK)
        return status;
    status = handle->descriptor ? whi_cuda_virtual_open(handle, &made) : open_there(handle, &made);
    whi_cuda_leave();
    if (status == WH_OK)
        *mapping = made;
    return status;
}

static void close_mapping(const whi_mem_mapping *mapping) {
    // In a forked child the mapping is the parent's.
    if (whi_cuda_open() != WH_OK || whi_cuda_enter_device(mapping->device) != WH_OK)
        return;
    if (mapping->descriptor)
        whi_cuda_virtual_close(mapping);
    else
        close_there((whi_cuda_ptr)(uintptr_t)mapping->base);
    whi_cuda_leave();
}

// ---- For people.

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char reason[512];

// try_handle has the driver make a handle of an allocation on the first device.
static bool try_handle(void) {
    whi_cuda_ptr ptr;
    whi_cuda_ipc_handle handle;
    const char *call = "cuMemAlloc_v2";
    if (whi_cuda_enter_device(0) != WH_OK) {
        snprintf(reason, sizeof(reason), "the first device has no context");
        return false;
    }
    int result = whi_cuda.cuMemAlloc_v2(&ptr, 1);
    if (result == WHI_CUDA_SUCCESS) {
        call = "cuIpcGetMemHandle";
        result = whi_cuda.cuIpcGetMemHandle(&handle, ptr);
        (void)!WHI_CUDA_TRY(cuMemFree_v2, ptr);
    }
    whi_cuda_leave();
    if (result != WHI_CUDA_SUCCESS)
        whi_cuda_describe(reason, sizeof(reason), result, call);
    return result == WHI_CUDA_SUCCESS;
}

static bool reaches(int from, int to) {
    int devices[2], can = 0;
    return WHI_CUDA_TRY(cuDeviceGet, &devices[0], from) == WH_OK &&
           WHI_CUDA_TRY(cuDeviceGet, &devices[1], to) == WH_OK &&
           WHI_CUDA_TRY(cuDeviceCanAccessPeer, &can, devices[0], devices[1]) == WH_OK && can;
}

static void find_reason(void) {
    if (!try_handle())
        return;
    int pairs = 0, direct = 0, count = whi_cuda_devices();
    for (int from = 0; from < count; from++)
        for (int to = 0; to < count; to++) {
            pairs += from != to;
            direct += from != to && reaches(from, to);
        }
    int used =
        snprintf(reason, sizeof(reason), "by the driver's handles, memory of cuMemAlloc%s",
                 whi_cuda.virtual_memory ? "; by descriptors, virtual memory made for them" : "");
    if (pairs)
        snprintf(reason + used, sizeof(reason) - (size_t)used,
                 "; %d of %d pairs of devices reach each other directly", direct, pairs);
}

static const char *sharing_reason(void) {
    if (whi_cuda_open() != WH_OK)
        return whi_cuda_reason();
    pthread_once(&once, find_reason);
    return reason;
}

const whi_mem_sharing whi_cuda_sharing = {.reason = sharing_reason,
                                          .export = export_memory,
                                          .open = open_mapping,
                                          .close = close_mapping};
