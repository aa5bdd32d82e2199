// SPDX-License-Identifier: BSD-3-Clause
//
// Receiving, see recv.h.
//
// A message meets a receive when it arrives or when the receive is posted.  What becomes of its payload then is in
// recv_payload.c.
#include "message/recv.h"

#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "message/behind.h"
#include "message/bulk_lane.h"
#include "message/long.h"
#include "message/offer.h"
#include "message/records.h"

static int match_of(const wh_request *req) {
    assert(req->ops->match != WHI_MATCH_NONE);
    return req->ops->match;
}

static int match_of_class(uint8_t cls) {
    return cls == WHI_CLASS_OBJECT ? WHI_MATCH_OBJECT : WHI_MATCH_TAG;
}

// The side of an endpoint in the match table that a receive is posted on; NULL for any source.
static whi_match_ep *side_of(const wh_request *req) {
    return req->ep ? &req->ep->match[match_of(req)] : NULL;
}

void whi_recv_bind(wh_request *req, wh_endpoint *ep) {
    if (req->ep)
        return;
    req->ep = ep;
    whi_ep_retain(ep);
    if (whi_list_linked(&req->op_link)) {
        whi_list_remove(&req->op_link);
        whi_list_push_back(&ep->ops, &req->op_link);
    }
}

// unbind makes a receive from any source everybody's again.
static void unbind(wh_request *req) {
    wh_endpoint *ep = req->ep;
    req->ep = NULL;
    whi_list_remove(&req->op_link);
    whi_list_push_back(&whi_messages_of(req->worker)->any_source, &req->op_link);
    whi_ep_settle(ep);
    whi_ep_release(ep);
}

// meet joins a pending receive and a message whose payload is here or announced.
static wh_status meet(wh_request *req, wh_endpoint *ep, uint8_t flags, uint16_t signature,
                      uint64_t tag, uint64_t length, const whi_announce *announce,
                      const void *payload, uint64_t size) {
    uint32_t send_id = announce->send_id;
    whi_recv_bind(req, ep);
    req->stage = WHI_STAGE_MOVING;  // it has left the match table, whatever comes of it
    if (flags & WHI_FLAG_ANNOUNCED)
        ep->rx_announced--;
    req->result.tag = tag;
    req->bulk = flags & WHI_FLAG_BULK_LANE ? WHI_BULK_WISHED : 0;
    if (whi_recv_clashes(req, signature, length)) {
        whi_recv_refuse(req, flags, send_id, length);
        return WH_OK;
    }
    if ((flags & WHI_FLAG_SYNC) && !(flags & WHI_FLAG_ANNOUNCED))
        whi_recv_answer(ep, send_id, WH_OK);
    return req->ops->arrived(req, flags, announce, length, payload, size);
}

// note_ahead lists an announced message that was kept among those that may be prefetched.
static void note_ahead(whi_message *msg) {
    wh_endpoint *ep = msg->ep;
    bool small = msg->length && msg->length <= ep->worker->eager_max;
    if (msg->cls == WHI_CLASS_TAG && msg->flags == WHI_FLAG_ANNOUNCED && small && !msg->gone) {
        whi_list_push_back(&ep->ahead, &msg->ahead_link);
        ep->owed_max = ep->worker->ctx->config.credit / WHI_AHEAD_PART;
    }
}

wh_status whi_recv_message(wh_endpoint *ep, const whi_hdr *hdr, const void *payload,
                           wh_request *req) {
    int which = match_of_class(hdr->cls);
    wh_worker *worker = ep->worker;
    if (!req)
        req = whi_match_message(&whi_messages_of(worker)->match[which], &ep->match[which], ep,
                                hdr->tag);
    if (!req && hdr->cls == WHI_CLASS_OBJECT)
        req = whi_messages_of(worker)->take_object(ep);
    if (!req) {
        ep->counters.unexpected++;
        whi_message *msg = whi_message_new(ep, hdr, payload);
        if (!msg)
            return WH_ENOMEM;
        whi_match_keep(&whi_messages_of(worker)->match[which], &ep->match[which], msg);
        note_ahead(msg);
        return WH_OK;
    }
    size_t size = hdr->size;
    whi_announce announce = {.send_id = (uint32_t)hdr->arg};
    uint64_t length = hdr->size;
    if (hdr->flags & WHI_FLAG_ANNOUNCED) {
        (void)whi_offer_split(hdr, &payload, &size, &announce);  // was found good when it came
        length = hdr->arg;
        if (hdr->cls == WHI_CLASS_TAG)
            whi_long_awaited(ep, hdr->flags, length);
    } else {
        whi_ep_give_credit(ep, hdr->size + WHI_MESSAGE_COST);
    }
    if (hdr->cls == WHI_CLASS_OBJECT || (hdr->flags & WHI_FLAG_ANNOUNCED))
        req->arrival = whi_messages_of(worker)->match[which].next_message++;
    return meet(req, ep, hdr->flags, hdr->aux, hdr->tag, length, &announce, payload, size);
}

// name_message notes an announced message under its send id, where a withdrawal finds it however many there are.
static wh_status name_message(whi_message *msg) {
    whi_link *link = msg->ep->link;
    if (link)
        return whi_hash_put(&whi_messages_on(link)->announced, msg->send_id, msg);
    msg->gone = true;  // its handler has ended the endpoint
    return WH_OK;
}

void whi_message_unname(whi_message *msg) {
    if (!(msg->flags & WHI_FLAG_ANNOUNCED) || msg->gone)
        return;
    (void)whi_hash_remove(&whi_messages_on(msg->ep->link)->announced, msg->send_id);
    msg->gone = true;
}

void whi_message_free(whi_message *msg) {
    if (msg->prefetch) {  // which has its memory
        msg->dropped = true;
        return;
    }
    whi_message_unname(msg);
    whi_list_remove(&msg->ahead_link);
    if (msg->body)
        whi_free(msg->body);
    whi_pool_put(&whi_messages_of(msg->ep->worker)->messages[msg->pool], msg);
}

whi_message *whi_message_new(wh_endpoint *ep, const whi_hdr *hdr, const void *payload) {
    wh_worker *worker = ep->worker;
    const void *data = payload;
    size_t size = hdr->size;
    whi_announce announce = {.send_id = (uint32_t)hdr->arg};
    bool announced = hdr->flags & WHI_FLAG_ANNOUNCED;
    if (announced)
        (void)whi_offer_split(hdr, &data, &size, &announce);
    int pool = 0;
    while (pool < WHI_MESSAGE_POOLS - 1 &&
           size + sizeof(whi_message) > whi_messages_of(worker)->messages[pool].size)
        pool++;
    whi_message *msg = whi_pool_get(&whi_messages_of(worker)->messages[pool]);
    if (!msg)
        return NULL;
    *msg = (whi_message){.ep = ep,
                         .tag = hdr->tag,
                         .length = announced ? hdr->arg : hdr->size,
                         .send_id = announce.send_id,
                         .offer_slot = announce.slot,
                         .offer_count = announce.count,
                         .size = (uint32_t)size,
                         .cls = hdr->cls,
                         .flags = hdr->flags,
                         .pool = (uint8_t)pool,
                         .aux = hdr->aux};
    whi_list_init(&msg->all_link);
    whi_list_init(&msg->ep_link);
    whi_list_init(&msg->tag_link);
    whi_list_init(&msg->ep_tag_link);
    whi_list_init(&msg->ahead_link);
    void *to = msg->data;
    if (size + sizeof(whi_message) > whi_messages_of(worker)->messages[pool].size)
        to = msg->body = whi_malloc(size);
    if (!to || (announced && name_message(msg) != WH_OK)) {
        msg->gone = true;
        whi_message_free(msg);
        return NULL;
    }
    if (size)
        memcpy(to, data, size);
    return msg;
}

void whi_recv_settle(whi_message *msg) {
    if (!(msg->flags & WHI_FLAG_ANNOUNCED) && !msg->gone && !msg->paid)
        whi_ep_give_credit(msg->ep, msg->size + WHI_MESSAGE_COST);
    whi_message_free(msg);
}

// refuse_kept ends the link of a kept message whose inside turns out to be wrong, and with it the receive.
static void refuse_kept(wh_request *req, wh_status st) {
    whi_link *link = req->ep->link;
    if (link && !link->dead) {
        whi_log(WHI_WARN, "W-PRT-02", "%s: a kept message breaks the protocol", link->name);
        whi_link_doom(link, st);
    } else if (req->any) {
        whi_recv_regain(req);
    } else {
        whi_req_fail(req, st, "%s: the message breaks the protocol", whi_req_text(req));
    }
}

static const void *payload_of(const whi_message *msg) {
    return msg->body ? msg->body : msg->data;
}

void whi_recv_land_kept(wh_request *req, whi_message *msg) {
    wh_endpoint *ep = msg->ep;
    req->result.tag = msg->tag;
    req->result.size = msg->size;
    whi_recv_count(ep, msg->size);
    if (whi_recv_clashes(req, msg->aux, msg->size))
        whi_recv_finish(req, WH_ETYPE);
    else
        whi_recv_land(req, msg->tag, payload_of(msg), msg->size);
    whi_recv_settle(msg);
}

// await lets a receive wait for the payload of a message that it has matched and that is being prefetched.
static void await(wh_request *req, whi_message *msg) {
    req->stage = WHI_STAGE_MOVING;
    req->result.size = req->length = msg->length;
    req->result.tag = msg->tag;
    req->awaits = msg;
    msg->waiter = req;
}

void whi_recv_meet_followed(wh_request *req, whi_message *msg) {
    if (msg->prefetch)
        await(req, msg);
    else
        whi_recv_land_kept(req, msg);
}

void whi_recv_meet_kept(wh_request *req, whi_message *msg) {
    wh_endpoint *ep = msg->ep;
    req->arrival = msg->number;
    if (msg->prefetch) {
        whi_recv_bind(req, ep);
        await(req, msg);
        return;
    }
    whi_ep_retain(ep);        // an allocator that is asked for an object's memory may end it,
    whi_message_unname(msg);  // and with it the link that knows the message's name
    whi_announce announce = {
        .send_id = msg->send_id, .slot = msg->offer_slot, .count = msg->offer_count};
    wh_status st = meet(req, ep, msg->flags, msg->aux, msg->tag, msg->length, &announce,
                        payload_of(msg), msg->size);
    whi_recv_settle(msg);
    if (st != WH_OK)
        refuse_kept(req, st);
    whi_ep_release(ep);
}

whi_message *whi_recv_keep_for_others(const wh_request *req, const whi_hdr *hdr,
                                      const void *payload) {
    wh_endpoint *ep = req->ep;
    whi_message *msg = whi_message_new(ep, hdr, payload);
    if (!msg)
        return NULL;
    msg->number = req->arrival;
    if (hdr->flags & WHI_FLAG_ANNOUNCED)
        ep->rx_announced++;
    else
        msg->paid = true;
    return msg;
}

void whi_recv_give_to_others(whi_message *msg) {
    wh_endpoint *ep = msg->ep;
    int which = match_of_class(msg->cls);
    whi_match *m = &whi_messages_of(ep->worker)->match[which];
    wh_request *req = whi_match_message(m, &ep->match[which], ep, msg->tag);
    if (!req)
        req = whi_messages_of(ep->worker)->take_object(ep);
    if (req)
        whi_recv_meet_kept(req, msg);
    else
        whi_match_keep_again(m, &ep->match[which], msg);
}

// take joins a receive that is just posted with a message that was kept.
static wh_status take(wh_request *req, whi_message *msg) {
    wh_endpoint *ep = msg->ep;
    if (msg->cls == WHI_CLASS_TAG && !(msg->flags & WHI_FLAG_ANNOUNCED) && !msg->prefetch) {
        if (msg->size <= req->buf.size && req->buf.direct &&
            !whi_recv_clashes(req, msg->aux, msg->size)) {
            // Ends inside the call, without becoming pending, unless another thread has made it.
            if (req->foreign)
                whi_recv_bind(req, ep);
            (void)whi_recv_copy(req, msg->tag, payload_of(msg),
                                msg->size);  // host memory that is large enough
            if (msg->flags & WHI_FLAG_SYNC)
                whi_recv_answer(ep, msg->send_id, WH_OK);
            whi_recv_count(ep, msg->size);
            req->result.status = WH_OK;
            req->result.source = ep->user_gone ? NULL : ep;
            whi_recv_settle(msg);
            return WH_OK;
        }
    }
    whi_recv_bind(req, ep);
    whi_req_accept(req, WHI_STAGE_QUEUED);
    whi_recv_meet_kept(req, msg);
    return WH_PENDING;
}

wh_status whi_recv_post(wh_request *req) {
    whi_match *m = &whi_messages_of(req->worker)->match[match_of(req)];
    whi_match_ep *side = side_of(req);
    whi_message *msg = whi_match_find(m, side, req->ep, req->tag, req->mask);
    if (msg) {
        req->post_number = m->next_post++;  // its place, should the message be withdrawn
        whi_match_drop(m, msg);
        return take(req, msg);
    }
    wh_endpoint *ep = req->ep;
    if (ep && (ep->state == WHI_EP_CLOSED || ep->eos || ep->user_gone))
        return ep->why != WH_OK ? ep->why : WH_ECLOSED;
    whi_req_accept(req, WHI_STAGE_QUEUED);
    whi_match_post(m, side, req);
    return WH_PENDING;
}

void whi_recv_withdraw(wh_request *req, wh_status why) {
    whi_match_unpost(&whi_messages_of(req->worker)->match[match_of(req)], side_of(req), req);
    whi_req_fail(req, why, "%s of tag 0x%llx: %s", whi_req_text(req), (unsigned long long)req->tag,
                 wh_status_text(why));
}

static void unname_grant(wh_request *req) {
    if (req->grant_id)
        (void)whi_idmap_remove(&whi_messages_on(req->ep->link)->grants, req->grant_id);
    req->grant_id = 0;
}

void whi_recv_set_apart(wh_request *req) {
    unname_grant(req);  // of its envelope
    whi_list_remove(&req->op_link);
    whi_list_push_back(&whi_messages_of(req->worker)->any_source, &req->op_link);
}

void whi_recv_regain(wh_request *req) {
    whi_list_remove(&req->queue_link);  // it may be fetching
    if (req->awaits)
        whi_req_stop_awaiting(req);
    whi_behind_rest(req);
    unname_grant(req);
    req->send_id = 0;
    req->moved = 0;
    if (req->why) {
        whi_req_complete(req, req->why);  // it was cancelled meanwhile, and its buffer is free now
        return;
    }
    if (req->ops->reset)
        req->ops->reset(req);
    if (req->any)
        unbind(req);
    // What came since may be just what it waits for; the earliest is kept first.
    whi_match *m = &whi_messages_of(req->worker)->match[match_of(req)];
    whi_message *msg = whi_match_find(m, side_of(req), req->ep, req->tag, req->mask);
    req->stage = WHI_STAGE_QUEUED;
    if (!msg && req->ep && req->ep->eos) {
        whi_req_fail(req, WH_ECLOSED, "%s: %s", whi_req_text(req), whi_ep_sentence(req->ep));
        return;
    }
    if (!msg) {
        whi_match_repost(m, side_of(req), req);
        return;
    }
    whi_match_drop(m, msg);
    whi_recv_meet_kept(req, msg);
}

void whi_recv_end_withdrawn(wh_request *req) {
    req->fate = WHI_FATE_GOES_ON;
    // What was not matched has no place to go back to.  A parked object is in its user's hands, who must hear that it is over.
    bool placed = req->ops->match != WHI_MATCH_NONE && !req->no_place;
    if (!placed || req->stage == WHI_STAGE_PARKED)
        whi_req_fail(req, WH_ECANCELLED, "%s: the sender has withdrawn the message",
                     whi_req_text(req));
    else
        whi_recv_regain(req);
}

void whi_recv_withdrawn(wh_endpoint *ep, uint32_t send_id, bool broken) {
    whi_message *msg = whi_hash_get(&whi_messages_on(ep->link)->announced, send_id);
    if (msg && msg->ep == ep) {
        ep->rx_announced--;
        whi_message_unname(msg);
        if (msg->taken)
            return;  // its user has it and will find it gone
        whi_match_drop(&whi_messages_of(ep->worker)->match[match_of_class(msg->cls)], msg);
        whi_message_free(msg);
        return;
    }
    whi_list_foreach(node, &ep->ops) {
        wh_request *req = whi_container_of(node, wh_request, op_link);
        if (!req->ops->sink || req->send_id != send_id || req->stage == WHI_STAGE_QUEUED)
            continue;
        if (broken && !req->why)
            req->why = WH_ECANCELLED;  // a receive that has matched does not regain its place then
        if (req->held)
            req->fate = WHI_FATE_WITHDRAWN;
        else
            whi_recv_end_withdrawn(req);
        return;
    }
}

void whi_recv_drop_taken(whi_message *msg) {
    wh_endpoint *ep = msg->ep;
    whi_list_remove(&msg->ep_link);
    if (!msg->gone && (msg->flags & WHI_FLAG_ANNOUNCED))
        ep->rx_announced--;
    if (!msg->gone && (msg->flags & (WHI_FLAG_ANNOUNCED | WHI_FLAG_SYNC)))
        whi_recv_answer(ep, msg->send_id, WH_OK);
    whi_recv_settle(msg);
    whi_ep_release(ep);
}

wh_status whi_recv_taken(wh_request *req, whi_message *msg, const wh_op_opts *opts,
                         wh_request **out) {
    wh_endpoint *ep = msg->ep;
    if (msg->gone) {
        whi_req_discard(req);
        return WH_ECANCELLED;  // like any error, this leaves the message to its holder
    }
    whi_list_remove(&msg->ep_link);
    wh_status st = take(req, msg);
    if (st == WH_PENDING) {
        if (out)
            *out = req;
    } else {
        if (st == WH_OK && opts && opts->result)
            *opts->result = req->result;
        if (st == WH_OK && out)
            *out = NULL;
        whi_req_discard(req);
    }
    whi_ep_release(ep);
    return st;
}

const whi_req_ops whi_tag_recv_ops = {.text = "tag receive",
                                      .post = whi_recv_post,
                                      .withdraw = whi_recv_withdraw,
                                      .sink = whi_recv_sink,
                                      .landed = whi_recv_landed,
                                      .places = whi_recv_places,
                                      .fetched = whi_recv_fetched,
                                      .arrived = whi_recv_arrived,
                                      .match = WHI_MATCH_TAG,
                                      .receives = true,
                                      .names_grant = true,
                                      .brief = true};

static wh_status on_withdraw(wh_endpoint *ep, const whi_hdr *hdr, const void *payload) {
    (void)payload;
    if (!(uint32_t)hdr->tag)
        return whi_link_broken(ep->link, hdr, "a withdrawal of nothing");
    whi_recv_withdrawn(ep, (uint32_t)hdr->tag, hdr->aux == 1);
    return WH_OK;
}

void whi_recv_init(wh_worker *worker) {
    whi_ordered_on(worker, WHI_CLASS_WITHDRAW, on_withdraw);
}
