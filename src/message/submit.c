// SPDX-License-Identifier: BSD-3-Clause
//
// How a request starts: at once in the owner's thread, or handed over by another one; and how other threads ask for its
// cancellation.
#include "message/endpoint.h"
#include "message/request.h"

// post_foreign starts a request that another thread has made.  It was accepted when it was queued, so that even what ends
// at once is told by a completion.
static void post_foreign(whi_work *work) {
    wh_request *req = whi_container_of(work, wh_request, work);
    if (req->ep) {
        whi_ep_retain(req->ep);
        atomic_fetch_sub(&req->ep->submitted, 1);
    }
    if (req->ops->adopt)
        req->ops->adopt(req);
    bool cancelled = atomic_load(&req->others.cancel) && !req->ops->releases_handle;
    wh_status st = cancelled ? WH_ECANCELLED : req->ops->post(req);
    if (st == WH_PENDING)
        return;
    whi_req_accept(req, WHI_STAGE_QUEUED);
    if (st == WH_OK)
        whi_req_complete(req, st);
    else
        whi_req_fail(req, st, "%s: %s", whi_req_text(req), wh_status_text(st));
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
    req->work.fn = post_foreign;
    wh_status st = whi_worker_submit(worker, &req->work, req->ops->releases_handle);
    if (st == WH_OK)
        return WH_PENDING;
    if (ep)
        atomic_fetch_sub(&ep->submitted, 1);
    if (out)
        *out = NULL;
    whi_req_discard(req);
    return st;
}

wh_status whi_req_start(wh_request *req, const wh_op_opts *opts, wh_request **out) {
    if (req->foreign)
        return submit(req, out);
    wh_status st = req->ops->post(req);
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

void whi_req_cancel_asked(whi_list *list) {
    // A withdrawal may end other operations of the list: begin again after each.
    bool found;
    do {
        found = false;
        for (whi_list *node = list->next; node != list; node = node->next) {
            wh_request *req = whi_container_of(node, wh_request, op_link);
            if (atomic_exchange(&req->others.cancel, false)) {
                whi_req_withdraw(req, WH_ECANCELLED);
                found = true;
                break;
            }
        }
    } while (found);
}
