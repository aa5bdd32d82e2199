// SPDX-License-Identifier: BSD-3-Clause
//
// Receives of buffers, which may be posted before their sender has connected: then they are requests of ours until it has.
#include <wherry/layer.h>
#include <wherry/tag.h>
#include <wherry/type.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "rt/wire/state.h"

typedef struct early {
    whi_list link;  // of its peer, until it is posted
    whi_peer *peer;
    void *buf;
    size_t size;
    uint64_t tag;
    wh_op_opts opts;    // of the engine's receive
    wh_request *ours;   // the user's
    wh_request *inner;  // the engine's, once it is posted
    wh_status why;      // it was asked to end early; WH_OK: it was not
} early;

static void free_early(early *e) {
    wh_type_release((wh_type *)(uintptr_t)e->opts.type);
    whi_free(e);
}

static void finish(early *e, const wh_result *result, const char *sentence) {
    whi_list_remove(&e->link);
    // It fails only for what is no request of a layer, or has completed.
    if (wh_request_complete(e->ours, result, sentence) != WH_OK)
        return;
    wh_request_free(e->inner);
    free_early(e);
}

static void on_received(wh_request *req, const wh_result *result, void *arg) {
    early *e = arg;
    wh_result own = *result;
    if (own.status == WH_ECANCELLED && e->why != WH_OK)
        own.status = e->why;
    bool same = own.status == result->status;  // else its sentence is about being cancelled
    finish(e, &own, own.status < 0 && req && same ? wh_request_error(req) : NULL);
}

static void post(early *e) {
    wh_result result = {.status = WH_OK};
    e->opts.done = on_received;
    e->opts.arg = e;
    e->opts.result = &result;
    wh_status st = wh_tag_recv(e->peer->in[WHI_USE_DATA], e->buf, e->size, e->tag, WH_TAG_MASK_ALL,
                               &e->opts, &e->inner);
    if (st == WH_PENDING)
        return;
    result.status = st;
    finish(e, &result, NULL);
}

static void on_cancel(wh_request *req, wh_status why, void *state) {
    (void)req;
    early *e = state;
    e->why = why;
    if (e->inner)
        wh_request_cancel(e->inner);
    else
        finish(e, &(wh_result){.status = why}, NULL);
}

void whi_peer_receive(whi_peer *peer) {
    whi_list all;
    whi_list_take(&all, &peer->receives);
    whi_list *node;
    while ((node = whi_list_pop_front(&all)))
        post(whi_container_of(node, early, link));
}

void whi_peer_fail_receives(whi_peer *peer, wh_status why) {
    whi_list all;
    whi_list_take(&all, &peer->receives);
    whi_list *node;
    while ((node = whi_list_pop_front(&all)))
        finish(whi_container_of(node, early, link), &(wh_result){.status = why},
               "its sender is lost, or this PE leaves the job");
}

static wh_status wait_for_peer(whi_peer *peer, early *e, const wh_op_opts *opts, bool wanted) {
    wh_status st = wh_request_create(
        peer->wire->worker, WH_LAYER_OPS(.text = "receive of a buffer", .cancel = on_cancel), e,
        opts, wanted, &e->ours);
    if (st != WH_OK) {
        free_early(e);
        return st;
    }
    whi_list_push_back(&peer->receives, &e->link);
    return WH_PENDING;
}

wh_status whi_wire_recv(whi_wire *wire, int source, void *buf, size_t size, uint64_t tag,
                        const wh_op_opts *opts, wh_request **req) {
    whi_peer *peer;
    wh_status st = whi_wire_peer(wire, source, &peer);
    if (st == WH_OK)
        st = peer->lost;
    if (st == WH_OK && wire->closed)
        st = WH_ECLOSED;
    if (st != WH_OK)
        return st;
    if (peer->in[WHI_USE_DATA])
        return wh_tag_recv(peer->in[WHI_USE_DATA], buf, size, tag, WH_TAG_MASK_ALL, opts, req);
    WHI_OPTS(wh_op_opts, opts);
    early *e = whi_calloc(1, sizeof(*e));
    if (!e)
        return WH_ENOMEM;
    *e = (early){.peer = peer, .buf = buf, .size = size, .tag = tag};
    e->opts = opts ? *opts : (wh_op_opts){.size = sizeof(wh_op_opts)};
    e->opts.timeout_ms = -1;
    (void)wh_type_retain((wh_type *)(uintptr_t)e->opts.type);
    st = wait_for_peer(peer, e, opts, req != NULL);
    if (st == WH_PENDING && req)
        *req = e->ours;
    return st;
}

wh_status whi_wire_take(whi_wire *wire, int source, uint64_t tag, wh_result *result,
                        wh_message **msg) {
    whi_peer *peer;
    wh_status st = whi_wire_peer(wire, source, &peer);
    if (st == WH_OK && (peer->lost != WH_OK || !peer->in[WHI_USE_DATA]))
        st = WH_ENOTFOUND;
    return st == WH_OK ? wh_tag_take(peer->in[WHI_USE_DATA], tag, WH_TAG_MASK_ALL, result, msg)
                       : st;
}
