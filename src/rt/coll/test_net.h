// SPDX-License-Identifier: BSD-3-Clause
//
// For tests of collectives: PEs of one process and thread, joined by messages that a seed delays.
//
// All PEs share one worker, whose progress runs the callbacks.  A message is in flight until net_step delivers it, the first of a
// random pair of PEs; a large one stays its sender's until a receive has matched it, and can be cancelled until then.  net_kill
// ends a PE: what it has in flight is lost from some place on, and what others have started with it fails.
#ifndef WHI_RT_COLL_TEST_NET_H
#define WHI_RT_COLL_TEST_NET_H

#include <wherry/wherry.h>

#include "base/list.h"
#include "base/rng.h"
#include "base/test.h"
#include "rt/coll/port.h"

enum { NET_PES = 16, NET_EAGER = 100 };

typedef struct net net;

// A send or a receive.
typedef struct net_op {
    whi_list link;  // in its pair's `flying`, `arrived` or `receives`; or in the net's `moving`
    net *n;
    wh_request *req;  // NULL: its sender has been told
    uint64_t tag;
    void *buf;
    int64_t count;
    const wh_type *type;
    size_t size;
    char *packed;        // of a send
    struct net_op *met;  // of a receive that is moving
} net_op;

struct net {
    wh_context *ctx;
    wh_worker *worker;
    whi_rng rng;
    uint32_t count;
    struct net_pe {
        whi_coll_port port;
        net *n;
        bool dead;
    } pe[NET_PES];
    struct {
        whi_list flying, arrived, receives;
    } pair[NET_PES][NET_PES];
    whi_list moving;
    size_t sent, sent_bytes;
    unsigned refused;  // percent of sends and receives for which there is no memory
};

__attribute__((unused)) static void net_end_op(net_op *op, wh_status st, size_t size) {
    whi_list_remove(&op->link);
    if (op->req)
        CHECK_EQ_INT(wh_request_complete(
                         op->req, &(wh_result){.status = st, .size = size, .tag = op->tag}, NULL),
                     WH_OK);
    free(op->packed);
    free(op);
}

// A receive that has matched cannot be cancelled, nor can a send whose receive has.
static void net_cancel(wh_request *req, wh_status why, void *state) {
    net_op *op = state;
    (void)req;
    if (op->link.next != &op->link && !op->met && why == WH_ECANCELLED)
        net_end_op(op, why, 0);
}

static net_op *net_new(struct net_pe *pe, uint64_t tag, const void *buf, size_t size,
                       const wh_op_opts *opts) {
    const wh_type *type = opts->type ? opts->type : wh_type_basic(WH_TYPE_BYTE);
    net_op *op = calloc(1, sizeof(*op));
    *op = (net_op){.n = pe->n,
                   .tag = tag,
                   .buf = (void *)(uintptr_t)buf,
                   .count = (int64_t)size,
                   .type = type,
                   .size = size * (size_t)wh_type_size(type)};
    whi_list_init(&op->link);
    return op;
}

static wh_status net_ask(struct net_pe *pe, net_op *op, const wh_op_opts *opts, wh_request **req) {
    static const wh_layer_ops ops = {
        .size = sizeof(ops), .text = "message of a test", .cancel = net_cancel};
    wh_status st = wh_request_create(pe->n->worker, &ops, op, opts, req != NULL, &op->req);
    if (st != WH_OK) {
        whi_list_remove(&op->link);
        free(op->packed);
        free(op);
        return st;
    }
    if (req)
        *req = op->req;
    return WH_PENDING;
}

static wh_status net_send(whi_coll_port *port, uint32_t to, uint64_t tag, const void *buf,
                          size_t size, const wh_op_opts *opts, wh_request **req) {
    struct net_pe *pe = whi_container_of(port, struct net_pe, port);
    net *n = pe->n;
    CHECK(to < n->count && to != port->self && (uint32_t)(tag >> 28) == port->self);
    if (pe->dead || n->pe[to].dead)
        return pe->dead ? WH_ECLOSED : WH_EPEER;
    if (whi_rng_chance(&n->rng, n->refused))
        return WH_ENOMEM;
    net_op *op = net_new(pe, tag, buf, size, opts);
    size_t actual = 0;
    op->packed = malloc(op->size + 1);
    CHECK_EQ_INT(wh_pack(buf, op->count, op->type, 0, op->packed, op->size, 0, &actual), WH_OK);
    whi_list *flying = &n->pair[port->self][to].flying;
    if (op->size > NET_EAGER || whi_rng_chance(&n->rng, 30)) {
        wh_status st = net_ask(pe, op, opts, req);
        if (st == WH_PENDING)
            whi_list_push_back(flying, &op->link);
        n->sent += st == WH_PENDING;
        n->sent_bytes += st == WH_PENDING ? op->size : 0;
        return st;
    }
    whi_list_push_back(flying, &op->link);
    n->sent++;
    n->sent_bytes += op->size;
    return WH_OK;
}

// net_land gives a receive its message, and ends both.
static void net_land(net_op *recv) {
    net_op *send = recv->met;
    size_t size = send->size < recv->size ? send->size : recv->size, actual;
    CHECK_EQ_INT(wh_unpack(send->packed, size, recv->buf, recv->count, recv->type, 0, 0, &actual),
                 WH_OK);
    wh_status st = send->size > recv->size ? WH_ETRUNCATED : WH_OK;
    size = send->size;
    net_end_op(send, WH_OK, size);
    net_end_op(recv, st, size);
}

static void net_meet(net_op *recv, net_op *send) {
    net *n = recv->n;
    whi_list_remove(&send->link);
    whi_list_remove(&recv->link);
    recv->met = send;
    whi_list_push_back(&n->moving, &recv->link);
    if (send->size <= NET_EAGER || whi_rng_chance(&n->rng, 50))
        net_land(recv);
}

static net_op *net_find(whi_list *list, uint64_t tag) {
    whi_list_foreach(node, list) {
        net_op *op = whi_container_of(node, net_op, link);
        if (op->tag == tag)
            return op;
    }
    return NULL;
}

static wh_status net_recv(whi_coll_port *port, uint32_t from, uint64_t tag, void *buf, size_t size,
                          const wh_op_opts *opts, wh_request **req) {
    struct net_pe *pe = whi_container_of(port, struct net_pe, port);
    net *n = pe->n;
    CHECK(from < n->count && from != port->self && (uint32_t)(tag >> 28) == from);
    net_op *send = net_find(&n->pair[from][port->self].arrived, tag);
    if (pe->dead || (n->pe[from].dead && !send))
        return pe->dead ? WH_ECLOSED : WH_EPEER;
    if (whi_rng_chance(&n->rng, n->refused))
        return WH_ENOMEM;
    net_op *recv = net_new(pe, tag, buf, size, opts);
    wh_status st = net_ask(pe, recv, opts, req);
    if (st != WH_PENDING)
        return st;
    whi_list_push_back(&n->pair[from][port->self].receives, &recv->link);
    if (send)
        net_meet(recv, send);
    return WH_PENDING;
}

// net_deliver delivers the first message that is in flight from one PE to another.
static void net_deliver(net *n, uint32_t from, uint32_t to) {
    whi_list *node = whi_list_pop_front(&n->pair[from][to].flying);
    if (!node)
        return;
    net_op *send = whi_container_of(node, net_op, link);
    net_op *recv = net_find(&n->pair[from][to].receives, send->tag);
    whi_list_push_back(&n->pair[from][to].arrived, node);
    if (recv)
        net_meet(recv, send);
}

// net_step lets something happen.
__attribute__((unused)) static void net_step(net *n) {
    for (int i = 0; i < 8; i++)
        net_deliver(n, (uint32_t)whi_rng_below(&n->rng, n->count),
                    (uint32_t)whi_rng_below(&n->rng, n->count));
    if (!whi_list_empty(&n->moving) && whi_rng_chance(&n->rng, 50))
        net_land(whi_container_of(whi_list_first(&n->moving), net_op, link));
    if (whi_rng_chance(&n->rng, 70))
        wh_worker_progress(n->worker);
}

static void net_fail_all(whi_list *list, wh_status st) {
    whi_list *node;
    while ((node = whi_list_first(list)))
        net_end_op(whi_container_of(node, net_op, link), st, 0);
}

__attribute__((unused)) static void net_kill(net *n, uint32_t dead) {
    n->pe[dead].dead = true;
    while (!whi_list_empty(&n->moving))
        net_land(whi_container_of(whi_list_first(&n->moving), net_op, link));
    for (uint32_t other = 0; other < n->count; other++) {
        while (whi_rng_chance(&n->rng, 50))
            net_deliver(n, dead, other);
        net_fail_all(&n->pair[dead][other].flying, WH_ECLOSED);
        net_fail_all(&n->pair[dead][other].receives, WH_EPEER);
        net_fail_all(&n->pair[other][dead].flying, WH_EPEER);
        net_fail_all(&n->pair[other][dead].arrived, WH_EPEER);
        net_fail_all(&n->pair[other][dead].receives, WH_ECLOSED);
        // What has arrived as a whole can be received, up to the first that went with its sender.
        bool gone = false;
        whi_list_foreach(node, &n->pair[dead][other].arrived) {
            net_op *send = whi_container_of(node, net_op, link);
            gone |= send->req != NULL;
            if (gone)
                net_end_op(send, WH_ECLOSED, 0);
        }
    }
}

// net_left says how many messages and receives there are.
__attribute__((unused)) static size_t net_left(const net *n) {
    size_t left = !whi_list_empty(&n->moving);
    for (uint32_t a = 0; a < n->count; a++)
        for (uint32_t b = 0; b < n->count; b++)
            left += !whi_list_empty(&n->pair[a][b].flying) +
                    !whi_list_empty(&n->pair[a][b].arrived) +
                    !whi_list_empty(&n->pair[a][b].receives);
    return left;
}

__attribute__((unused)) static size_t net_under_way(const net *n) {
    size_t count = 0;
    for (uint32_t pe = 0; pe < n->count; pe++)
        count += n->pe[pe].port.under_way;
    return count;
}

__attribute__((unused)) static void net_begin(net *n, uint32_t count, uint64_t seed,
                                              uint64_t message_bytes) {
    static const whi_coll_port_ops ops = {.send = net_send, .recv = net_recv};
    CHECK_EQ_INT(wh_context_create(NULL, &n->ctx), WH_OK);
    CHECK_EQ_INT(wh_worker_create(n->ctx, NULL, &n->worker), WH_OK);
    whi_rng_init(&n->rng, seed);
    n->count = count;
    n->sent = n->sent_bytes = n->refused = 0;
    whi_list_init(&n->moving);
    for (uint32_t a = 0; a < count; a++) {
        n->pe[a].n = n;
        n->pe[a].dead = false;
        whi_coll_port_init(&n->pe[a].port, &ops, n->worker, a, count, 1);
        n->pe[a].port.message_bytes = message_bytes;
        for (uint32_t b = 0; b < count; b++) {
            whi_list_init(&n->pair[a][b].flying);
            whi_list_init(&n->pair[a][b].arrived);
            whi_list_init(&n->pair[a][b].receives);
        }
    }
}

__attribute__((unused)) static void net_end(net *n) {
    for (uint32_t a = 0; a < n->count; a++)
        for (uint32_t b = 0; b < n->count; b++)
            net_fail_all(&n->pair[a][b].arrived, WH_ECLOSED);
    wh_worker_destroy(n->worker);
    wh_context_destroy(n->ctx);
}

#endif
