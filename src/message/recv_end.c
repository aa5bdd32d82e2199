// SPDX-License-Identifier: BSD-3-Clause
//
// What becomes of kept messages, and of receives that have matched, when their endpoint ends.
//
// Invariant: a receive never gets a message in place of an earlier one of the same endpoint that it would have accepted, unless
// some receive has failed for that.  So when a message is lost with its peer and no receive can say so, because none
// had matched it, or one from any source that goes on, or the worker's handler of objects, then all that is kept behind it is
// dropped as well.
#include "message/behind.h"
#include "message/recv.h"

bool whi_recv_outlives(const wh_request *req) {
    bool receives = req->ops->receives;
    return receives && req->any && !req->no_place && req->stage != WHI_STAGE_ASKING &&
           req->stage != WHI_STAGE_PARKED;
}

bool whi_recv_has_all(const wh_request *req) {
    bool waits = req->stage == WHI_STAGE_ASKING || req->stage == WHI_STAGE_PARKED;
    if (whi_behind_kept(req) && whi_behind_awaited(req))
        return true;
    return waits && req->ops->whole && req->ops->whole(req);
}

// drop_from drops what is kept in one table, from the message of that number on.
static void drop_from(wh_endpoint *ep, int which, uint64_t number) {
    whi_list_foreach(node, &ep->match[which].messages) {
        whi_message *msg = whi_container_of(node, whi_message, ep_link);
        if (msg->number < number)
            continue;
        bool announced = msg->flags & WHI_FLAG_ANNOUNCED;
        whi_match_drop(&whi_messages_of(ep->worker)->match[which], msg);
        if (announced)
            ep->rx_announced--;
        if (announced || (msg->flags & WHI_FLAG_SYNC))
            whi_recv_answer(ep, msg->send_id, WH_OK);
        whi_recv_settle(msg);
    }
}

// forget_taken parts those that wh_tag_take has given away from the peer.  Their users keep them, but will find them gone;
// whoever sent one waits no longer, and no close of its either.
static void forget_taken(wh_endpoint *ep) {
    whi_list_foreach(node, &ep->taken) {
        whi_message *msg = whi_container_of(node, whi_message, ep_link);
        if (!(msg->flags & WHI_FLAG_ANNOUNCED) || msg->gone)
            continue;
        ep->rx_announced--;
        whi_recv_answer(ep, msg->send_id, WH_OK);
        whi_message_unname(msg);
    }
}

void whi_recv_drop_messages(wh_endpoint *ep) {
    whi_messages_of(ep->worker)->drop_objects(ep);
    for (int which = 0; which < WHI_MATCH_COUNT; which++)
        drop_from(ep, which, 0);
    forget_taken(ep);
}

// first_lost returns the number of the first message that is lost and that no receive fails for; UINT64_MAX: none is.
static uint64_t first_lost(const wh_endpoint *ep, int which) {
    uint64_t first = UINT64_MAX;
    whi_list_foreach(node, &ep->match[which].messages) {
        const whi_message *msg = whi_container_of(node, whi_message, ep_link);
        if ((msg->flags & WHI_FLAG_ANNOUNCED) || msg->prefetch) {
            first = msg->number;
            break;
        }
    }
    whi_list_foreach(node, &ep->ops) {
        const wh_request *req = whi_container_of(node, wh_request, op_link);
        if (whi_recv_outlives(req) && req->stage != WHI_STAGE_QUEUED && req->ops->match == which &&
            req->arrival < first)
            first = req->arrival;
    }
    if (which == WHI_MATCH_OBJECT) {
        uint64_t handled = whi_messages_of(ep->worker)->first_lost_object(ep);
        if (handled < first)
            first = handled;
    }
    return first;
}

void whi_recv_drop_lost(wh_endpoint *ep) {
    for (int which = 0; which < WHI_MATCH_COUNT; which++)
        drop_from(ep, which, first_lost(ep, which));
    forget_taken(ep);
}
