// SPDX-License-Identifier: BSD-3-Clause
//
// Blocks of virtual memory for other processes, see cuda_virtual.h and docs/design/device-copy.md.
//
// The idea: an address says nothing, since a block can be unmapped and another one be mapped there, and the driver's id may be
// the range's.  A block is known by the driver's handle, which stays its own for as long as we retain it.  So the blocks
// that were exported are kept in a table, each with its descriptor and an id that is never used again, and those that their
// owner has unmapped are let go when another one comes.  The table is under the lock.
#include "mem/cuda_virtual.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/fdshare.h"
#include "base/log.h"

static_assert(sizeof(whi_fdshare_name) <= sizeof(((whi_mem_handle *)0)->bytes), "it fits");
static_assert(sizeof(whi_fdshare_name) == 48, "wire layout");

typedef struct export {
    whi_cuda_block block;  // retained; meaningless when name.id is 0
    whi_cuda_ptr base;     // where it was mapped when it was exported
    size_t size;
    whi_fdshare_name name;
    uint64_t used;  // when it was asked for last
}
export;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static export exports[WHI_FDSHARE_MAX];
static uint64_t now;  // counts what was asked for

// block_at finds and retains the block that is mapped at `ptr`.
static bool block_at(whi_cuda_ptr ptr, whi_cuda_block *block) {
    return whi_cuda.cuMemRetainAllocationHandle(block, (void *)(uintptr_t)ptr) == WHI_CUDA_SUCCESS;
}

static void release(whi_cuda_block block) {
    (void)!WHI_CUDA_TRY(cuMemRelease, block);
}

static void drop(export *e) {
    whi_fdshare_remove(&e->name);
    release(e->block);
    *e = (export){.block = 0};
}

// is_mapped says whether an exported block still is where it was.
static bool is_mapped(const export *e) {
    whi_cuda_block block;
    if (!block_at(e->base, &block))
        return false;
    release(block);
    return block == e->block;
}

// find_place lets go of what its owner has unmapped, and returns a free place, or that which was used the longest time ago.
static export *find_place(void) {
    export *oldest = &exports[0];
    for (export *e = exports; e < exports + WHI_FDSHARE_MAX; e++) {
        if (e->name.id && !is_mapped(e))
            drop(e);
        if (e->used < oldest->used)
            oldest = e;
    }
    if (oldest->name.id)
        drop(oldest);
    return oldest;
}

// may_export says whether the block is memory of a device whose maker wants it to be exported so.
static bool may_export(whi_cuda_block block) {
    whi_cuda_block_properties p = {.type = 0};
    return WHI_CUDA_TRY(cuMemGetAllocationPropertiesFromHandle, &p, block) == WH_OK &&
           p.location.type == WHI_CUDA_LOCATION_DEVICE &&
           (p.handle_types & WHI_CUDA_HANDLE_DESCRIPTOR);
}

// add exports a block, which is the table's then.
static wh_status add(whi_cuda_block block, whi_cuda_ptr base, size_t size, export **added) {
    int fd = -1;
    if (!may_export(block) || WHI_CUDA_TRY(cuMemExportToShareableHandle, &fd, block,
                                           WHI_CUDA_HANDLE_DESCRIPTOR, 0) != WH_OK)
        return WH_ENOTSUP;
    export *e = find_place();
    whi_fdshare_name name;
    if (whi_fdshare_add(fd, &name) != WH_OK) {
        close(fd);
        return WH_ENOTSUP;
    }
    *e = (export){.block = block, .base = base, .size = size, .name = name};
    *added = e;
    return WH_OK;
}

// find returns the export of a block; NULL: there is none.
static export *find(whi_cuda_block block, size_t size) {
    for (export *e = exports; e < exports + WHI_FDSHARE_MAX; e++)
        if (e->name.id && e->block == block && e->size == size)
            return e;
    return NULL;
}

// Under the lock.
static wh_status export_block(whi_cuda_ptr base, size_t size, whi_cuda_block block,
                              whi_mem_handle *handle) {
    export *e = find(block, size);
    bool known = e;
    wh_status status = known ? WH_OK : add(block, base, size, &e);
    if (known || status != WH_OK)
        release(block);  // else the table has it now
    if (status != WH_OK)
        return status;
    e->base = base;
    e->used = ++now;
    *handle =
        (whi_mem_handle){.id = e->name.id, .base = base, .length = e->size, .descriptor = true};
    memcpy(handle->bytes, &e->name, sizeof(e->name));
    return WH_OK;
}

wh_status whi_cuda_virtual_export(whi_cuda_ptr ptr, whi_mem_handle *handle) {
    whi_cuda_ptr base = 0;
    size_t size = 0;
    whi_cuda_block block;
    // Most memory that is asked about here is none of blocks, which is no news.
    if (!whi_cuda.virtual_memory || !block_at(ptr, &block))
        return WH_ENOTSUP;
    wh_status status = WHI_CUDA_TRY(cuMemGetAddressRange_v2, &base, &size, ptr);
    if (status != WH_OK || ptr - base >= size) {
        release(block);
        return WH_ENOTSUP;
    }
    pthread_mutex_lock(&lock);
    status = export_block(base, size, block, handle);
    pthread_mutex_unlock(&lock);
    return status;
}

// ---- In the other process.

static void unmap(whi_cuda_ptr ptr, size_t size, bool mapped) {
    if (mapped)
        (void)!WHI_CUDA_TRY(cuMemUnmap, ptr, size);
    (void)!WHI_CUDA_TRY(cuMemAddressFree, ptr, size);
}

// readable makes what was mapped usable, and says whether the driver finds it as it was described.
static bool readable(whi_cuda_ptr ptr, size_t size, int device) {
    whi_cuda_access access = {.location = {WHI_CUDA_LOCATION_DEVICE, device},
                              .rights = WHI_CUDA_READ_AND_WRITE};
    whi_cuda_ptr base = 0;
    size_t found = 0;
    return WHI_CUDA_TRY(cuMemSetAccess, ptr, size, &access, 1) == WH_OK &&
           WHI_CUDA_TRY(cuMemGetAddressRange_v2, &base, &found, ptr) == WH_OK && base == ptr &&
           found == size;
}

// map_block maps all of a block; the mapping keeps it.
static wh_status map_block(whi_cuda_block block, uint64_t length, whi_mem_mapping *mapping) {
    whi_cuda_block_properties p = {.type = 0};
    whi_cuda_ptr ptr = 0;
    if (WHI_CUDA_TRY(cuMemGetAllocationPropertiesFromHandle, &p, block) != WH_OK ||
        p.location.type != WHI_CUDA_LOCATION_DEVICE ||
        WHI_CUDA_TRY(cuMemAddressReserve, &ptr, length, 0, 0, 0) != WH_OK)
        return WH_ENOTSUP;
    // More than the block has is refused here.
    bool mapped = WHI_CUDA_TRY(cuMemMap, ptr, length, 0, block, 0) == WH_OK;
    if (!mapped || !readable(ptr, length, mapping->device)) {
        unmap(ptr, length, mapped);
        return WH_ENOTSUP;
    }
    mapping->base = (void *)(uintptr_t)ptr;
    mapping->length = length;
    mapping->descriptor = true;
    return WH_OK;
}

static wh_status take(const whi_mem_handle *handle, int *fd) {
    whi_fdshare_name name;
    memcpy(&name, handle->bytes, sizeof(name));
    // An import goes by the id of the handle, so it must be the one that was looked at.
    wh_status status = name.id == handle->id ? whi_fdshare_take(&name, fd) : WH_ENOTSUP;
    if (status == WH_ENOTSUP)
        whi_log(
            WHI_INFO, "I-CUDA-03",
            "a descriptor of process %d cannot be taken over: see "
            "/proc/sys/kernel/yama/ptrace_scope, and whether both are in the same PID namespace",
            name.pid);
    return status;
}

wh_status whi_cuda_virtual_open(const whi_mem_handle *handle, whi_mem_mapping *mapping) {
    int fd = -1;
    whi_cuda_block block;
    if (!whi_cuda.virtual_memory)
        return WH_ENOTSUP;
    wh_status status = take(handle, &fd);
    if (status != WH_OK)
        return status;
    status = WHI_CUDA_TRY(cuMemImportFromShareableHandle, &block, (void *)(intptr_t)fd,
                          WHI_CUDA_HANDLE_DESCRIPTOR);
    close(fd);
    if (status != WH_OK)
        return status;
    status = map_block(block, handle->length, mapping);
    release(block);
    return status;
}

void whi_cuda_virtual_close(const whi_mem_mapping *mapping) {
    unmap((whi_cuda_ptr)(uintptr_t)mapping->base, mapping->length, true);
}
