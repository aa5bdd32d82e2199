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

bool whi_offer_may(const wh_request *req) {
    return req->buf.direct && req->buf.size > req->ep->link->eager_max;
}

// pieces_of lists where the payload is that would follow; 0: not all of it is memory that can be read.
static unsigned pieces_of(const wh_request *req, uint64_t from[WHI_OFFER_PIECES]) {
    if (req->ops->pieces)
        return req->ops->pieces(req, from);
    from[0] = (uint64_t)(uintptr_t)req->buf.ptr;
    return whi_offer_may(req) ? 1 : 0;
}

size_t whi_offer_write(wh_request *req, whi_announce *announce, void *to, size_t space,
                       uint64_t long_size) {
    whi_lane *lane = req->ep->lane;
    uint64_t from[WHI_OFFER_PIECES];
    unsigned count = lane->ops->offer ? pieces_of(req, from) : 0;
    size_t size = (1 + count) * sizeof(uint64_t);
    if (!count || size > space || !lane->ops->offer(lane, &req->offer, long_size))
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

// list finds where a payload that can be read goes, and returns its bytes.
static uint64_t list(const wh_request *req, whi_place places[WHI_OFFER_PIECES], unsigned *count) {
    uint64_t size = 0;
    *count = req->ops->places(req, places);
    for (unsigned i = 0; i < *count; i++)
        size += places[i].size;
    return size;
}

// cut finds the pieces of the next bytes behind `at`, at most a turn's and `most` pieces, and returns how many bytes they are.
static uint64_t cut(const whi_place *places, unsigned count, uint64_t at, whi_piece *next,
                    unsigned most, unsigned *next_count) {
    struct iovec runs[WHI_PART_PIECES];
    uint64_t size = 0;
    unsigned n = 0;
    for (unsigned i = 0; i < count && size < WHI_LANE_TURN && n < most; i++) {
        uint64_t skip = at < places[i].size ? at : places[i].size;
        uint64_t left = places[i].size - skip, from = places[i].from + skip;
        at -= skip;
        left = left < WHI_LANE_TURN - size ? left : WHI_LANE_TURN - size;
        unsigned listed = 0;
        if (left)
            size += whi_buffer_runs(places[i].to, skip, left, runs, most - n, &listed);
        for (unsigned k = 0; k < listed; k++) {
            next[n++] = (whi_piece){from, runs[k].iov_base, runs[k].iov_len};
            from += runs[k].iov_len;
        }
    }
    *next_count = n;
    return size;
}

// What is read at once: the next part of a long payload, or short ones as a whole, so that the kernel finds the peer's memory once
// for all of them.  Few enough that the first does not wait long for the last.  Behind GROUP_BYTES, and before a long one, the rest is
// for the next pass: what ends may be what others wait for.
enum { GROUP = 8, SHORT = 64 << 10, GROUP_BYTES = 128 << 10 };
typedef struct group {
    wh_request *req[GROUP];
    whi_fetch fetch[GROUP];
    uint64_t size;
    unsigned count, pieces;
    whi_piece piece[WHI_PART_PIECES];
} group;

// join adds the next bytes of a payload.  False: it does not go with those that are there.
static bool join(group *g, wh_request *req) {
    whi_place places[WHI_OFFER_PIECES];
    unsigned count;
    whi_piece *pieces = &g->piece[g->pieces];
    whi_part part = {.pieces = pieces, .at = req->offset, .whole = list(req, places, &count)};
    if (g->count && (part.whole > SHORT || g->size + part.whole > GROUP_BYTES))
        return false;
    part.size = cut(places, count, part.at, pieces, WHI_PART_PIECES - g->pieces, &part.count);
    if (g->count && (!part.size || part.size < part.whole))  // none to read, or in too many pieces
        return false;
    g->fetch[g->count] =
        (whi_fetch){.offer = &req->offer, .part = part, .since = &req->since, .status = WH_EAGAIN};
    g->req[g->count++] = req;
    g->size += part.size;
    g->pieces += part.count;
    return true;
}

static bool is_long(const wh_request *req) {
    whi_place places[WHI_OFFER_PIECES];
    unsigned count;
    return list(req, places, &count) > SHORT;
}

// read_next reads at once what the next fetches are of, and returns how many bytes that was.
static uint64_t read_next(whi_list *fetches) {
    group g;
    g.count = g.pieces = 0;
    g.size = 0;
    whi_lane *lane = whi_container_of(fetches->next, wh_request, queue_link)->ep->link->rx;
    whi_list_foreach(node, fetches) {
        wh_request *req = whi_container_of(node, wh_request, queue_link);
        if (g.count == GROUP || req->ep->link->rx != lane || !join(&g, req))
            break;
        if (!g.size || g.size < g.fetch[0].part.whole)
            break;  // the first is none to read, or long
    }
    if (g.size && lane->ops->read)
        lane->ops->read(lane, g.fetch, g.count);
    uint64_t size = 0;
    for (unsigned i = 0; i < g.count; i++) {
        wh_request *req = g.req[i];
        const whi_part *part = &g.fetch[i].part;
        bool read = g.fetch[i].status == WH_OK;
        size += read ? part->size : 0;
        req->offset += part->size;
        req->fetching = !read                        ? WHI_FETCHING_FAILED
                        : req->offset == part->whole ? WHI_FETCHING_ALL
                                                     : WHI_FETCHING_PART;
    }
    return size;
}

static void end_fetch(wh_request *req) {
    whi_lane *lane = req->ep->link->rx;
    whi_list_remove(&req->queue_link);
    req->ops->fetched(req, req->fetching == WHI_FETCHING_ALL && lane->ops->take(lane, &req->offer));
}

void whi_offer_fetch(wh_request *req) {
    whi_place places[WHI_OFFER_PIECES];
    unsigned count;
    req->offset = 0;
    req->fetching = WHI_FETCHING_NEXT;
    if (!req->offer.ticket || whi_bulk_takes(req, list(req, places, &count))) {
        req->ops->fetched(req, false);
        return;
    }
    req->stage = WHI_STAGE_MOVING;
    whi_list_push_back(&whi_messages_of(req->worker)->fetches, &req->queue_link);
    req->worker->due = true;
}

// Whose bytes have been read stays in the list until it is its turn: the end of one may be the end of others that were read with it.
unsigned whi_offer_due(wh_worker *worker) {
    whi_list *fetches = &whi_messages_of(worker)->fetches;
    unsigned count = 0;
    for (uint64_t size = 0; !whi_list_empty(fetches); count++) {
        wh_request *req = whi_container_of(fetches->next, wh_request, queue_link);
        if (req->fetching == WHI_FETCHING_NEXT && size && (size >= GROUP_BYTES || is_long(req)))
            break;
        if (req->fetching == WHI_FETCHING_NEXT)
            size += read_next(fetches);
        if (req->fetching == WHI_FETCHING_PART)
            req->fetching = WHI_FETCHING_NEXT;
        else
            end_fetch(req);
    }
    worker->due = worker->due || !whi_list_empty(fetches);
    return count;
}

void whi_offer_came(wh_request *req, uint64_t size) {
    whi_lane *lane = req->ep->link ? req->ep->link->rx : NULL;
    if (req->since && lane && lane->ops->came)
        lane->ops->came(lane, size, req->moved, req->accept, req->since);
}
