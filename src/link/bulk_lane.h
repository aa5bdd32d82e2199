// SPDX-License-Identifier: BSD-3-Clause
//
// The bulk lane: a ucx lane beside shm or the socket, for large payloads and nothing else.
//
// Records, and with them matching and order, stay where they are.  Each side opens it when a payload first wants it, after which
// the peer does so too, or says why not; nobody waits for that.  When it fails, the transfers under way on it fail, and all that
// follow go by the other lane, for as long as the link lives.  Docs: docs/design/bulk-lane.md.  Owner's thread.
#ifndef WHI_LINK_BULK_LANE_H
#define WHI_LINK_BULK_LANE_H

#include "base/config.h"
#include "link/lane_address.h"

typedef enum whi_bulk_state {
    WHI_BULK_UNTRIED,
    WHI_BULK_OPENING,  // our address is with the peer, or on its way
    WHI_BULK_OPEN,     // we have the peer's
    WHI_BULK_NONE,     // there is none and will be none
} whi_bulk_state;

typedef struct whi_bulk_lane {
    whi_lane *lane;  // NULL: none, or gone
    whi_lane_address address;
    whi_bulk_state state;
    wh_status lost;  // why, once it was open
    bool opened;     // it was open once
    bool closing;    // the lane is
    bool awaited;    // the link is freed after it
    bool same_host;  // the peer is on this host, so that UCX may use shared memory
    unsigned idle;   // polls without an event
} whi_bulk_lane;

// whi_link_bulk_allowed says whether the settings let this side use one.
bool whi_link_bulk_allowed(const whi_config *config);

// whi_link_bulk_agreed says whether both sides may use one on this link.
bool whi_link_bulk_agreed(const whi_link *link);

// whi_link_bulk returns the lane if it is open, or NULL.
whi_lane *whi_link_bulk(const whi_link *link);

// whi_link_bulk_want begins to open it, unless that was tried.
void whi_link_bulk_want(whi_link *link);

// whi_link_bulk_busy has it polled, since something moves by it or is about to.
void whi_link_bulk_busy(whi_link *link);

// whi_link_bulk_ready says whether a poll of it would do something.
bool whi_link_bulk_ready(const whi_link *link);

// whi_link_bulk_record takes a LANE_ADDRESS about it.
wh_status whi_link_bulk_record(whi_link *link, const whi_hdr *hdr, const void *payload);

// whi_link_bulk_gone says whether it is no more; if not, its end has begun, and the link's deferred function is called after it.
bool whi_link_bulk_gone(whi_link *link);

#endif
