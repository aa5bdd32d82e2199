// SPDX-License-Identifier: BSD-3-Clause
//
// The link room: how two workers find, check and keep each other.
//
// Handshakes (dial.h, acceptor.h), the link that they lead to (link.h), the lanes that it may use, the
// liveness of its peer, and what it has proven.  Above the worker, below messages: what goes over a
// link, and who needs it, is known to the room above alone, through the table whi_link_up (link.h).
#ifndef WHI_LINK_ROOM_H
#define WHI_LINK_ROOM_H

#include <wherry/listener.h>

#include "base/hash.h"
#include "base/pool.h"
#include "net/shm/shm.h"
#include "net/ucx/ucx.h"
#include "worker/worker.h"

struct whi_link_up;

// What the room keeps with a worker.
typedef struct whi_link_room {
    wh_worker worker;
    const struct whi_link_up *up;  // set by the room above
    size_t link_size;              // of a whole link, to the highest room's part; set by that
    whi_hash links;                // by hash of the peer's uuid
    whi_pool controls;
    whi_list listeners, dials, acceptors;
    whi_hash dial_leaders;  // by target (dial_queue.c)
    size_t acceptor_count;
    whi_list processes;          // peer processes that are watched (liveness.c)
    struct whi_local *local;     // the AF_UNIX name of this worker; NULL until needed
    wh_listener *blob_listener;  // what an address blob leads to
    uint64_t next_listener_id;
    whi_shm_budget bulk_budget;
    whi_ucx *ucx;  // NULL until a link needs it (ucx.c)
    bool ucx_failed;
    char ucx_why[256];    // and why
    uint64_t ucx_nap_ns;  // the longest sleep, since UCX loses wake-ups
    whi_watch ucx_watch;  // armed while the worker sleeps
} whi_link_room;

static inline whi_link_room *whi_links_of(const wh_worker *worker) {
    return (whi_link_room *)(uintptr_t)worker;
}

extern const whi_room whi_link_room_table;

#endif
