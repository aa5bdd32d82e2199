// SPDX-License-Identifier: BSD-3-Clause
//
// The way of most messages: tagged, small, in host memory, on an open endpoint, with the whole tag asked for.
//
// Each function here does what the general way would do, without asking what cannot be, and leaves a receive that all
// others (cancel, the end of an endpoint, the dump) find as they find any.  Where a message or a receive is
// not plain it says so, and nothing has happened.  Owner's thread.  Inline, each in its one caller, because a call
// costs as much as what these do.
#ifndef WHI_MESSAGE_PLAIN_H
#define WHI_MESSAGE_PLAIN_H

#include <string.h>

#include "mem/mem.h"
#include "message/endpoint.h"
#include "net/copy.h"

// whi_plain_memory says whether a buffer that the user describes so is bytes of host memory.
static inline bool whi_plain_memory(const wh_op_opts *opts) {
    return opts ? whi_buffer_plain(opts->mem, opts->type) : !whi_mem_devices();
}

// whi_plain_space says whether a payload of this size may go into the lane now: the owner asks for nothing but sending, the
// endpoint is open with an empty queue (fast_limit), the peer will hold it, and no control record waits that it
// must not overtake.
static inline bool whi_plain_space(const wh_endpoint *ep, uint64_t size, const wh_op_opts *opts) {
    return whi_worker_is_owner(ep->worker) && size < ep->fast_limit &&
           ep->credit >= (int64_t)(size + WHI_MESSAGE_COST) &&
           whi_queue_empty(&ep->link->controls) && (!opts || !opts->flags);
}

// whi_plain_sent counts a message that went so.
static inline void whi_plain_sent(wh_endpoint *ep, uint64_t size, uint64_t bytes) {
    ep->tx_seq++;
    ep->credit -= (int64_t)(size + WHI_MESSAGE_COST);
    ep->counters.sent_messages++;
    ep->counters.sent_bytes += bytes;
}

// whi_plain_put puts a message for which there is space into its lane.
static inline bool whi_plain_put(wh_endpoint *ep, const void *buf, size_t size, uint64_t tag,
                                 uint16_t signature) {
    whi_hdr hdr = {.size = (uint32_t)size,
                   .cls = WHI_CLASS_TAG,
                   .aux = signature,
                   .ep = ep->number,
                   .seq = ep->tx_seq,
                   .tag = tag};
    if (__builtin_expect(ep->lane->ops->send(ep->lane, &hdr, buf) != WH_OK, 0))
        return false;
    whi_plain_sent(ep, size, size);
    return true;
}

// whi_plain_send does so with bytes of the user's: no request, no allocation, no queue.  False: not now, or not so.
static inline bool whi_plain_send(wh_endpoint *ep, const void *buf, size_t size, uint64_t tag,
                                  const wh_op_opts *opts) {
    if (__builtin_expect(!whi_plain_space(ep, size, opts) || !whi_plain_memory(opts), 0))
        return false;
    return whi_plain_put(ep, buf, size, tag, 0);
}

// whi_plain_post posts a receive on an endpoint that holds no message yet, and returns it, its buffer still to be
// filled in; `which` and `brief` say what `ops` does, as constants; NULL: the general way.
static inline wh_request *whi_plain_post(wh_endpoint *ep, const whi_req_ops *ops, int which,
                                         bool brief, uint64_t tag, uint64_t mask,
                                         const wh_op_opts *opts, bool wanted) {
    wh_worker *worker = ep->worker;
    assert(which == ops->match && brief == ops->brief);
    whi_match_ep *side = &ep->match[which];
    if (__builtin_expect(!whi_worker_is_owner(worker) || ep->state != WHI_EP_OPEN || ep->eos ||
                             ep->user_gone || !whi_list_empty(&side->messages) ||
                             mask != WH_TAG_MASK_ALL || (opts && opts->timeout_ms > 0),
                         0))
        return NULL;
    wh_request *req = whi_pool_get(&whi_messages_of(worker)->requests);
    if (__builtin_expect(!req, 0))
        return NULL;
    whi_req_init(req, worker, ep, ops, brief, opts, wanted);
    whi_ep_retain(ep);
    req->tag = tag;
    req->mask = WH_TAG_MASK_ALL;
    req->stage = WHI_STAGE_QUEUED;
    worker->counters.pending++;
    whi_list_push_back(&ep->ops, &req->op_link);
    whi_match_post(&whi_messages_of(worker)->match[which], side, req);
    return req;
}

// whi_plain_match takes out the receive that gets a message of this class, when only the bucket of its tag can hold
// it; NULL: none, or one that is found the general way.
static inline wh_request *whi_plain_match(wh_endpoint *ep, int which, uint64_t tag) {
    whi_match *m = &whi_messages_of(ep->worker)->match[which];
    whi_match_ep *side = &ep->match[which];
    if (!side->exact || m->exact_any || !whi_list_empty(&side->masked) ||
        !whi_list_empty(&m->masked))
        return NULL;
    const whi_list *bucket = &m->exact[whi_match_bucket(m, ep, tag)];
    for (whi_list *node = bucket->next; node != bucket; node = node->next) {
        wh_request *req = whi_container_of(node, wh_request, queue_link);
        if (req->tag == tag && req->ep == ep) {
            whi_list_remove(node);
            m->receives--;
            side->exact--;
            return req;
        }
    }
    return NULL;
}

// whi_plain_copy copies with moves that the compiler knows, since most payloads are a word.
static inline void whi_plain_copy(void *to, const void *from, size_t size) {
    if (size == 8)
        memcpy(to, from, 8);
    else if (size)
        whi_copy(to, from, size);
}

// whi_plain_complete is whi_req_complete for a receive that has ended well and has nothing but a callback.
static inline void whi_plain_complete(wh_request *req) {
    wh_worker *worker = req->worker;
    wh_endpoint *ep = req->ep;
    if (__builtin_expect(!req->done || req->timed || ep->close_req || !whi_list_empty(&ep->waiting),
                         0)) {
        whi_req_complete(req, WH_OK);
        return;
    }
    req->stage = WHI_STAGE_DONE;
    worker->counters.pending--;
    whi_list_remove(&req->op_link);
    whi_list_push_back(&worker->completed, &req->queue_link);
}

// whi_plain_elsewhere brings a payload that fits to memory that is not direct.  False: it could not, or not yet: behind.h.
static inline bool whi_plain_elsewhere(wh_request *req, const void *payload, size_t size) {
    if (req->behind || whi_buffer_write(&req->buf, 0, payload, size) != WH_OK)
        return false;
    req->ep->counters.unpacked++;
    return true;
}

// whi_plain_land gives a message that is here to the receive that whi_plain_match has found.  False: it does not fit there so.
static inline bool whi_plain_land(wh_request *req, const whi_hdr *hdr, const void *payload) {
    if (__builtin_expect(hdr->size > req->buf.size, 0) ||
        (hdr->aux && whi_signature_clash(req->buf.signature, hdr->aux, hdr->size == req->buf.size)))
        return false;
    if (__builtin_expect(req->buf.direct, 1))
        whi_plain_copy(req->buf.ptr, payload, hdr->size);
    else if (!whi_plain_elsewhere(req, payload, hdr->size))
        return false;
    wh_endpoint *ep = req->ep;
    ep->counters.received_messages++;
    ep->counters.received_bytes += hdr->size;
    req->result.size = hdr->size;
    req->result.tag = hdr->tag;
    whi_plain_complete(req);
    whi_ep_give_credit(ep, hdr->size + WHI_MESSAGE_COST);
    return true;
}

#endif
