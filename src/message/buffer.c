// SPDX-License-Identifier: BSD-3-Clause
//
// The memory of a message, see buffer.h.
#include "message/buffer.h"

#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "type/on_device.h"

// find_kind finds out what memory is at `at`, the first byte that is used.
static wh_status find_kind(whi_buffer *buf, wh_mem_kind kind, const void *at) {
    buf->kind = (uint8_t)kind;
    if (kind == WH_MEM_AUTO) {
        buf->kind = WH_MEM_HOST;
        if (whi_mem_devices() && buf->size) {
            wh_mem_info info;
            whi_mem_query(at, &info);
            buf->kind = (uint8_t)info.kind;
            buf->device = (int16_t)info.device;
        }
    }
    if (buf->kind == WH_MEM_HOST)
        return WH_OK;
    return whi_mem_ops_of((wh_mem_kind)buf->kind) ? WH_OK : WH_ENOTSUP;
}

// lay_out gives a buffer of `size` elements its layout; one that is a single run needs none.
static wh_status lay_out(whi_buffer *buf, const wh_type *type) {
    int64_t total;
    const whi_plan *plan;
    if (buf->size > INT64_MAX)
        return WH_EINVAL;
    int64_t count = (int64_t)buf->size;
    wh_status st = whi_packed_check("opts->type", buf->ptr, count, type, &total);
    if (st == WH_OK)
        st = whi_plan_get(type, WHI_BYTES, &plan);
    if (st != WH_OK)
        return st;
    buf->size = (uint64_t)total;
    if (!total)
        return WH_OK;
    buf->signature = whi_signature_code(count, type);
    if (plan->normal.runs == 1 && (count == 1 || type->at.ub - type->at.lb == type->at.size)) {
        buf->start = plan->normal.start;
        buf->ptr = (void *)((uintptr_t)buf->ptr + (uintptr_t)buf->start);  // of NULL, too
        return WH_OK;
    }
    buf->type = wh_type_retain(whi_type_mutable(type));
    buf->count = count;
    return WH_OK;
}

// find_kernels finds out whether a layout on a device is kernels' to pack.
static void find_kernels(whi_buffer *buf) {
    int device;
    if (!buf->type || buf->kind == WH_MEM_HOST)
        return;
    buf->by_kernels = whi_device_reaches((uintptr_t)buf->ptr, buf->count, buf->type,
                                         whi_mem_ops_of((wh_mem_kind)buf->kind), &device);
    if (buf->by_kernels)
        buf->device = (int16_t)device;
}

wh_status whi_buffer_resolve_any(whi_buffer *buf, const void *ptr, uint64_t size, wh_mem_kind kind,
                                 int device, const wh_type *type) {
    *buf = (whi_buffer){.ptr = (void *)(uintptr_t)ptr, .size = size, .device = (int16_t)device};
    wh_status st = type ? lay_out(buf, type) : WH_OK;
    if (st == WH_OK)
        // In whole numbers: of no elements there may be no memory.
        st = find_kind(
            buf, kind,
            (void *)((uintptr_t)buf->ptr + (uintptr_t)(buf->type ? buf->type->at.true_lb : 0)));
    if (st == WH_OK)
        find_kernels(buf);
    if (st != WH_OK)
        whi_buffer_release(buf);
    buf->direct = buf->kind == WH_MEM_HOST && !buf->type;
    return st;
}

void whi_buffer_drop_layout(whi_buffer *buf) {
    wh_cursor_destroy(buf->cursor);
    wh_type_release(whi_type_mutable(buf->type));
    buf->cursor = NULL;
    buf->type = NULL;
}

void whi_buffer_note(whi_buffer *buf, wh_status st, const char *what) {
    if (st == WH_OK || buf->failed)
        return;
    buf->failed = (int16_t)st;
    whi_log(WHI_ERROR, "E-MEM-01", "%llu bytes of %s memory cannot be %s: %s",
            (unsigned long long)buf->size, wh_mem_kind_name((wh_mem_kind)buf->kind), what,
            wh_status_text(st));
}

// move_dense copies between a part of memory of any kind, from `at` on, and host memory.
static wh_status move_dense(const whi_buffer *buf, char *at, char *host, size_t size, bool read) {
    const whi_mem_ops *ops = whi_mem_ops_of((wh_mem_kind)buf->kind);
    return read ? whi_mem_copy(&whi_mem_host, host, ops, at, size)
                : whi_mem_copy(ops, at, &whi_mem_host, host, size);
}

// move_runs does so with the packed bytes from `offset` on of a layout on a device.
static wh_status move_runs(const whi_buffer *buf, uint64_t offset, char *host, size_t size,
                           bool read) {
    enum { BATCH = 64 };
    while (size) {
        struct iovec runs[BATCH];
        int64_t count;
        size_t bytes;
        wh_status st = wh_iov_bytes(buf->ptr, buf->count, buf->type, offset, size, runs, BATCH,
                                    &count, &bytes);
        if (st != WH_OK)
            return st;
        offset += bytes;
        size -= bytes;
        for (int64_t i = 0; i < count; i++) {
            st = move_dense(buf, runs[i].iov_base, host, runs[i].iov_len, read);
            if (st != WH_OK)
                return st;
            host += runs[i].iov_len;
        }
    }
    return WH_OK;
}

// move_once moves a part without regard to others.
static wh_status move_once(const whi_buffer *buf, uint64_t offset, char *host, size_t size,
                           bool read) {
    size_t moved;
    if (!buf->type)
        return move_dense(buf, (char *)buf->ptr + offset, host, size, read);
    if (buf->kind != WH_MEM_HOST && !buf->by_kernels)
        return move_runs(buf, offset, host, size, read);
    if (buf->kind == WH_MEM_HOST && size == buf->size && size <= WHI_PACK_SMALL) {
        whi_pack_small(buf->ptr, buf->count, buf->type, host, read ? WHI_PACK : WHI_UNPACK);
        return WH_OK;
    }
    return read ? wh_pack(buf->ptr, buf->count, buf->type, offset, host, size, WH_PACK_CACHED,
                          &moved)
                : wh_unpack(host, size, buf->ptr, buf->count, buf->type, offset, 0, &moved);
}

bool whi_buffer_coarse(const whi_buffer *buf) {
    enum {
        COARSE = 4096
    };  // bytes of a run: copying them once more takes longer than naming them to the kernel
    const whi_plan *plan;
    if (buf->direct)
        return true;
    return buf->type && buf->kind == WH_MEM_HOST &&
           whi_plan_get(buf->type, WHI_BYTES, &plan) == WH_OK &&
           buf->type->at.size / plan->normal.runs >= COARSE;
}

uint64_t whi_buffer_runs(const whi_buffer *buf, uint64_t offset, uint64_t size, struct iovec *runs,
                         unsigned max, unsigned *count) {
    if (!buf->type) {
        runs[0] = (struct iovec){.iov_base = (char *)buf->ptr + offset, .iov_len = size};
        *count = 1;
        return size;
    }
    int64_t listed = 0;
    size_t bytes = 0;
    if (wh_iov_bytes(buf->ptr, buf->count, buf->type, offset, size, runs, max, &listed, &bytes) !=
        WH_OK)
        listed = 0;
    *count = (unsigned)listed;
    return listed ? bytes : 0;
}

wh_status whi_buffer_read(const whi_buffer *buf, uint64_t offset, void *host, size_t size) {
    return size ? move_once(buf, offset, host, size, true) : WH_OK;
}

wh_status whi_buffer_write(const whi_buffer *buf, uint64_t offset, const void *host, size_t size) {
    return size ? move_once(buf, offset, (char *)(uintptr_t)host, size, false) : WH_OK;
}

// need_cursor makes the cursor of a layout in host memory, which sees its parts as one message.
static wh_status need_cursor(whi_buffer *buf, unsigned flags) {
    if (!buf->type || buf->cursor || buf->kind != WH_MEM_HOST)
        return WH_OK;
    return wh_cursor_create(buf->ptr, buf->count, buf->type, flags, &buf->cursor);
}

wh_status whi_buffer_prepare(whi_buffer *buf) {
    // What is packed is read at once, by another processor that shares a cache or by the kernel.
    return need_cursor(buf, WH_PACK_CACHED);
}

void whi_buffer_finish(whi_buffer *buf) {
    if (buf->cursor)
        buf->failed = buf->failed ? buf->failed : (int16_t)wh_cursor_flush(buf->cursor);
}

// The spans of what is not direct: `base` is the offset in the buffer.  A lane has promised the chunk by now, so that one which
// fails goes as zeros; what comes after it tells that the transfer has failed.
static void read_part(void *ctx, uint64_t offset, void *host, size_t size) {
    whi_buffer *buf = ctx;
    wh_status st = buf->failed ? (wh_status)buf->failed : whi_buffer_prepare(buf);
    size_t moved;
    if (st == WH_OK)
        st = buf->cursor ? wh_cursor_pack(buf->cursor, offset, host, size, &moved)
                         : whi_buffer_read(buf, offset, host, size);
    if (st != WH_OK)
        memset(host, 0, size);
    whi_buffer_note(buf, st, "read");
}

static void write_part(void *ctx, uint64_t offset, void *host, size_t size) {
    whi_buffer *buf = ctx;
    size_t moved;
    wh_status st = need_cursor(buf, 0);
    if (st == WH_OK)
        st = buf->cursor ? wh_cursor_unpack(buf->cursor, offset, host, size, &moved)
                         : whi_buffer_write(buf, offset, host, size);
    whi_buffer_note(buf, st, "written");
}

static whi_span span_of(const whi_buffer *buf, uint64_t offset,
                        void (*move)(void *, uint64_t, void *, size_t)) {
    if (buf->direct)
        return (whi_span){.ptr = (char *)buf->ptr + offset};
    return (whi_span){.move = move, .ctx = (void *)(uintptr_t)buf, .base = offset};
}

whi_span whi_buffer_source(const whi_buffer *buf, uint64_t offset) {
    return span_of(buf, offset, read_part);
}

whi_span whi_buffer_sink(const whi_buffer *buf, uint64_t offset) {
    return span_of(buf, offset, write_part);
}

whi_buffer *whi_buffer_of_sink(const whi_span *span) {
    whi_buffer *buf = span->move == write_part ? span->ctx : NULL;
    return buf && whi_buffer_stages(buf) ? buf : NULL;
}
