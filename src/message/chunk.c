// SPDX-License-Identifier: BSD-3-Clause
//
// Chunks of payloads that were granted: where each goes, and what follows when it is there.
//
// A lane that does not lend has at most one chunk between its sink and its landing.  One that lends may have many, in both
// directions, and gives each back; until it has, neither the request nor the link may go.
#include <string.h>

#include "message/bulk_lane.h"
#include "message/deliver.h"
#include "message/device_offer.h"
#include "message/endpoint.h"
#include "message/long.h"
#include "message/recv.h"
#include "message/send.h"
#include "message/stage.h"

static void throw_away(void *ctx, uint64_t offset, void *host, size_t size) {
    (void)ctx, (void)offset, (void)host, (void)size;
}

static void copy_in(void *ctx, uint64_t offset, void *host, size_t size) {
    memcpy((char *)ctx + offset, host, size);
}

// is_lendable says whether a lane may be lent the place of a chunk.
static bool is_lendable(const wh_request *req) {
    return !req->ops->lendable || req->ops->lendable(req);
}

// hold notes a chunk that a lane that lends has from now on.
static void hold(whi_link *link, wh_request *req, bool lends) {
    whi_messages_on(link)->held += lends;
    if (req)
        req->held += lends;
}

// stages says whether a chunk goes to device memory by way of a chunk of staging.
static bool stages(whi_link *link, wh_request *req, const whi_hdr *hdr, bool lends,
                   whi_span *span) {
    whi_buffer *buf = whi_buffer_of_sink(span);
    return buf && !buf->failed && whi_stage_sink(link, req, buf, span->base, hdr, lends, span);
}

// may_keep says whether a lane may keep memory for good when the peer dies.  UCX does over shared memory; where a link's
// messages go over it, too, that is the price of a setting, but nobody asks for that beside another lane.
static bool may_keep(const whi_link *link, const whi_lane *lane) {
    return lane == link->bulk.lane && link->bulk.same_host;
}

// is_direct has the lane put a chunk into device memory by itself, if it can.
static bool is_direct(const whi_link *link, const whi_lane *lane, const wh_request *req,
                      whi_span *span) {
    const whi_buffer *buf = whi_buffer_of_sink(span);
    if (!buf || buf->failed || !is_lendable(req) || may_keep(link, lane) ||
        !whi_bulk_is_direct(link, lane, buf))
        return false;
    *span = (whi_span){.ptr = (char *)buf->ptr + span->base, .kind = buf->kind};
    return true;
}

// sink finds the place of a chunk.  *landing is the receive that is to hear of it when the lane does not lend.
static wh_status sink(whi_link *link, const whi_lane *lane, const whi_hdr *hdr, whi_span *span,
                      wh_request **landing) {
    wh_request *req = whi_idmap_get(&whi_messages_on(link)->grants, hdr->ep);
    bool lends = lane->ops->lends;
    *landing = NULL;
    if (whi_stage_out(link, hdr))
        return whi_link_broken(link, hdr, "a chunk that is on its way already");
    // One that a copy or a lane has still, and that has ended, is ended by that.
    if (!req || req->fate == WHI_FATE_RETURNED) {
        // Granted once, and ended meanwhile; without a context it is nobody's.
        *span = (whi_span){.move = throw_away, .ctx = req};
        hold(link, lends ? req : NULL, lends);
        return WH_OK;
    }
    if (whi_bulk_granted(req) != (lane != link->rx))
        return whi_link_broken(link, hdr, "a chunk over another lane than was granted");
    if (req->ops->sink(req, hdr, span) != WH_OK)
        return whi_link_broken(link, hdr, "a chunk that does not fit what was granted");
    bool keeps = lane->ops->lends && may_keep(link, lane);
    bool copied = lane->ops->lends && !is_lendable(req);
    if (req->disowned) {
        *span = (whi_span){.move = throw_away, .ctx = req};
    } else if (!is_direct(link, lane, req, span) && stages(link, req, hdr, lends, span)) {
        lends = true;  // until it is stored
        copied = false;
    }
    if (span->ptr && !span->kind && (copied || keeps))
        *span = (whi_span){.move = copy_in, .ctx = span->ptr};
    if (!lends)
        *landing = req;
    hold(link, req, lends);
    return WH_OK;
}

wh_status whi_chunk_sink(void *arg, const whi_hdr *hdr, whi_span *span) {
    whi_link *link = arg;
    if (link->dead)
        return WH_EPEER;
    if (hdr->cls == WHI_CLASS_LONG) {
        *span = (whi_span){.move = throw_away};
        whi_messages_on(link)->landing = NULL;
        return whi_deliver_long(link, hdr, span, &whi_messages_on(link)->landing);
    }
    return sink(link, link->rx, hdr, span, &whi_messages_on(link)->landing);
}

wh_status whi_chunk_sink_beside(void *arg, const whi_hdr *hdr, whi_span *span) {
    whi_link *link = arg;
    wh_request *none;  // the lane lends
    return link->dead ? WH_EPEER : sink(link, link->bulk.lane, hdr, span, &none);
}

wh_status whi_chunk_not_one(void *arg, const whi_hdr *hdr, const void *payload) {
    (void)payload;
    return whi_link_broken(arg, hdr, "the bulk lane takes chunks only");
}

// let_go takes such a chunk of a receive back.  It returns the receive if it goes on with it, or NULL; one that has ended
// meanwhile is let go with its last chunk.
static wh_request *let_go(whi_link *link, wh_request *req) {
    whi_messages_on(link)->held--;
    if (req && --req->held == 0 && req->fate != WHI_FATE_GOES_ON) {
        if (req->fate == WHI_FATE_RETURNED)
            whi_ep_returned(req);
        else
            whi_recv_end_withdrawn(req);
        whi_link_maybe_close(link);
        return NULL;
    }
    return req && req->fate != WHI_FATE_RETURNED ? req : NULL;
}

// unhold does so with one that a lane gives back.
static wh_request *unhold(whi_link *link, const whi_hdr *hdr) {
    // The id of a receive that holds chunks stays in use, and one that was gone at `sink` never comes back.
    return let_go(link, whi_idmap_get(&whi_messages_on(link)->grants, hdr->ep));
}

void whi_chunk_lost(void *arg, const whi_hdr *hdr) {
    (void)whi_stage_unfilled(arg, hdr);
    (void)unhold(arg, hdr);
}

// land tells a request of a chunk that is in its memory.
static wh_status land(whi_link *link, wh_request *req, const whi_hdr *hdr) {
    bool beyond = req->moved + hdr->size > req->accept;
    if (whi_bulk_granted(req) && req->moved + hdr->size == req->accept)
        whi_recv_answer(req->ep, req->send_id, WH_OK);
    if (req->ops->landed(req, hdr) == WH_OK)
        return WH_OK;
    return whi_link_broken(link, hdr,
                           beyond ? "more bytes than were granted"
                                  : "the head of an object that cannot be");
}

// land_held does so when others of its chunks may be with a lane or under way to a device: it is not the last then.
static wh_status land_held(whi_link *link, wh_request *req, const whi_hdr *hdr) {
    if (req->held && req->moved + hdr->size >= req->accept)
        return whi_link_broken(link, hdr, "chunks beyond what was granted");
    return land(link, req, hdr);
}

// lent_landed is whi_chunk_landed for a lane that lends.
static wh_status lent_landed(whi_link *link, const whi_hdr *hdr) {
    wh_request *req = unhold(link, hdr);
    if (!req || link->dead)
        return link->dead ? WH_EPEER : WH_OK;
    return land_held(link, req, hdr);
}

wh_status whi_chunk_landed_beside(void *arg, const whi_hdr *hdr) {
    return whi_stage_filled(arg, hdr) ? WH_OK : lent_landed(arg, hdr);
}

void whi_chunk_stored(whi_link *link, wh_request *req, const whi_hdr *hdr) {
    wh_request *on = let_go(link, req);
    wh_status st = on ? land_held(link, on, hdr) : WH_OK;
    if (st != WH_OK)
        whi_link_doom(link, st);
}

void whi_chunk_dropped(whi_link *link, wh_request *req) {
    (void)let_go(link, req);
}

void whi_chunk_sent(void *arg, const whi_hdr *hdr) {
    whi_link *link = arg;
    whi_messages_on(link)->held--;
    wh_request *req = whi_idmap_get(&whi_messages_on(link)->loans, (uint32_t)hdr->tag);
    assert(req && req->held);
    whi_stage_sent(req, hdr);
    if (--req->held == 0)
        whi_send_unheld(link, req);
}

wh_status whi_chunk_landed(void *arg, const whi_hdr *hdr) {
    whi_link *link = arg;
    if (hdr->cls == WHI_CLASS_CHUNK && whi_stage_filled(link, hdr))
        return WH_OK;
    if (link->rx->ops->lends)
        return lent_landed(link, hdr);
    wh_request *req = whi_messages_on(link)->landing;
    whi_messages_on(link)->landing = NULL;
    if (!req)
        return WH_OK;
    if (req->ep->state == WHI_EP_CLOSED) {
        // The endpoint ended while the chunk was on its way; only now is the buffer free.
        whi_ep_returned(req);
        whi_link_maybe_close(link);
        return WH_OK;
    }
    if (hdr->cls == WHI_CLASS_LONG) {
        whi_long_landed(req, hdr);
        return WH_OK;
    }
    return land_held(link, req, hdr);
}

void whi_chunk_link_ended(whi_link *link) {
    whi_stage_settle(link->worker, NULL, NULL, link);
    // One that failed in its making has no lane yet.
    const whi_hdr *out;
    while ((out = whi_stage_first_out(link))) {
        whi_hdr hdr = *out;
        whi_chunk_lost(link, &hdr);
    }
    whi_device_offer_link_ended(link);
}
