// SPDX-License-Identifier: BSD-3-Clause
//
// Work from other threads: a bounded queue of requests and calls that the owner takes in its progress.
//
// The low bits of a queued pointer say what it is.  A full queue refuses, and then nothing has happened.
#include "base/alloc.h"
#include "message/endpoint.h"
#include "message/recv.h"
#include "message/request.h"
#include "message/send.h"
#include "rma/native.h"
#include "rma/rma.h"
#include "worker/worker.h"

enum { WORK_REQUEST = 0, WORK_CALL = 1, WORK_MASK = 7 };

typedef struct call {
    void (*fn)(void *arg);
    void *arg;
} call;

static wh_status push(wh_worker *worker, void *ptr, unsigned what) {
    wh_status st = WH_OK;
    if (worker->fork_generation != whi_fork_generation())
        return WH_EFORKED;
    // The lock keeps wh_worker_destroy, which takes it to say that it is over, from missing what is pushed here.
    pthread_mutex_lock(&worker->foreign_lock);
    if (worker->submit_closed)
        st = WH_ECLOSED;
    else if (!whi_mpsc_push(&worker->submit, (void *)((uintptr_t)ptr | what)))
        st = WH_EAGAIN;
    pthread_mutex_unlock(&worker->foreign_lock);
    if (st == WH_OK)
        whi_worker_notify(worker);
    return st;
}

// submit hands a request to the owner from another thread.
static wh_status submit(wh_request *req, wh_request **out) {
    // The owner may complete and free it before this returns, so *out is written first.
    wh_worker *worker = req->worker;
    wh_endpoint *ep = req->ep;
    if (out)
        *out = req;
    // The owner may end the endpoint before it sees the request.
    if (ep)
        atomic_fetch_add(&ep->submitted, 1);
    wh_status st = push(worker, req, WORK_REQUEST);
    if (st == WH_OK)
        return WH_PENDING;
    if (ep)
        atomic_fetch_sub(&ep->submitted, 1);
    if (out)
        *out = NULL;
    whi_req_discard(req);
    return st;
}

wh_status whi_req_post(wh_request *req) {
    switch (req->kind) {
    case WHI_REQ_RECV_TAG:
    case WHI_REQ_RECV_OBJECT: return whi_recv_post(req);
    case WHI_REQ_CLOSE: return whi_ep_post_close(req);
    default: return whi_send_post(req);
    }
}

wh_status whi_req_start(wh_request *req, const wh_op_opts *opts, wh_request **out) {
    if (req->foreign)
        return submit(req, out);
    wh_status st = whi_req_post(req);
    if (st == WH_PENDING) {
        if (out)
            *out = req;
        return WH_PENDING;
    }
    if (st == WH_OK) {
        if (opts && opts->result)
            *opts->result = req->result;
        if (out)
            *out = NULL;
    }
    whi_req_discard(req);
    return st;
}

wh_status whi_req_may_wait(const wh_worker *worker) {
    return whi_worker_is_owner(worker) && worker->in_progress ? WH_EBUSY : WH_OK;
}

wh_status wh_worker_call(wh_worker *worker, void (*fn)(void *arg), void *arg) {
    if (!worker || !fn)
        return WH_EINVAL;
    call *c = whi_malloc(sizeof(*c));
    if (!c)
        return WH_ENOMEM;
    *c = (call){fn, arg};
    wh_status st = push(worker, c, WORK_CALL);
    if (st != WH_OK)
        whi_free(c);
    return st;
}

// post_foreign starts a request that another thread has made.  It was accepted when it was queued, so that even what ends
// at once is told by a completion.
static void post_foreign(wh_request *req) {
    if (req->ep) {
        whi_ep_retain(req->ep);
        atomic_fetch_sub(&req->ep->submitted, 1);
    }
    if (whi_req_accesses(req) && req->rkey)
        whi_rkey_take_over(req->rkey);
    bool cancelled = atomic_load(&req->cancel) && req->kind != WHI_REQ_CLOSE;
    wh_status st = cancelled ? WH_ECANCELLED : whi_req_post(req);
    if (st == WH_PENDING)
        return;
    whi_req_accept(req, WHI_STAGE_QUEUED);
    if (st == WH_OK)
        whi_req_finish(req, st);
    else
        whi_req_fail(req, st, "%s: %s", whi_req_text(req), wh_status_text(st));
}

unsigned whi_worker_submit_run(wh_worker *worker) {
    unsigned count = 0;
    void *ptr;
    // At most one queue's worth, so that busy threads cannot hold the owner here.
    while (count <= worker->submit.mask && (ptr = whi_mpsc_pop(&worker->submit))) {
        unsigned what = (unsigned)((uintptr_t)ptr & WORK_MASK);
        void *node = (void *)((uintptr_t)ptr & ~(uintptr_t)WORK_MASK);
        if (what == WORK_REQUEST) {
            post_foreign(node);
        } else {
            call c = *(call *)node;
            whi_free(node);
            c.fn(c.arg);
        }
        count++;
    }
    return count;
}

static void cancel_list(whi_list *list) {
    // A withdrawal may end other operations of the list: begin again after each.
    bool found;
    do {
        found = false;
        for (whi_list *node = list->next; node != list; node = node->next) {
            wh_request *req = whi_container_of(node, wh_request, op_link);
            if (atomic_exchange(&req->cancel, false)) {
                whi_req_withdraw(req, WH_ECANCELLED);
                found = true;
                break;
            }
        }
    } while (found);
}

void whi_worker_cancel_run(wh_worker *worker) {
    atomic_store(&worker->cancel_scan, false);
    whi_ep_run_foreign_aborts(worker);
    whi_share_run(worker);
    cancel_list(&worker->any_source);
    whi_list_foreach(node, &worker->endpoints) {
        wh_endpoint *ep = whi_container_of(node, wh_endpoint, worker_node);
        whi_ep_retain(ep);  // it may end with the last of its operations
        cancel_list(&ep->ops);
        whi_ep_release(ep);
    }
}
