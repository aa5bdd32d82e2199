// SPDX-License-Identifier: BSD-3-Clause
//
// The life of an endpoint, see endpoint.h.
//
// An endpoint ends once, in whi_ep_end, whatever the reason: there all that is pending is completed.  Its memory stays
// until its user and all requests have let go.  What arrived whole before the end can still be received.
#include "message/endpoint.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "link/dial.h"
#include "message/deliver.h"
#include "message/objects.h"
#include "message/recv.h"
#include "message/send.h"

wh_status whi_ep_new(wh_worker *worker, wh_endpoint **out) {
    wh_endpoint *ep = whi_aligned_alloc(64, whi_messages_of(worker)->ep_size);
    if (!ep)
        return WH_ENOMEM;
    memset(ep, 0, whi_messages_of(worker)->ep_size);
    ep->worker = worker;
    ep->refs = 2;  // the user's and the library's
    ep->bulk_serial = 1;
    ep->state = WHI_EP_CONNECTING;
    whi_list *lists[] = {&ep->link_node, &ep->dirty_node, &ep->abort_node, &ep->sendq, &ep->ops,
                         &ep->waiting,   &ep->taken,      &ep->early,      &ep->ahead};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        whi_list_init(lists[i]);
    for (int i = 0; i < WHI_MATCH_COUNT; i++)
        whi_match_ep_init(&ep->match[i]);
    whi_list_push_back(&whi_messages_of(worker)->endpoints, &ep->worker_node);
    worker->handles++;
    worker->counters.endpoints++;
    *out = ep;
    return WH_OK;
}

static void add_counters(wh_counters *to, const wh_counters *from) {
    to->sent_messages += from->sent_messages;
    to->sent_bytes += from->sent_bytes;
    to->received_messages += from->received_messages;
    to->received_bytes += from->received_bytes;
    to->rendezvous += from->rendezvous;
    to->no_credit += from->no_credit;
    to->unexpected += from->unexpected;
}

void whi_ep_add_counters(const wh_worker *worker, wh_counters *to) {
    for (const whi_list *n = whi_messages_of(worker)->endpoints.next;
         n != &whi_messages_of(worker)->endpoints; n = n->next)
        add_counters(
            to, &whi_container_of((whi_list *)(uintptr_t)n, wh_endpoint, worker_node)->counters);
    to->eager = to->sent_messages - to->rendezvous;
}

void whi_ep_release(wh_endpoint *ep) {
    if (--ep->refs || atomic_load(&ep->submitted))
        return;
    wh_worker *worker = ep->worker;
    add_counters(&worker->counters, &ep->counters);
    whi_list_remove(&ep->worker_node);
    worker->handles--;
    whi_free(ep->error);
    whi_free(ep);
}

void whi_ep_refresh(wh_endpoint *ep) {
    bool open = ep->state == WHI_EP_OPEN && !ep->eos && !ep->user_gone;
    ep->fast_limit = open && whi_list_empty(&ep->sendq) ? ep->link->eager_max + 1 : 0;
}

void whi_ep_mark(wh_endpoint *ep) {
    if (ep->dirty || !ep->link)
        return;
    ep->dirty = true;
    whi_list_push_back(&whi_messages_on(ep->link)->dirty_eps, &ep->dirty_node);
    whi_link_mark(ep->link);
}

wh_status whi_ep_usable(const wh_endpoint *ep) {
    if (ep->user_gone || ep->eos)
        return WH_ECLOSED;
    if (ep->state == WHI_EP_CLOSED)
        return ep->why != WH_OK ? ep->why : WH_ECLOSED;
    return WH_OK;
}

const char *whi_ep_sentence(const wh_endpoint *ep) {
    // Its link may have gone since, which is no reason of its own.
    if (ep->eos && (ep->why == WH_OK || ep->why == WH_ECLOSED))
        return "the peer has closed the endpoint";
    if (ep->error)
        return ep->error;
    // The user's close ends receives at once, and the endpoint only when the peer has answered.
    return ep->why != WH_OK ? wh_status_text(ep->why) : "the endpoint was closed";
}

// end_dial ends the dial of an endpoint that has been opened or has ended.
static void end_dial(wh_endpoint *ep) {
    if (ep->dial)
        whi_dial_end(ep->dial);
    ep->dial = NULL;
}

wh_status whi_ep_join(whi_link *link, wh_endpoint *ep) {
    whi_link_messages *on = whi_messages_on(link);
    wh_status st = whi_hash_put(&on->eps, ep->number, ep);
    if (st == WH_OK)
        whi_list_push_back(&on->ep_list, &ep->link_node);
    return st;
}

void whi_ep_leave(whi_link *link, wh_endpoint *ep) {
    whi_link_messages *on = whi_messages_on(link);
    if (on->last_ep == ep)
        on->last_ep = NULL;
    (void)whi_hash_remove(&on->eps, ep->number);
    whi_list_remove(&ep->link_node);
}

void whi_ep_bind(wh_endpoint *ep, whi_link *link) {
    ep->link = link;
    ep->number = whi_messages_on(link)->next_number;
    if (ep->number > UINT32_MAX - 2) {
        ep->link = NULL;
        whi_ep_end(ep, WH_ELIMIT, "the link to the peer has used up its endpoint numbers");
        return;
    }
    if (whi_ep_join(link, ep) != WH_OK) {
        ep->link = NULL;
        whi_ep_end(ep, WH_ENOMEM, "no memory for the endpoint");
        return;
    }
    whi_messages_on(link)->next_number += 2;
    ep->lane = link->tx;
    const whi_config *config = &ep->worker->ctx->config;
    ep->rx_window = (int64_t)config->credit;
    whi_hdr hdr = {.cls = WHI_CLASS_OPEN,
                   .ep = ep->number,
                   .seq = (uint32_t)config->announce_max,
                   .tag = ep->listener_id,
                   .arg = config->credit};
    whi_link_control(link, &hdr, NULL);
}

void whi_ep_opened(wh_endpoint *ep, uint64_t credit, uint32_t announce_limit) {
    ep->state = WHI_EP_OPEN;
    ep->lane = ep->link->tx;
    ep->credit = credit > INT64_MAX ? INT64_MAX : (int64_t)credit;
    ep->announce_limit = announce_limit;
    ep->was_open = true;
    end_dial(ep);
    if (ep->connect_req) {
        wh_request *req = ep->connect_req;
        ep->connect_req = NULL;
        whi_req_finish(req, WH_OK);
    }
    whi_ep_refresh(ep);
    if (!whi_list_empty(&ep->sendq))
        whi_ep_mark(ep);
}

// What was announced is fetched in pieces of this part of the credit: as large as it takes to pay for waking the peer.
enum { AHEAD_PART = 16 };

void whi_ep_give_credit(wh_endpoint *ep, uint64_t cost) {
    ep->rx_owed += cost;
    // Returned in large pieces: a sender without credit announces, so it never waits for one.
    uint64_t credit = ep->worker->ctx->config.credit;
    bool ahead = !whi_list_empty(&ep->ahead);
    if (ep->rx_owed < (ahead ? credit / AHEAD_PART : credit / 4))
        return;
    if (!ep->link || ep->link->dead || ep->state != WHI_EP_OPEN)
        return;
    if (ahead)
        whi_ahead_fetch(ep);
    if (ep->rx_owed < credit / 4)
        return;
    whi_hdr hdr = {.cls = WHI_CLASS_CREDIT, .ep = ep->number, .arg = ep->rx_owed};
    ep->rx_window += (int64_t)ep->rx_owed;
    ep->rx_owed = 0;
    whi_link_control(ep->link, &hdr, NULL);
}

// awaits_chunks says whether the peer's close has overtaken payloads that matched receives are still to get.  That can only be
// on a lane that reorders or lends; on any other it would be a peer that sends less than it was granted.
static bool awaits_chunks(const wh_endpoint *ep) {
    if (ep->state != WHI_EP_OPEN || !ep->eos)
        return false;
    const whi_lane_ops *ops = ep->link->rx->ops;
    if (!ops->reorders && !ops->lends)
        return false;
    for (const whi_list *node = ep->ops.next; node != &ep->ops; node = node->next) {
        const wh_request *req = whi_container_of((whi_list *)(uintptr_t)node, wh_request, op_link);
        if (req->ops->receives && req->stage == WHI_STAGE_MOVING)
            return true;
    }
    return false;
}

// tell_lost runs the user's callback at the end of the pass.  Whose end it tells of has sent all that came before it.
static void tell_lost(whi_deferred *deferred) {
    wh_endpoint *ep = whi_container_of(deferred, wh_endpoint, lost_call);
    ep->lost_queued = false;
    if (!awaits_chunks(ep) && ep->lost && !ep->user_gone && !ep->lost_told) {
        ep->lost_told = true;
        ep->lost(ep, ep->eos ? WH_ECLOSED : ep->why, ep->lost_arg);
    }
    whi_ep_release(ep);
}

static void queue_lost(wh_endpoint *ep) {
    if (!ep->lost || ep->lost_told || ep->lost_queued || ep->user_gone)
        return;
    ep->lost_queued = true;
    whi_ep_retain(ep);
    whi_worker_defer(ep->worker, &ep->lost_call, tell_lost);
}

static wh_status endpoint_on_lost_owned(wh_endpoint *ep, wh_lost_fn fn, void *arg) {
    ep->lost = fn;
    ep->lost_arg = arg;
    if (ep->state == WHI_EP_CLOSED || ep->eos)
        queue_lost(ep);
    return WH_OK;
}

wh_status wh_endpoint_on_lost(wh_endpoint *ep, wh_lost_fn fn, void *arg) {
    return ep ? WHI_OWNED(ep->worker, endpoint_on_lost_owned(ep, fn, arg)) : WH_EINVAL;
}

// outlives says whether a matched operation goes on without its endpoint: a receive from any source that has a place to go
// back to.  It ends there if it was cancelled.  Of a parked object, which an allocator knows, the user must hear.
static bool outlives(const wh_request *req) {
    bool receives = req->ops->receives;
    return receives && req->any && !req->no_place && req->stage != WHI_STAGE_ASKING &&
           req->stage != WHI_STAGE_PARKED;
}

void whi_ep_let_go(wh_request *req) {
    wh_endpoint *ep = req->ep;
    whi_ep_retain(ep);
    req->fate = WHI_FATE_GOES_ON;
    if (outlives(req))
        whi_recv_regain(req);
    else
        whi_req_finish(req, req->why);
    whi_ep_forget_link(ep);
    whi_ep_release(ep);
}

// needs_nobody says whether a receive has all of its object, and only its user has yet to say where to: it goes on, however
// its endpoint ends, unless the user aborts that.
static bool needs_nobody(const wh_request *req, wh_status why) {
    bool waits = req->stage == WHI_STAGE_ASKING || req->stage == WHI_STAGE_PARKED;
    return waits && why != WH_ECANCELLED && whi_object_is_whole(req);
}

// end_request completes one pending operation of an endpoint that ends.  False: it must stay, since the lane is in the
// middle of its buffer.
static bool end_request(wh_endpoint *ep, wh_request *req, wh_status why) {
    whi_link *link = ep->link;
    bool receives = req->ops->receives;
    if (receives && needs_nobody(req, why)) {
        bool asking = req->stage == WHI_STAGE_ASKING;
        if (!asking)
            whi_recv_set_apart(req);
        return !asking;
    }
    bool busy = link && !link->dead &&
                (whi_messages_on(link)->mid == req || whi_messages_on(link)->landing == req);
    if (busy || req->stage == WHI_STAGE_ASKING || req->held) {
        if (req->held) {
            req->fate = WHI_FATE_LET_GO;  // when the lane has given back what it holds
            whi_list_remove(&req->queue_link);
        } else if (busy && whi_messages_on(link)->mid == req) {
            req->fate = WHI_FATE_LAST_CHUNK;
        }
        if (!outlives(req)) {
            if (link && !link->dead && (busy || req->held))
                whi_req_start_grace(req, why);
            req->why = why;
        }
        return false;
    }
    if (receives && req->stage == WHI_STAGE_QUEUED) {
        int which = req->ops->match;
        if (which != WHI_MATCH_NONE)
            whi_match_unpost(&whi_messages_of(ep->worker)->match[which], &ep->match[which], req);
    } else if (outlives(req)) {
        whi_recv_regain(req);
        return true;
    }
    whi_req_fail(req, why, "%s: %s", whi_req_text(req), whi_ep_sentence(ep));
    return true;
}

static void end_requests(wh_endpoint *ep, wh_status why) {
    whi_list stay, all;
    whi_list_init(&stay);
    whi_list_init(&all);
    whi_list_append(&all, &ep->ops);
    whi_list *node;
    while ((node = whi_list_first(&all))) {
        wh_request *req = whi_container_of(node, wh_request, op_link);
        if (!end_request(ep, req, why)) {
            whi_list_remove(node);
            whi_list_push_back(&stay, node);
        }
    }
    whi_list_append(&ep->ops, &stay);
}

static void drop_early(wh_endpoint *ep) {
    whi_list *node;
    while ((node = whi_list_pop_front(&ep->early)))
        whi_free(whi_container_of(node, whi_early, link));
    ep->early_count = 0;
}

void whi_ep_forget_link(wh_endpoint *ep) {
    bool left = !whi_list_linked(&ep->link_node);  // it may be in the middle of its end
    if (ep->state == WHI_EP_CLOSED && left && whi_list_empty(&ep->ops))
        ep->link = NULL;
}

void whi_ep_end(wh_endpoint *ep, wh_status why, const char *sentence) {
    if (ep->state == WHI_EP_CLOSED)
        return;
    ep->state = WHI_EP_CLOSED;
    if (ep->eos && why == WH_EPEER)
        why = WH_ECLOSED;  // it had said its last word before it went
    ep->why = why;
    ep->error = whi_strdup(sentence ? sentence : wh_status_text(why));
    ep->fast_limit = 0;
    ep->announced = 0;
    end_dial(ep);
    ep->connect_req = NULL;  // it is among the operations
    ep->close_req = NULL;
    whi_recv_drop_messages(ep, ep->user_gone);
    end_requests(ep, why);
    drop_early(ep);
    whi_link *link = ep->link;
    if (ep->dirty)
        whi_list_remove(&ep->dirty_node);
    ep->dirty = false;
    if (link)
        whi_ep_leave(link, ep);
    whi_ep_forget_link(ep);
    ep->worker->counters.endpoints--;
    queue_lost(ep);
    whi_ep_release(ep);  // the library's hold
    if (link)
        whi_link_maybe_close(link);
}

void whi_ep_peer_closed(wh_endpoint *ep) {
    whi_hdr hdr = {.cls = WHI_CLASS_CLOSE_ACK, .ep = ep->number};
    whi_link_control(ep->link, &hdr, NULL);
    ep->eos = true;
    whi_ep_refresh(ep);
    // Sends have nobody to take them; receives that have not matched never will.
    whi_list_foreach(node, &ep->ops) {
        wh_request *req = whi_container_of(node, wh_request, op_link);
        bool receives = req->ops->receives;
        if (req == ep->close_req || (receives && req->stage != WHI_STAGE_QUEUED))
            continue;
        (void)end_request(ep, req, WH_ECLOSED);
    }
    queue_lost(ep);
    if (ep->user_gone)
        whi_ep_close_acked(ep);
}

void whi_ep_settle(wh_endpoint *ep) {
    if (ep->state != WHI_EP_OPEN)
        return;
    if (ep->eos)
        queue_lost(ep);
    if (!whi_list_empty(&ep->waiting)) {
        // Back to the head of the queue: they were there before.
        whi_list waiting;
        whi_list_init(&waiting);
        whi_list_append(&waiting, &ep->waiting);
        whi_list_append(&waiting, &ep->sendq);
        whi_list_append(&ep->sendq, &waiting);
        whi_ep_refresh(ep);
        whi_ep_mark(ep);
    }
    if (!ep->close_req || ep->close_sent || ep->sends ||
        !whi_message_user_of(ep->worker)->settled(ep))
        return;
    ep->close_sent = true;
    whi_hdr hdr = {.cls = WHI_CLASS_CLOSE, .ep = ep->number, .seq = ep->tx_seq++};
    whi_link_control(ep->link, &hdr, NULL);
}

// finish_close completes the close and ends the endpoint quietly.
static void finish_close(wh_endpoint *ep, wh_status status) {
    wh_request *req = ep->close_req;
    ep->close_req = NULL;
    if (req && status == WH_OK)
        whi_req_finish(req, WH_OK);
    else if (req)
        whi_req_fail(req, status, "close: the peer %s has not acknowledged it",
                     ep->link ? ep->link->name : "");
    whi_ep_end(ep, WH_ECLOSED, "the endpoint was closed");
}

void whi_ep_close_acked(wh_endpoint *ep) {
    if (ep->state == WHI_EP_OPEN && ep->user_gone)
        finish_close(ep, WH_OK);
}

static void send_abort(wh_endpoint *ep) {
    if (!ep->link || ep->link->dead)
        return;
    whi_hdr hdr = {.cls = WHI_CLASS_ABORT, .ep = ep->number};
    whi_link_control(ep->link, &hdr, NULL);
}

// give_up_close ends an orderly close that takes too long.
static void give_up_close(wh_request *req, wh_status why) {
    wh_endpoint *ep = req->ep;
    if (ep->state == WHI_EP_OPEN)
        send_abort(ep);
    finish_close(ep, why);
}

static wh_status start_close(wh_request *req) {
    wh_endpoint *ep = req->ep;
    if (ep->state == WHI_EP_CLOSED) {
        whi_recv_drop_messages(ep, true);
        return WH_OK;  // it ended before; there is nobody to tell
    }
    if (ep->state == WHI_EP_CONNECTING) {
        if (ep->link)
            send_abort(ep);
        whi_ep_end(ep, WH_ECLOSED, "the endpoint was closed before it was connected");
        return WH_OK;
    }
    // Receives of our own end at once: nobody is there to look at what they get.
    whi_list_foreach(node, &ep->ops) {
        wh_request *r = whi_container_of(node, wh_request, op_link);
        bool receives = r->ops->receives;
        if (receives && r->stage == WHI_STAGE_QUEUED)
            (void)end_request(ep, r, WH_ECLOSED);
    }
    whi_recv_drop_messages(ep, true);
    if (ep->eos) {
        whi_ep_end(ep, WH_ECLOSED, "both sides have closed");
        return WH_OK;
    }
    ep->close_req = req;
    whi_req_accept(req, WHI_STAGE_ANSWER);
    whi_ep_settle(ep);
    return WH_PENDING;
}

// give_up_handle takes the handle from the user.
static void give_up_handle(wh_endpoint *ep) {
    ep->user_gone = true;
    whi_ep_refresh(ep);
}

static wh_status post_close(wh_request *req) {
    wh_endpoint *ep = req->ep;
    give_up_handle(ep);
    wh_status st = start_close(req);
    whi_ep_release(ep);  // the user's hold
    return st;
}

static const whi_req_ops close_ops = {.text = "close",
                                      .post = post_close,
                                      .withdraw = give_up_close,
                                      .match = WHI_MATCH_NONE,
                                      .gives_up_handle = true};

wh_status wh_endpoint_close(wh_endpoint *ep, const wh_op_opts *opts, wh_request **out) {
    if (!ep)
        return WH_EINVAL;
    wh_worker *worker = ep->worker;
    if (!whi_worker_is_owner(worker) &&
        (worker->destroyed || worker->fork_generation != whi_fork_generation()))
        return whi_ep_close_orphan(ep);
    wh_request *req = whi_req_new(worker, ep, &close_ops, opts, out != NULL);
    if (!req) {
        wh_endpoint_abort(ep);
        return WH_ENOMEM;
    }
    if (!req->timeout_ms)
        req->timeout_ms = (uint32_t)worker->ctx->config.close_timeout;
    wh_status st = whi_req_start(req, opts, out);
    if (st == WH_EAGAIN || st == WH_ECLOSED)
        wh_endpoint_abort(ep);  // from another thread, and the queue is full or closed
    return st;
}

wh_status whi_ep_close_orphan(wh_endpoint *ep) {
    wh_worker *worker = ep->worker;
    if (worker->fork_generation != whi_fork_generation())
        return WH_EFORKED;
    pthread_mutex_lock(&worker->foreign_lock);
    whi_ep_release(ep);
    whi_worker_unlock_or_free(worker);
    return WH_OK;
}

wh_status wh_endpoint_close_wait(wh_endpoint *ep, int timeout_ms) {
    wh_status st = ep ? whi_req_may_wait(ep->worker) : WH_EINVAL;
    if (st != WH_OK)
        return st;
    wh_op_opts opts = {.size = sizeof(opts),
                       .timeout_ms = timeout_ms > 0 ? (uint32_t)timeout_ms : 0};
    wh_request *req = NULL;
    st = wh_endpoint_close(ep, &opts, &req);
    return st == WH_PENDING ? whi_req_wait_result(req, -1, NULL) : st;
}

static void abort_now(wh_endpoint *ep) {
    give_up_handle(ep);
    if (ep->state != WHI_EP_CLOSED) {
        assert(ep->refs >= 2);  // the user's, given up below, and the library's
        send_abort(ep);
        whi_ep_end(ep, WH_ECANCELLED, "the endpoint was aborted");
    } else {
        whi_recv_drop_messages(ep, true);
    }
    whi_ep_release(ep);
}

void wh_endpoint_abort(wh_endpoint *ep) {
    if (!ep)
        return;
    wh_worker *worker = ep->worker;
    if (whi_worker_is_owner(worker)) {
        abort_now(ep);
        return;
    }
    if (worker->fork_generation != whi_fork_generation())
        return;
    pthread_mutex_lock(&worker->foreign_lock);
    if (worker->destroyed) {
        whi_ep_release(ep);
        whi_worker_unlock_or_free(worker);
        return;
    }
    // A list of its own, so that this cannot fail for want of room in the queue.
    whi_list_push_back(&whi_messages_of(worker)->foreign_aborts, &ep->abort_node);
    // Under the lock: this may have been the last handle, and without it the worker could be gone.
    whi_worker_ask(worker);
    pthread_mutex_unlock(&worker->foreign_lock);
}

void whi_ep_run_foreign_aborts(wh_worker *worker) {
    whi_list mine;
    whi_list_init(&mine);
    pthread_mutex_lock(&worker->foreign_lock);
    whi_list_append(&mine, &whi_messages_of(worker)->foreign_aborts);
    pthread_mutex_unlock(&worker->foreign_lock);
    // What a thread has submitted before it gave the endpoint up is in the queue by now: it must find the endpoint.
    if (!whi_list_empty(&mine))
        (void)whi_worker_submit_run(worker);
    whi_list *node;
    while ((node = whi_list_pop_front(&mine)))
        abort_now(whi_container_of(node, wh_endpoint, abort_node));
}

void whi_ep_release_aborted(wh_worker *worker) {
    whi_list *node;
    while ((node = whi_list_pop_front(&whi_messages_of(worker)->foreign_aborts)))
        whi_ep_release(whi_container_of(node, wh_endpoint, abort_node));
}

static wh_status status_owned(const wh_endpoint *ep) {
    if (ep->state == WHI_EP_CONNECTING)
        return WH_PENDING;
    if (ep->state == WHI_EP_OPEN)
        return ep->eos ? WH_ECLOSED : WH_OK;
    return ep->why;
}

wh_status wh_endpoint_status(const wh_endpoint *ep) {
    return ep ? WHI_OWNED(ep->worker, status_owned(ep)) : WH_EINVAL;
}

static wh_status error_owned(const wh_endpoint *ep, const char **text) {
    *text = ep->error || ep->eos ? whi_ep_sentence(ep) : "";
    return WH_OK;
}

const char *wh_endpoint_error(const wh_endpoint *ep) {
    const char *text = "";
    if (ep && WHI_OWNED(ep->worker, error_owned(ep, &text)) == WH_ECLOSED)
        (void)error_owned(ep, &text);  // its worker is gone, and nothing changes any more
    return text;
}

wh_worker *wh_endpoint_worker(const wh_endpoint *ep) {
    return ep ? ep->worker : NULL;
}

void wh_endpoint_set_data(wh_endpoint *ep, void *data) {
    ep->data = data;
}

void *wh_endpoint_data(const wh_endpoint *ep) {
    return ep->data;
}

static wh_status endpoint_lanes_owned(const wh_endpoint *ep, char *text, size_t size) {
    if (!ep->link || !ep->link->tx) {
        snprintf(text, size, "none");
        return ep->state == WHI_EP_CONNECTING ? WH_PENDING : WH_ECLOSED;
    }
    char over[160];
    ep->link->tx->ops->describe(ep->link->tx, over, sizeof(over));
    snprintf(text, size, "%s (%s)", ep->link->tx->ops->name, over);
    return WH_OK;
}

wh_status wh_endpoint_lanes(const wh_endpoint *ep, char *text, size_t size) {
    return ep && text && size ? WHI_OWNED(ep->worker, endpoint_lanes_owned(ep, text, size))
                              : WH_EINVAL;
}

static wh_status endpoint_peer_owned(const wh_endpoint *ep, char *text, size_t size) {
    snprintf(text, size, "%s", ep->link ? ep->link->name : "");
    return ep->link ? WH_OK : ep->state == WHI_EP_CONNECTING ? WH_PENDING : WH_ECLOSED;
}

wh_status wh_endpoint_peer(const wh_endpoint *ep, char *text, size_t size) {
    return ep && text && size ? WHI_OWNED(ep->worker, endpoint_peer_owned(ep, text, size))
                              : WH_EINVAL;
}

static wh_status endpoint_counters_owned(const wh_endpoint *ep, wh_counters *counters) {
    *counters = ep->counters;
    counters->eager = counters->sent_messages - counters->rendezvous;
    return WH_OK;
}

wh_status wh_endpoint_counters(const wh_endpoint *ep, wh_counters *counters) {
    return ep && counters ? WHI_OWNED(ep->worker, endpoint_counters_owned(ep, counters))
                          : WH_EINVAL;
}

void whi_ep_close_now(wh_endpoint *ep) {
    whi_ep_retain(ep);
    if (ep->state != WHI_EP_CLOSED)
        send_abort(ep);
    whi_ep_end(ep, WH_ECLOSED, "the worker was destroyed");
    whi_recv_drop_messages(ep, true);
    whi_ep_release(ep);
}

// ---- The records of an endpoint's life.

static wh_status on_close(wh_endpoint *ep, const whi_hdr *hdr, const void *payload) {
    (void)hdr, (void)payload;
    whi_ep_peer_closed(ep);
    return WH_OK;
}

// find finds the endpoint of a control record; NULL with WH_OK: it has ended.
static wh_status find(whi_link *link, const whi_hdr *hdr, wh_endpoint **ep) {
    *ep = whi_ep_of_number(link, hdr->ep);
    return *ep || whi_ep_known(link, hdr->ep)
               ? WH_OK
               : whi_link_broken(link, hdr, "there is no such endpoint");
}

static wh_status on_credit(whi_link *link, const whi_hdr *hdr, const void *payload) {
    (void)payload;
    wh_endpoint *ep;
    wh_status st = find(link, hdr, &ep);
    if (!ep)
        return st;
    if (hdr->arg > INT64_MAX / 2 || ep->credit > INT64_MAX / 2)
        return whi_link_broken(link, hdr, "more credit than there is");
    ep->credit += (int64_t)hdr->arg;
    if (!whi_list_empty(&ep->sendq))  // credit is what the first of them may have waited for
        whi_ep_mark(ep);
    return WH_OK;
}

static wh_status on_close_ack(whi_link *link, const whi_hdr *hdr, const void *payload) {
    (void)payload;
    wh_endpoint *ep;
    wh_status st = find(link, hdr, &ep);
    if (!ep)
        return st;
    if (!ep->close_sent)
        return whi_link_broken(link, hdr, "nothing was closed");
    whi_ep_close_acked(ep);
    return WH_OK;
}

static wh_status on_abort(whi_link *link, const whi_hdr *hdr, const void *payload) {
    (void)payload;
    wh_endpoint *ep;
    wh_status st = find(link, hdr, &ep);
    if (ep)
        whi_ep_end(ep, WH_EPEER, "the peer has aborted the endpoint");
    return st;
}

void whi_endpoint_init(wh_worker *worker) {
    whi_ordered_on(worker, WHI_CLASS_CLOSE, on_close);
    whi_control_on(worker, WHI_CLASS_CREDIT, on_credit, 0);
    whi_control_on(worker, WHI_CLASS_CLOSE_ACK, on_close_ack, 0);
    whi_control_on(worker, WHI_CLASS_ABORT, on_abort, 0);
    whi_control_on(worker, WHI_CLASS_BYE, whi_link_record, 0);
    whi_control_on(worker, WHI_CLASS_SWITCH, whi_link_record, 0);
    whi_control_on(worker, WHI_CLASS_LANE_OFFER, whi_link_record, WHI_LANE_PIECE);
}
