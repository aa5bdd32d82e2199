// SPDX-License-Identifier: BSD-3-Clause
//
// Flush: it completes behind all that its endpoint has sent and written before.
//
// A record in the endpoint's order, which the peer answers; before it goes, payloads that were granted have moved, and what
// went through UCX is there.  The answer brings home the error of an access that was done for us already.
#include "message/deliver.h"
#include "message/recv.h"
#include "message/send.h"
#include "rma/native.h"
#include "rma/rma.h"

// What the request of a flush has of its own.
typedef struct flush_own {
    uint64_t native;    // accesses through UCX that it is behind
    uint64_t accesses;  // records of accesses that its own was sent behind
    uint64_t all;       // to_flush then
} flush_own;
static_assert(sizeof(flush_own) <= WHI_REQ_OWN, "it fits");

static flush_own *flush_of(const wh_request *req) {
    return (flush_own *)(uintptr_t)req->own;
}

// payload_moves says whether a payload that was granted before the flush is under way, or a large put has yet to be granted.
static bool payload_moves(const wh_endpoint *ep, uint64_t before) {
    for (const whi_list *node = ep->ops.next; node != &ep->ops; node = node->next) {
        const wh_request *r = whi_container_of((whi_list *)(uintptr_t)node, wh_request, op_link);
        bool put = r->ops == &whi_put_ops;
        bool sends =
            r->ops->moved && r->stage == WHI_STAGE_MOVING && !(put && whi_access_of(r)->native);
        if ((sends || (put && r->stage == WHI_STAGE_ANNOUNCED)) && r->serial < before)
            return true;
    }
    return false;
}

// to_flush counts all that a flush has to be behind: messages, accesses, and what was granted since.
static uint64_t to_flush(const wh_endpoint *ep) {
    return ep->counters.sent_messages + whi_memory_at(ep)->accesses + ep->bulk_serial;
}

static wh_status start(wh_request *req) {
    wh_endpoint *ep = req->ep;
    flush_own *own = flush_of(req);
    if (!req->serial) {
        req->serial = ep->bulk_serial;  // above all granted so far; serials begin at 1
        own->native = whi_memory_at(ep)->native;
    }
    if (payload_moves(ep, req->serial) || !whi_native_settled(ep, own->native))
        return WH_EBUSY;
    if (whi_memory_at(ep)->flushed == to_flush(ep))
        return WH_OK;  // nothing was sent since the last flush that was answered
    wh_status st = whi_send_name(req);
    if (st != WH_OK)
        return st;
    whi_hdr hdr = {.cls = WHI_CLASS_FLUSH, .tag = req->send_id};
    st = whi_send_ordered(ep, &hdr, NULL);
    if (st != WH_OK) {
        whi_send_unname(req);
        return st;
    }
    own->all = to_flush(ep);
    own->accesses = whi_memory_at(ep)->accesses;
    req->stage = WHI_STAGE_ANSWER;
    return WH_PENDING;
}

static const whi_req_ops flush_ops = {.text = "flush",
                                      .post = whi_send_post,
                                      .start = start,
                                      .withdraw = whi_send_withdraw,
                                      .match = WHI_MATCH_NONE,
                                      .holds_close = true};

wh_status wh_endpoint_flush(wh_endpoint *ep, const wh_op_opts *opts, wh_request **out) {
    if (!ep)
        return WH_EINVAL;
    WHI_OP_OPTS(opts);
    wh_request *req = whi_req_new(ep->worker, ep, &flush_ops, opts, out != NULL);
    return req ? whi_req_start(req, opts, out) : WH_ENOMEM;
}

wh_status wh_endpoint_flush_wait(wh_endpoint *ep, int timeout_ms) {
    wh_status st = ep ? whi_req_may_wait(ep->worker) : WH_EINVAL;
    if (st != WH_OK)
        return st;
    wh_request *req = NULL;
    st = wh_endpoint_flush(ep, NULL, &req);
    return st == WH_PENDING ? whi_req_wait_result(req, timeout_ms, NULL) : st;
}

// end_late ends a flush with the error of a remote access before it.
static void end_late(wh_request *req) {
    wh_status why = whi_memory_at(req->ep)->late_error;
    whi_memory_at(req->ep)->late_error = WH_OK;
    whi_req_fail(req, why, "flush: a put or atomic before it has failed at %s: %s",
                 req->ep->link->name, wh_status_text(why));
}

// note_error keeps what a flush has brought home for whoever flushes, this one or, if it was cancelled, the next.
static wh_status note_error(whi_link *link, const whi_hdr *hdr) {
    int64_t status = (int64_t)hdr->arg;
    if (status > 0 || status < WHI_STATUS_LAST)
        return WH_EPROTOCOL;
    wh_endpoint *ep = whi_ep_of_number(link, hdr->ep);
    if (ep && whi_memory_at(ep)->late_error == WH_OK)
        whi_memory_at(ep)->late_error = (wh_status)status;
    return WH_OK;
}

static wh_status on_flush_ack(whi_link *link, const whi_hdr *hdr, const void *payload) {
    (void)payload;
    if (note_error(link, hdr) != WH_OK)
        return WH_EPROTOCOL;
    wh_request *req = whi_idmap_get(&whi_messages_on(link)->sends, (uint32_t)hdr->tag);
    if (!req)
        return WH_OK;
    if (req->ops != &flush_ops || req->ep->number != hdr->ep || req->stage != WHI_STAGE_ANSWER)
        return WH_EPROTOCOL;
    whi_memory_at(req->ep)->flushed = flush_of(req)->all;
    whi_rma_served(req->ep, flush_of(req)->accesses);
    if (whi_memory_at(req->ep)->late_error != WH_OK)
        end_late(req);
    else
        whi_req_complete(req, WH_OK);
    return WH_OK;
}

static wh_status on_flush(wh_endpoint *ep, const whi_hdr *hdr, const void *payload) {
    (void)payload;
    whi_hdr ack = {.cls = WHI_CLASS_FLUSH_ACK,
                   .ep = ep->number,
                   .tag = hdr->tag,
                   .arg = (uint64_t)(int64_t)whi_memory_at(ep)->serve_error};
    whi_memory_at(ep)->serve_error = WH_OK;
    whi_link_control(ep->link, &ack, NULL);
    return WH_OK;
}

void whi_flush_init(wh_worker *worker) {
    whi_control_on(worker, WHI_CLASS_FLUSH_ACK, on_flush_ack, 0);
    whi_ordered_on(worker, WHI_CLASS_FLUSH, on_flush);
}
