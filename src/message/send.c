// SPDX-License-Identifier: BSD-3-Clause
//
// Sending through requests, see send.h.
//
// A send is in one of four places: its endpoint's queue (not on the wire), announced (the peer knows of it and
// has not asked for it), moving (granted, in the link's bulk list), or waiting for an answer.  Sequence numbers
// are drawn when a record has been taken by the lane, never before, so that a refused record leaves no gap.
#include "message/send.h"

#include <string.h>

#include "mem/mem.h"
#include "message/behind.h"
#include "message/bulk_lane.h"
#include "message/long.h"
#include "message/offer.h"
#include "message/records.h"

wh_status whi_send_ordered(wh_endpoint *ep, whi_hdr *hdr, const void *payload) {
    hdr->ep = ep->number;
    hdr->seq = ep->tx_seq;
    wh_status st = ep->lane->ops->send(ep->lane, hdr, payload);
    if (st == WH_OK)
        ep->tx_seq++;
    else if (st != WH_EAGAIN)
        whi_link_doom(ep->link, st);
    return st;
}

wh_status whi_send_name(wh_request *req) {
    req->offer.ticket = 0;
    return req->send_id ? WH_OK
                        : whi_idmap_put(&whi_messages_on(req->ep->link)->sends, req, &req->send_id);
}

void whi_send_unname(wh_request *req) {
    if (!req->send_id)
        return;
    (void)whi_offer_revoke(req);
    (void)whi_idmap_remove(&whi_messages_on(req->ep->link)->sends, req->send_id);
    req->send_id = 0;
}

// prefix_of returns what goes in front of the buffer.
static inline size_t prefix_of(const wh_request *req, const void **bytes) {
    return req->ops->prefix ? req->ops->prefix(req, bytes) : 0;
}

// payload_of returns the eager payload as one piece of host memory; pieces are put together in `scratch`.
static wh_status payload_of(const wh_request *req, char *scratch, const void **payload) {
    const whi_buffer *buf = &req->buf;
    const void *prefix;
    size_t prefix_size = prefix_of(req, &prefix);
    if (!prefix_size && buf->direct) {
        *payload = buf->ptr;
        return WH_OK;
    }
    if (prefix_size)
        memcpy(scratch, prefix, prefix_size);
    *payload = scratch;
    return whi_buffer_read(buf, 0, scratch + prefix_size, buf->size);
}

static whi_hdr header_of(const wh_request *req) {
    whi_hdr hdr = {.cls = req->ops->cls, .tag = req->tag};
    if (req->ops->describe)
        req->ops->describe(req, &hdr);
    return hdr;
}

static wh_status send_eager(wh_request *req, uint64_t size) {
    wh_endpoint *ep = req->ep;
    const void *payload;
    wh_status st = payload_of(req, (char *)whi_messages_of(req->worker)->scratch, &payload);
    if (st == WH_OK && req->sync)
        st = whi_send_name(req);
    if (st != WH_OK)
        return st;
    whi_hdr hdr = header_of(req);
    hdr.size = (uint32_t)size;
    hdr.flags = req->sync ? WHI_FLAG_SYNC : 0;
    hdr.arg = req->send_id;
    st = whi_send_ordered(ep, &hdr, payload);
    if (st != WH_OK) {
        whi_send_unname(req);
        return st;
    }
    ep->credit -= (int64_t)(size + WHI_MESSAGE_COST);
    return req->sync ? WH_PENDING : WH_OK;
}

// send_long sends a message by a long record, which of an active message has the payload and follows its header's record.
static wh_status send_long(wh_request *req, size_t prefix_size, const void *prefix) {
    wh_endpoint *ep = req->ep;
    uint64_t size = req->buf.size;
    bool follows = req->ops->cls == WHI_CLASS_AM;
    uint32_t records = follows ? 2 : 1;
    wh_status st = whi_buffer_prepare(&req->buf);  // from then on it can be read
    if (st != WH_OK)
        return st;
    whi_span src = whi_buffer_source(&req->buf, 0);
    whi_hdr front = header_of(req), hdr = front;
    if (follows) {
        front.flags = WHI_FLAG_FOLLOWED;
        front.size = (uint32_t)prefix_size;
        front.ep = ep->number;
        front.seq = ep->tx_seq;
        front.arg = size;
        hdr = (whi_hdr){.flags = WHI_FLAG_FOLLOWED};
    }
    hdr.cls = WHI_CLASS_LONG;
    hdr.size = (uint32_t)size;
    hdr.ep = ep->number;
    hdr.seq = ep->tx_seq + records - 1;
    st = ep->lane->ops->send_long(ep->lane, follows ? &front : NULL, prefix, &hdr, &src);
    if (st == WH_OK) {
        ep->tx_seq += records;
        ep->credit -= (int64_t)(prefix_size + size + records * WHI_MESSAGE_COST);
    } else if (st != WH_EAGAIN) {
        whi_link_doom(ep->link, st);
    }
    return st;
}

// send_announcement tells the peer of a message that it may ask for.
static wh_status send_announcement(wh_request *req) {
    wh_endpoint *ep = req->ep;
    if (ep->announced >= ep->announce_limit)
        return WH_ELIMIT;
    wh_status st = whi_send_name(req);
    if (st != WH_OK)
        return st;
    uint8_t *scratch = whi_messages_of(req->worker)->scratch;
    whi_announce announce = {.send_id = req->send_id};
    const void *with;
    size_t begin = sizeof(announce), more = prefix_of(req, &with), space = WHI_EAGER_MIN;
    bool offers = !req->ops->announces_buffer;
    if (!offers && sizeof(announce) + req->buf.size <= ep->link->eager_max) {
        with = req->buf.ptr;
        more = req->buf.size;
        space = ep->link->eager_max;
        offers = true;  // of what follows the buffer
    }
    if (offers)
        begin += whi_offer_write(req, &announce, scratch + begin, space - begin - more,
                                 whi_long_size(req));
    memcpy(scratch, &announce, sizeof(announce));
    if (more)
        memcpy(scratch + begin, with, more);
    whi_hdr hdr = header_of(req);
    hdr.flags = WHI_FLAG_ANNOUNCED | (req->sync ? WHI_FLAG_SYNC : 0) |
                (announce.count ? WHI_FLAG_OFFERED : 0) |
                (whi_bulk_wishes(req) ? WHI_FLAG_BULK_LANE : 0);
    hdr.arg = req->buf.size;
    hdr.size = (uint32_t)(begin + more);
    st = whi_send_ordered(ep, &hdr, scratch);
    if (st != WH_OK) {
        whi_send_unname(req);
        return st;
    }
    ep->announced++;
    ep->counters.rendezvous++;
    return WH_PENDING;
}

wh_status whi_send_start_message(wh_request *req) {
    wh_endpoint *ep = req->ep;
    const void *prefix = NULL;
    size_t prefix_size = prefix_of(req, &prefix);
    uint64_t size = prefix_size + req->buf.size;
    // An object that had to wait has its envelope, which is the whole message when nothing follows it.
    bool whole = !req->ops->follows || !req->ops->follows(req);
    bool small = whole && size <= ep->link->eager_max;
    bool credit = ep->credit >= (int64_t)(size + WHI_MESSAGE_COST);
    wh_status st = whi_behind_state(req);
    if (st != WH_OK && st != WH_PENDING)
        return st;
    // One whose stream has not come to it is announced, so that those behind it need not wait.
    small = small && st == WH_OK;
    if (small && credit) {
        st = send_eager(req, size);
        if (st == WH_PENDING)
            req->stage = WHI_STAGE_ANSWER;
    } else if (whi_long_may(req, prefix_size)) {
        st = send_long(req, prefix_size, prefix);
    } else {
        st = send_announcement(req);
        if (st == WH_PENDING) {
            req->stage = WHI_STAGE_ANNOUNCED;
            ep->counters.no_credit += small;
        }
    }
    if (st == WH_OK || st == WH_PENDING) {
        ep->counters.sent_messages++;
        ep->counters.sent_bytes += req->result.size;
        ep->counters.packed += !req->buf.direct;
    }
    return st;
}

// start tries the first request of its endpoint's queue.
static wh_status start(wh_request *req) {
    // What waits in the link's queue was sent before.
    return whi_queue_empty(&req->ep->link->controls) ? req->ops->start(req) : WH_EAGAIN;
}

// keep_waiting puts a request that waits for the end of others where whi_ep_settle finds it.
static void keep_waiting(wh_request *req) {
    whi_list_remove(&req->queue_link);
    whi_list_push_back(&req->ep->waiting, &req->queue_link);
}

wh_status whi_send_post(wh_request *req) {
    wh_endpoint *ep = req->ep;
    wh_status st = whi_ep_usable(ep);
    if (st != WH_OK)
        return st;
    if (ep->state == WHI_EP_OPEN && whi_list_empty(&ep->sendq)) {
        st = start(req);
        if (st == WH_PENDING) {
            whi_req_accept(req, (whi_req_stage)req->stage);
            return WH_PENDING;
        }
        if (st != WH_EAGAIN && st != WH_EBUSY && st != WH_ELIMIT)
            return st;
    } else {
        st = WH_EAGAIN;
    }
    whi_req_accept(req, WHI_STAGE_QUEUED);
    if (st == WH_EBUSY) {
        keep_waiting(req);
        return WH_PENDING;
    }
    whi_list_push_back(&ep->sendq, &req->queue_link);
    whi_ep_refresh(ep);
    if (ep->state == WHI_EP_OPEN)
        whi_ep_mark(ep);
    return WH_PENDING;
}

unsigned whi_ep_drain(wh_endpoint *ep) {
    unsigned count = 0;
    whi_list *node;
    while (ep->state == WHI_EP_OPEN && (node = whi_list_first(&ep->sendq))) {
        wh_request *req = whi_container_of(node, wh_request, queue_link);
        wh_status st = start(req);
        if (st == WH_EAGAIN && !ep->link->doomed) {
            ep->link->pollable.blocked = true;
            whi_ep_mark(ep);
        }
        // What waits for the bound of announcements is tried again by what lowers their number, or gives credit.
        if (st == WH_EAGAIN || st == WH_ELIMIT || ep->link->doomed)
            break;
        count++;
        if (st == WH_PENDING)
            whi_list_remove(&req->queue_link);
        else if (st == WH_EBUSY)
            keep_waiting(req);
        else if (st == WH_OK)
            whi_req_complete(req, WH_OK);
        else
            whi_req_fail(req, st, "%s to %s: %s", whi_req_text(req), ep->link->name,
                         wh_status_text(st));
    }
    whi_ep_refresh(ep);
    return count;
}

void whi_send_taken(wh_request *req) {
    wh_endpoint *ep = req->ep;
    ep->announced--;
    whi_ep_mark(ep);
    whi_req_complete(req, WH_OK);
    whi_ep_refresh(ep);
}

void whi_send_withdraw(wh_request *req, wh_status why) {
    wh_endpoint *ep = req->ep;
    if (req->stage == WHI_STAGE_ANNOUNCED && !whi_offer_revoke(req)) {
        whi_send_taken(req);  // too late
        return;
    }
    if (req->stage == WHI_STAGE_ANNOUNCED) {
        // Ordered, so that it reaches the peer behind the announcement and before whatever comes later.
        whi_hdr hdr = {
            .cls = WHI_CLASS_WITHDRAW, .ep = ep->number, .seq = ep->tx_seq++, .tag = req->send_id};
        ep->announced--;
        whi_link_control(ep->link, &hdr, NULL);
        whi_ep_mark(ep);
    }
    whi_req_fail(req, why, "%s of %llu bytes: %s", whi_req_text(req),
                 (unsigned long long)req->result.size, wh_status_text(why));
    whi_ep_refresh(ep);
}

// awaits_word says whether the peer has been told of a message and has yet to say what it wants of it.  Also when the
// envelope of an object is with the peer, and the lane has not said so yet.
static bool awaits_word(const wh_request *req) {
    return req->stage == WHI_STAGE_ANNOUNCED ||
           (req->stage == WHI_STAGE_MOVING && req->held && req->fate != WHI_FATE_RETURNED &&
            req->part == WHI_PART_ENVELOPE && req->moved == req->accept);
}

static wh_status on_grant(whi_link *link, const whi_hdr *hdr, const void *payload) {
    (void)payload;
    wh_request *req = whi_idmap_get(&whi_messages_on(link)->sends, (uint32_t)hdr->tag);
    if (!req)
        return WH_OK;  // withdrawn meanwhile; the peer learns of that by the WITHDRAW on its way
    if (!awaits_word(req) || req->ep->number != hdr->ep)
        return WH_EPROTOCOL;
    if (!whi_offer_revoke(req))
        return WH_EPROTOCOL;  // it has the payload already
    if (!req->ops->granted || req->ops->granted(req, hdr) != WH_OK)
        return WH_EPROTOCOL;
    req->grant_id = (uint32_t)(hdr->tag >> 32);
    req->part = (uint8_t)hdr->aux;
    req->accept = hdr->arg;
    req->device = hdr->flags & WHI_FLAG_TAKES_DEVICE ? WHI_DEVICE_DIRECT : WHI_DEVICE_STAGED;
    req->moved = 0;
    req->offset = 0;
    req->segment = 0;
    wh_status by_bulk = whi_bulk_take_grant(req, hdr);
    if (by_bulk == WH_EPROTOCOL)
        return by_bulk;
    bool message = req->ops->cls != 0;  // else an access, which counts until it is answered
    if (hdr->aux == WHI_PART_DATA && message) {
        req->ep->announced--;
        whi_ep_mark(req->ep);
    }
    if (!req->accept) {
        whi_req_complete(req, WH_OK);
        return WH_OK;
    }
    if (req->ops->next && hdr->aux == WHI_PART_DATA)
        req->ops->next(req);
    req->stage = WHI_STAGE_MOVING;
    if (message)  // an access has one since it was announced
        req->serial = req->ep->bulk_serial++;
    req->ep->counters.bulk_lane += whi_bulk_granted(req);
    if (by_bulk != WH_OK)
        whi_bulk_fail(req, "the bulk lane was lost meanwhile");
    else
        whi_bulk_list(link, req);
    return WH_OK;
}

wh_status whi_send_granted(const wh_request *req, const whi_hdr *hdr) {
    return hdr->arg <= req->buf.size && hdr->aux == WHI_PART_DATA ? WH_OK : WH_EPROTOCOL;
}

void whi_send_moved(wh_request *req) {
    whi_req_complete(req, WH_OK);
}

static void describe(const wh_request *req, whi_hdr *hdr) {
    hdr->aux = whi_ep_signature(req->ep, &req->buf);
}

const whi_req_ops whi_tag_send_ops = {.text = "tag send",
                                      .post = whi_send_post,
                                      .start = whi_send_start_message,
                                      .withdraw = whi_send_withdraw,
                                      .cls = WHI_CLASS_TAG,
                                      .describe = describe,
                                      .granted = whi_send_granted,
                                      .moved = whi_send_moved,
                                      .match = WHI_MATCH_NONE,
                                      .holds_close = true,
                                      .brief = true};

// on_ack takes the peer's word that it is done with a message: matched, or not wanted.
static wh_status on_ack(whi_link *link, const whi_hdr *hdr, const void *payload) {
    (void)payload;
    wh_request *req = whi_idmap_get(&whi_messages_on(link)->sends, (uint32_t)hdr->tag);
    if (!req)
        return WH_OK;
    bool has_all = req->stage == WHI_STAGE_MOVING && whi_bulk_granted(req) &&
                   req->moved == req->accept && req->fate != WHI_FATE_RETURNED;
    if (!req->ops->cls || req->ep->number != hdr->ep ||
        (req->stage != WHI_STAGE_ANSWER && !has_all && !awaits_word(req)))
        return WH_EPROTOCOL;
    if (req->stage != WHI_STAGE_ANSWER && !has_all) {
        req->ep->announced--;
        whi_ep_mark(req->ep);
    }
    bool rejected = (int32_t)hdr->arg == WH_EREJECTED;
    if (rejected)
        whi_req_explain(req, "%s to %s: the receiver rejected the message", whi_req_text(req),
                        link->name);
    whi_req_complete_when_returned(req, rejected ? WH_EREJECTED : WH_OK);
    return WH_OK;
}

void whi_send_init(wh_worker *worker) {
    whi_control_on(worker, WHI_CLASS_GRANT, on_grant, 0);
    whi_control_on(worker, WHI_CLASS_ACK, on_ack, 0);
}
