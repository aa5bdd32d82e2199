// SPDX-License-Identifier: BSD-3-Clause
//
// Prefetch: small messages that were announced for want of credit are asked for before their receive is there.
//
// Each would otherwise cost its receive a round trip to a sender that may be asleep.  What a prefetched message costs is taken
// off the credit that the endpoint owes its peer, so that it never holds more than that has allowed.  From then on it is
// a kept message like any other, save that its payload is on its way: `prefetch` is the receive of ours that brings it, and
// `waiter` the user's that has matched meanwhile.  A synchronous send is not asked for, since a grant says that it has
// matched.  Owner's thread.
#include "base/alloc.h"
#include "message/recv.h"

// is_held says whether wh_tag_take has given the message to its user, who has yet to receive or drop it.
static bool is_held(const whi_message *msg) {
    return msg->taken && whi_list_linked(&msg->ep_link);
}

// match_again is for a payload that came when the receive from any source that had matched it had just gone on without
// the endpoint.  Nothing that was sent behind it is kept any more (recv_end.c), so that it is kept in order.
static void match_again(whi_message *msg) {
    wh_endpoint *ep = msg->ep;
    whi_match *m = &whi_messages_of(ep->worker)->match[WHI_MATCH_TAG];
    wh_request *req =
        msg->taken ? NULL : whi_match_message(m, &ep->match[WHI_MATCH_TAG], ep, msg->tag);
    if (req) {
        whi_recv_bind(req, ep);
        req->stage = WHI_STAGE_MOVING;
        whi_recv_land_kept(req, msg);
    } else if (msg->taken || ep->user_gone) {
        whi_recv_settle(msg);
    } else {
        whi_match_keep(m, &ep->match[WHI_MATCH_TAG], msg);
    }
}

// fail ends a message whose payload does not come: its sender has withdrawn it, or it could not be had.
static void fail(whi_message *msg, wh_request *waiter, bool broken) {
    wh_endpoint *ep = msg->ep;
    if (is_held(msg)) {
        msg->gone = true;  // its user has it and will find it gone
        whi_ep_give_credit(ep, msg->size + WHI_MESSAGE_COST);
        return;
    }
    if (whi_list_linked(&msg->all_link))
        whi_match_drop(&whi_messages_of(ep->worker)->match[WHI_MATCH_TAG], msg);
    whi_recv_settle(msg);
    if (waiter && ep->state == WHI_EP_CLOSED && !whi_recv_outlives(waiter))
        whi_req_fail(waiter, ep->why, "%s: %s", whi_req_text(waiter), whi_ep_sentence(ep));
    else if (waiter && broken)
        whi_req_fail(waiter, WH_ECANCELLED, "%s: the sender's memory cannot be read",
                     whi_req_text(waiter));
    else if (waiter)
        whi_recv_end_withdrawn(waiter);
}

// prefetched goes on with a message whose prefetch has completed.  Not later, as a callback would be: the end of the endpoint
// may stand behind the payload, and must not end a receive whose message is here.
static void prefetched(wh_request *req, whi_req_stage stage) {
    (void)stage;
    whi_message *msg = req->arg;
    wh_endpoint *ep = msg->ep;
    wh_request *waiter = msg->waiter;
    wh_status status = req->result.status;
    msg->prefetch = NULL;
    if (waiter)
        whi_req_stop_awaiting(waiter);
    if (status == WH_OK) {
        // The receive that gets it counts it.
        ep->counters.received_messages--;
        ep->counters.received_bytes -= msg->length;
    }
    if (msg->dropped)
        whi_message_free(msg);
    else if (status != WH_OK)
        fail(msg, waiter, req->why != WH_OK);
    else if (waiter)
        whi_recv_land_kept(waiter, msg);
    else if (!whi_list_linked(&msg->all_link) && !is_held(msg))
        match_again(msg);
}

static wh_status never_posted(wh_request *req) {
    (void)req;
    return WH_EINVAL;  // `bring` accepts it at once
}

static const whi_req_ops prefetch_ops = {.text = "prefetch of a message",
                                         .post = never_posted,
                                         .withdraw = whi_req_complete,
                                         .completed = prefetched,
                                         .sink = whi_recv_sink,
                                         .landed = whi_recv_landed,
                                         .match = WHI_MATCH_NONE,
                                         .receives = true,
                                         .names_grant = true};

wh_request *whi_ahead_bring(whi_message *msg) {
    wh_endpoint *ep = msg->ep;
    wh_request *req = whi_req_new(ep->worker, ep, &prefetch_ops, NULL, false);
    msg->body = req ? whi_malloc(msg->length) : NULL;
    if (!msg->body) {
        if (req)
            whi_req_discard(req);
        return NULL;
    }
    msg->size = (uint32_t)msg->length;
    msg->prefetch = req;
    req->buf = whi_buffer_host(msg->body, msg->size);
    req->arg = msg;
    req->tag = msg->tag;
    req->length = msg->length;
    req->result = (wh_result){.size = msg->length, .tag = msg->tag};
    whi_req_accept(req, WHI_STAGE_QUEUED);
    return req;
}

bool whi_ahead_brings(const wh_request *req) {
    return req->ops == &prefetch_ops;
}

// prefetch_one asks for one message.  False: no memory for it now.
static bool prefetch_one(whi_message *msg) {
    wh_endpoint *ep = msg->ep;
    wh_request *req = whi_ahead_bring(msg);
    if (!req)
        return false;
    whi_list_remove(&msg->ahead_link);
    whi_message_unname(msg);
    msg->gone = false;
    msg->flags = 0;
    ep->rx_announced--;
    ep->rx_owed -= msg->size + WHI_MESSAGE_COST;
    req->send_id = msg->send_id;
    whi_recv_grant(req, WHI_PART_DATA, msg->length);
    return true;
}

wh_request *whi_ahead_keep(wh_endpoint *ep, const whi_hdr *hdr) {
    whi_hdr bare = *hdr;
    bare.cls = WHI_CLASS_TAG;
    bare.size = 0;
    whi_message *msg = whi_message_new(ep, &bare, NULL);
    if (!msg)
        return NULL;
    msg->length = hdr->size;
    wh_request *req = whi_ahead_bring(msg);
    if (!req) {
        whi_message_free(msg);
        return NULL;
    }
    ep->counters.unexpected++;
    whi_match_keep(&whi_messages_of(ep->worker)->match[WHI_MATCH_TAG], &ep->match[WHI_MATCH_TAG],
                   msg);
    return req;
}

static void prefetch(wh_endpoint *ep) {
    whi_list *node;
    while (ep->link && !ep->link->dead && !ep->link->doomed && !ep->user_gone &&
           (node = whi_list_first(&ep->ahead))) {
        whi_message *msg = whi_container_of(node, whi_message, ahead_link);
        if (ep->rx_owed < msg->length + WHI_MESSAGE_COST || !prefetch_one(msg))
            return;
    }
}

void whi_ahead_init(wh_worker *worker) {
    whi_messages_of(worker)->prefetch = prefetch;
}
