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
#include "message/deliver.h"
#include "message/objects.h"
#include "rma/native.h"
#include "rma/rma.h"

// send_ordered puts a record that carries a sequence number on the lane.
static wh_status send_ordered(wh_endpoint *ep, whi_hdr *hdr, const void *payload) {
    hdr->ep = ep->number;
    hdr->seq = ep->tx_seq;
    wh_status st = ep->lane->ops->send(ep->lane, hdr, payload);
    if (st == WH_OK)
        ep->tx_seq++;
    else if (st != WH_EAGAIN)
        whi_link_doom(ep->link, st);
    return st;
}

static wh_status name_send(wh_request *req) {
    return req->send_id ? WH_OK
                        : whi_idmap_put(&whi_messages_on(req->ep->link)->sends, req, &req->send_id);
}

static void unname_send(wh_request *req) {
    if (req->send_id)
        (void)whi_idmap_remove(&whi_messages_on(req->ep->link)->sends, req->send_id);
    req->send_id = 0;
}

// payload_of returns the eager payload as one piece of host memory; pieces are put together in `scratch`.
static wh_status payload_of(const wh_request *req, void *scratch, const void **payload) {
    const whi_buffer *buf = &req->buf;
    size_t header = req->kind == WHI_REQ_SEND_AM ? req->am_header_size : 0;
    if (!header && buf->kind == WH_MEM_HOST) {
        *payload = buf->ptr;
        return WH_OK;
    }
    if (header)
        memcpy(scratch, req->am_header, header);
    *payload = scratch;
    if (!buf->size)
        return WH_OK;
    return whi_mem_copy(&whi_mem_host, (char *)scratch + header, whi_mem_ops_of(buf->kind),
                        buf->ptr, buf->size);
}

static const uint8_t class_of[] = {
    [WHI_REQ_SEND_TAG] = WHI_CLASS_TAG,
    [WHI_REQ_SEND_OBJECT] = WHI_CLASS_OBJECT,
    [WHI_REQ_SEND_AM] = WHI_CLASS_AM,
};

static whi_hdr header_of(const wh_request *req) {
    whi_hdr hdr = {.cls = class_of[req->kind], .tag = req->tag};
    if (req->kind == WHI_REQ_SEND_AM) {
        hdr.aux = req->am_id;
        hdr.tag = req->am_header_size;
    }
    return hdr;
}

// eager_size returns the payload of the message when it travels with its header.
static uint64_t eager_size(const wh_request *req) {
    return req->buf.size + (req->kind == WHI_REQ_SEND_AM ? req->am_header_size : 0);
}

static wh_status send_eager(wh_request *req, uint64_t size) {
    wh_endpoint *ep = req->ep;
    const void *payload;
    wh_status st = payload_of(req, whi_messages_of(req->worker)->scratch, &payload);
    if (st == WH_OK && req->sync)
        st = name_send(req);
    if (st != WH_OK)
        return st;
    whi_hdr hdr = header_of(req);
    hdr.size = (uint32_t)size;
    hdr.flags = req->sync ? WHI_FLAG_SYNC : 0;
    hdr.arg = req->send_id;
    st = send_ordered(ep, &hdr, payload);
    if (st != WH_OK) {
        unname_send(req);
        return st;
    }
    ep->credit -= (int64_t)(size + WHI_MESSAGE_COST);
    return req->sync ? WH_PENDING : WH_OK;
}

// send_announcement tells the peer of a message that it may ask for.
static wh_status send_announcement(wh_request *req) {
    wh_endpoint *ep = req->ep;
    if (ep->announced >= ep->announce_limit)
        return WH_ELIMIT;
    wh_status st = name_send(req);
    if (st != WH_OK)
        return st;
    uint8_t *scratch = whi_messages_of(req->worker)->scratch;
    whi_announce announce = {.send_id = req->send_id};
    memcpy(scratch, &announce, sizeof(announce));
    size_t more = 0;
    whi_hdr hdr = header_of(req);
    hdr.flags = WHI_FLAG_ANNOUNCED | (req->sync ? WHI_FLAG_SYNC : 0);
    hdr.arg = req->buf.size;
    if (req->kind == WHI_REQ_SEND_AM) {
        more = req->am_header_size;
        if (more)
            memcpy(scratch + sizeof(announce), req->am_header, more);
    } else if (req->kind == WHI_REQ_SEND_OBJECT &&
               sizeof(announce) + req->buf.size <= ep->link->eager_max) {
        more = req->buf.size;  // the envelope
        memcpy(scratch + sizeof(announce), req->buf.ptr, more);
    }
    hdr.size = (uint32_t)(sizeof(announce) + more);
    st = send_ordered(ep, &hdr, scratch);
    if (st != WH_OK) {
        unname_send(req);
        return st;
    }
    ep->announced++;
    ep->counters.rendezvous++;
    return WH_PENDING;
}

static bool bulk_active(const wh_endpoint *ep, uint64_t before) {
    for (const whi_list *node = ep->ops.next; node != &ep->ops; node = node->next) {
        const wh_request *r = whi_container_of(node, wh_request, op_link);
        bool announced_put = r->kind == WHI_REQ_PUT && r->stage == WHI_STAGE_ANNOUNCED;
        bool moves = r->kind <= WHI_REQ_SERVE_GET && r->stage == WHI_STAGE_MOVING && !r->native;
        if ((moves || announced_put) && r->serial < before)
            return true;
    }
    return false;
}

// to_flush counts all that a flush has to be behind: messages, accesses, and what was granted since.
static uint64_t to_flush(const wh_endpoint *ep) {
    return ep->counters.sent_messages + ep->accesses + ep->bulk_serial;
}

static wh_status start_flush(wh_request *req) {
    wh_endpoint *ep = req->ep;
    if (!req->serial) {
        req->serial = ep->bulk_serial;  // above all granted so far; serials begin at 1
        req->operand = ep->native;
    }
    if (bulk_active(ep, req->serial) || !whi_native_settled(ep, req->operand))
        return WH_EBUSY;
    if (ep->flushed == to_flush(ep))
        return WH_OK;  // nothing was sent since the last flush that was answered
    wh_status st = name_send(req);
    if (st != WH_OK)
        return st;
    whi_hdr hdr = {.cls = WHI_CLASS_FLUSH, .tag = req->send_id};
    st = send_ordered(ep, &hdr, NULL);
    if (st != WH_OK)
        unname_send(req);
    req->tag = to_flush(ep);
    req->remote = ep->accesses;
    return st == WH_OK ? WH_PENDING : st;
}

static wh_status start_message(wh_request *req) {
    wh_endpoint *ep = req->ep;
    // An object that had to wait has its envelope, which is the whole message when nothing follows it.
    uint64_t size = eager_size(req);
    bool whole = req->kind != WHI_REQ_SEND_OBJECT || !whi_object_data_size(req);
    bool small = whole && size <= ep->link->eager_max;
    bool credit = ep->credit >= (int64_t)(size + WHI_MESSAGE_COST);
    wh_status st;
    if (small && credit) {
        st = send_eager(req, size);
        if (st == WH_PENDING)
            req->stage = WHI_STAGE_ANSWER;
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
    }
    return st;
}

wh_status whi_send_start(wh_request *req) {
    wh_endpoint *ep = req->ep;
    // What waits in the link's queue was sent before.
    if (!whi_queue_empty(&ep->link->controls))
        return WH_EAGAIN;
    if (whi_req_accesses(req))
        return whi_rma_start(req);
    if (req->kind != WHI_REQ_FLUSH)
        return start_message(req);
    wh_status st = start_flush(req);
    if (st == WH_PENDING)
        req->stage = WHI_STAGE_ANSWER;
    return st;
}

// keep_waiting puts a flush that granted sends hold up where whi_ep_settle finds it.
static void keep_waiting(wh_request *req) {
    whi_list_remove(&req->queue_link);
    whi_list_push_back(&req->ep->flushes, &req->queue_link);
}

wh_status whi_send_post(wh_request *req) {
    wh_endpoint *ep = req->ep;
    wh_status st = whi_ep_usable(ep);
    if (st != WH_OK)
        return st;
    if (ep->state == WHI_EP_OPEN && whi_list_empty(&ep->sendq)) {
        st = whi_send_start(req);
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
    if (req->kind == WHI_REQ_FENCE) {
        req->counted = 1;
        ep->fences++;
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
        wh_status st = whi_send_start(req);
        if (st == WH_EAGAIN && !ep->link->doomed) {
            ep->link->source.blocked = true;
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
            whi_req_finish(req, WH_OK);
        else
            whi_req_fail(req, st, "%s to %s: %s", whi_req_text(req), ep->link->name,
                         wh_status_text(st));
    }
    whi_ep_refresh(ep);
    return count;
}

void whi_send_withdraw(wh_request *req, wh_status why) {
    wh_endpoint *ep = req->ep;
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
           (req->stage == WHI_STAGE_MOVING && req->held && !req->let_go &&
            req->part == WHI_PART_ENVELOPE && req->moved == req->accept);
}

static wh_status on_grant(whi_link *link, const whi_hdr *hdr, const void *payload) {
    (void)payload;
    wh_request *req = whi_idmap_get(&whi_messages_on(link)->sends, (uint32_t)hdr->tag);
    if (!req)
        return WH_OK;  // withdrawn meanwhile; the peer learns of that by the WITHDRAW on its way
    if (!awaits_word(req) || req->ep->number != hdr->ep)
        return WH_EPROTOCOL;
    bool object = req->kind == WHI_REQ_SEND_OBJECT;
    uint64_t limit =
        object && hdr->aux == WHI_PART_DATA ? whi_object_data_size(req) : req->buf.size;
    if (hdr->arg > limit || hdr->aux > WHI_PART_ENVELOPE || (!object && hdr->aux != WHI_PART_DATA))
        return WH_EPROTOCOL;
    bool put = req->kind == WHI_REQ_PUT;
    if ((object || put) && hdr->arg != limit)
        return WH_EPROTOCOL;
    req->grant_id = (uint32_t)(hdr->tag >> 32);
    req->part = (uint8_t)hdr->aux;
    req->accept = hdr->arg;
    req->moved = 0;
    req->offset = 0;
    req->segment = 0;
    if (hdr->aux == WHI_PART_DATA && !put) {
        req->ep->announced--;
        whi_ep_mark(req->ep);
    }
    if (!req->accept) {
        whi_req_finish(req, WH_OK);
        return WH_OK;
    }
    if (object && hdr->aux == WHI_PART_DATA)
        whi_object_next_segment(req);
    req->stage = WHI_STAGE_MOVING;
    if (!put)  // which has one since it was announced
        req->serial = req->ep->bulk_serial++;
    whi_list_push_back(&whi_messages_on(link)->bulks, &req->queue_link);
    whi_link_mark(link);
    return WH_OK;
}

// end_flush_late ends a flush with the error of a remote access before it.
static void end_flush_late(wh_request *req) {
    wh_status why = req->ep->rma_error;
    req->ep->rma_error = WH_OK;
    whi_req_fail(req, why, "flush: a put or atomic before it has failed at %s: %s",
                 req->ep->link->name, wh_status_text(why));
}

// note_error keeps what a flush has brought home for whoever flushes, this one or, if it was cancelled, the next.
static wh_status note_error(whi_link *link, const whi_hdr *hdr) {
    int64_t status = (int64_t)hdr->arg;
    if (status > 0 || status < WHI_STATUS_LAST)
        return WH_EPROTOCOL;
    wh_endpoint *ep = whi_hash_get(&whi_messages_on(link)->eps, hdr->ep);
    if (ep && ep->rma_error == WH_OK)
        ep->rma_error = (wh_status)status;
    return WH_OK;
}

static wh_status on_answer(whi_link *link, const whi_hdr *hdr, const void *payload) {
    (void)payload;
    wh_request *req = whi_idmap_get(&whi_messages_on(link)->sends, (uint32_t)hdr->tag);
    bool flush = hdr->cls == WHI_CLASS_FLUSH_ACK;
    if (flush && note_error(link, hdr) != WH_OK)
        return WH_EPROTOCOL;
    if (!req)
        return WH_OK;
    if (flush != (req->kind == WHI_REQ_FLUSH) || req->ep->number != hdr->ep ||
        (req->stage != WHI_STAGE_ANSWER && !awaits_word(req)))
        return WH_EPROTOCOL;
    if (req->stage != WHI_STAGE_ANSWER) {
        req->ep->announced--;
        whi_ep_mark(req->ep);
    }
    if (req->held) {
        req->let_go = 1;
        req->why = (int32_t)hdr->arg == WH_EREJECTED ? WH_EREJECTED : WH_OK;
        return WH_OK;
    }
    if (flush) {
        req->ep->flushed = req->tag;
        whi_rma_served(req->ep, req->remote);
    }
    if (flush && req->ep->rma_error != WH_OK)
        end_flush_late(req);
    else if ((int32_t)hdr->arg == WH_EREJECTED)
        whi_req_fail(req, WH_EREJECTED, "%s to %s: the receiver rejected the message",
                     whi_req_text(req), link->name);
    else
        whi_req_finish(req, WH_OK);
    return WH_OK;
}

static wh_status on_flush(wh_endpoint *ep, const whi_hdr *hdr, const void *payload) {
    (void)payload;
    whi_hdr ack = {.cls = WHI_CLASS_FLUSH_ACK,
                   .ep = ep->number,
                   .tag = hdr->tag,
                   .arg = (uint64_t)(int64_t)ep->serve_error};
    ep->serve_error = WH_OK;
    whi_link_control(ep->link, &ack, NULL);
    return WH_OK;
}

void whi_send_init(wh_worker *worker) {
    whi_control_on(worker, WHI_CLASS_GRANT, on_grant, 0);
    whi_control_on(worker, WHI_CLASS_ACK, on_answer, 0);
    whi_control_on(worker, WHI_CLASS_FLUSH_ACK, on_answer, 0);
    whi_ordered_on(worker, WHI_CLASS_FLUSH, on_flush);
}
