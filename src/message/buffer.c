// SPDX-License-Identifier: BSD-3-Clause
//
// The memory of a message, see buffer.h.
#include "message/buffer.h"

#include <string.h>

#include "base/log.h"
#include "mem/mem.h"

wh_status whi_buffer_resolve(whi_buffer *buf, const void *ptr, uint64_t size, wh_mem_kind kind,
                             int device) {
    *buf = (whi_buffer){(void *)(uintptr_t)ptr, size, kind, device, WH_OK};
    if (kind == WH_MEM_AUTO) {
        buf->kind = WH_MEM_HOST;
        if (whi_mem_devices() && size) {
            wh_mem_info info;
            whi_mem_query(ptr, &info);
            buf->kind = info.kind;
            buf->device = info.device;
        }
    }
    return whi_mem_ops_of(buf->kind) ? WH_OK : WH_ENOTSUP;
}

// note keeps the first error of a buffer's chunks, and logs it.
static void note(whi_buffer *buf, wh_status st, const char *what) {
    if (st == WH_OK || buf->failed)
        return;
    buf->failed = st;
    whi_log(WHI_ERROR, "E-MEM-01", "%llu bytes of %s memory cannot be %s: %s",
            (unsigned long long)buf->size, wh_mem_kind_name(buf->kind), what, wh_status_text(st));
}

wh_status whi_buffer_read(const whi_buffer *buf, uint64_t offset, void *host, size_t size) {
    return whi_mem_copy(&whi_mem_host, host, whi_mem_ops_of(buf->kind),
                        (const char *)buf->ptr + offset, size);
}

// The spans of device memory: `base` is the offset in the buffer.  A lane has promised the chunk by now, so that one which
// fails goes as zeros; what comes after it tells that the transfer has failed.
static void from_device(void *ctx, uint64_t offset, void *host, size_t size) {
    whi_buffer *buf = ctx;
    wh_status st = buf->failed ? buf->failed : whi_buffer_read(buf, offset, host, size);
    if (st != WH_OK)
        memset(host, 0, size);
    note(buf, st, "read");
}

static void to_device(void *ctx, uint64_t offset, void *host, size_t size) {
    whi_buffer *buf = ctx;
    const whi_mem_ops *ops = whi_mem_ops_of(buf->kind);
    note(buf, whi_mem_copy(ops, (char *)buf->ptr + offset, &whi_mem_host, host, size), "written");
}

static whi_span span_of(const whi_buffer *buf, uint64_t offset,
                        void (*move)(void *, uint64_t, void *, size_t)) {
    if (buf->kind == WH_MEM_HOST)
        return (whi_span){.ptr = (char *)buf->ptr + offset};
    return (whi_span){.move = move, .ctx = (void *)(uintptr_t)buf, .base = offset};
}

whi_span whi_buffer_source(const whi_buffer *buf, uint64_t offset) {
    return span_of(buf, offset, from_device);
}

whi_span whi_buffer_sink(const whi_buffer *buf, uint64_t offset) {
    return span_of(buf, offset, to_device);
}
