// SPDX-License-Identifier: BSD-3-Clause
//
// The link of a worker to itself: two ends in one worker, joined by a loop lane without faults.
//
// It is two links, so that an endpoint to oneself is a pair like any other: what is opened on one end is accepted on the
// other.
#include <string.h>

#include "base/log.h"
#include "link/acceptor.h"
#include "link/dial.h"
#include "link/link.h"
#include "net/loop/loop.h"

// The other end needs a name of its own in the table.
static void name_other_end(const wh_worker *worker, uint8_t other[16]) {
    for (int i = 0; i < 16; i++)
        other[i] = (uint8_t)~worker->uuid[i];
}

bool whi_self_owns(const wh_worker *worker, const uint8_t uuid[16]) {
    uint8_t other[16];
    name_other_end(worker, other);
    return memcmp(uuid, worker->uuid, 16) == 0 || memcmp(uuid, other, 16) == 0;
}

static void fail(whi_link *link, wh_status why) {
    whi_link_fail(link, why, "the link to itself cannot be made: %s", wh_status_text(why));
}

// The listener asks the other end's link, and the answer that has proven the secret was the worker's own.
static void learn(const wh_worker *worker, whi_link *ours, const char *secret) {
    uint8_t other[16];
    name_other_end(worker, other);
    whi_link *theirs = whi_link_find(worker, other);
    whi_link_learn(ours, secret);
    if (theirs)
        whi_link_learn(theirs, secret);
}

// tell_peers notes at both ends that the peer is this worker.  What one end calls remote is the
// other's local address.
static wh_status tell_peers(wh_worker *worker, int fd, whi_peer *ours, whi_peer *theirs) {
    whi_hello me;
    wh_status st = whi_hello_mine(worker, WHI_STEP_HELLO, false, &me);
    if (st != WH_OK)
        return st;
    whi_peer_says(ours, &me, worker->ctx->boot_id);
    whi_peer_reached(ours, fd);
    ours->info.same_host = ours->info.vouched = true;
    wh_peer_info info = ours->info;
    info.local = ours->info.remote;
    info.remote = ours->info.local;
    theirs->info = info;
    return WH_OK;
}

wh_status whi_self_link(wh_worker *worker, const char *secret, int fd, whi_link **out) {
    whi_link *ours = whi_link_find(worker, worker->uuid), *theirs = NULL;
    if (ours) {
        learn(worker, ours, secret);
        *out = ours;
        return WH_OK;
    }
    uint8_t other[16];
    name_other_end(worker, other);
    wh_status st = whi_link_bare(worker, worker->uuid, true, "this worker", &ours);
    if (st != WH_OK)
        return st;
    st = whi_link_bare(worker, other, false, "this worker", &theirs);
    const whi_lane_up *up = whi_links_of(worker)->up->lane_up;
    whi_loop_net *net = NULL;
    whi_lane *a = NULL, *b = NULL;
    whi_loop_opts opts = {.window = 256, .eager_limit = worker->eager_max};
    if (st == WH_OK)
        st = tell_peers(worker, fd, ours->who, theirs->who);
    if (st == WH_OK)
        st = whi_loop_net_create(&opts, &net);
    if (st == WH_OK)
        st = whi_loop_pair(net, up, ours, &a, up, theirs, &b);
    if (net)
        whi_loop_net_release(net);
    if (st != WH_OK) {
        fail(ours, st);
        if (theirs)
            fail(theirs, st);
        return st;
    }
    whi_link_set_lane(ours, a);
    whi_link_set_lane(theirs, b);
    learn(worker, ours, secret);
    *out = ours;
    return WH_OK;
}
