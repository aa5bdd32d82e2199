// SPDX-License-Identifier: BSD-3-Clause
//
// Host memory as a memory kind: every copy is a memmove and every event has passed.
//
// The idea: the host has no streams of its own, so what is submitted asynchronously is done before
// the call returns, which any order allows.  Memory comes from the pool; nothing here keeps state.
#include <string.h>

#include "base/log.h"
#include "mem/host_pool.h"
#include "mem/mem.h"

static bool host_exists(void) {
    return true;
}

static const char *host_reason(void) {
    return "what the CPU reads and writes";
}

static void host_notice(void) {}

// All memory is the host's as far as the host can tell; devices are asked first.
static bool host_query(const void *ptr, wh_mem_info *info) {
    (void)ptr;
    *info = (wh_mem_info){.kind = WH_MEM_HOST, .device = -1};
    return true;
}

static wh_status host_alloc(int device, size_t size, void **ptr) {
    (void)device;
    void *memory = whi_host_alloc(size);
    if (!memory)
        return WH_ENOMEM;
    *ptr = memory;
    return WH_OK;
}

static wh_status host_free(void *ptr) {
    if (whi_host_free(ptr))
        return WH_OK;
    whi_log(WHI_ERROR, "E-MEM-08",
            "freeing host memory at %p: it is not the begin of a live allocation of "
            "wh_mem_alloc_kind or of a received frame",
            ptr);
    return WH_EINVAL;
}

static wh_status host_copy(whi_mem_direction direction, void *dst, const void *src, size_t size) {
    (void)direction;
    if (size)
        memmove(dst, src, size);
    return WH_OK;
}

static wh_status host_copy_async(whi_mem_direction direction, void *dst, const void *src,
                                 size_t size, void *stream) {
    (void)stream;
    return host_copy(direction, dst, src, size);
}

static wh_status host_record(void *stream, whi_mem_event *event) {
    (void)stream;
    *event = (whi_mem_event){.ops = &whi_mem_host};
    return WH_OK;
}

static wh_status host_wait(void *stream, const whi_mem_event *event) {
    (void)stream;
    (void)event;
    return WH_OK;
}

static wh_status host_query_event(const whi_mem_event *event) {
    (void)event;
    return WH_OK;
}

static void host_release_event(whi_mem_event *event) {
    (void)event;
}

const whi_mem_ops whi_mem_host = {
    .kind = WH_MEM_HOST,
    .exists = host_exists,
    .reason = host_reason,
    .notice = host_notice,
    .query = host_query,
    .alloc = host_alloc,
    .free = host_free,
    .copy = host_copy,
    .copy_async = host_copy_async,
    .record = host_record,
    .wait = host_wait,
    .query_event = host_query_event,
    .release_event = host_release_event,
};
