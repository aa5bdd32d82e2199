// SPDX-License-Identifier: BSD-3-Clause
//
// The rma room: memory that peers read, write and change.
//
// Registered memory and its keys; put, get and atomics, the side that asks and the side that serves;
// and what waits for them: fence and flush.  The highest room of the engine.
#ifndef WHI_RMA_ROOM_H
#define WHI_RMA_ROOM_H

#include <wherry/rma.h>

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

extern const whi_room whi_rma_room_table;

#endif
