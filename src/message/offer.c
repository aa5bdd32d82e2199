// SPDX-License-Identifier: BSD-3-Clause
//
// Offers in announcements, see offer.h.
#include "message/offer.h"

#include <string.h>

#include "message/endpoint.h"

bool whi_offer_split(const whi_hdr *hdr, const void **payload, size_t *size,
                     whi_announce *announce) {
    if (hdr->size < sizeof(*announce))
        return false;
    memcpy(announce, *payload, sizeof(*announce));
    bool offered = hdr->flags & WHI_FLAG_OFFERED;
    if (!offered)
        announce->slot = announce->count = 0;
    *payload = (const char *)*payload + sizeof(*announce);
    *size = hdr->size - sizeof(*announce);
    // Only an object has several pieces.
    bool count = hdr->cls == WHI_CLASS_OBJECT ? announce->count > 0 : announce->count == 1;
    return announce->send_id && (!offered || (count && whi_offer_size(announce) <= *size));
}

// pieces_of lists where the payload is that would follow; 0: not all of it is memory that can be read.
static unsigned pieces_of(const wh_request *req, uint64_t from[WHI_OFFER_PIECES]) {
    if (req->ops->pieces)
        return req->ops->pieces(req, from);
    const whi_buffer *buf = &req->buf;
    from[0] = (uint64_t)(uintptr_t)buf->ptr;
    // What was announced for want of credit alone is better sent than read.
    return buf->size > req->ep->link->eager_max && buf->direct ? 1 : 0;
}

size_t whi_offer_write(wh_request *req, whi_announce *announce, void *to, size_t space) {
    whi_lane *lane = req->ep->lane;
    uint64_t from[WHI_OFFER_PIECES];
    unsigned count = lane->ops->offer ? pieces_of(req, from) : 0;
    size_t size = (1 + count) * sizeof(uint64_t);
    if (!count || size > space || !lane->ops->offer(lane, &req->offer))
        return 0;
    announce->slot = (uint16_t)req->offer.slot;
    announce->count = (uint16_t)count;
    memcpy(to, &req->offer.ticket, sizeof(uint64_t));
    memcpy((char *)to + sizeof(uint64_t), from, count * sizeof(uint64_t));
    return size;
}

bool whi_offer_revoke(wh_request *req) {
    if (!req->offer.ticket)
        return true;
    whi_lane *lane = req->ep->lane;
    bool revoked = lane->ops->revoke(lane, &req->offer);
    req->offer.ticket = 0;
    return revoked;
}

void whi_offer_read(wh_request *req, const whi_announce *announce, const void *offer) {
    req->offer = (whi_offer){.slot = announce->slot};
    if (announce->count)
        memcpy(&req->offer.ticket, offer, sizeof(req->offer.ticket));
    req->since = 0;
}

uint64_t whi_offer_address(const void *offer, size_t piece) {
    uint64_t address;
    memcpy(&address, (const char *)offer + (1 + piece) * sizeof(address), sizeof(address));
    return address;
}

bool whi_offer_fetch(wh_request *req, const whi_piece *pieces, unsigned count) {
    whi_lane *lane = req->ep->link->rx;
    return req->offer.ticket && lane->ops->fetch &&
           lane->ops->fetch(lane, &req->offer, pieces, count, &req->since) == WH_OK;
}

void whi_offer_came(wh_request *req, uint64_t size) {
    whi_lane *lane = req->ep->link ? req->ep->link->rx : NULL;
    if (req->since && lane && lane->ops->came)
        lane->ops->came(lane, size, req->moved, req->accept, req->since);
}
