// SPDX-License-Identifier: BSD-3-Clause
//
// Long records, see long.h.
//
// A long record is a first part and others behind it, each a record of the ring.  Space for all is reserved before the
// first is written, so nothing of the sender's comes between them, and the reader has what is left of one long record to
// wait for at most.
#include "net/shm/long.h"

#include "base/clock.h"
#include "net/copy.h"
#include "net/shm/shm_lane.h"

enum {
    // With its header, one page: the reader copies a part out while the next one is copied in.
    PART = 4096 - sizeof(whi_hdr),
    // Above it the ring would hold few.
    LONGEST = 64 << 10,
    // Of a reader who is behind, which reads larger messages where they lie while this side goes on.
    LONGEST_BEHIND = 12 << 10,
    // Whatever it costs: a sender that waits until its buffer is free does not wait for its receiver in some calls and not in others.
    UNQUESTIONED = 32 << 10,
    // For a byte of what its reader has sent by chunks after all: more than any way of reading costs.
    UNREAD_CYCLES = 8,
    // Of what always fits into an empty ring: headers of parts, and the record in front.
    BESIDE = 2 << 10,
};

static size_t largest_ring(const whi_shm *lane) {
    return lane->ring_max ? lane->ring_max : (size_t)lane->tx.mask + 1;
}

// largest is what the ring can take when it is empty: the producer may know of three quarters (ring.h), and half of that may lie
// before the end of the lap.  Not 0, which would say that the peer's are not taken either.
static size_t largest(const whi_shm *lane) {
    size_t fits = largest_ring(lane) / 8 * 3;
    size_t most = fits > 3 * (size_t)BESIDE ? fits - BESIDE : 1;
    return !lane->takes_long ? 0 : most < LONGEST ? most : LONGEST;
}

// A reader tells what it has consumed when there is nothing more, or a quarter of the ring.
static bool is_behind(const whi_shm *lane) {
    uint64_t tail = atomic_load_explicit(&lane->tx.shared->tail, memory_order_relaxed);
    return lane->tx.head - tail > largest_ring(lane) / 4;
}

size_t whi_shm_long_limit(const whi_lane *base) {
    const whi_shm *lane = (const whi_shm *)base;
    size_t most = largest(lane);
    return most > LONGEST_BEHIND && is_behind(lane) ? LONGEST_BEHIND : most;
}

static bool is_in_question(uint64_t size) {
    return size > UNQUESTIONED && size <= LONGEST;
}

bool whi_shm_long_better(whi_lane *base, size_t size) {
    whi_shm *lane = (whi_shm *)base;
    return !lane->offers || lane->offered.out == WHI_RING_OFFERS || !is_in_question(size) ||
           whi_pick_way(whi_pick_of(lane->long_tx.picks, size));
}

// An offer costs what passes until its sender hears that it was taken, which other offers delay.
void whi_shm_long_offered(whi_shm *lane, uint64_t size, bool alone) {
    whi_long_tx *tx = &lane->long_tx;
    tx->since = 0;
    if (!is_in_question(size))
        return;
    (void)whi_pick_choose_of(tx->picks, size);
    if (!alone)
        return;
    tx->since = whi_clock_cycles();
    tx->size = size;
}

void whi_shm_long_revoked(whi_shm *lane, bool was_read) {
    whi_long_tx *tx = &lane->long_tx;
    if (!tx->since)
        return;
    uint64_t cycles = whi_clock_cycles() - tx->since;
    if (!was_read)
        cycles += UNREAD_CYCLES * tx->size;
    whi_pick_note(whi_pick_of(tx->picks, tx->size), false, cycles, tx->size, tx->size);
    tx->since = 0;
}

// A long record costs what its sender needs for it, and what the reader needs for the last part.
static void was_sent(whi_shm *lane, uint64_t cycles, uint32_t size) {
    if (!is_in_question(size))
        return;
    (void)whi_pick_choose_of(lane->long_tx.picks, size);
    whi_pick_note(whi_pick_of(lane->long_tx.picks, size), true, cycles + cycles * PART / size, size,
                  size);
}

// space_of returns the bytes of the ring that a long record takes.
static uint64_t space_of(uint32_t size) {
    uint32_t rest = size % PART;
    return size / PART * whi_ring_space(PART) + (rest ? whi_ring_space(rest) : 0);
}

static void write_part(whi_shm *lane, const whi_span *src, uint32_t at, uint32_t size,
                       bool nontemporal) {
    void *to = whi_ring_payload(&lane->tx);
    if (!src->ptr)
        src->move(src->ctx, src->base + at, to, size);
    else if (nontemporal)
        whi_copy_nontemporal(to, (const char *)src->ptr + at, size);
    else
        whi_copy(to, (const char *)src->ptr + at, size);
}

// write_parts writes all parts of a long record for which there is space.  Not within its caller: what that has no register for
// would be read back behind the stores of each part, which took 45 ns.
__attribute__((noinline)) static void write_parts(whi_shm *lane, const whi_hdr *hdr,
                                                  const whi_span *src, bool nontemporal) {
    whi_hdr part = *hdr;
    part.arg = hdr->size;
    for (uint32_t at = 0; at < hdr->size; at += part.size) {
        part.size = hdr->size - at < PART ? hdr->size - at : PART;
        write_part(lane, src, at, part.size, nontemporal);
        if (at + part.size < hdr->size)
            whi_shm_publish(lane, &part, false);
        else
            whi_shm_commit(lane, &part);
        part = (whi_hdr){.cls = WHI_SHM_REST, .size = part.size};
    }
}

// write_long does so in the better way of copying.
static void write_long(whi_shm *lane, const whi_hdr *hdr, const whi_span *src) {
    whi_copy_method *method = &lane->ring_method;
    bool nontemporal = src->ptr && whi_copy_method_choose(method);
    uint64_t begin = whi_clock_cycles();
    write_parts(lane, hdr, src, nontemporal);
    if (!src->ptr)
        return;
    uint64_t cycles = whi_clock_cycles() - begin;
    whi_copy_method_note(method, nontemporal, cycles, hdr->size);
    was_sent(lane, cycles, hdr->size);
}

wh_status whi_shm_send_long(whi_lane *base, const whi_hdr *front, const void *front_payload,
                            const whi_hdr *hdr, const whi_span *src) {
    whi_shm *lane = (whi_shm *)base;
    assert(hdr->cls == WHI_CLASS_LONG && hdr->size > 0 && hdr->size <= largest(lane));
    uint64_t space = space_of(hdr->size);
    if (front)
        space += whi_ring_space(front->size);
    wh_status status = whi_shm_reserve_bytes(lane, space);
    if (status != WH_OK)
        return status;
    if (front) {
        if (front->size)
            whi_copy(whi_ring_payload(&lane->tx), front_payload, front->size);
        whi_shm_publish(lane, front, false);
    }
    write_long(lane, hdr, src);
    return WH_OK;
}

// place copies a part out; the last one ends the record.
static wh_status place(whi_shm *lane, const unsigned char *payload, uint32_t size) {
    whi_long_rx *rx = &lane->long_rx;
    const whi_span *span = &rx->span;
    if (span->ptr)
        whi_copy((char *)span->ptr + rx->at, payload, size);
    else
        span->move(span->ctx, span->base + rx->at, (void *)(uintptr_t)payload, size);
    rx->at += size;
    lane->moved += size;
    if (rx->at < rx->hdr.size)
        return WH_OK;
    whi_hdr whole = rx->hdr;
    rx->hdr.size = rx->at = 0;
    return lane->lane.up->landed(lane->lane.link, &whole);
}

wh_status whi_shm_take_long(whi_shm *lane, const whi_hdr *hdr, const unsigned char *payload) {
    whi_long_rx *rx = &lane->long_rx;
    if (!lane->takes_long || !hdr->size || hdr->size > hdr->arg || hdr->arg > WHI_SHM_LONG_MOST)
        return whi_shm_broken(lane, "a long record is empty, too large, or was not agreed on");
    rx->hdr = *hdr;
    rx->hdr.size = (uint32_t)hdr->arg;
    rx->hdr.arg = 0;
    wh_status status = lane->lane.up->sink(lane->lane.link, &rx->hdr, &rx->span);
    return status == WH_OK ? place(lane, payload, hdr->size) : status;
}

wh_status whi_shm_take_rest(whi_shm *lane, const whi_hdr *hdr, const unsigned char *payload) {
    const whi_long_rx *rx = &lane->long_rx;
    if (!hdr->size || hdr->size > rx->hdr.size - rx->at)
        return whi_shm_broken(lane, "a part belongs to no long record");
    return place(lane, payload, hdr->size);
}
