// SPDX-License-Identifier: BSD-3-Clause
//
// Offering payloads and fetching the peer's, see offers.h.
//
// Order: the owner's exchange comes before it changes the buffer, and is a full barrier; the reader's comes
// after its read, and is one too.  So a reader that has seen a changed byte finds the word cleared.
#include "net/shm/offers.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "net/shm/shm_lane.h"

#define TAKEN (UINT64_C(1) << 63)  // beside the ticket

// Slots follow each other through different cache lines, eight times: few offers never share one.
static _Atomic uint64_t *word_of(whi_ring_shared *shared, uint32_t slot) {
    enum { LINE = 8, LINES = WHI_RING_OFFERS / LINE };
    return &shared->offers[slot % LINES * LINE + slot / LINES];
}

bool whi_shm_offer(whi_lane *base, whi_offer *offer, uint64_t size) {
    whi_shm *lane = (whi_shm *)base;
    if (!lane->offers)
        return false;
    for (uint32_t set = 0; set < WHI_OFFER_SETS; set++) {
        uint64_t *used = &lane->offered.used[set];
        if (!~*used)
            continue;
        uint32_t bit = (uint32_t)__builtin_ctzll(~*used);
        *used |= UINT64_C(1) << bit;
        *offer = (whi_offer){.ticket = ++lane->offered.last, .slot = set * 64 + bit};
        whi_shm_long_offered(lane, size, lane->offered.out++ == 0);
        // Before the record that speaks of it, which is published by a release.
        atomic_store_explicit(word_of(lane->tx.shared, offer->slot), offer->ticket,
                              memory_order_relaxed);
        return true;
    }
    return false;
}

bool whi_shm_revoke(whi_lane *base, const whi_offer *offer) {
    whi_shm *lane = (whi_shm *)base;
    // Empty in any case: the line comes here while nobody waits for it.
    uint64_t was =
        atomic_exchange_explicit(word_of(lane->tx.shared, offer->slot), 0, memory_order_seq_cst);
    lane->offered.out -= lane->offered.used[offer->slot / 64] >> offer->slot % 64 & 1;
    lane->offered.used[offer->slot / 64] &= ~(UINT64_C(1) << offer->slot % 64);
    // Nothing that the owner does with the buffer from here on comes before that.
    if (was == offer->ticket)
        atomic_thread_fence(memory_order_seq_cst);
    whi_shm_long_revoked(lane, was != offer->ticket);
    return was == offer->ticket;
}

void whi_offers_move(whi_ring_shared *from, whi_ring_shared *to) {
    for (uint32_t i = 0; i < WHI_RING_OFFERS; i++) {
        uint64_t was = atomic_exchange_explicit(&from->offers[i], 0, memory_order_seq_cst);
        atomic_store_explicit(&to->offers[i], was, memory_order_relaxed);
    }
}

bool whi_shm_take(whi_lane *base, const whi_offer *offer) {
    whi_shm *lane = (whi_shm *)base;
    if (!offer->ticket || offer->ticket & TAKEN || offer->slot >= WHI_RING_OFFERS)
        return false;
    uint64_t expected = offer->ticket;
    bool taken = atomic_compare_exchange_strong_explicit(
        word_of(lane->rx.shared, offer->slot), &expected, offer->ticket | TAKEN,
        memory_order_seq_cst, memory_order_seq_cst);
    lane->fetcher.fetched += taken;
    return taken;
}

// begin_at stamps the beginning of a transfer; the last bit says in which situation it is.
static uint64_t begin_at(uint64_t cycles, bool both_ways) {
    return (cycles | 1) - !both_ways;
}

static whi_pick *row_of(whi_fetcher *f, uint64_t since) {
    return f->picks[since & 1 ? WHI_FETCH_BOTH_WAYS : WHI_FETCH_ALONE];
}

static whi_pick *pick_of(whi_fetcher *f, uint64_t since, uint64_t whole) {
    return whi_pick_of(row_of(f, since), whole);
}

// The cycles that the peer needs to copy some bytes for us, where it has something else to do: about as many as this side for
// it, or, where it has not yet copied anything, as long as the bytes take to come.
static uint64_t of_peer(const whi_shm *lane, uint64_t since, uint64_t size, uint64_t cycles) {
    const whi_copy_method *method = &lane->bulk_method[whi_bulk_prefers_long_laps(&lane->out)];
    uint32_t cost = method->cost[method->nontemporal];
    if (!(since & 1))
        return 0;
    return cost ? size * cost / 1024 : cycles;
}

static bool is_last(const whi_part *part) {
    return part->at + part->size == part->whole;
}

// The time that some bytes had for themselves: since their transfer began, or since the bytes before them came.  For
// one transfer after the other that is how long each takes, and for many at a time what each adds.
static uint64_t took(whi_fetcher *f, uint64_t since) {
    uint64_t now = whi_clock_cycles(), from = since > f->last ? since : f->last;
    f->last = now;
    return now > from ? now - from : 0;
}

static void unreadable(whi_fetcher *f) {
    f->mode = WHI_FETCH_NEVER;
    whi_log(WHI_INFO, "I-SHM-03",
            "the kernel does not let this process read the memory of process %d: large messages "
            "are copied twice",
            (int)f->peer.pid);
}

// is_read says whether a payload is to be read, which its first part decides.
static bool is_read(whi_shm *lane, const whi_fetch *fetch, uint64_t now) {
    whi_fetcher *f = &lane->fetcher;
    const whi_part *part = &fetch->part;
    bool first = part->at == 0;
    if (first)
        *fetch->since = 0;
    if (f->mode == WHI_FETCH_NEVER || !f->peer.word.address || !lane->rx_region ||
        !fetch->offer->ticket || part->whole > WHI_FETCH_MAX)
        return false;
    if (first)
        *fetch->since = begin_at(now, lane->offered.out > 0);
    if (first && f->mode == WHI_FETCH_AUTO &&
        !whi_pick_choose_of(row_of(f, *fetch->since), part->whole))
        return false;
    // Its line is the sender's now, and comes over while the bytes do.
    if (fetch->offer->slot < WHI_RING_OFFERS && is_last(part))
        __builtin_prefetch((const void *)word_of(lane->rx.shared, fetch->offer->slot), 1);
    return true;
}

static wh_status read_pieces(whi_fetcher *f, const whi_piece *pieces, unsigned count) {
    wh_status status = whi_peer_memory_read(&f->peer, pieces, count);
    if (status == WH_EPERM)
        unreadable(f);
    return status == WH_OK ? WH_OK : WH_EAGAIN;
}

void whi_shm_read(whi_lane *base, whi_fetch *list, unsigned count) {
    whi_shm *lane = (whi_shm *)base;
    whi_fetcher *f = &lane->fetcher;
    whi_piece all[WHI_PEER_PIECES];
    unsigned pieces = 0, reads = 0;
    uint64_t begin = whi_clock_cycles(), size = 0;
    for (unsigned i = 0; i < count; i++) {
        const whi_part *part = &list[i].part;
        list[i].status = WH_EAGAIN;
        if (part->count > WHI_PEER_PIECES - pieces || !is_read(lane, &list[i], begin))
            continue;
        list[i].status = WH_OK;
        memcpy(&all[pieces], part->pieces, part->count * sizeof(*all));
        pieces += part->count;
        size += part->size;
        reads++;
    }
    if (!size)
        return;
    wh_status status = read_pieces(f, all, pieces);
    uint64_t cycles = status == WH_OK ? took(f, begin) : 0;
    for (unsigned i = 0; i < count; i++) {
        const whi_part *part = &list[i].part;
        if (list[i].status != WH_OK)
            continue;
        if (status != WH_OK)  // one that is not there must not be the others' end
            list[i].status = reads > 1 ? read_pieces(f, part->pieces, part->count) : status;
        else
            whi_pick_note(pick_of(f, *list[i].since, part->whole), true, cycles * part->size / size,
                          part->size, is_last(part) ? part->whole : 0);
    }
}

void whi_shm_came(whi_lane *base, uint64_t size, uint64_t moved, uint64_t whole, uint64_t since) {
    whi_shm *lane = (whi_shm *)base;
    whi_fetcher *f = &lane->fetcher;
    uint64_t cycles = took(f, since);
    whi_pick_note(pick_of(f, since, whole), false, cycles + of_peer(lane, since, size, cycles),
                  size, moved == whole ? whole : 0);
}

void whi_shm_introduce(whi_shm *lane) {
    whi_hdr hdr = {.cls = WHI_SHM_WORD, .size = sizeof(whi_shm_word)};
    whi_shm_word word;
    if (whi_peer_memory_mine(&word) != WH_OK || !whi_ring_fits(&lane->tx, hdr.size))
        return;
    memcpy(whi_ring_payload(&lane->tx), &word, sizeof(word));
    whi_shm_commit(lane, &hdr);
    lane->offers = true;
}

wh_status whi_shm_meet(whi_shm *lane, const whi_hdr *hdr, const unsigned char *payload) {
    whi_fetcher *f = &lane->fetcher;
    if (hdr->size != sizeof(f->peer.word))
        return whi_shm_broken(lane, "the word of its memory has a wrong size");
    memcpy(&f->peer.word, payload, sizeof(f->peer.word));
    if (f->mode != WHI_FETCH_NEVER && whi_peer_memory_read(&f->peer, NULL, 0) != WH_OK)
        unreadable(f);
    return WH_OK;
}
