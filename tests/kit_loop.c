// SPDX-License-Identifier: BSD-3-Clause
//
// Workers joined by the loop lane, see kit_loop.h.
//
// A link is held by its worker and may be gone at any time; so only its worker and the peer's uuid are kept here, and the
// link is looked up again for each use.
#include "kit_loop.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "link/link.h"
#include "message/endpoint.h"
#include "net/loop/loop.h"

struct kit_loop {
    whi_loop_net *net;
    wh_worker *worker[2];
    uint8_t peer[2][16];  // what each side calls the other
};

static wh_status make_links(kit_loop *loop, whi_link *links[2]) {
    for (int side = 0; side < 2; side++) {
        wh_worker_uuid(loop->worker[!side], loop->peer[side]);
        // Both ends in one worker need two names, and neither is the worker's own: that is its link to itself.
        if (loop->worker[0] == loop->worker[1])
            loop->peer[side][0] ^= (uint8_t)(0x55 + side);
        wh_status st = whi_link_bare(loop->worker[side], loop->peer[side], side == 0,
                                     "the other end of the loop", &links[side]);
        if (st != WH_OK) {
            if (side == 1)
                whi_link_drop(links[0]);
            return st;
        }
    }
    return WH_OK;
}

kit_loop *kit_loop_join(wh_worker *a, wh_worker *b, const kit_loop_opts *opts) {
    kit_loop *loop = calloc(1, sizeof(*loop));
    if (!loop)
        return NULL;
    loop->worker[0] = a;
    loop->worker[1] = b;
    whi_loop_opts net_opts = {.seed = opts->seed,
                              .delay_max = opts->delay_max,
                              .window = opts->window,
                              .eager_limit = opts->eager_limit,
                              .long_limit = opts->long_limit,
                              .chunk_max = opts->chunk_max,
                              .split = opts->split,
                              .reorder = opts->reorder,
                              .drop_after = opts->drop_after,
                              .truncate = opts->truncate};
    whi_link *links[2];
    whi_lane *lanes[2];
    if (make_links(loop, links) != WH_OK) {
        free(loop);
        return NULL;
    }
    if (whi_loop_net_create(&net_opts, &loop->net) != WH_OK ||
        whi_loop_pair(loop->net, whi_link_up_of(links[0])->lane_up, links[0], &lanes[0],
                      whi_link_up_of(links[1])->lane_up, links[1], &lanes[1]) != WH_OK)
        abort();  // nothing makes memory fail while a test is set up
    whi_link_set_lane(links[0], lanes[0]);
    whi_link_set_lane(links[1], lanes[1]);
    return loop;
}

wh_status kit_loop_open(kit_loop *loop, int side, wh_endpoint **ep) {
    return kit_loop_open_with(loop, side, NULL, 0, ep);
}

wh_status kit_loop_open_with(kit_loop *loop, int side, const void *data, size_t size,
                             wh_endpoint **ep) {
    whi_link *link = whi_link_find(loop->worker[side], loop->peer[side]);
    if (!link)
        return WH_EPEER;
    wh_endpoint *made = NULL;
    wh_status st = whi_ep_new(loop->worker[side], &made);
    if (st != WH_OK)
        return st;
    st = whi_connect_data_copy(data, size, "the test", &made->own_data);
    if (st != WH_OK)
        return st;
    whi_ep_bind(made, link);
    *ep = made;
    return WH_OK;
}

void kit_loop_tick(kit_loop *loop) {
    whi_loop_tick(loop->net);
}

bool kit_loop_idle(const kit_loop *loop) {
    return whi_loop_idle(loop->net);
}

void kit_loop_disconnect(kit_loop *loop) {
    for (int side = 0; side < 2; side++) {
        whi_link *link = whi_link_find(loop->worker[side], loop->peer[side]);
        if (link) {
            whi_loop_disconnect(link->tx);
            return;
        }
    }
}

void kit_loop_free(kit_loop *loop) {
    if (!loop)
        return;
    whi_loop_net_release(loop->net);
    free(loop);
}

void kit_allocations(void) {
    whi_alloc_fail_at(UINT64_MAX);
}

uint64_t kit_allocated(void) {
    uint64_t count = whi_alloc_count();
    whi_alloc_fail_at(0);
    return count;
}
