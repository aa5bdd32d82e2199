// SPDX-License-Identifier: BSD-3-Clause
//
// Long messages, see long.h.
//
// One is matched when its header has come, as any message in its turn, and its payload goes straight from the lane into
// the receive's buffer.  Without a receive it becomes a kept message whose payload is on its way, as one that is
// prefetched (ahead.c) is.  So does one whose handler wants its payload later.  It costs credit as a small one does, so that a peer's endpoint never holds more than that allows.
#include "message/long.h"

#include <string.h>

#include "message/behind.h"
#include "message/offer.h"
#include "message/recv.h"

enum {
    // Credit that long messages leave to small ones, so that those are not announced because of them.
    RESERVE = 32 * 1024,
};

uint64_t whi_long_size(const wh_request *req) {
    const wh_endpoint *ep = req->ep;
    uint64_t size = req->buf.size;
    bool takes = req->ops->cls == WHI_CLASS_AM ? ep->link->peer.features & WHI_FEATURE_FOLLOWED
                                               : req->ops->cls == WHI_CLASS_TAG;
    // A synchronous one waits for its match anyhow.
    return takes && !req->sync && req->buf.kind == WH_MEM_HOST && size <= WHI_LONG_MAX ? size : 0;
}

bool whi_long_may(const wh_request *req, size_t prefix) {
    const wh_endpoint *ep = req->ep;
    uint64_t size = whi_long_size(req);
    uint64_t cost = prefix + size + (req->ops->cls == WHI_CLASS_AM ? 2 : 1) * WHI_MESSAGE_COST;
    if (!size || size > whi_lane_long_limit(ep->lane) || ep->credit < (int64_t)(cost + RESERVE))
        return false;
    return !whi_offer_may(req) || ep->announced >= ep->announce_limit ||
           whi_lane_long_better(ep->lane, size);
}

void whi_long_awaited(wh_endpoint *ep, uint8_t flags, uint64_t size) {
    uint64_t most = whi_lane_long_limit(ep->link->rx);
    most = most < WHI_LONG_MAX ? most : WHI_LONG_MAX;
    if (size && !(flags & WHI_FLAG_SYNC) && (size <= most || size <= ep->link->eager_max))
        whi_ep_raise_credit(ep, size + 2 * WHI_MESSAGE_COST);
}

// into_short takes a payload that is longer than the receive's buffer.
static void into_short(void *ctx, uint64_t offset, void *host, size_t size) {
    whi_buffer *buf = ctx;
    if (offset >= buf->size)
        return;
    uint64_t fits = buf->size - offset;
    if (fits > size)
        fits = size;
    whi_span to = whi_buffer_sink(buf, offset);
    if (to.ptr)
        memcpy(to.ptr, host, fits);
    else
        to.move(to.ctx, to.base, host, fits);
}

// moves has a receive wait for a payload that is on its way.
static void moves(wh_request *req, uint64_t tag, uint64_t size) {
    req->stage = WHI_STAGE_MOVING;
    req->part = WHI_PART_DATA;
    req->accept = req->length = size;
    req->moved = 0;
    req->segment = 0;
    req->result.size = size;
    req->result.tag = tag;
}

// place finds where it goes; where `span` is left alone it is thrown away.
static void place(wh_request *req, uint64_t size, whi_span *span) {
    wh_status ready = whi_behind_state(req);
    if (ready == WH_PENDING) {
        span->ptr = whi_behind_keep(req, size);
        ready = span->ptr ? WH_OK : WH_ENOMEM;
    }
    if (ready != WH_OK)
        req->buf.failed = (int16_t)ready;
    if (ready != WH_OK || whi_behind_kept(req))
        return;
    *span = size > req->buf.size ? (whi_span){.move = into_short, .ctx = &req->buf}
                                 : whi_buffer_sink(&req->buf, 0);
}

wh_request *whi_long_begin(wh_endpoint *ep, const whi_hdr *hdr, whi_span *span) {
    whi_match *m = &whi_messages_of(ep->worker)->match[WHI_MATCH_TAG];
    wh_request *req = whi_match_message(m, &ep->match[WHI_MATCH_TAG], ep, hdr->tag);
    if (req)
        whi_recv_bind(req, ep);
    else
        req = whi_ahead_keep(ep, hdr);
    if (!req)
        return NULL;
    req->arrival = m->next_message;
    moves(req, hdr->tag, hdr->size);
    if (whi_recv_clashes(req, hdr->aux, hdr->size))
        req->buf.failed = WH_ETYPE;  // what comes is thrown away
    else
        place(req, hdr->size, span);
    return req;
}

bool whi_long_announced(wh_endpoint *ep, const whi_hdr *hdr) {
    if (hdr->cls != WHI_CLASS_AM || hdr->flags != WHI_FLAG_FOLLOWED || !hdr->arg ||
        hdr->arg > UINT32_MAX || !whi_lane_long_limit(ep->link->rx))
        return false;
    ep->rx_window -= (int64_t)hdr->arg + WHI_MESSAGE_COST;
    whi_messages_on(ep->link)->follows =
        (whi_follows){.ep = ep->number, .size = (uint32_t)hdr->arg};
    return true;
}

void whi_long_expect(wh_request *req, uint64_t size) {
    whi_link_messages *on = whi_messages_on(req->ep->link);
    moves(req, 0, size);
    if (whi_idmap_put(&on->grants, req, &req->grant_id) == WH_OK)
        on->follows.grant = req->grant_id;
    else
        whi_req_fail(req, WH_ENOMEM, "%s: no memory to receive its payload", whi_req_text(req));
}

wh_status whi_long_follow(wh_endpoint *ep, const whi_hdr *hdr, whi_span *span, wh_request **req) {
    whi_follows *follows = &whi_messages_on(ep->link)->follows;
    if (follows->ep != hdr->ep || follows->size != hdr->size)
        return whi_link_broken(ep->link, hdr, "a payload that belongs to no active message");
    *req =
        follows->grant ? whi_idmap_get(&whi_messages_on(ep->link)->grants, follows->grant) : NULL;
    *follows = (whi_follows){.ep = 0};
    if (*req)
        place(*req, hdr->size, span);
    else
        whi_ep_give_credit(ep, hdr->size + WHI_MESSAGE_COST);
    return WH_OK;
}

void whi_long_landed(wh_request *req, const whi_hdr *hdr) {
    wh_endpoint *ep = req->ep;
    bool kept = whi_ahead_brings(req);  // then the message gives its credit back
    wh_status st = whi_recv_landed(req, hdr);
    assert(st == WH_OK);  // it is just as long as its receive expects
    (void)st;
    if (!kept)
        whi_ep_give_credit(ep, hdr->size + WHI_MESSAGE_COST);
}
