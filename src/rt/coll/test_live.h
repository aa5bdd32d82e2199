// SPDX-License-Identifier: BSD-3-Clause
//
// For tests of collectives: PEs of one process and thread with a worker each, joined by real endpoints, two for each pair.
//
// It has the same names as test_net.h.  net_begin takes over what a former one has left, if nothing was killed.
#ifndef WHI_RT_COLL_TEST_LIVE_H
#define WHI_RT_COLL_TEST_LIVE_H

#include <wherry/wherry.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/rng.h"
#include "base/test.h"
#include "rt/coll/port.h"

enum { NET_PES = 16, NET_PATIENCE_S = 20 };

typedef struct net net;

struct net {
    wh_context *ctx;
    whi_rng rng;
    uint32_t count;
    bool broken;
    struct net_pe {
        whi_coll_port port;
        net *n;
        bool dead;
        wh_worker *worker;
        wh_endpoint *to[NET_PES], *from[NET_PES];
    } pe[NET_PES];
};

static wh_status net_send(whi_coll_port *port, uint32_t to, uint64_t tag, const void *buf,
                          size_t size, const wh_op_opts *opts, wh_request **req) {
    struct net_pe *pe = whi_container_of(port, struct net_pe, port);
    CHECK(to < pe->n->count && to != port->self);
    return wh_tag_send(pe->to[to], buf, size, tag, opts, req);
}

static wh_status net_recv(whi_coll_port *port, uint32_t from, uint64_t tag, void *buf, size_t size,
                          const wh_op_opts *opts, wh_request **req) {
    struct net_pe *pe = whi_container_of(port, struct net_pe, port);
    CHECK(from < pe->n->count && from != port->self);
    return wh_tag_recv(pe->from[from], buf, size, tag, WH_TAG_MASK_ALL, opts, req);
}

static void net_accept(wh_endpoint *ep, void *arg) {
    struct net_pe *pe = arg;
    size_t size;
    const uint32_t *who = wh_endpoint_peer_data(ep, &size);
    CHECK_EQ_INT(size, sizeof(*who));
    CHECK(*who < NET_PES);
    CHECK(!pe->from[*who]);
    pe->from[*who] = ep;
}

__attribute__((unused)) static void net_step(net *n) {
    for (uint32_t a = 0; a < n->count; a++)
        if (!n->pe[a].dead && whi_rng_chance(&n->rng, 60))
            wh_worker_progress(n->pe[a].worker);
}

static void net_connect(net *n, uint32_t a, uint32_t b) {
    uint8_t blob[WH_ADDRESS_MAX];
    size_t size = sizeof(blob);
    CHECK_EQ_INT(wh_worker_address(n->pe[b].worker, blob, &size), WH_OK);
    CHECK_EQ_INT(wh_endpoint_connect_blob(n->pe[a].worker, blob, size,
                                          WH_ENDPOINT_OPTS(.data = &a, .data_size = sizeof(a)),
                                          &n->pe[a].to[b]),
                 WH_OK);
    uint64_t end = whi_clock_ns() + NET_PATIENCE_S * WHI_NS_PER_S;
    while (!n->pe[b].from[a] || wh_endpoint_status(n->pe[a].to[b]) == WH_PENDING) {
        net_step(n);
        CHECK(whi_clock_ns() < end);
    }
}

static void net_make(net *n, uint32_t count) {
    static const whi_coll_port_ops ops = {.send = net_send, .recv = net_recv};
    *n = (net){.count = count};
    CHECK_EQ_INT(wh_context_create(NULL, &n->ctx), WH_OK);
    for (uint32_t a = 0; a < count; a++) {
        n->pe[a].n = n;
        CHECK_EQ_INT(wh_worker_create(n->ctx,
                                      WH_WORKER_OPTS(.mode = WH_PROGRESS_WAIT, .accept = net_accept,
                                                     .accept_arg = &n->pe[a]),
                                      &n->pe[a].worker),
                     WH_OK);
        whi_coll_port_init(&n->pe[a].port, &ops, n->pe[a].worker, a, count, 1);
    }
    whi_rng_init(&n->rng, count);
    for (uint32_t a = 0; a < count; a++)
        for (uint32_t b = 0; b < count; b++)
            if (a != b)
                net_connect(n, a, b);
}

static void net_close(net *n) {
    for (uint32_t a = 0; a < n->count; a++) {
        for (uint32_t b = 0; b < n->count; b++) {
            if (n->pe[a].to[b])
                wh_endpoint_abort(n->pe[a].to[b]);
            if (n->pe[a].from[b])
                wh_endpoint_abort(n->pe[a].from[b]);
        }
        if (!n->pe[a].dead)
            wh_worker_destroy(n->pe[a].worker);
    }
    wh_context_destroy(n->ctx);
    *n = (net){.count = 0};
}

__attribute__((unused)) static void net_begin(net *n, uint32_t count, uint64_t seed,
                                              uint64_t message_bytes) {
    if (n->count != count || n->broken) {
        if (n->count)
            net_close(n);
        net_make(n, count);
    }
    whi_rng_init(&n->rng, seed);
    for (uint32_t a = 0; a < count; a++) {
        n->pe[a].port.message_bytes = message_bytes;
        // Ids of splits that failed are free for the next program, whose teams nobody has sent to.
        memset(n->pe[a].port.team_ids, 0, sizeof(n->pe[a].port.team_ids));
    }
}

__attribute__((unused)) static void net_end(net *n) {
    if (n->broken)
        net_close(n);
}

// net_kill ends a PE with its worker, whose endpoints it gives back.
__attribute__((unused)) static void net_kill(net *n, uint32_t dead) {
    n->broken = n->pe[dead].dead = true;
    wh_worker_destroy(n->pe[dead].worker);
}

__attribute__((unused)) static size_t net_under_way(const net *n) {
    size_t count = 0;
    for (uint32_t pe = 0; pe < n->count; pe++)
        count += n->pe[pe].port.under_way;
    return count;
}

// net_left says how many messages were not received.
__attribute__((unused)) static size_t net_left(const net *n) {
    size_t left = 0;
    for (uint32_t a = 0; a < n->count; a++)
        left += !n->pe[a].dead && wh_worker_tag_probe(n->pe[a].worker, 0, 0, NULL) != WH_ENOTFOUND;
    return left;
}

#endif
