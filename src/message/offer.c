// SPDX-License-Identifier: BSD-3-Clause
//
// Offers in announcements, see offer.h.
#include "message/offer.h"

#include <string.h>

#include "message/bulk_lane.h"
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

// cut finds the pieces of the next bytes behind `at`, at most a turn's, and returns how many bytes they are.
static uint64_t cut(const whi_place *places, unsigned count, uint64_t at,
                    whi_piece next[WHI_PART_PIECES], unsigned *next_count) {
    struct iovec runs[WHI_PART_PIECES];
    uint64_t size = 0;
    unsigned n = 0;
    for (unsigned i = 0; i < count && size < WHI_LANE_TURN && n < WHI_PART_PIECES; i++) {
        uint64_t skip = at < places[i].size ? at : places[i].size;
        uint64_t left = places[i].size - skip, from = places[i].from + skip;
        at -= skip;
        left = left < WHI_LANE_TURN - size ? left : WHI_LANE_TURN - size;
        unsigned listed = 0;
        if (left)
            size += whi_buffer_runs(places[i].to, skip, left, runs, WHI_PART_PIECES - n, &listed);
        for (unsigned k = 0; k < listed; k++) {
            next[n++] = (whi_piece){from, runs[k].iov_base, runs[k].iov_len};
            from += runs[k].iov_len;
        }
    }
    *next_count = n;
    return size;
}

// go_on_later has a payload go on in the next passes, before or behind others.
static void go_on_later(wh_request *req, bool first) {
    whi_list *fetches = &whi_messages_of(req->worker)->fetches;
    req->stage = WHI_STAGE_MOVING;
    if (first)
        whi_list_push_front(fetches, &req->queue_link);
    else
        whi_list_push_back(fetches, &req->queue_link);
    req->worker->countdown = 0;  // which has the room look in each pass
}

// fetch_on reads the next bytes of a payload of which `offset` are here, and returns how many those are.
static uint64_t fetch_on(wh_request *req) {
    whi_lane *lane = req->ep->link->rx;
    whi_place all[WHI_OFFER_PIECES];
    whi_piece next[WHI_PART_PIECES];
    unsigned count = req->ops->places(req, all);
    whi_part part = {.pieces = next, .at = req->offset};
    for (unsigned i = 0; i < count; i++)
        part.whole += all[i].size;
    uint64_t size = cut(all, count, req->offset, next, &part.count);
    wh_status st = size && lane->ops->fetch
                       ? lane->ops->fetch(lane, &req->offer, &part, &req->since)
                       : WH_EAGAIN;
    req->offset += size;
    if (st != WH_OK || req->offset == part.whole)
        req->ops->fetched(req, st == WH_OK);
    else
        go_on_later(req, true);
    return st == WH_OK ? size : 0;
}

// whole_of returns the bytes of a payload that could be read.
static uint64_t whole_of(wh_request *req) {
    whi_place all[WHI_OFFER_PIECES];
    unsigned count = req->ops->places(req, all);
    uint64_t size = 0;
    for (unsigned i = 0; i < count; i++)
        size += all[i].size;
    return size;
}

void whi_offer_fetch(wh_request *req) {
    req->offset = 0;
    if (!req->offer.ticket || whi_bulk_takes(req, whole_of(req)))
        req->ops->fetched(req, false);
    else if (req->worker->in_progress)
        (void)fetch_on(req);
    else
        go_on_later(req, false);
}

unsigned whi_offer_look(wh_worker *worker) {
    unsigned looked = 0;
    whi_list *node;
    for (uint64_t size = 0; size < WHI_LANE_TURN; looked++) {
        node = whi_list_pop_front(&whi_messages_of(worker)->fetches);
        if (!node)
            break;
        size += fetch_on(whi_container_of(node, wh_request, queue_link));
    }
    return looked;
}

bool whi_offer_busy(const wh_worker *worker) {
    return !whi_list_empty(&whi_messages_of(worker)->fetches);
}

void whi_offer_came(wh_request *req, uint64_t size) {
    whi_lane *lane = req->ep->link ? req->ep->link->rx : NULL;
    if (req->since && lane && lane->ops->came)
        lane->ops->came(lane, size, req->moved, req->accept, req->since);
}
