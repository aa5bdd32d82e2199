// SPDX-License-Identifier: BSD-3-Clause
//
// The receiving half of a shm lane.
//
// Each record is checked where it is found: its place by the ring, its size and class here, the
// rest by the owner's upcalls.  Any error fails the lane for good, because a ring that was wrong
// once says nothing about where its next record is.  An empty poll is one load of a line that is in
// the cache.
#include "net/shm/shm_lane.h"
#include "net/untrusted.h"

static void wake_sender(whi_shm *lane) {
    whi_ring_order(lane->asymmetric);
    if (whi_ring_sleeper(&lane->rx.shared->want))
        whi_shm_ring_bell(lane);
}

void whi_shm_tell(whi_shm *lane) {
    whi_ring_tell(&lane->rx);
    wake_sender(lane);
}

wh_status whi_shm_map_ring(whi_shm *lane, int fd) {
    const size_t words = sizeof(whi_ring_shared);
    whi_region *region = NULL;
    wh_status status = whi_region_attach(fd, words + WHI_RING_MIN, words + WHI_RING_MAX, &region);
    if (status == WH_EPROTOCOL)
        return whi_shm_broken(lane, "what it passed is no sealed memory of a ring's size");
    if (status != WH_OK)
        return whi_shm_fail(lane, status);
    size_t size = region->size - words;
    if (size & (size - 1)) {
        whi_region_release(region);
        return whi_shm_broken(lane, "the size of its ring is not a power of two");
    }
    whi_region_release(lane->rx_region);
    lane->rx_region = region;
    whi_ring_rx_init(&lane->rx, region->base, size);
    return WH_OK;
}

// Takes the descriptor that a record has announced, or returns a negative status.  One that was not
// passed is the peer's fault; why one could not come is the wire's to say.
static int take_fd(whi_shm *lane, const char *not_passed) {
    int fd = lane->wire->take_fd(lane->wire_arg);
    if (fd >= 0)
        return fd;
    return fd == WH_EAGAIN ? whi_shm_broken(lane, not_passed) : whi_shm_fail(lane, (wh_status)fd);
}

static wh_status take_ring(whi_shm *lane) {
    int fd = take_fd(lane, "it announced a ring and passed none");
    if (fd < 0)
        return (wh_status)fd;
    wh_status status = whi_shm_map_ring(lane, fd);
    whi_untrusted_close(fd);
    if (status != WH_OK)
        return status;
    // A sender that sleeps over bulk space asks for it in its newest ring, and this side may have
    // freed that space while it was still looking at the old one.
    wake_sender(lane);  // if it has asked there
    return WH_OK;
}

static wh_status map_bulk(whi_shm *lane, int fd) {
    const size_t words = sizeof(whi_bulk_shared);
    wh_status status =
        whi_region_attach(fd, words + WHI_BULK_MIN, words + WHI_BULK_MAX, &lane->in_region);
    if (status == WH_EPROTOCOL)
        return whi_shm_broken(lane, "what it passed is no sealed memory of a size for bulk");
    if (status != WH_OK)
        return whi_shm_fail(lane, status);
    lane->in =
        (whi_bulk_rx){.shared = lane->in_region->base, .size = lane->in_region->size - words};
    return WH_OK;
}

static wh_status take_bulk(whi_shm *lane) {
    if (lane->in.shared)
        return whi_shm_broken(lane, "it announced bulk memory twice");
    int fd = take_fd(lane, "it announced bulk memory and passed none");
    if (fd < 0)
        return (wh_status)fd;
    wh_status status = map_bulk(lane, fd);
    whi_untrusted_close(fd);
    return status;
}

static wh_status take_bulk_gone(whi_shm *lane) {
    if (!lane->in.shared)
        return whi_shm_broken(lane, "it withdrew bulk memory that it never announced");
    whi_region_release(lane->in_region);
    lane->in_region = NULL;
    lane->in = (whi_bulk_rx){0};
    return WH_OK;
}

// Puts the bytes of a chunk where its owner wants them.
static wh_status place(whi_shm *lane, const whi_hdr *hdr, unsigned char *bytes) {
    whi_span span;
    wh_status status = lane->lane.up->sink(lane->lane.link, hdr, &span);
    if (status == WH_OK)
        whi_bulk_write(&span, bytes, hdr->size, hdr->arg);
    return status;
}

static wh_status take_inline_chunk(whi_shm *lane, const whi_hdr *hdr, unsigned char *payload) {
    if (hdr->size == 0 || hdr->size > lane->eager_limit)
        return whi_shm_broken(lane, "a chunk in the ring is empty or larger than agreed");
    wh_status status = place(lane, hdr, payload);
    return status == WH_OK ? lane->lane.up->landed(lane->lane.link, hdr) : status;
}

static wh_status take_bulk_chunk(whi_shm *lane, const whi_hdr *hdr, const unsigned char *payload) {
    whi_shm_chunk chunk;
    if (hdr->size != sizeof(chunk))
        return whi_shm_broken(lane, "a chunk's record has a wrong size");
    memcpy(&chunk, payload, sizeof(chunk));
    unsigned char *bytes = whi_bulk_find(&lane->in, &chunk);
    if (!bytes)
        return whi_shm_broken(lane, "a chunk is not within bulk memory");
    whi_hdr whole = *hdr;
    whole.cls = WHI_CLASS_CHUNK;
    whole.size = chunk.size;
    wh_status status = place(lane, &whole, bytes);
    if (status != WH_OK)
        return status;
    lane->moved += chunk.size;
    // Freed before the owner hears of it, so that the sender goes on meanwhile.
    whi_bulk_free(&lane->in, &chunk);
    wake_sender(lane);
    return lane->lane.up->landed(lane->lane.link, &whole);
}

static wh_status deliver(whi_shm *lane, const whi_hdr *hdr, const unsigned char *payload) {
    if (hdr->size > lane->eager_limit)
        return whi_shm_broken(lane, "a message is larger than agreed");
    return lane->lane.up->deliver(lane->lane.link, hdr, payload);
}

static wh_status take_special(whi_shm *lane, const whi_hdr *hdr, unsigned char *payload) {
    if (lane->long_rx.hdr.size && hdr->cls != WHI_SHM_REST)
        return whi_shm_broken(lane, "something else comes within a long record");
    switch (hdr->cls) {
    case WHI_CLASS_CHUNK: return take_inline_chunk(lane, hdr, payload);
    case WHI_SHM_CHUNK: return take_bulk_chunk(lane, hdr, payload);
    case WHI_CLASS_LONG: return whi_shm_take_long(lane, hdr, payload);
    case WHI_SHM_REST: return whi_shm_take_rest(lane, hdr, payload);
    case WHI_SHM_PAD: return WH_OK;
    case WHI_SHM_BULK: return take_bulk(lane);
    case WHI_SHM_BULK_GONE: return take_bulk_gone(lane);
    case WHI_SHM_WORD: return whi_shm_meet(lane, hdr, payload);
    default: return whi_shm_broken(lane, "a record has an unknown class");
    }
}

static inline bool is_message(const whi_hdr *hdr) {
    static_assert(WHI_CLASS_CHUNK < WHI_CLASS_LONG, "one comparison");
    return (uint8_t)(hdr->cls - WHI_CLASS_LONG - 1) < WHI_CLASS_LANE - WHI_CLASS_LONG - 1;
}

// Takes one record.  WH_EAGAIN: there is none.
static inline wh_status take(whi_shm *lane) {
    whi_hdr hdr;
    unsigned char *payload;
    wh_status status = whi_ring_peek(&lane->rx, &hdr, &payload);
    if (status != WH_OK)
        return status == WH_EAGAIN
                   ? status
                   : whi_shm_broken(lane, "its ring holds no record where one must be");
    if (hdr.cls == WHI_SHM_RING)
        return take_ring(lane);  // and nothing more from the old one
    status = __builtin_expect(is_message(&hdr), 1) ? deliver(lane, &hdr, payload)
                                                   : take_special(lane, &hdr, payload);
    if (status != WH_OK)
        return whi_shm_fail(lane, status);
    whi_ring_consume(&lane->rx, hdr.size);
    if (whi_ring_untold(&lane->rx))
        whi_shm_tell(lane);
    return WH_OK;
}

// Returns 1 when a sender that was refused may try again, 0 when not yet.
static int attend(whi_shm *lane) {
    if (lane->failed != WH_OK)
        return lane->failed;
    if (lane->bell_owed)
        whi_shm_ring_bell(lane);
    wh_status status = whi_shm_retry(lane);
    if (status == WH_EAGAIN)
        return 0;
    if (status != WH_OK)
        return whi_shm_broken(lane, "it freed what was never sent");
    lane->attention = lane->bell_owed;
    return 1;
}

int whi_shm_poll(whi_lane *base, int budget) {
    whi_shm *lane = (whi_shm *)base;
    int events = 0;
    lane->moved = 0;
    if (__builtin_expect(lane->attention, 0)) {
        events = attend(lane);
        if (events < 0)
            return events;
    }
    while (events < budget && lane->moved < WHI_LANE_TURN) {
        wh_status status = take(lane);
        if (status == WH_EAGAIN) {
            // Behind a message its answer is due first: the next look tells, or arming does.  The sender has three
            // quarters of the ring meanwhile.
            if (!events && lane->rx.told != lane->rx.pos)
                whi_shm_tell(lane);
            break;
        }
        if (status != WH_OK)
            return status;
        events++;
    }
    return events;
}

bool whi_shm_next(whi_lane *base, whi_hdr *hdr) {
    whi_shm *lane = (whi_shm *)base;
    unsigned char *payload;
    return lane->failed == WH_OK && whi_ring_peek(&lane->rx, hdr, &payload) == WH_OK;
}
