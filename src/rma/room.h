// SPDX-License-Identifier: BSD-3-Clause
//
// The rma room: memory that peers read, write and change.
//
// Registered memory and its keys; put, get and atomics, the side that asks and the side that serves;
// and what waits for them: fence and flush.  The highest room of the engine.
#ifndef WHI_RMA_ROOM_H
#define WHI_RMA_ROOM_H

#include <wherry/rma.h>

#include "message/endpoint.h"
#include "message/room.h"

// What the room keeps with a worker.
typedef struct whi_rma_room {
    whi_message_room messages;
    whi_list shares;  // memory that UCX has registered for peers (share.c)
} whi_rma_room;

static inline whi_rma_room *whi_memory_of(const wh_worker *worker) {
    return (whi_rma_room *)(uintptr_t)worker;
}

// What the room keeps with a link.
typedef struct whi_link_memory {
    whi_link_messages messages;
    wh_rkey *mapping;  // whose memory the peer was asked to pass; held
    whi_hash natives;  // memory of the peer's that UCX reaches, by key id (native.c)
    whi_hash leases;   // memory of ours that the peer reaches so, by key id (share.c)
} whi_link_memory;

static inline whi_link_memory *whi_memory_on(const whi_link *link) {
    return (whi_link_memory *)(uintptr_t)link;
}

// What the room keeps with an endpoint.
typedef struct whi_ep_memory {
    wh_endpoint ep;
    uint32_t active;          // accesses of ours that an answer is to end
    uint32_t fences;          // in the queue
    uint64_t accesses;        // put and atomic records that were sent
    uint64_t served;          // of these, those that an answer or flush has shown to be through
    uint64_t fenced;          // those that were sent before the last fence
    uint64_t flushed;         // messages and accesses that the last flush was behind
    uint64_t native;          // puts and gets that went through UCX
    uint64_t native_settled;  // those that are there, as a flush of UCX has shown
    uint64_t native_asked;    // those that the flush under way is behind; 0: none is
    wh_status late_error;     // of an access that was done already: the next flush ends with it
    wh_status serve_error;    // of such a one of the peer's: the answer to its next flush tells
} whi_ep_memory;

static inline whi_ep_memory *whi_memory_at(const wh_endpoint *ep) {
    return (whi_ep_memory *)(uintptr_t)ep;
}

extern const whi_room whi_rma_room_table;

#endif
