// SPDX-License-Identifier: BSD-3-Clause
//
// Buffer: the user's memory that a message comes from or goes to, the host's or a device's, and its spans for lanes.
//
// Most are direct: host memory with one byte behind the other.  All others are moved by functions, a part at a time: device
// memory by copies, a layout (wherry/type.h) by packing and unpacking, a layout on a device by its kernels or, where it has none, by a copy for each run.
// Who takes a short way for host memory asks `direct`.
//
// The memory is borrowed from the user; what is here belongs to a request, and to its worker's owner thread.
#ifndef WHI_MESSAGE_BUFFER_H
#define WHI_MESSAGE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/mem.h>
#include <wherry/pack.h>
#include <wherry/status.h>

#include "mem/mem.h"
#include "net/lane.h"
#include "type/pack.h"

typedef struct whi_buffer {
    void *ptr;            // of a layout: its origin
    uint64_t size;        // bytes that travel
    uint8_t kind;         // wh_mem_kind
    bool direct : 1;      // host memory, `size` bytes from ptr on
    bool by_kernels : 1;  // a layout that kernels reach on its device
    int16_t failed;       // wh_status: the first error of a chunk's copy to or from it
    int16_t device;
    uint16_t signature;   // whi_signature_code of its elements; 0: they are bytes
    const wh_type *type;  // the layout, held; NULL: the bytes lie one behind the other
    union {
        int64_t count;  // of its elements
        int64_t start;  // without a layout: how far behind what the user gave `ptr` is
    };
    wh_cursor *cursor;  // of a layout; NULL until it is moved in parts
} whi_buffer;

// whi_buffer_host makes a direct buffer.
static inline whi_buffer whi_buffer_host(const void *ptr, uint64_t size) {
    return (whi_buffer){
        .ptr = (void *)(uintptr_t)ptr, .size = size, .kind = WH_MEM_HOST, .direct = true};
}

// whi_buffer_set_host does so where zeros are.
static inline void whi_buffer_set_host(whi_buffer *buf, void *ptr, uint64_t size) {
    buf->ptr = ptr;
    buf->size = size;
    buf->kind = WH_MEM_HOST;
    buf->direct = true;
}

// whi_buffer_plain says whether what is described so is bytes of host memory.
static inline bool whi_buffer_plain(wh_mem_kind kind, const wh_type *type) {
    return !type && (kind == WH_MEM_HOST || (kind == WH_MEM_AUTO && !whi_mem_devices()));
}

// whi_buffer_resolve fills in a buffer of `size` bytes or, with a type, elements, and if asked, finds out its kind of memory.
// It is ended with whi_buffer_release.  WH_ENOTSUP for a kind that nothing here serves; WH_EINVAL for what is no type, or too large.
wh_status whi_buffer_resolve_any(whi_buffer *buf, const void *ptr, uint64_t size, wh_mem_kind kind,
                                 int device, const wh_type *type);
static inline wh_status whi_buffer_resolve(whi_buffer *buf, const void *ptr, uint64_t size,
                                           wh_mem_kind kind, int device, const wh_type *type) {
    if (!whi_buffer_plain(kind, type))
        return whi_buffer_resolve_any(buf, ptr, size, kind, device, type);
    *buf = whi_buffer_host(ptr, size);
    return WH_OK;
}

// whi_buffer_origin returns the pointer that the user gave.
static inline void *whi_buffer_origin(const whi_buffer *buf) {
    return buf->type ? buf->ptr : (char *)buf->ptr - buf->start;
}

// whi_buffer_release ends a buffer; the memory stays the user's.
void whi_buffer_drop_layout(whi_buffer *buf);
static inline void whi_buffer_release(whi_buffer *buf) {
    if (buf->type)
        whi_buffer_drop_layout(buf);
}

// whi_buffer_source and whi_buffer_sink make the span of a buffer from `offset` on.  A buffer outlives its spans.
whi_span whi_buffer_source(const whi_buffer *buf, uint64_t offset);
whi_span whi_buffer_sink(const whi_buffer *buf, uint64_t offset);

// whi_buffer_stages says whether a buffer is device memory that can be staged (stage.h): one run, or a layout for kernels.
static inline bool whi_buffer_stages(const whi_buffer *buf) {
    return buf->kind != WH_MEM_HOST && (!buf->type || buf->by_kernels);
}

// whi_buffer_of_sink returns the buffer of a sink that is such memory, or NULL.
whi_buffer *whi_buffer_of_sink(const whi_span *span);

// whi_buffer_note keeps the first error of a buffer's copies, and logs it; `what` it is that cannot be: "read".
void whi_buffer_note(whi_buffer *buf, wh_status st, const char *what);

// whi_buffer_coarse says whether a buffer is host memory in runs so long that what is read from another process may as well be
// read into them; whi_buffer_runs lists them from `offset` on, at most `max`, and returns their bytes, at most `size`.
bool whi_buffer_coarse(const whi_buffer *buf);
uint64_t whi_buffer_runs(const whi_buffer *buf, uint64_t offset, uint64_t size, struct iovec *runs,
                         unsigned max, unsigned *count);

// whi_buffer_prepare readies a buffer to be read in parts; what it lacks, whi_buffer_source reports too late for the lane.
wh_status whi_buffer_prepare(whi_buffer *buf);

// whi_buffer_finish brings what its sinks have kept back to its place, when all has come.
void whi_buffer_finish(whi_buffer *buf);

// whi_buffer_read copies a part of a buffer to host memory, whi_buffer_write a part from there.
wh_status whi_buffer_read(const whi_buffer *buf, uint64_t offset, void *host, size_t size);
wh_status whi_buffer_write(const whi_buffer *buf, uint64_t offset, const void *host, size_t size);

#endif
