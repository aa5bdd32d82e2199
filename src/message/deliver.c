// SPDX-License-Identifier: BSD-3-Clause
//
// What a link receives: each record goes to the code of its class, in its endpoint's order.
//
// Everything here comes from the peer.  A record that breaks the protocol fails the link with a sentence; a
// record for an endpoint that has ended is late, not wrong, and is passed over.
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "link/listener.h"
#include "link/ucx.h"
#include "message/am.h"
#include "message/endpoint.h"
#include "message/objects.h"
#include "message/plain.h"
#include "message/recv.h"
#include "message/send.h"
#include "net/stream/stream.h"
#include "rma/native.h"
#include "rma/rma.h"

static wh_status broken(whi_link *link, const whi_hdr *hdr, const char *what) {
    whi_log(WHI_WARN, "W-PRT-01", "%s: class 0x%02x, endpoint %u, number %u: %s", link->name,
            hdr->cls, hdr->ep, hdr->seq, what);
    return WH_EPROTOCOL;
}

// find_ep returns the endpoint of a number, or NULL.
static inline wh_endpoint *find_ep(whi_link *link, uint32_t number) {
    if (link->last_ep && link->last_ep->number == number)
        return link->last_ep;
    wh_endpoint *ep = whi_hash_get(&link->eps, number);
    if (ep)
        link->last_ep = ep;
    return ep;
}

// known_number says whether there has been an endpoint of that number.
static bool known_number(const whi_link *link, uint32_t number) {
    bool ours = (number & 1) == (link->active ? 1u : 0u);
    return number && (ours ? number < link->next_number : number <= link->peer_number);
}

// handle_other handles the ordered records that are no messages.
static wh_status handle_other(wh_endpoint *ep, const whi_hdr *hdr, const void *payload) {
    whi_hdr ack = {.cls = WHI_CLASS_FLUSH_ACK,
                   .ep = ep->number,
                   .tag = hdr->tag,
                   .arg = (uint64_t)(int64_t)ep->serve_error};
    switch (hdr->cls) {
    case WHI_CLASS_WITHDRAW:
        if (!(uint32_t)hdr->tag)
            return broken(ep->link, hdr, "a withdrawal of nothing");
        whi_recv_withdrawn(ep, (uint32_t)hdr->tag, hdr->aux == 1);
        return WH_OK;
    case WHI_CLASS_FLUSH:
        ep->serve_error = WH_OK;
        whi_link_control(ep->link, &ack, NULL);
        return WH_OK;
    case WHI_CLASS_CLOSE: whi_ep_peer_closed(ep); return WH_OK;
    case WHI_CLASS_PUT:
    case WHI_CLASS_GET:
    case WHI_CLASS_ATOMIC:
        return whi_serve(ep, hdr, payload) == WH_OK
                   ? WH_OK
                   : broken(ep->link, hdr, "a remote access that makes no sense");
    default: return broken(ep->link, hdr, "an unknown class");
    }
}

// read_send_id reads what an announcement begins with; 0: it is none.
static uint32_t read_send_id(const whi_hdr *hdr, const void *payload) {
    whi_announce announce = {.send_id = 0};
    if (hdr->size >= sizeof(announce))
        memcpy(&announce, payload, sizeof(announce));
    return announce.send_id;
}

// charge takes what a message may cost off what the peer is allowed.
static wh_status charge(wh_endpoint *ep, const whi_hdr *hdr, const void *payload) {
    if (hdr->flags & WHI_FLAG_ANNOUNCED) {
        uint32_t send_id = read_send_id(hdr, payload);
        if (!send_id || whi_hash_get(&ep->link->announced, send_id))
            return broken(ep->link, hdr, "an announcement without a send id of its own");
        if (++ep->rx_announced > ep->worker->ctx->config.announce_max)
            return broken(ep->link, hdr, "more announcements than were allowed");
        return WH_OK;
    }
    ep->rx_window -= (int64_t)hdr->size + WHI_MESSAGE_COST;
    if (ep->rx_window < 0)
        return broken(ep->link, hdr, "more unexpected bytes than credit was given for");
    return WH_OK;
}

// pass_over reads and drops a message for an endpoint that its user has closed.
static void pass_over(wh_endpoint *ep, const whi_hdr *hdr, const void *payload) {
    bool announced = hdr->flags & WHI_FLAG_ANNOUNCED;
    uint32_t send_id = announced ? read_send_id(hdr, payload) : (uint32_t)hdr->arg;
    if (announced)
        ep->rx_announced--;
    else
        whi_ep_give_credit(ep, hdr->size + WHI_MESSAGE_COST);
    if (hdr->flags & (WHI_FLAG_ANNOUNCED | WHI_FLAG_SYNC))
        whi_recv_answer(ep, send_id, WH_OK);
}

// handle takes a record in its turn.  The endpoint may be gone after it: by a CLOSE, or by what a handler did.
static inline __attribute__((always_inline)) wh_status handle(wh_endpoint *ep, const whi_hdr *hdr,
                                                              const void *payload) {
    ep->rx_seq++;
    if (hdr->cls > WHI_CLASS_AM)
        return handle_other(ep, hdr, payload);
    wh_status st = charge(ep, hdr, payload);
    if (st != WH_OK)
        return st;
    if (__builtin_expect(ep->user_gone, 0)) {
        pass_over(ep, hdr, payload);
        return WH_OK;
    }
    if (hdr->cls == WHI_CLASS_AM) {
        whi_link *link = ep->link;
        st = whi_am_arrived(ep, hdr, payload);
        return st == WH_EPROTOCOL ? broken(link, hdr, "an active message that makes no sense") : st;
    }
    bool tag = hdr->cls == WHI_CLASS_TAG;
    wh_request *req = whi_plain_match(ep, tag ? WHI_MATCH_TAG : WHI_MATCH_OBJECT, hdr->tag);
    if (req && tag && !hdr->flags && whi_plain_land(req, hdr, payload))
        return WH_OK;
    st = whi_recv_message(ep, hdr, payload, req);
    return st == WH_EPROTOCOL
               ? broken(ep->link, hdr, "an announcement or envelope that makes no sense")
               : st;
}

// keep_early keeps a record that overtook others.  Only lanes that may reorder come here.
static wh_status keep_early(whi_link *link, wh_endpoint *ep, const whi_hdr *hdr,
                            const void *payload) {
    int32_t ahead = (int32_t)(hdr->seq - ep->rx_seq);
    bool first = ahead == 0 && ep->state == WHI_EP_CONNECTING;  // it overtook the ACCEPT
    if (!link->rx->ops->reorders || (ahead <= 0 && !first) || ep->early_count >= WHI_EARLY_MAX)
        return broken(link, hdr, "the sequence number is not the next one");
    whi_early *early = whi_malloc(sizeof(*early) + hdr->size);
    if (!early)
        return WH_ENOMEM;
    early->hdr = *hdr;
    if (hdr->size)
        memcpy(early->payload, payload, hdr->size);
    whi_list *before = ep->early.prev;
    while (before != &ep->early &&
           (int32_t)(whi_container_of(before, whi_early, link)->hdr.seq - hdr->seq) > 0)
        before = before->prev;
    whi_list_insert(before, &early->link);
    ep->early_count++;
    return WH_OK;
}

// handle_early takes what has waited for the record of endpoint `number` that just came.
static wh_status handle_early(whi_link *link, uint32_t number) {
    wh_endpoint *ep;
    while (!link->dead && (ep = find_ep(link, number)) && ep->early_count) {
        whi_early *early = whi_container_of(whi_list_first(&ep->early), whi_early, link);
        if (early->hdr.seq != ep->rx_seq)
            break;
        whi_list_remove(&early->link);
        ep->early_count--;
        wh_status st = handle(ep, &early->hdr, early->payload);
        whi_free(early);
        if (st != WH_OK)
            return st;
    }
    return WH_OK;
}

static wh_status deliver_ordered(whi_link *link, const whi_hdr *hdr, const void *payload) {
    wh_endpoint *ep = find_ep(link, hdr->ep);
    if (__builtin_expect(!ep || ep->state != WHI_EP_OPEN, 0)) {
        if (ep && ep->state == WHI_EP_CONNECTING && link->rx->ops->reorders)
            return keep_early(link, ep, hdr, payload);
        if (ep ? ep->state != WHI_EP_CONNECTING : known_number(link, hdr->ep))
            return WH_OK;
        return broken(link, hdr, "there is no such endpoint");
    }
    if (__builtin_expect(hdr->seq != ep->rx_seq, 0))
        return keep_early(link, ep, hdr, payload);
    bool early = ep->early_count != 0;
    wh_status st = handle(ep, hdr, payload);
    if (__builtin_expect(early, 0) && st == WH_OK)
        st = handle_early(link, hdr->ep);
    return st;
}

static wh_status deliver_open(whi_link *link, const whi_hdr *hdr) {
    bool theirs = (hdr->ep & 1) == (link->active ? 0u : 1u);
    if (!hdr->ep || !theirs || hdr->ep <= link->peer_number)
        return broken(link, hdr, "the number of a new endpoint is not the peer's to give");
    link->peer_number = hdr->ep;
    return whi_listener_opened(link, hdr);
}

static wh_status deliver_accept(whi_link *link, const whi_hdr *hdr, const void *payload) {
    wh_endpoint *ep = find_ep(link, hdr->ep);
    bool ours = (hdr->ep & 1) == (link->active ? 1u : 0u);
    if (!ep || !ours)
        return known_number(link, hdr->ep) && ours ? WH_OK
                                                   : broken(link, hdr, "nobody asked for that");
    if (ep->state != WHI_EP_CONNECTING)
        return broken(link, hdr, "the endpoint is open already");
    if (hdr->cls == WHI_CLASS_ACCEPT) {
        whi_ep_opened(ep, hdr->arg, hdr->seq);
        return handle_early(link, hdr->ep);
    }
    char text[WHI_CONTROL_MAX + 1];
    size_t size = hdr->size < WHI_CONTROL_MAX ? hdr->size : WHI_CONTROL_MAX;
    if (size)
        memcpy(text, payload, size);
    text[size] = '\0';
    for (char *c = text; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    int64_t status = (int64_t)hdr->arg;
    bool known = status <= WH_EINVAL && status >= WHI_STATUS_LAST;
    whi_ep_end(ep, known ? (wh_status)status : WH_EREFUSED,
               size ? text : "the peer refused the endpoint");
    return WH_OK;
}

// deliver_to_ep handles control records of an endpoint.
static wh_status deliver_to_ep(whi_link *link, const whi_hdr *hdr) {
    wh_endpoint *ep = find_ep(link, hdr->ep);
    if (!ep && !known_number(link, hdr->ep))
        return broken(link, hdr, "there is no such endpoint");
    if (hdr->cls == WHI_CLASS_MAP)
        return whi_serve_map(link, ep, hdr);
    if (!ep)
        return WH_OK;
    switch (hdr->cls) {
    case WHI_CLASS_CREDIT:
        if (hdr->arg > INT64_MAX / 2 || ep->credit > INT64_MAX / 2)
            return broken(link, hdr, "more credit than there is");
        ep->credit += (int64_t)hdr->arg;
        if (!whi_list_empty(&ep->sendq))
            whi_ep_mark(ep);
        return WH_OK;
    case WHI_CLASS_CLOSE_ACK:
        if (!ep->close_sent)
            return broken(link, hdr, "nothing was closed");
        whi_ep_close_acked(ep);
        return WH_OK;
    default: whi_ep_end(ep, WH_EPEER, "the peer has aborted the endpoint"); return WH_OK;
    }
}

static wh_status deliver_switch(whi_link *link, const whi_hdr *hdr) {
    if (hdr->aux == WHI_LANE_UCX && whi_link_ucx_switch(link) == WH_OK)
        return WH_OK;
    bool allowed = link->local && (link->worker->ctx->lanes & link->peer.lanes & WHI_LANE_SHM);
    if (hdr->aux != WHI_LANE_SHM || !allowed || link->rx != link->stream || link->switch_pending ||
        !link->shm)
        return broken(link, hdr, "that lane was not agreed on");
    whi_stream_rx_bytes(link->stream);
    link->switch_pending = true;
    whi_link_try_switch(link);
    return link->dead ? WH_EPROTOCOL : WH_OK;
}

static wh_status deliver_lane(whi_link *link, const whi_hdr *hdr, const void *payload) {
    wh_status st = whi_link_ucx_lane(link, hdr, payload);
    return st == WH_EPROTOCOL ? broken(link, hdr, "that lane cannot be opened so") : st;
}

static wh_status deliver_recall(whi_link *link, const whi_hdr *hdr) {
    wh_status st = hdr->cls == WHI_CLASS_RECALL ? whi_native_recalled(link, hdr)
                                                : whi_share_returned(link, hdr);
    return st == WH_OK ? WH_OK : broken(link, hdr, "memory that was not lent");
}

static wh_status deliver_control(whi_link *link, const whi_hdr *hdr, const void *payload) {
    bool lane = hdr->cls == WHI_CLASS_LANE_OFFER;
    bool mapped = hdr->cls == WHI_CLASS_MAPPED && link->rx == link->ucx;
    bool pays = lane || mapped || hdr->cls == WHI_CLASS_REFUSE;
    if (hdr->size > (lane ? WHI_LANE_PIECE : WHI_CONTROL_MAX) || (hdr->size && !pays))
        return broken(link, hdr, "a control record with that payload");
    switch (hdr->cls) {
    case WHI_CLASS_GRANT: return whi_send_granted(link, hdr);
    case WHI_CLASS_ACK:
    case WHI_CLASS_FLUSH_ACK: return whi_send_answered(link, hdr);
    case WHI_CLASS_CREDIT:
    case WHI_CLASS_CLOSE_ACK:
    case WHI_CLASS_MAP:
    case WHI_CLASS_ABORT: return deliver_to_ep(link, hdr);
    case WHI_CLASS_MAPPED:
        return whi_rkey_mapped(link, hdr, payload) == WH_OK
                   ? WH_OK
                   : broken(link, hdr, "memory that nobody asked for");
    case WHI_CLASS_RECALL:
    case WHI_CLASS_RECALLED: return deliver_recall(link, hdr);
    case WHI_CLASS_RMA_ANSWER:
        return whi_rma_answered(link, hdr) == WH_OK
                   ? WH_OK
                   : broken(link, hdr, "an answer that does not fit its question");
    case WHI_CLASS_OPEN: return deliver_open(link, hdr);
    case WHI_CLASS_ACCEPT:
    case WHI_CLASS_REFUSE: return deliver_accept(link, hdr, payload);
    case WHI_CLASS_BYE:
        link->closing = true;
        if (link->rx == link->ucx)
            whi_link_ucx_bye(link);
        return WH_OK;
    case WHI_CLASS_SWITCH: return deliver_switch(link, hdr);
    case WHI_CLASS_LANE_OFFER: return deliver_lane(link, hdr, payload);
    default: return broken(link, hdr, "an unknown class");
    }
}

// own_copy returns a payload that the peer can no longer change: what lies in shared memory is copied before it is looked
// at.  Plain messages and puts need none, because all that is done with their payload is to copy it.
static const void *own_copy(whi_link *link, const whi_hdr *hdr, const void *payload) {
    bool bytes = hdr->cls == WHI_CLASS_TAG || hdr->cls == WHI_CLASS_PUT;
    bool plain = bytes && !(hdr->flags & WHI_FLAG_ANNOUNCED);
    if (plain || !hdr->size || link->rx != link->shm)
        return payload;
    return memcpy(link->worker->arrived, payload, hdr->size);
}

wh_status whi_link_deliver(void *arg, const whi_hdr *hdr, const void *payload) {
    whi_link *link = arg;
    if (__builtin_expect(link->dead, 0))
        return WH_EPEER;
    if (__builtin_expect((unsigned)(hdr->cls - WHI_CLASS_TAG) <
                             (unsigned)(WHI_CLASS_UNORDERED - WHI_CLASS_TAG),
                         1))
        return deliver_ordered(link, hdr, own_copy(link, hdr, payload));
    return deliver_control(link, hdr, own_copy(link, hdr, payload));
}

static void throw_away(void *ctx, uint64_t offset, void *host, size_t size) {
    (void)ctx, (void)offset, (void)host, (void)size;
}

static void copy_in(void *ctx, uint64_t offset, void *host, size_t size) {
    memcpy((char *)ctx + offset, host, size);
}

// is_lendable says whether a lane may be lent the place of a chunk.  Not memory of the user's that a peer puts into: UCX may
// keep what it was lent for good when the peer dies, and this memory's owner has to get it back.
static bool is_lendable(const wh_request *req) {
    return req->kind != WHI_REQ_SERVE_PUT || req->mr->region;
}

// hold notes a chunk that a lane that lends has from now on.
static void hold(whi_link *link, wh_request *req, bool lends) {
    link->held += lends;
    if (req)
        req->held += lends;
}

wh_status whi_link_sink(void *arg, const whi_hdr *hdr, whi_span *span) {
    whi_link *link = arg;
    if (link->dead)
        return WH_EPEER;
    wh_request *req = whi_idmap_get(&link->grants, hdr->ep);
    bool lends = link->rx->ops->lends;
    link->landing = lends ? NULL : req;
    if (!req || req->let_go) {
        // Granted once, and ended meanwhile; without a context it is nobody's.
        *span = (whi_span){.move = throw_away, .ctx = req};
        hold(link, lends ? req : NULL, lends);
        return WH_OK;
    }
    wh_status st = req->kind == WHI_REQ_RECV_OBJECT ? whi_object_sink(req, hdr, span)
                                                    : whi_recv_chunk_sink(req, hdr, span);
    if (st == WH_OK) {
        if (req->disowned)
            *span = (whi_span){.move = throw_away, .ctx = req};
        else if (lends && span->ptr && !is_lendable(req))
            *span = (whi_span){.move = copy_in, .ctx = span->ptr};
        hold(link, req, lends);
        return WH_OK;
    }
    link->landing = NULL;
    return broken(link, hdr, "a chunk that does not fit what was granted");
}

// unhold takes such a chunk back.  It returns the receive that goes on with it, or NULL; one that has ended meanwhile is let
// go with its last chunk.
static wh_request *unhold(whi_link *link, const whi_hdr *hdr) {
    link->held--;
    // The id of a receive that holds chunks stays in use, and one that was gone at `sink` never comes back.
    wh_request *req = whi_idmap_get(&link->grants, hdr->ep);
    if (req && --req->held == 0 && (req->let_go || req->withdrawn)) {
        if (req->let_go)
            whi_ep_let_go(req);
        else
            whi_recv_end_withdrawn(req);
        whi_link_maybe_close(link);
        return NULL;
    }
    return req && !req->let_go ? req : NULL;
}

void whi_link_lost_chunk(void *arg, const whi_hdr *hdr) {
    (void)unhold(arg, hdr);
}

// lent_landed is whi_link_landed for a lane that lends.
static wh_status lent_landed(whi_link *link, const whi_hdr *hdr) {
    wh_request *req = unhold(link, hdr);
    if (!req || link->dead)
        return link->dead ? WH_EPEER : WH_OK;
    if (req->held && req->moved + hdr->size >= req->accept)
        return broken(link, hdr, "chunks beyond what was granted");
    wh_status st = req->kind == WHI_REQ_RECV_OBJECT ? whi_object_landed(req, hdr)
                                                    : whi_recv_chunk_landed(req, hdr);
    return st == WH_OK ? WH_OK : broken(link, hdr, "more bytes than were granted");
}

void whi_link_sent(void *arg, const whi_hdr *hdr) {
    whi_link *link = arg;
    link->held--;
    wh_request *req = whi_idmap_get(&link->loans, (uint32_t)hdr->tag);
    assert(req && req->held);
    if (--req->held)
        return;
    (void)whi_idmap_remove(&link->loans, req->loan_id);
    req->loan_id = 0;
    whi_send_back(link, req);
}

wh_status whi_link_landed(void *arg, const whi_hdr *hdr) {
    whi_link *link = arg;
    if (link->rx->ops->lends)
        return lent_landed(link, hdr);
    wh_request *req = link->landing;
    link->landing = NULL;
    if (!req)
        return WH_OK;
    if (req->ep->state == WHI_EP_CLOSED) {
        // The endpoint ended while the chunk was on its way; only now is the buffer free.
        whi_ep_let_go(req);
        whi_link_maybe_close(link);
        return WH_OK;
    }
    wh_status st = req->kind == WHI_REQ_RECV_OBJECT ? whi_object_landed(req, hdr)
                                                    : whi_recv_chunk_landed(req, hdr);
    return st == WH_OK ? WH_OK : broken(link, hdr, "more bytes than were granted");
}
