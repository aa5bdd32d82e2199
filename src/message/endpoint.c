// SPDX-License-Identifier: BSD-3-Clause
//
// What an endpoint is and what can be asked of it, see endpoint.h.  How it is opened stands in open.c, how it ends in end.c, and
// how its user ends it in close.c.
//
// Its memory stays until its user and all requests have released it.
#include "message/endpoint.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "mem/mem.h"
#include "message/object_handler.h"

enum { CREDIT_SHARES = 16 };  // of `credit_more`, one of which an endpoint may have

wh_status whi_ep_new(wh_worker *worker, wh_endpoint **out) {
    whi_mem_notice();
    wh_endpoint *ep = whi_aligned_alloc(64, whi_messages_of(worker)->ep_size);
    if (!ep)
        return WH_ENOMEM;
    memset(ep, 0, whi_messages_of(worker)->ep_size);
    ep->worker = worker;
    ep->refs = 2;  // the user's and the library's
    ep->bulk_serial = 1;
    ep->owed_max = worker->ctx->config.credit / WHI_CREDIT_PART;
    ep->state = WHI_EP_CONNECTING;
    whi_list *lists[] = {&ep->link_node, &ep->dirty_node, &ep->abort_node, &ep->sendq,
                         &ep->ops,       &ep->waiting,    &ep->taken,      &ep->early,
                         &ep->ahead,     &ep->handled};
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
    to->packed += from->packed;
    to->unpacked += from->unpacked;
    to->device_sent += from->device_sent;
    to->device_received += from->device_received;
    to->bulk_lane += from->bulk_lane;
}

void whi_ep_add_counters(const wh_worker *worker, wh_counters *to) {
    for (const whi_list *n = whi_messages_of(worker)->endpoints.next;
         n != &whi_messages_of(worker)->endpoints; n = n->next)
        add_counters(
            to, &whi_container_of((whi_list *)(uintptr_t)n, wh_endpoint, worker_node)->counters);
    to->eager = to->sent_messages - to->rendezvous;
}

void whi_ep_unreferenced(wh_endpoint *ep) {
    if (atomic_load(&ep->submitted))
        return;
    wh_worker *worker = ep->worker;
    add_counters(&worker->counters, &ep->counters);
    whi_messages_of(worker)->credit_more -= ep->rx_more;
    whi_list_remove(&ep->worker_node);
    worker->handles--;
    whi_free(ep->error);
    whi_free(ep->own_data);
    whi_free(atomic_load_explicit(&ep->peer_data, memory_order_relaxed));
    whi_peer_release(ep->who);
    whi_free(ep->allocators);
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

// lower_credit keeps back what is owed beyond the setting, as the receiver is behind.
static void lower_credit(wh_endpoint *ep) {
    uint64_t less = ep->rx_owed < ep->rx_more ? ep->rx_owed : ep->rx_more;
    ep->rx_owed -= less;
    ep->rx_more -= less;
    whi_messages_of(ep->worker)->credit_more -= less;
}

// held returns how much of its credit the peer has used for what is here and has not been received.
static int64_t held(const wh_endpoint *ep) {
    uint64_t credit = ep->worker->ctx->config.credit + ep->rx_more;
    return (int64_t)(credit - ep->rx_owed) - ep->rx_window;
}

void whi_ep_raise_credit(wh_endpoint *ep, uint64_t lacked) {
    uint64_t most = ep->worker->ctx->config.credit_more;
    uint64_t *all = &whi_messages_of(ep->worker)->credit_more;
    if (ep->rx_more + lacked > most / CREDIT_SHARES || *all + lacked > most)
        return;
    ep->rx_more += lacked;
    *all += lacked;
    whi_ep_give_credit(ep, lacked);
}

void whi_ep_return_credit(wh_endpoint *ep) {
    uint64_t credit = ep->worker->ctx->config.credit;
    if (ep->rx_more && held(ep) > (int64_t)credit)
        lower_credit(ep);
    credit += ep->rx_more;
    bool ahead = !whi_list_empty(&ep->ahead);
    ep->owed_max = credit / (ahead ? WHI_AHEAD_PART : WHI_CREDIT_PART);
    if (ep->rx_owed < ep->owed_max || !ep->link || ep->link->dead || ep->state != WHI_EP_OPEN)
        return;
    if (ahead)
        whi_messages_of(ep->worker)->prefetch(ep);
    if (ep->rx_owed < credit / WHI_CREDIT_PART)
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

// notify_lost runs the user's callback at the end of the pass.  Whose end it tells of has sent all that came before it.
static void notify_lost(whi_deferred *deferred) {
    wh_endpoint *ep = whi_container_of(deferred, wh_endpoint, lost_call);
    if (!whi_list_empty(&ep->worker->completed)) {
        // A receive whose message came before may be among those that have yet to be told.
        whi_worker_defer(ep->worker, deferred, notify_lost);
        return;
    }
    ep->lost_queued = false;
    bool early = awaits_chunks(ep) || whi_object_handler_busy(ep);
    if (!early && ep->lost && !ep->user_gone && !ep->lost_notified) {
        ep->lost_notified = true;
        ep->lost(ep, ep->eos ? WH_ECLOSED : ep->why, ep->lost_arg);
    }
    whi_ep_release(ep);
}

void whi_ep_queue_lost(wh_endpoint *ep) {
    if (!ep->lost || ep->lost_notified || ep->lost_queued || ep->user_gone)
        return;
    ep->lost_queued = true;
    whi_ep_retain(ep);
    whi_worker_defer(ep->worker, &ep->lost_call, notify_lost);
}

static wh_status endpoint_on_lost_owned(wh_endpoint *ep, wh_lost_fn fn, void *arg) {
    ep->lost = fn;
    ep->lost_arg = arg;
    if (ep->state == WHI_EP_CLOSED || ep->eos)
        whi_ep_queue_lost(ep);
    return WH_OK;
}

wh_status wh_endpoint_on_lost(wh_endpoint *ep, wh_lost_fn fn, void *arg) {
    return ep ? WHI_OWNED(ep->worker, endpoint_on_lost_owned(ep, fn, arg)) : WH_EINVAL;
}

void whi_ep_release_link(wh_endpoint *ep) {
    bool left = !whi_list_linked(&ep->link_node);  // it may be in the middle of its end
    if (ep->state == WHI_EP_CLOSED && left && whi_list_empty(&ep->ops))
        ep->link = NULL;
}

void whi_ep_settle(wh_endpoint *ep) {
    if (ep->state != WHI_EP_OPEN)
        return;
    if (ep->eos)
        whi_ep_queue_lost(ep);
    if (!whi_list_empty(&ep->waiting)) {
        // Back to the head of the queue: they were there before.
        whi_list_append(&ep->waiting, &ep->sendq);
        whi_list_append(&ep->sendq, &ep->waiting);
        whi_ep_refresh(ep);
        whi_ep_mark(ep);
    }
    if (!ep->close_req || ep->close_sent || ep->sends || ep->state != WHI_EP_OPEN ||
        !whi_message_up_of(ep->worker)->settled(ep))
        return;
    ep->close_sent = true;
    whi_hdr hdr = {.cls = WHI_CLASS_CLOSE, .ep = ep->number, .seq = ep->tx_seq++};
    whi_link_control(ep->link, &hdr, NULL);
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
    int used = snprintf(text, size, "%s (%s)", ep->link->tx->ops->name, over);
    const whi_lane *bulk = whi_link_bulk(ep->link);
    if (bulk && used > 0 && (size_t)used < size) {
        bulk->ops->describe(bulk, over, sizeof(over));
        snprintf(text + used, size - (size_t)used, "; large payloads: %s (%s)", bulk->ops->name,
                 over);
    }
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
    wh_counters now = ep->counters;
    now.eager = now.sent_messages - now.rendezvous;
    return whi_opts_give(counters, &now, sizeof(now), "wh_counters");
}

wh_status wh_endpoint_counters(const wh_endpoint *ep, wh_counters *counters) {
    return ep && counters ? WHI_OWNED(ep->worker, endpoint_counters_owned(ep, counters))
                          : WH_EINVAL;
}
