// SPDX-License-Identifier: BSD-3-Clause
//
// The payload of a receive that has matched, see recv.h: copied from where it is, fetched, or asked for.
//
// Lengths are compared here and nowhere else: never more than the buffer holds is asked for or written.
#include <string.h>

#include "message/behind.h"
#include "message/bulk_lane.h"
#include "message/device_offer.h"
#include "message/long.h"
#include "message/offer.h"
#include "message/plain.h"
#include "message/recv.h"

void whi_recv_answer(wh_endpoint *ep, uint32_t send_id, wh_status status) {
    if (!ep->link || ep->link->dead)
        return;
    whi_hdr hdr = {
        .cls = WHI_CLASS_ACK, .ep = ep->number, .tag = send_id, .arg = (uint64_t)(int64_t)status};
    whi_link_control(ep->link, &hdr, NULL);
}

wh_status whi_recv_copy(wh_request *req, uint64_t tag, const void *payload, uint64_t size) {
    const whi_buffer *buf = &req->buf;
    uint64_t fits = size < buf->size ? size : buf->size;
    req->result.size = size;
    req->result.tag = tag;
    wh_status st = WH_OK;
    if (buf->direct)
        whi_plain_copy(buf->ptr, payload, fits);
    else
        st = whi_buffer_write(buf, 0, payload, fits);
    if (st != WH_OK)
        return st;
    return size > buf->size ? WH_ETRUNCATED : WH_OK;
}

void whi_recv_finish(wh_request *req, wh_status st) {
    req->ep->counters.unpacked += !req->buf.direct && (st == WH_OK || st == WH_ETRUNCATED);
    if (st == WH_OK)
        whi_req_complete(req, WH_OK);
    else if (st == WH_ETYPE)
        whi_req_fail(req, st,
                     "%s of tag 0x%llx: the message of %llu bytes holds other elements than the "
                     "receive's type; give both sides the same, or one of them WH_OP_UNTYPED",
                     whi_req_text(req), (unsigned long long)req->result.tag,
                     (unsigned long long)req->result.size);
    else if (st != WH_ETRUNCATED)
        whi_req_fail(req, st, "%s: its memory cannot be written: %s", whi_req_text(req),
                     wh_status_text(st));
    else
        whi_req_fail(req, st, "%s: the message has %llu bytes, the buffer %llu", whi_req_text(req),
                     (unsigned long long)req->result.size, (unsigned long long)req->buf.size);
}

// land_kept does so with a payload that has waited for the caller's stream.
static void land_kept(wh_request *req) {
    wh_status st = whi_behind_state(req);
    const whi_behind *behind = req->behind;
    if (st == WH_PENDING)
        whi_behind_await(req, land_kept);
    else
        whi_recv_finish(
            req, st == WH_OK ? whi_recv_copy(req, req->result.tag, behind->kept, behind->kept_size)
                             : st);
}

void whi_recv_land(wh_request *req, uint64_t tag, const void *payload, uint64_t size) {
    wh_status st = whi_behind_state(req);
    if (st == WH_OK) {
        whi_recv_finish(req, whi_recv_copy(req, tag, payload, size));
        return;
    }
    req->result.size = size;
    req->result.tag = tag;
    void *kept = st == WH_PENDING ? whi_behind_keep(req, size) : NULL;
    if (!kept) {
        whi_recv_finish(req, st == WH_PENDING ? WH_ENOMEM : st);
        return;
    }
    if (size)
        memcpy(kept, payload, size);
    whi_behind_await(req, land_kept);
}

void whi_recv_grant(wh_request *req, int part, uint64_t accept) {
    wh_endpoint *ep = req->ep;
    whi_link *link = ep->link;
    req->part = (uint8_t)part;
    req->accept = accept;
    req->moved = 0;
    req->segment = 0;
    if (accept && !req->grant_id &&
        whi_idmap_put(&whi_messages_on(link)->grants, req, &req->grant_id) != WH_OK) {
        whi_recv_answer(ep, req->send_id, WH_EREJECTED);
        whi_req_fail(req, WH_ENOMEM, "%s: no memory to ask for the payload", whi_req_text(req));
        return;
    }
    bool device = part == WHI_PART_DATA && whi_device_offer_may_come(req);
    req->device = device ? WHI_DEVICE_DIRECT : WHI_DEVICE_STAGED;
    bool by_bulk = part == WHI_PART_DATA && whi_bulk_takes(req, accept);
    req->bulk = (uint8_t)((req->bulk & WHI_BULK_WISHED) | (by_bulk ? WHI_BULK_GRANTED : 0));
    if (by_bulk)
        whi_link_bulk_busy(link);
    whi_hdr hdr = {.cls = WHI_CLASS_GRANT,
                   .flags = (uint8_t)((device ? WHI_FLAG_TAKES_DEVICE : 0) |
                                      (by_bulk ? WHI_FLAG_BULK_LANE : 0)),
                   .aux = (uint16_t)part,
                   .ep = ep->number,
                   .tag = req->send_id | (uint64_t)req->grant_id << 32,
                   .arg = accept};
    req->stage = WHI_STAGE_MOVING;
    whi_link_control(link, &hdr, NULL);
}

static void ask_again(wh_request *req);

// may_ask says whether a receive may ask for its payload.  One whose stream has not come to it asks later, so that what it would
// get takes no place meanwhile.
static bool may_ask(wh_request *req) {
    wh_status st = whi_behind_state(req);
    if (st == WH_OK)
        return true;
    if (st == WH_PENDING) {
        whi_behind_await(req, ask_again);
    } else {
        whi_recv_answer(req->ep, req->send_id, WH_EREJECTED);
        whi_recv_finish(req, st);
    }
    return false;
}

// fitting returns how much of an announced message fits.
static uint64_t fitting(const wh_request *req) {
    return req->length < req->buf.size ? req->length : req->buf.size;
}

// ask_for grants an announced tag message or the payload of an active one.
static void ask_for(wh_request *req, uint64_t tag, uint32_t send_id, uint64_t length) {
    wh_endpoint *ep = req->ep;
    req->send_id = send_id;
    req->length = length;
    req->result.size = length;
    req->result.tag = tag;
    uint64_t accept = fitting(req);
    wh_status st = length > accept ? WH_ETRUNCATED : WH_OK;
    if (accept) {
        if (may_ask(req))
            whi_offer_fetch(req);
        return;
    }
    whi_recv_grant(req, WHI_PART_DATA, 0);
    if (req->stage != WHI_STAGE_DONE) {
        whi_recv_count(ep, 0);
        whi_recv_finish(req, st);
    }
}

unsigned whi_recv_places(const wh_request *req, whi_place places[WHI_OFFER_PIECES]) {
    places[0] = (whi_place){.from = req->from, .to = &req->buf, .size = fitting(req)};
    return whi_buffer_coarse(&req->buf);
}

void whi_recv_fetched(wh_request *req, bool all) {
    if (!all) {
        whi_recv_grant(req, WHI_PART_DATA, fitting(req));
        return;
    }
    whi_recv_answer(req->ep, req->send_id, WH_OK);
    whi_recv_count(req->ep, fitting(req));
    whi_recv_finish(req, req->length > req->buf.size ? WH_ETRUNCATED : WH_OK);
}

static void ask_again(wh_request *req) {
    whi_req_go_on(req);
    ask_for(req, req->result.tag, req->send_id, req->length);
}

wh_status whi_recv_sink(wh_request *req, const whi_hdr *hdr, whi_span *span) {
    if (req->stage != WHI_STAGE_MOVING || hdr->seq || hdr->arg > req->accept ||
        hdr->size > req->accept - hdr->arg)
        return WH_EPROTOCOL;
    *span = whi_buffer_sink(&req->buf, hdr->arg);
    return WH_OK;
}

wh_status whi_recv_landed(wh_request *req, const whi_hdr *hdr) {
    req->moved += hdr->size;
    if (req->moved > req->accept)
        return WH_EPROTOCOL;
    whi_offer_came(req, hdr->size);
    if (req->moved < req->accept) {
        if (req->why && !req->disowned && req->ops->withdraw_moving)
            (void)req->ops->withdraw_moving(req,
                                            req->why);  // it was withdrawn while this chunk landed
        return WH_OK;
    }
    if (req->disowned) {
        whi_req_complete(req, req->why);
        return WH_OK;
    }
    if (req->ops->receives)
        whi_recv_count(req->ep, req->moved);
    if (whi_behind_kept(req)) {
        land_kept(req);
        return WH_OK;
    }
    wh_status st = req->length > req->buf.size ? WH_ETRUNCATED : WH_OK;
    whi_buffer_finish(&req->buf);
    whi_recv_finish(req, req->buf.failed ? (wh_status)req->buf.failed : st);
    return WH_OK;
}

void whi_recv_offered(wh_request *req, const whi_announce *announce, const void *offer) {
    whi_offer_read(req, announce, offer);
    req->from = announce->count ? whi_offer_address(offer, 0) : 0;
}

bool whi_recv_clashes(const wh_request *req, uint16_t signature, uint64_t length) {
    return whi_signature_clash(req->buf.signature, signature, length == req->buf.size);
}

void whi_recv_refuse(wh_request *req, uint8_t flags, uint32_t send_id, uint64_t length) {
    req->result.size = length;
    if (flags & (WHI_FLAG_ANNOUNCED | WHI_FLAG_SYNC))
        whi_recv_answer(req->ep, send_id, WH_EREJECTED);
    whi_recv_finish(req, WH_ETYPE);
}

wh_status whi_recv_arrived(wh_request *req, uint8_t flags, const whi_announce *announce,
                           uint64_t length, const void *payload, size_t size) {
    if (flags & WHI_FLAG_ANNOUNCED) {
        whi_recv_offered(req, announce, payload);
        ask_for(req, req->result.tag, announce->send_id, length);
        return WH_OK;
    }
    whi_recv_count(req->ep, size);
    whi_recv_land(req, req->result.tag, payload, size);
    return WH_OK;
}

void whi_recv_am(wh_request *req, uint8_t flags, uint16_t signature, uint32_t send_id,
                 const void *payload, uint64_t size, uint64_t cost) {
    wh_endpoint *ep = req->ep;
    bool announced = flags & WHI_FLAG_ANNOUNCED, followed = flags & WHI_FLAG_FOLLOWED;
    req->bulk = flags & WHI_FLAG_BULK_LANE ? WHI_BULK_WISHED : 0;
    if (announced)
        ep->rx_announced--;
    if (whi_recv_clashes(req, signature, size)) {
        whi_recv_refuse(req, flags, send_id, size);
    } else if (announced) {
        ask_for(req, 0, send_id, size);
    } else if (followed) {
        whi_long_expect(req, size);
    } else {
        if (flags & WHI_FLAG_SYNC)
            whi_recv_answer(ep, send_id, WH_OK);
        whi_recv_land(req, 0, payload, size);
    }
    if (!announced)
        whi_ep_give_credit(ep, cost);
}
