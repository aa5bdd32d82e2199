// SPDX-License-Identifier: BSD-3-Clause
//
// Chunks of granted payloads, see send.h: sends, puts, and what peers get.
//
// All that is granted on a link stands in its bulk list and moves a chunk in its turn; only a chunk that is not whole goes
// on first.  A lane that lends reads host memory itself and says later that it is done: until then the request is held.
#include <assert.h>
#include <string.h>

#include "message/behind.h"
#include "message/bulk_lane.h"
#include "message/device_offer.h"
#include "message/send.h"
#include "message/stage.h"

// current returns the part of the payload that is being moved.
static whi_buffer *current(const wh_request *req) {
    return req->ops->source ? req->ops->source(req) : (whi_buffer *)(uintptr_t)&req->buf;
}

static uint64_t current_size(const wh_request *req) {
    uint64_t size = current(req)->size;
    return req->ops->whole_parts || size < req->accept ? size : req->accept;
}

// all_moved ends or goes on with a send whose granted part is with the lane.
static void all_moved(wh_request *req) {
    whi_list_remove(&req->queue_link);
    if (req->held)
        return;  // the lane still reads it: whi_send_back
    if (whi_bulk_granted(req) && req->fate == WHI_FATE_GOES_ON)
        return;  // until the peer says that it has all
    if (req->fate == WHI_FATE_LAST_CHUNK) {
        // Its endpoint has ended; the link only waited for the chunk to be whole.
        whi_link *link = req->ep->link;
        whi_ep_returned(req);
        whi_link_maybe_close(link);
    } else {
        req->ops->moved(req);
    }
}

// tell_broken tells the peer that the payload it has granted will not come.  What it has not granted, a get, is answered.
static void tell_broken(const wh_request *req) {
    wh_endpoint *ep = req->ep;
    if (ep->state != WHI_EP_OPEN || !req->ops->granted)
        return;
    whi_hdr hdr = {.cls = WHI_CLASS_WITHDRAW,
                   .aux = 1,
                   .ep = ep->number,
                   .seq = ep->tx_seq++,
                   .tag = req->send_id};
    whi_link_control(ep->link, &hdr, NULL);
}

// source_failed ends a send, put or peer's get whose memory cannot be read.
static void source_failed(wh_request *req, wh_status st) {
    whi_list_remove(&req->queue_link);
    tell_broken(req);
    if (!req->held && req->ep->state != WHI_EP_OPEN) {
        whi_link *link = req->ep->link;  // which only waited for a chunk to be whole
        whi_ep_returned(req);
        whi_link_maybe_close(link);
        return;
    }
    whi_req_explain(req, "%s of %llu bytes: the memory cannot be read: %s", whi_req_text(req),
                    (unsigned long long)req->result.size, wh_status_text(st));
    whi_req_complete_when_returned(req, st);
}

void whi_send_back(whi_link *link, wh_request *req) {
    if (req->fate == WHI_FATE_RETURNED) {
        whi_ep_returned(req);
        whi_link_maybe_close(link);
    } else if (req->stage == WHI_STAGE_MOVING && req->moved == req->accept) {
        all_moved(req);
    }
}

void whi_send_unheld(whi_link *link, wh_request *req) {
    if (req->loan_id)
        (void)whi_idmap_remove(&whi_messages_on(link)->loans, req->loan_id);
    req->loan_id = 0;
    whi_send_back(link, req);
}

// from_scratch is the source of bytes that were read already.
static void from_scratch(void *ctx, uint64_t offset, void *host, size_t size) {
    memcpy(host, (const char *)ctx + offset, size);
}

// lane_of returns the lane that the chunks of a send go by.
static whi_lane *lane_of(const whi_link *link, const wh_request *req) {
    return whi_bulk_granted(req) ? whi_link_bulk(link) : link->tx;
}

// source_of makes the source of the next chunk, and shortens `left` to what may go in it.  The end of device memory goes
// when all of it was read: the receiver is done when it has all, and must not take zeros for the data.
static wh_status source_of(whi_link *link, wh_request *req, whi_span *src, uint64_t *left) {
    enum { TAIL = WHI_EAGER_MIN };
    whi_buffer *buf = current(req);
    *src = whi_buffer_source(buf, req->offset);
    if (whi_bulk_is_direct(link, lane_of(link, req), buf))
        *src = (whi_span){.ptr = (char *)buf->ptr + req->offset, .kind = buf->kind};
    wh_status staged = src->ptr ? WH_OK : whi_stage_source(link, req, buf, src, left);
    if (src->ptr || staged != WH_OK)
        return staged;
    if (buf->failed)
        return (wh_status)buf->failed;
    if (buf->kind == WH_MEM_HOST)
        return whi_buffer_prepare(buf);  // from then on it can be read
    if (*left > TAIL) {
        *left -= TAIL;
        return WH_OK;
    }
    void *scratch = whi_messages_of(req->worker)->scratch;  // which holds at least an eager payload
    *src = (whi_span){.move = from_scratch, .ctx = scratch};
    return whi_buffer_read(buf, req->offset, scratch, *left);
}

// withdrawn ends what was withdrawn while a chunk of it was not whole, if that can be: memory that a peer gets.
static bool withdrawn(wh_request *req, wh_status st) {
    return st == WH_OK && !req->ops->granted && req->why &&
           req->ops->withdraw_moving(req, req->why);
}

// stream_came puts a send among the others again, whose stream has come to it.
static void stream_came(wh_request *req) {
    whi_req_go_on(req);
    whi_bulk_list(req->ep->link, req);
}

// is_ready says whether a send's memory may be read.  If not, it was taken out of the list.
static bool is_ready(wh_request *req) {
    wh_status st = current(req)->kind == WH_MEM_HOST ? WH_OK : whi_behind_state(req);
    if (st == WH_PENDING) {
        whi_list_remove(&req->queue_link);
        whi_behind_await(req, stream_came);
    } else if (st != WH_OK) {
        source_failed(req, st);
    }
    return st == WH_OK;
}

static wh_status push_one(whi_link *link, wh_request *req) {
    if (!is_ready(req))
        return WH_OK;
    whi_span src;
    uint64_t left = current_size(req) - req->offset;
    if (whi_device_offer_make(link, req, current(req), left))
        return WH_OK;  // the peer takes it, and the others go on
    wh_status st = source_of(link, req, &src, &left);
    if (st == WH_PENDING)
        return WH_OK;  // its first copy is under way, and the others go on
    if (st != WH_OK) {
        assert(whi_messages_on(link)->mid !=
               req);  // the lane would take another's bytes for the rest
        source_failed(req, st);
        return WH_OK;
    }
    whi_lane *lane = lane_of(link, req);
    bool lends = lane->ops->lends, beside = whi_bulk_granted(req);
    if (lends && !req->loan_id) {
        wh_status named = whi_idmap_put(&whi_messages_on(link)->loans, req, &req->loan_id);
        if (named != WH_OK)
            return named;
    }
    whi_hdr hdr = {.cls = WHI_CLASS_CHUNK,
                   .ep = req->grant_id,
                   .seq = req->segment,
                   .tag = req->loan_id,  // for us, when the lane gives the chunk back
                   .arg = req->offset};
    size_t moved = 0;
    st = lane->ops->push(lane, &hdr, &src, left, &moved);
    if (st != WH_OK && st != WH_PENDING)
        return st;
    if (!beside)
        whi_messages_on(link)->mid = st == WH_PENDING ? req : NULL;
    whi_stage_pushed(req, moved, lends && src.ptr);
    req->offset += moved;
    req->moved += moved;
    if (lends && src.ptr) {
        req->held++;
        whi_messages_on(link)->held++;
    }
    if (req->moved == req->accept || (req->fate == WHI_FATE_LAST_CHUNK && st == WH_OK)) {
        all_moved(req);
    } else if (!withdrawn(req, st)) {
        if (req->offset == current_size(req) && req->ops->next)
            req->ops->next(req);
        if (st == WH_OK) {
            // The others get their turn; a chunk that is not whole must go on first.
            whi_list_remove(&req->queue_link);
            whi_list_push_back(beside ? &whi_messages_on(link)->beside
                                      : &whi_messages_on(link)->bulks,
                               &req->queue_link);
        }
    }
    return st;
}

void whi_send_took(whi_link *link, wh_request *req, uint64_t most) {
    uint64_t left = current_size(req) - req->offset, moved = left < most ? left : most;
    req->offset += moved;
    req->moved += moved;
    if (req->fate != WHI_FATE_GOES_ON || req->moved == req->accept) {
        if (!req->held)
            whi_send_unheld(link, req);
        return;
    }
    if (req->offset == current_size(req) && req->ops->next)
        req->ops->next(req);
    whi_bulk_list(link, req);
}

void whi_send_again(whi_link *link, wh_request *req) {
    if (!whi_device_offer_make(link, req, current(req), current_size(req) - req->offset))
        whi_bulk_list(link, req);
}

enum { CHUNKS = 8 };  // per pass, so that receiving has its turn

unsigned whi_send_push_beside(whi_link *link) {
    whi_list *beside = &whi_messages_on(link)->beside;
    unsigned count = 0;
    while (count < CHUNKS && !link->dead && whi_link_bulk(link) && !whi_list_empty(beside)) {
        wh_status st =
            push_one(link, whi_container_of(whi_list_first(beside), wh_request, queue_link));
        if (st == WH_ENOMEM || st == WH_ELIMIT)
            whi_link_doom(link, st);
        if (st != WH_OK)
            break;  // no space; or the lane has failed, and says so in its next poll
        count++;
    }
    return count;
}

unsigned whi_send_push(whi_link *link, bool rest_only) {
    unsigned count = 0;
    while (count < CHUNKS && !whi_list_empty(&whi_messages_on(link)->bulks) &&
           (whi_messages_on(link)->mid || !rest_only)) {
        wh_request *req =
            whi_container_of(whi_list_first(&whi_messages_on(link)->bulks), wh_request, queue_link);
        wh_status st = push_one(link, req);
        if (st == WH_EAGAIN || st == WH_PENDING) {
            link->pollable.blocked = true;
            break;
        }
        if (st != WH_OK) {
            whi_link_doom(link, st);
            break;
        }
        count++;
    }
    return count;
}
