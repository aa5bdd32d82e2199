// SPDX-License-Identifier: BSD-3-Clause
//
// The ring: records from one producer to one consumer through memory that both can write.
//
// A record is a whi_hdr and its payload, begins at a multiple of 64 bytes and never wraps.  Its
// first 8 bytes, the lead word, are zero until one release store makes it appear whole: so an
// 8-byte message is one cache line that travels once.  The consumer zeroes every 64-byte step of a
// record behind itself, which keeps the invariant that whatever position may be a record's next is
// zero until published: old payload can never look like a record.
//
// Positions count bytes from the beginning of time.  The producer keeps `head`, the consumer `pos`;
// only the tail (pos, told rarely) is shared.  Each side trusts nothing that it reads here: a
// word is loaded once, checked against the side's own state, then used.  A ring end belongs to one
// thread; the memory belongs to whoever gave it to the end.
#ifndef WHI_NET_SHM_RING_H
#define WHI_NET_SHM_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "net/lane.h"

#define WHI_RING_STEP 64u                   // a cache line: records begin at its multiples
#define WHI_RING_MIN ((size_t)4096)         // bytes of records in the smallest ring
#define WHI_RING_MAX ((size_t)256 << 20)    // and in the largest that is accepted from a peer
#define WHI_RING_LIVE (UINT64_C(1) << 31)   // in the lead word: the record is complete
#define WHI_RING_APART (UINT64_C(1) << 30)  // and the next begins WHI_RING_GAP behind its end
#define WHI_RING_GAP 1024u  // further than processors fetch ahead (docs/design/shm.md)

#define WHI_RING_OFFERS 448u  // what is left of the first page

// Kept free behind all other records, so that a last one without payload, which announces the next
// ring, can be published at any time.
#define WHI_RING_RESERVE WHI_RING_STEP

// The memory of a ring: words that either side writes rarely, then the records.  Each word has 128
// bytes to itself, because processors fetch cache lines in pairs.
typedef struct whi_ring_shared {
    _Alignas(128) _Atomic uint64_t tail;   // consumer: everything before this position is free
    _Alignas(128) _Atomic uint32_t armed;  // set by the consumer: ring my bell for the next record
    _Alignas(128) _Atomic uint32_t want;   // set by the producer: ring my bell when there is space
    // producer: what the consumer may take out of its memory (offers.h)
    _Alignas(512) _Atomic uint64_t offers[WHI_RING_OFFERS];
    _Alignas(4096) unsigned char data[];
} whi_ring_shared;
static_assert(sizeof(whi_ring_shared) == 4096, "shared layout");
static_assert(offsetof(whi_hdr, cls) == 4 && offsetof(whi_hdr, ep) == 8 &&
                  offsetof(whi_hdr, tag) == 16 && offsetof(whi_hdr, arg) == 24,
              "whi_ring_publish");

typedef struct whi_ring_tx {
    uint64_t head;   // where the next record goes
    uint64_t limit;  // the next record must end here or before: the tail's or the ring's end
    unsigned char *data;
    uint64_t mask;
    whi_ring_shared *shared;
    uint64_t tail;  // as last read and found good
} whi_ring_tx;

typedef struct whi_ring_rx {
    unsigned char *at;  // the lead word of the next record
    uint64_t pos;       // its position
    uint64_t gap;       // between the record that was peeked at last and the next
    uint64_t told;      // the tail that the producer knows
    unsigned char *data;
    uint64_t mask;
    whi_ring_shared *shared;
} whi_ring_rx;

// whi_ring_tx_init begins to send through zeroed memory with `size` bytes of records, a power of
// two.
void whi_ring_tx_init(whi_ring_tx *tx, whi_ring_shared *shared, size_t size);

// whi_ring_rx_init begins to receive from memory whose first record is at its beginning.
void whi_ring_rx_init(whi_ring_rx *rx, whi_ring_shared *shared, size_t size);

// whi_ring_rx_none makes an end that is always empty: a lane without a peer yet.
void whi_ring_rx_none(whi_ring_rx *rx);

// whi_ring_space returns the bytes that a record with `size` bytes of payload takes.
static inline uint64_t whi_ring_space(uint32_t size) {
    return (sizeof(whi_hdr) + (uint64_t)size + WHI_RING_STEP - 1) & ~(uint64_t)(WHI_RING_STEP - 1);
}

// whi_ring_fits says whether a record can be written now; otherwise whi_ring_make_space may help.
static inline bool whi_ring_fits(const whi_ring_tx *tx, uint32_t size) {
    return tx->head + whi_ring_space(size) <= tx->limit;
}

// whi_ring_make_space looks at the tail, and pads to the end of the ring if the record needs that.
//
// WH_OK: it fits now.  WH_EAGAIN: the consumer has not freed enough.  WH_EPROTOCOL: the tail is
// none.
wh_status whi_ring_make_space(whi_ring_tx *tx, uint32_t size);

// whi_ring_has_space is whi_ring_make_space without writing anything.
wh_status whi_ring_has_space(whi_ring_tx *tx, uint32_t size);

// whi_ring_payload returns where the payload of the next record goes, once it fits.
static inline unsigned char *whi_ring_payload(const whi_ring_tx *tx) {
    return tx->data + (tx->head & tx->mask) + sizeof(whi_hdr);
}

// whi_ring_prepare brings the lines of the next record to the producer, when that is as large as the last one: the consumer
// has had them in the lap before, and each would be waited for as it is written.  Not the first, which the consumer looks
// at; not many, which would be in the way of the answer that the caller is about to wait for.
static inline void whi_ring_prepare(const whi_ring_tx *tx, uint64_t space) {
    enum { PREPARED_MAX = 4096 };
    if (space > PREPARED_MAX || tx->head + space > tx->limit)
        return;
    unsigned char *at = tx->data + (tx->head & tx->mask);
    for (uint64_t step = WHI_RING_STEP; step < space; step += WHI_RING_STEP)
        __builtin_prefetch(at + step, 1, 3);
}

// whi_ring_publish makes the record with this header, whose payload is in place, appear.  `apart` leaves a gap
// behind it, if there is space: worth it where the consumer is about to wait for the next record.
//
// The header is read field by field: the caller has just written it so, and a load that spans
// several stores waits until they have left the store buffer, which doubles the cost of a send.
static inline void whi_ring_publish(whi_ring_tx *tx, const whi_hdr *hdr, bool apart) {
    unsigned char *at = tx->data + (tx->head & tx->mask);
    uint64_t lead = hdr->size | WHI_RING_LIVE | (uint64_t)hdr->cls << 32 |
                    (uint64_t)hdr->flags << 40 | (uint64_t)hdr->aux << 48;
    uint64_t second = hdr->ep | (uint64_t)hdr->seq << 32;
    tx->head += whi_ring_space(hdr->size);
    if (apart && tx->head + WHI_RING_GAP <= tx->limit) {
        tx->head += WHI_RING_GAP;
        lead |= WHI_RING_APART;
    }
    memcpy(at + 8, &second, 8);
    memcpy(at + 16, &hdr->tag, 8);
    memcpy(at + 24, &hdr->arg, 8);
    atomic_store_explicit((_Atomic uint64_t *)at, lead, memory_order_release);
    if (apart)
        whi_ring_prepare(tx, whi_ring_space(hdr->size));
}

// whi_ring_fetch brings the other lines of a record to the consumer: all at once, and while its header is looked at.
static inline void whi_ring_fetch(const unsigned char *at, uint64_t space) {
    enum { FETCHED_MAX = 4096 };
    for (uint64_t step = WHI_RING_STEP; step < space && step < FETCHED_MAX; step += WHI_RING_STEP)
        __builtin_prefetch(at + step, 0, 3);
}

// whi_ring_peek copies the header of the next record and checks that the record lies in the ring.
//
// WH_OK: *payload holds hdr->size bytes, which the peer may still change.  WH_EAGAIN: there is
// none. WH_EPROTOCOL: these bytes are no record.
static inline wh_status whi_ring_peek(whi_ring_rx *rx, whi_hdr *hdr, unsigned char **payload) {
    uint64_t lead = atomic_load_explicit((_Atomic uint64_t *)rx->at, memory_order_acquire);
    if (!lead)
        return WH_EAGAIN;
    uint64_t left = rx->mask + 1 - (rx->pos & rx->mask);
    uint64_t clean = lead & ~(WHI_RING_LIVE | WHI_RING_APART);
    uint64_t gap = lead & WHI_RING_APART ? WHI_RING_GAP : 0;
    uint64_t space = whi_ring_space((uint32_t)clean);
    if (!(lead & WHI_RING_LIVE) || space + gap > left)
        return WH_EPROTOCOL;
    rx->gap = gap;
    whi_ring_fetch(rx->at, space);
    memcpy(hdr, &clean, sizeof(clean));
    memcpy(&hdr->ep, rx->at + sizeof(clean), sizeof(*hdr) - sizeof(clean));
    *payload = rx->at + sizeof(*hdr);
    return WH_OK;
}

// whi_ring_empty says whether there is nothing to peek at.
static inline bool whi_ring_empty(const whi_ring_rx *rx) {
    return !atomic_load_explicit((_Atomic uint64_t *)rx->at, memory_order_acquire);
}

// whi_ring_consume is done with the record that whi_ring_peek found, whose size it said.
static inline void whi_ring_consume(whi_ring_rx *rx, uint32_t size) {
    uint64_t space = whi_ring_space(size);
    for (uint64_t step = 0; step < space; step += WHI_RING_STEP)
        atomic_store_explicit((_Atomic uint64_t *)(rx->at + step), 0, memory_order_relaxed);
    rx->pos += space + rx->gap;
    rx->at = rx->data + (rx->pos & rx->mask);
}

// whi_ring_untold says whether a quarter of the ring was consumed that the producer does not know
// of.
//
// It is told no more often, so that the two rarely pull at the same line.  With what takes at most
// three eighths this is enough: when all is consumed, the producer knows of space for it.
static inline bool whi_ring_untold(const whi_ring_rx *rx) {
    return rx->pos - rx->told > rx->mask / 4;
}

// whi_ring_tell tells the producer what is free.
static inline void whi_ring_tell(whi_ring_rx *rx) {
    atomic_store_explicit(&rx->shared->tail, rx->pos, memory_order_release);
    rx->told = rx->pos;
}

// whi_ring_order stands between writing what the other side waits for and asking whether it sleeps.
//
// Losing a wake-up takes both sides to miss the other's store.  When the sleeper issues
// whi_shm_barrier() between its store and its look, that is a barrier for this side as well, and
// only the compiler must be kept from reordering.  Otherwise both sides need a fence.
static inline void whi_ring_order(bool asymmetric) {
    if (asymmetric)
        atomic_signal_fence(memory_order_seq_cst);
    else
        atomic_thread_fence(memory_order_seq_cst);
}

// whi_ring_sleeper says, once per arming, that the other side sleeps on this word and needs the
// bell.
static inline bool whi_ring_sleeper(_Atomic uint32_t *word) {
    return __builtin_expect(atomic_load_explicit(word, memory_order_relaxed) != 0, 0) &&
           atomic_exchange_explicit(word, 0, memory_order_relaxed) != 0;
}

#endif
