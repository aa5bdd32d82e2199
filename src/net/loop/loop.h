// SPDX-License-Identifier: BSD-3-Clause
//
// The loop lane: two ends in one process and thread, joined by a simulated, seeded network.
//
// For tests, and (without faults) for a worker's link to itself.  Time in the network is a count of
// ticks that the owner advances; every choice comes from the seed, so a run repeats exactly.
#ifndef WHI_NET_LOOP_H
#define WHI_NET_LOOP_H

#include "net/lane.h"

typedef struct whi_loop_opts {
    uint64_t seed;
    uint32_t delay_max;  // ticks that a record may take; order within a lane is kept
    uint32_t window;     // records in flight per direction before send answers WH_EAGAIN; 0: 64
    size_t eager_limit;  // 0: 8192
    size_t long_limit;   // of a long record, at most chunk_max; 0: it takes none
    size_t chunk_max;    // 0: 65536; chunks are split at random below it when `split` is set
    bool split;
    bool reorder;         // records of one lane may overtake each other (then ops->reorders is set)
    uint32_t drop_after;  // the peer is lost after that many records in all; 0: never
    bool truncate;        // the record at drop_after arrives cut short before the loss
} whi_loop_opts;

typedef struct whi_loop_net whi_loop_net;

// whi_loop_net_create makes a network; lanes hold it.  whi_loop_net_release drops the creator's
// hold.
wh_status whi_loop_net_create(const whi_loop_opts *opts, whi_loop_net **net);
void whi_loop_net_release(whi_loop_net *net);

// whi_loop_pair makes two lanes that are each other's peer.  Link and upcalls of each end are given
// with it.
wh_status whi_loop_pair(whi_loop_net *net, const whi_lane_up *up_a, void *link_a, whi_lane **a,
                        const whi_lane_up *up_b, void *link_b, whi_lane **b);

// whi_loop_tick advances the network's time.  whi_loop_idle tells whether nothing is in flight.
void whi_loop_tick(whi_loop_net *net);
bool whi_loop_idle(const whi_loop_net *net);

// whi_loop_disconnect ends the connection of `lane`: both ends fail with WH_EPEER at their next
// poll.
void whi_loop_disconnect(whi_lane *lane);

#endif
