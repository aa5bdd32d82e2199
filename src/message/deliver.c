// SPDX-License-Identifier: BSD-3-Clause
//
// What a link receives: each record goes to the code of its class, in its endpoint's order.
//
// Everything here comes from the peer.  A record that breaks the protocol fails the link with a sentence; a
// record for an endpoint that has ended is late, not wrong, and is passed over.
#include "message/deliver.h"
#include "message/offer.h"

#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "message/am.h"
#include "message/endpoint.h"
#include "message/long.h"
#include "message/plain.h"
#include "message/recv.h"
#include "net/copy.h"

// read_send_id reads what an announcement begins with; 0: it is none.
static uint32_t read_send_id(const whi_hdr *hdr, const void *payload) {
    whi_announce announce;
    size_t size;
    return whi_offer_split(hdr, &payload, &size, &announce) ? announce.send_id : 0;
}

static wh_status charge_announced(wh_endpoint *ep, const whi_hdr *hdr, const void *payload) {
    uint32_t send_id = read_send_id(hdr, payload);
    if (!send_id || whi_hash_get(&whi_messages_on(ep->link)->announced, send_id))
        return whi_link_broken(
            ep->link, hdr, "an announcement without a send id of its own, or with half an offer");
    if (++ep->rx_announced > ep->worker->ctx->config.announce_max)
        return whi_link_broken(ep->link, hdr, "more announcements than were allowed");
    return WH_OK;
}

// charge takes what a message may cost off what the peer is allowed.
static inline wh_status charge(wh_endpoint *ep, const whi_hdr *hdr, const void *payload) {
    if (hdr->flags & WHI_FLAG_ANNOUNCED)
        return charge_announced(ep, hdr, payload);
    ep->rx_window -= (int64_t)hdr->size + WHI_MESSAGE_COST;
    if (__builtin_expect(hdr->flags & WHI_FLAG_FOLLOWED, 0) && !whi_long_announced(ep, hdr))
        return whi_link_broken(ep->link, hdr, "a payload that cannot follow");
    if (__builtin_expect(ep->rx_window < 0, 0))
        return whi_link_broken(ep->link, hdr, "more unexpected bytes than credit was given for");
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
    if (hdr->cls > WHI_CLASS_AM) {
        whi_ordered_fn fn = whi_messages_of(ep->worker)->ordered[hdr->cls - WHI_CLASS_TAG];
        return fn ? fn(ep, hdr, payload) : whi_link_broken(ep->link, hdr, "an unknown class");
    }
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
        return st == WH_EPROTOCOL
                   ? whi_link_broken(link, hdr, "an active message that makes no sense")
                   : st;
    }
    bool tag = hdr->cls == WHI_CLASS_TAG;
    wh_request *req = whi_plain_match(ep, tag ? WHI_MATCH_TAG : WHI_MATCH_OBJECT, hdr->tag);
    if (req && tag && !hdr->flags && whi_plain_land(req, hdr, payload))
        return WH_OK;
    st = whi_recv_message(ep, hdr, payload, req);
    return st == WH_EPROTOCOL
               ? whi_link_broken(ep->link, hdr, "an announcement or envelope that makes no sense")
               : st;
}

// keep_early keeps a record that overtook others.  Only lanes that may reorder come here.
static wh_status keep_early(whi_link *link, wh_endpoint *ep, const whi_hdr *hdr,
                            const void *payload) {
    int32_t ahead = (int32_t)(hdr->seq - ep->rx_seq);
    bool first = ahead == 0 && ep->state == WHI_EP_CONNECTING;  // it overtook the ACCEPT
    if (!link->rx->ops->reorders || (ahead <= 0 && !first) || ep->early_count >= WHI_EARLY_MAX)
        return whi_link_broken(link, hdr, "the sequence number is not the next one");
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

wh_status whi_deliver_early(whi_link *link, uint32_t number) {
    wh_endpoint *ep;
    while (!link->dead && (ep = whi_ep_of_number(link, number)) && ep->early_count) {
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

// absent answers a record whose endpoint is not open: one of an endpoint that has ended is late, any other wrong.
static wh_status absent(whi_link *link, const wh_endpoint *ep, const whi_hdr *hdr) {
    bool late = ep ? ep->state != WHI_EP_CONNECTING : whi_ep_known(link, hdr->ep);
    return late ? WH_OK : whi_link_broken(link, hdr, "there is no such endpoint");
}

static wh_status deliver_ordered(whi_link *link, const whi_hdr *hdr, const void *payload) {
    wh_endpoint *ep = whi_ep_of_number(link, hdr->ep);
    if (__builtin_expect(!ep || ep->state != WHI_EP_OPEN, 0)) {
        if (ep && ep->state == WHI_EP_CONNECTING && link->rx->ops->reorders)
            return keep_early(link, ep, hdr, payload);
        return absent(link, ep, hdr);
    }
    if (__builtin_expect(hdr->seq != ep->rx_seq, 0))
        return keep_early(link, ep, hdr, payload);
    bool early = ep->early_count != 0;
    wh_status st = handle(ep, hdr, payload);
    if (__builtin_expect(early, 0) && st == WH_OK)
        st = whi_deliver_early(link, hdr->ep);
    return st;
}

wh_status whi_deliver_long(whi_link *link, const whi_hdr *hdr, whi_span *span,
                           wh_request **landing) {
    wh_endpoint *ep = whi_ep_of_number(link, hdr->ep);
    if (!ep || ep->state != WHI_EP_OPEN)
        return absent(link, ep, hdr);
    // Lanes that reorder have no long records.
    if (hdr->seq != ep->rx_seq)
        return whi_link_broken(link, hdr, "the sequence number is not the next one");
    if (hdr->flags & (uint8_t)~WHI_FLAG_FOLLOWED)
        return whi_link_broken(link, hdr, "a long message with flags");
    ep->rx_seq = hdr->seq + 1;
    if (hdr->flags)
        return whi_long_follow(ep, hdr, span, landing);
    wh_status st = charge(ep, hdr, NULL);
    if (st != WH_OK)
        return st;
    if (ep->user_gone)
        pass_over(ep, hdr, NULL);
    else if (!(*landing = whi_long_begin(ep, hdr, span)))
        return WH_ENOMEM;
    return WH_OK;
}

static wh_status deliver_control(whi_link *link, const whi_hdr *hdr, const void *payload) {
    unsigned at = (unsigned)(hdr->cls - WHI_CLASS_UNORDERED);
    const whi_control_handler *handler =
        at < WHI_CONTROL_CLASSES ? &whi_messages_of(link->worker)->control[at] : NULL;
    if (!handler || !handler->fn)
        return whi_link_broken(link, hdr, "an unknown class");
    if (hdr->size > handler->payload_max)
        return whi_link_broken(link, hdr, "a control record with that payload");
    return handler->fn(link, hdr, payload);
}

// own_copy returns a payload that the peer can no longer change: what lies in shared memory is copied before it is looked
// at.  Plain messages and puts need none, because all that is done with their payload is to copy it.
static const void *own_copy(whi_link *link, const whi_hdr *hdr, const void *payload) {
    bool bytes = hdr->cls == WHI_CLASS_TAG || hdr->cls == WHI_CLASS_PUT;
    bool plain = bytes && !(hdr->flags & WHI_FLAG_ANNOUNCED);
    if (plain || !hdr->size || !link->rx->ops->shared)
        return payload;
    uint8_t *own = whi_messages_of(link->worker)->arrived;
    if (hdr->size <= WHI_COPY_LITTLE)
        whi_copy_little(own, payload, hdr->size);
    else
        memcpy(own, payload, hdr->size);
    return own;
}

wh_status whi_deliver(void *arg, const whi_hdr *hdr, const void *payload) {
    whi_link *link = arg;
    if (__builtin_expect(link->dead, 0))
        return WH_EPEER;
    if (__builtin_expect((unsigned)(hdr->cls - WHI_CLASS_TAG) <
                             (unsigned)(WHI_CLASS_UNORDERED - WHI_CLASS_TAG),
                         1))
        return deliver_ordered(link, hdr, own_copy(link, hdr, payload));
    return deliver_control(link, hdr, own_copy(link, hdr, payload));
}
