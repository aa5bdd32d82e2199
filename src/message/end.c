// SPDX-License-Identifier: BSD-3-Clause
//
// The end of an endpoint, whatever the reason.
//
// It ends once, in whi_ep_end: there all that is pending is completed, save that whose buffer a lane uses, which follows when
// the lane has returned it.  What arrived whole before the end can still be received, in order (recv_end.c).
#include <string.h>

#include "base/alloc.h"
#include "link/dial.h"
#include "message/endpoint.h"
#include "message/recv.h"
#include "message/stage.h"

// end_dial ends the dial of an endpoint that has been opened or has ended.
static void end_dial(wh_endpoint *ep) {
    if (ep->dial)
        whi_dial_end(ep->dial);
    ep->dial = NULL;
}

void whi_ep_returned(wh_request *req) {
    wh_endpoint *ep = req->ep;
    whi_ep_retain(ep);
    req->fate = WHI_FATE_GOES_ON;
    if (whi_recv_outlives(req))
        whi_recv_regain(req);
    else
        whi_req_complete(req, req->why);
    whi_ep_release_link(ep);
    whi_ep_release(ep);
}

bool whi_ep_complete_request(wh_endpoint *ep, wh_request *req, wh_status why) {
    whi_link *link = ep->link;
    bool receives = req->ops->receives;
    if (receives && why != WH_ECANCELLED && whi_recv_has_all(req)) {
        // It goes on, however its endpoint ends, unless the user aborts that.
        bool asking = req->stage == WHI_STAGE_ASKING;
        if (!asking)
            whi_recv_set_apart(req);
        return !asking;
    }
    bool busy = link && !link->dead &&
                (whi_messages_on(link)->mid == req || whi_messages_on(link)->landing == req);
    if (busy || req->stage == WHI_STAGE_ASKING || req->held) {
        if (req->held) {
            req->fate = WHI_FATE_RETURNED;  // when the lane has given back what it holds
            whi_list_remove(&req->queue_link);
        } else if (busy && whi_messages_on(link)->mid == req) {
            req->fate = WHI_FATE_LAST_CHUNK;
        }
        if (!whi_recv_outlives(req)) {
            if (link && !link->dead && (busy || req->held))
                whi_req_start_grace(req, why);
            req->why = why;
            whi_req_explain(req, "%s: %s", whi_req_text(req), whi_ep_sentence(ep));
        }
        return false;
    }
    if (receives && req->stage == WHI_STAGE_QUEUED) {
        int which = req->ops->match;
        if (which != WHI_MATCH_NONE)
            whi_match_unpost(&whi_messages_of(ep->worker)->match[which], &ep->match[which], req);
    } else if (whi_recv_outlives(req)) {
        whi_recv_regain(req);
        return true;
    }
    whi_req_fail(req, why, "%s: %s", whi_req_text(req), whi_ep_sentence(ep));
    return true;
}

static void end_requests(wh_endpoint *ep, wh_status why) {
    whi_list stay, all;
    whi_list_init(&stay);
    whi_list_take(&all, &ep->ops);
    whi_list *node;
    while ((node = whi_list_first(&all))) {
        wh_request *req = whi_container_of(node, wh_request, op_link);
        if (!whi_ep_complete_request(ep, req, why)) {
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

static void end_now(wh_endpoint *ep, wh_status why, const char *sentence) {
    ep->state = WHI_EP_CLOSED;
    if (!ep->user_gone)
        whi_ep_mark_lost(ep);
    if (ep->eos && why == WH_EPEER)
        why = WH_ECLOSED;  // it had said its last word before it went
    ep->why = why;
    ep->error = whi_strdup(sentence ? sentence : wh_status_text(why));
    ep->fast_limit = 0;
    ep->announced = 0;
    end_dial(ep);
    ep->connect_req = NULL;  // it is among the operations
    ep->close_req = NULL;
    if (ep->user_gone)
        whi_recv_drop_messages(ep);
    else
        whi_recv_drop_lost(ep);
    end_requests(ep, why);
    drop_early(ep);
    whi_link *link = ep->link;
    if (ep->dirty)
        whi_list_remove(&ep->dirty_node);
    ep->dirty = false;
    if (link)
        whi_ep_leave(link, ep);
    whi_ep_release_link(ep);
    ep->worker->counters.endpoints--;
    whi_ep_queue_lost(ep);
    whi_ep_release(ep);  // the library's hold
    if (link)
        whi_link_maybe_close(link);
}

void whi_ep_end(wh_endpoint *ep, wh_status why, const char *sentence) {
    if (ep->state == WHI_EP_CLOSED)
        return;
    // What a device is copying is waited for: what has come whole is received, and nothing is copied to or from what ends.
    whi_ep_retain(ep);
    whi_stage_settle(ep->worker, NULL, ep, NULL);
    if (ep->state != WHI_EP_CLOSED)
        end_now(ep, why, sentence);
    whi_ep_release(ep);
}
