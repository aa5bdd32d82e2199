// SPDX-License-Identifier: BSD-3-Clause
//
// A wire from inside: for the files of this folder.
#ifndef WHI_RT_WIRE_STATE_H
#define WHI_RT_WIRE_STATE_H

#include "base/blocks.h"
#include "base/list.h"
#include "rt/wire/wire.h"

enum { WHI_MSG_FREE_MAX = 1024 };  // messages that a wire keeps for reuse

enum { WHI_AM_DATA = 0xFF00, WHI_AM_CONTROL };  // ids of active messages

typedef struct whi_peer {
    whi_wire *wire;
    int pe;
    wh_status lost;              // WH_OK: it is there
    wh_endpoint *out[WHI_USES];  // ours; NULL: not opened yet
    wh_endpoint *in[WHI_USES];   // theirs; NULL: not opened yet, or gone
    whi_list receives;           // receives that wait for in[WHI_USE_DATA]
    whi_contact *contact;        // from the first of ours on until all are open
} whi_peer;

struct whi_wire {
    wh_worker *worker;
    int pe, pes;
    uint8_t ticket[WHI_TICKET_SIZE];
    const whi_wire_up *up;
    void *owner;
    whi_peer **peers;  // by PE; NULL: nothing to do with it yet
    whi_wire *const *siblings;
    int sibling_first, sibling_count;
    whi_queue_node *free;  // messages for reuse
    unsigned free_count;
    whi_blocks blocks;  // for large messages
    size_t inbox, inbox_max;
    whi_queue asking;  // messages whose data waits for space in the inbox
    unsigned closing;  // endpoints
    bool closed;       // whi_wire_close was called
};

// whi_wire_peer finds or makes what is known of a PE.
WH_CHECK wh_status whi_wire_peer(whi_wire *wire, int pe, whi_peer **peer);

// whi_wire_open returns the endpoint to a PE, opened if there is none; whi_wire_to is the same, and short where there is one, as
// nearly always.
WH_CHECK wh_status whi_wire_open(whi_wire *wire, int dest, whi_lane_use use, wh_endpoint **ep);

WH_CHECK static inline wh_status whi_wire_to(whi_wire *wire, int dest, whi_lane_use use,
                                             wh_endpoint **ep) {
    bool inside = wire->peers && dest >= 0 && dest < wire->pes && !wire->closed;
    const whi_peer *peer = inside ? wire->peers[dest] : NULL;
    if (!peer || !peer->out[use] || peer->lost != WH_OK)
        return whi_wire_open(wire, dest, use, ep);
    *ep = peer->out[use];
    return WH_OK;
}

// whi_peer_lost ends all with a PE, once.
void whi_peer_lost(whi_peer *peer, wh_status why, const char *sentence);

// whi_peer_cut does so on our own account: nothing goes to it or is taken from it any more.  whi_peer_reject: since it does not
// keep to the protocol.
void whi_peer_cut(whi_peer *peer, wh_status why, const char *sentence);
void whi_peer_reject(whi_peer *peer, const char *sentence);

// whi_wire_arrive is the handler of WHI_AM_DATA.
wh_status whi_wire_arrive(wh_am *am, void *arg);

// whi_peer_receive posts the receives that waited for the peer to connect; whi_peer_fail ends them.
void whi_peer_receive(whi_peer *peer);
void whi_peer_fail_receives(whi_peer *peer, wh_status why);

#endif
