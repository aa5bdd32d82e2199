// SPDX-License-Identifier: BSD-3-Clause
//
// The lanes that a link's messages may move to from its socket, and what the link has to know of each
// in order to set it up.  A lane is registered by a line in lanes.c.  Owner's thread.
#ifndef WHI_LINK_LANES_H
#define WHI_LINK_LANES_H

#include "link/link.h"

typedef struct whi_lane_kind {
    uint32_t bit;  // WHI_LANE_*

    // wanted says whether the messages of a link go by this lane; both sides come to the same answer.
    bool (*wanted)(const whi_link *link);

    // start opens this side's lane, link->fast, and tells the peer, which may take a while: once it is
    // there, link->tx is that lane.  A failure ends the link, unless the lane can tell the peer to stay
    // on the socket, too, and that may serve: ucx can.
    void (*start)(whi_link *link);

    // switched takes the peer's SWITCH.  It is WH_EPROTOCOL when that was not agreed on.
    wh_status (*switched)(whi_link *link);

    // The rest is optional.
    //
    // address_came takes a piece of what one must know to reach the lane of the peer.
    wh_status (*address_came)(whi_link *link, const whi_hdr *hdr, const void *payload);
    // rang follows when something has come over the socket.
    void (*rang)(whi_link *link);
    // bye: the peer has said its last word by this lane.  socket_ended: it has gone, and what it has sent
    // by this lane may still be under way; the lane ends the link.
    void (*bye)(whi_link *link);
    void (*socket_ended)(whi_link *link);
    // close begins the end of a lane that takes its time; when that has come, the lane sets link->fast to
    // NULL and has the link's deferred function called again.  NULL: the lane's own close, at once.
    void (*close)(whi_link *link);
} whi_lane_kind;

extern const whi_lane_kind whi_shm_kind;  // link_shm.c
extern const whi_lane_kind whi_ucx_kind;  // link_ucx.c

// whi_lane_receives says whether the peer's messages come by the lane of link->kind, not by the socket.
static inline bool whi_lane_receives(const whi_link *link) {
    return link->fast && link->rx == link->fast;
}

// whi_lane_kind_of returns that of a WHI_LANE_* bit, or NULL; whi_lane_kind_for the one that the messages of a
// link are to go by, or NULL: the socket.
const whi_lane_kind *whi_lane_kind_of(uint32_t bit);
const whi_lane_kind *whi_lane_kind_for(const whi_link *link);

#endif
