// SPDX-License-Identifier: BSD-3-Clause
//
// How the user of an endpoint ends it: an orderly close, or an abort; and what the peer hears and says of that.
#include <stdio.h>

#include "message/endpoint.h"
#include "message/records.h"
#include "message/recv.h"

void whi_ep_send_abort(wh_endpoint *ep) {
    if (!ep->link || ep->link->dead)
        return;
    whi_hdr hdr = {.cls = WHI_CLASS_ABORT, .ep = ep->number};
    whi_link_control(ep->link, &hdr, NULL);
}

// complete_close completes the close and ends the endpoint quietly.
static void complete_close(wh_endpoint *ep, wh_status status) {
    wh_request *req = ep->close_req;
    ep->close_req = NULL;
    if (req && status == WH_OK)
        whi_req_complete(req, WH_OK);
    else if (req)
        whi_req_fail(req, status, "close: the peer %s has not acknowledged it",
                     ep->link ? ep->link->name : "");
    whi_ep_end(ep, WH_ECLOSED, "the endpoint was closed");
}

void whi_ep_close_acked(wh_endpoint *ep) {
    if (ep->state == WHI_EP_OPEN && ep->user_gone)
        complete_close(ep, WH_OK);
}

void whi_ep_peer_closed(wh_endpoint *ep) {
    whi_hdr hdr = {.cls = WHI_CLASS_CLOSE_ACK, .ep = ep->number};
    whi_link_control(ep->link, &hdr, NULL);
    ep->eos = true;
    whi_ep_mark_lost(ep);  // before any callback
    whi_ep_refresh(ep);
    // Sends have nobody to take them; receives that have not matched never will.
    whi_list_foreach(node, &ep->ops) {
        wh_request *req = whi_container_of(node, wh_request, op_link);
        bool receives = req->ops->receives;
        if (req == ep->close_req || (receives && req->stage != WHI_STAGE_QUEUED))
            continue;
        (void)whi_ep_complete_request(ep, req, WH_ECLOSED);
    }
    whi_ep_queue_lost(ep);
    if (ep->user_gone)
        whi_ep_close_acked(ep);
}

// fail_close fails an orderly close that takes too long.
static void fail_close(wh_request *req, wh_status why) {
    wh_endpoint *ep = req->ep;
    whi_ep_send_abort(ep);
    complete_close(ep, why);
}

static wh_status start_close(wh_request *req) {
    wh_endpoint *ep = req->ep;
    if (ep->state == WHI_EP_CLOSED) {
        whi_recv_drop_messages(ep);
        return WH_OK;  // it ended before; there is nobody to tell
    }
    if (ep->state == WHI_EP_CONNECTING && !ep->sends) {
        if (ep->link)
            whi_ep_send_abort(ep);
        whi_ep_end(ep, WH_ECLOSED, "the endpoint was closed before it was connected");
        return WH_OK;
    }
    // Receives of our own end at once: nobody is there to look at what they get.
    whi_list_foreach(node, &ep->ops) {
        wh_request *r = whi_container_of(node, wh_request, op_link);
        bool receives = r->ops->receives;
        if (receives && r->stage == WHI_STAGE_QUEUED)
            (void)whi_ep_complete_request(ep, r, WH_ECLOSED);
    }
    whi_recv_drop_messages(ep);
    if (ep->eos) {
        whi_ep_end(ep, WH_ECLOSED, "both sides have closed");
        return WH_OK;
    }
    ep->close_req = req;
    whi_req_accept(req, WHI_STAGE_ANSWER);
    whi_ep_settle(ep);
    return WH_PENDING;
}

// release_handle takes the handle from the user.
static void release_handle(wh_endpoint *ep) {
    ep->user_gone = true;
    whi_ep_refresh(ep);
}

static wh_status post_close(wh_request *req) {
    wh_endpoint *ep = req->ep;
    release_handle(ep);
    wh_status st = start_close(req);
    whi_ep_release(ep);  // the user's hold
    return st;
}

static const whi_req_ops close_ops = {.text = "close",
                                      .post = post_close,
                                      .withdraw = fail_close,
                                      .match = WHI_MATCH_NONE,
                                      .releases_handle = true};

wh_status wh_endpoint_close(wh_endpoint *ep, const wh_op_opts *opts, wh_request **out) {
    if (!ep)
        return WH_EINVAL;
    wh_worker *worker = ep->worker;
    wh_op_opts taken;
    if (whi_op_opts_strange(opts)) {
        wh_status st = whi_op_opts_take(&taken, opts);
        if (st != WH_OK) {
            wh_endpoint_abort(ep);  // the handle is released, whatever comes
            return st;
        }
        opts = &taken;
    }
    if (!whi_worker_is_owner(worker) &&
        (worker->destroyed || worker->fork_generation != whi_fork_generation()))
        return whi_ep_close_without_worker(ep);
    wh_request *req = whi_req_new(worker, ep, &close_ops, opts, out != NULL);
    if (!req) {
        wh_endpoint_abort(ep);
        return WH_ENOMEM;
    }
    if (!opts || !opts->timeout_ms)
        req->timeout_ms = (uint32_t)worker->ctx->config.close_timeout;
    wh_status st = whi_req_start(req, opts, out);
    if (st == WH_EAGAIN || st == WH_ECLOSED)
        wh_endpoint_abort(ep);  // from another thread, and the queue is full or closed
    return st;
}

wh_status whi_ep_close_without_worker(wh_endpoint *ep) {
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
    // Zero would be the default; at once is as little as a timer takes.
    wh_op_opts opts = {.size = sizeof(opts), .timeout_ms = timeout_ms ? timeout_ms : 1};
    wh_request *req = NULL;
    st = wh_endpoint_close(ep, &opts, &req);
    return st == WH_PENDING ? whi_req_wait_result(req, -1, NULL) : st;
}

static void abort_now(wh_endpoint *ep) {
    release_handle(ep);
    if (ep->state != WHI_EP_CLOSED) {
        assert(ep->refs >= 2);  // the user's, released below, and the library's
        whi_ep_send_abort(ep);
        whi_ep_end(ep, WH_ECANCELLED, "the endpoint was aborted");
    } else {
        whi_recv_drop_messages(ep);
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
    // A list of its own, so that this cannot fail for want of space in the queue.
    whi_list_push_back(&whi_messages_of(worker)->foreign_aborts, &ep->abort_node);
    // Under the lock: this may have been the last handle, and without it the worker could be gone.
    whi_worker_ask(worker);
    pthread_mutex_unlock(&worker->foreign_lock);
}

void whi_ep_run_foreign_aborts(wh_worker *worker) {
    whi_list mine;
    pthread_mutex_lock(&worker->foreign_lock);
    whi_list_take(&mine, &whi_messages_of(worker)->foreign_aborts);
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

void whi_ep_close_now(wh_endpoint *ep) {
    whi_ep_retain(ep);
    if (ep->state != WHI_EP_CLOSED)
        whi_ep_send_abort(ep);
    whi_ep_end(ep, WH_ECLOSED, "the worker was destroyed");
    whi_recv_drop_messages(ep);
    whi_ep_release(ep);
}

static wh_status on_close(wh_endpoint *ep, const whi_hdr *hdr, const void *payload) {
    (void)hdr, (void)payload;
    whi_ep_peer_closed(ep);
    return WH_OK;
}

static wh_status on_close_ack(whi_link *link, const whi_hdr *hdr, const void *payload) {
    (void)payload;
    wh_endpoint *ep;
    wh_status st = whi_ep_find(link, hdr, &ep);
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
    wh_status st = whi_ep_find(link, hdr, &ep);
    if (ep)
        whi_ep_end(ep, WH_EPEER, "the peer has aborted the endpoint");
    return st;
}

void whi_close_init(wh_worker *worker) {
    whi_ordered_on(worker, WHI_CLASS_CLOSE, on_close);
    whi_control_on(worker, WHI_CLASS_CLOSE_ACK, on_close_ack, 0);
    whi_control_on(worker, WHI_CLASS_ABORT, on_abort, 0);
}
