// SPDX-License-Identifier: BSD-3-Clause
//
// Long messages, see long.h.
//
// One is matched when its header has come, as any message in its turn, and its payload goes straight from the lane into
// the receive's buffer.  Without a receive it becomes a kept message whose payload is on its way, as one that is
// prefetched (ahead.c) is.  It costs credit as a small one does, so that a peer's endpoint never holds more than that allows.
#include "message/long.h"

#include <string.h>

#include "message/behind.h"
#include "message/recv.h"

enum {
    // Credit that long messages leave to small ones, so that those are not announced because of them.
    RESERVE = 32 * 1024,
};

bool whi_long_may(const wh_request *req) {
    const wh_endpoint *ep = req->ep;
    uint64_t size = req->buf.size;
    // A synchronous one waits for its match anyhow.
    return req->ops->cls == WHI_CLASS_TAG && !req->sync && req->buf.kind == WH_MEM_HOST &&
           size <= WHI_LONG_MAX && size <= whi_lane_long_limit(ep->lane) &&
           ep->credit >= (int64_t)(size + WHI_MESSAGE_COST + RESERVE);
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
    req->stage = WHI_STAGE_MOVING;
    req->part = WHI_PART_DATA;
    req->accept = req->length = hdr->size;
    req->moved = 0;
    req->segment = 0;
    req->result.size = hdr->size;
    req->result.tag = hdr->tag;
    if (whi_recv_clashes(req, hdr->aux, hdr->size)) {
        req->buf.failed = WH_ETYPE;
        return req;  // what comes is thrown away
    }
    wh_status ready = whi_behind_state(req);
    if (ready == WH_PENDING) {
        span->ptr = whi_behind_keep(req, hdr->size);
        ready = span->ptr ? WH_OK : WH_ENOMEM;
    }
    if (ready != WH_OK)
        req->buf.failed = (int16_t)ready;
    if (ready != WH_OK || whi_behind_kept(req))
        return req;
    *span = hdr->size > req->buf.size ? (whi_span){.move = into_short, .ctx = &req->buf}
                                      : whi_buffer_sink(&req->buf, 0);
    return req;
}

void whi_long_landed(wh_request *req, const whi_hdr *hdr) {
    wh_endpoint *ep = req->ep;
    bool kept = req->ops->match == WHI_MATCH_NONE;  // then the message gives its credit back
    wh_status st = whi_recv_landed(req, hdr);
    assert(st == WH_OK);  // it is just as long as its receive expects
    (void)st;
    if (!kept)
        whi_ep_give_credit(ep, hdr->size + WHI_MESSAGE_COST);
}
