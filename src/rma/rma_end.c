// SPDX-License-Identifier: BSD-3-Clause
//
// How an access ends, see rma.h: the owner has answered, or the user wants no answer any more.
//
// The peer goes on serving what was withdrawn, and counts it, and chunks for it may be on their way.  So that its user has
// the buffer back at once, the access is disowned: a request without a user takes its place on the link until the peer is
// done, and what still comes for it goes nowhere.
#include "rma/rma.h"

#include <string.h>

#include "message/stage.h"
#include "rma/native.h"

void whi_rma_store_old(void *old, size_t size, uint64_t value) {
    uint32_t half = (uint32_t)value;
    if (old)
        memcpy(old, size == sizeof(half) ? (void *)&half : (void *)&value, size);
}

void whi_rma_served(wh_endpoint *ep, uint64_t count) {
    if (count > whi_memory_at(ep)->served)
        whi_memory_at(ep)->served = count;
}

void whi_rma_completed(wh_request *req, whi_req_stage stage) {
    wh_endpoint *ep = req->ep;
    if (whi_access_of(req)->native || (stage != WHI_STAGE_ANNOUNCED && stage != WHI_STAGE_MOVING))
        return;
    // An endpoint that ends has set `announced` to zero.
    if (ep->state == WHI_EP_OPEN && stage == WHI_STAGE_MOVING)
        ep->announced--;
    whi_memory_at(ep)->active--;
    if (req->result.status == WH_OK)
        whi_rma_served(ep, req->tag);
    if (ep->state == WHI_EP_OPEN && !whi_list_empty(&ep->sendq))
        whi_ep_mark(ep);
}

// explain says of which access the owner has answered so.
static void explain(wh_request *req, wh_status status) {
    whi_req_explain(req, "%s of %llu bytes at offset %llu of the memory of %s: %s",
                    whi_req_text(req), (unsigned long long)req->buf.size,
                    (unsigned long long)whi_access_of(req)->remote, req->ep->link->name,
                    wh_status_text(status));
}

// replace gives what the peer has yet to serve to a request without a user and a buffer, which is counted in its place: the
// peer counts it, too, and a fence waits for it.  False: there is no memory.
static bool replace(wh_request *req) {
    wh_endpoint *ep = req->ep;
    bool get = req->ops == &whi_get_ops;
    wh_request *heir = whi_req_new(req->worker, ep, req->ops, NULL, false);
    if (!heir)
        return false;
    heir->disowned = 1;
    whi_access_of(heir)->rkey = whi_access_of(req)->rkey;
    whi_access_of(heir)->rkey->refs++;
    heir->buf = req->buf;
    heir->buf.type = NULL;  // which stays with the request that holds it, as its cursor does
    heir->buf.cursor = NULL;
    heir->result = req->result;
    whi_access_of(heir)->remote = whi_access_of(req)->remote;
    heir->tag = req->tag;
    heir->length = req->length;
    heir->accept = req->accept;
    heir->moved = req->moved;
    heir->serial = req->serial;
    uint32_t *id = get ? &req->grant_id : &req->send_id;
    *(get ? &heir->grant_id : &heir->send_id) = *id;
    heir->offer.ticket = 0;
    whi_idmap_replace(get ? &whi_messages_on(ep->link)->grants : &whi_messages_on(ep->link)->sends,
                      *id, heir);
    *id = 0;
    whi_req_accept(heir, WHI_STAGE_MOVING);
    ep->announced++;
    whi_memory_at(ep)->active++;
    return true;
}

bool whi_rma_may_withdraw(const wh_request *req) {
    const whi_link_messages *on = whi_messages_on(req->ep->link);
    if (req->staged)  // what is read ahead of it is here in a moment
        whi_stage_settle(req->worker, req, NULL, NULL);
    bool busy = req->held || on->landing == req || on->mid == req;
    return req->ep->state == WHI_EP_OPEN && !busy;
}

bool whi_rma_withdraw_moving(wh_request *req, wh_status why) {
    if (!whi_rma_may_withdraw(req))
        return false;
    // The word of an atomic nobody touches but whoever handles its answer, which will find nothing.  A put must be gone.
    bool atomic = req->ops == &whi_atomic_ops, put = req->ops == &whi_put_ops;
    if ((put && req->moved < req->accept) || (!atomic && !replace(req)))
        return false;
    explain(req, why);
    whi_req_complete(req, why);
    return true;
}

wh_status whi_rma_answered(whi_link *link, const whi_hdr *hdr) {
    int64_t status = (int64_t)hdr->arg;
    bool error = hdr->aux != WHI_ANSWER_VALUE && hdr->aux != WHI_ANSWER_DONE;
    if (hdr->aux > WHI_ANSWER_GET_FAILED || (error && (status >= 0 || status < WHI_STATUS_LAST)))
        return WH_EPROTOCOL;
    bool get = hdr->aux == WHI_ANSWER_GET_FAILED;
    wh_request *req = whi_idmap_get(
        get ? &whi_messages_on(link)->grants : &whi_messages_on(link)->sends, (uint32_t)hdr->tag);
    if (!req)
        return WH_OK;
    bool put = req->ops == &whi_put_ops;
    bool fits = get   ? req->ops == &whi_get_ops
                : put ? hdr->aux != WHI_ANSWER_VALUE
                      : req->ops == &whi_atomic_ops && hdr->aux != WHI_ANSWER_DONE;
    // "Done" is for what has moved; a put that moves is still the lane's.
    bool moved = put && req->stage == WHI_STAGE_MOVING && req->moved == req->accept;
    // A chunk that is landing is followed by no record before it has landed, but on a lane that lends.
    if (error && whi_messages_on(link)->landing == req)
        return WH_EPROTOCOL;
    if (!fits || req->ep->number != hdr->ep || (hdr->aux == WHI_ANSWER_DONE && !moved) ||
        (put && error && req->stage != WHI_STAGE_ANNOUNCED && !moved))
        return WH_EPROTOCOL;
    if (error) {
        if (put && req->stage == WHI_STAGE_ANNOUNCED)
            req->ep->announced--;
        explain(req, (wh_status)status);
    } else if (!put) {
        whi_rma_store_old(req->buf.ptr, req->buf.size, hdr->arg);
    }
    whi_req_complete_when_returned(req, error ? (wh_status)status : WH_OK);
    return WH_OK;
}

void whi_rma_link_ended(whi_link *link) {
    if (whi_memory_on(link)->mapping)
        whi_rkey_release(whi_memory_on(link)->mapping);
    whi_memory_on(link)->mapping = NULL;
    whi_native_link_ended(link);
    whi_share_link_ended(link);
}
