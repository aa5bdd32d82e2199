// SPDX-License-Identifier: BSD-3-Clause
//
// Buffer: the user's memory that a message comes from or goes to, the host's or a device's, and its spans for lanes.
//
// It is borrowed from the user; what is here belongs to a request, and to its worker's owner thread.
#ifndef WHI_MESSAGE_BUFFER_H
#define WHI_MESSAGE_BUFFER_H

#include <stddef.h>
#include <stdint.h>

#include <wherry/mem.h>
#include <wherry/status.h>

#include "net/lane.h"

typedef struct whi_buffer {
    void *ptr;
    uint64_t size;
    wh_mem_kind kind;
    int device;
    wh_status failed;  // the first error of a chunk's copy to or from it, if it is a device's
} whi_buffer;

// whi_buffer_resolve fills in a buffer and, if asked, finds out its kind of memory; WH_ENOTSUP for one that nothing here
// serves.
wh_status whi_buffer_resolve(whi_buffer *buf, const void *ptr, uint64_t size, wh_mem_kind kind,
                             int device);

// whi_buffer_source and whi_buffer_sink make the span of a buffer from `offset` on.  A buffer outlives its spans.
whi_span whi_buffer_source(const whi_buffer *buf, uint64_t offset);
whi_span whi_buffer_sink(const whi_buffer *buf, uint64_t offset);

// whi_buffer_read copies a part of a buffer, which may be a device's, to host memory.
wh_status whi_buffer_read(const whi_buffer *buf, uint64_t offset, void *host, size_t size);

#endif
