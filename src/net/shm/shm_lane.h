// SPDX-License-Identifier: BSD-3-Clause
//
// The inside of a shm lane, for the files of this folder only.
//
// Two independent directions: `tx` and `out` are ours to fill, `rx` and `in` the peer's.  shm.c
// makes and sends, poll.c receives, push.c moves chunks out.  All of it belongs to the worker's
// thread.
#ifndef WHI_NET_SHM_SHM_LANE_H
#define WHI_NET_SHM_SHM_LANE_H

#include "net/shm/bulk.h"
#include "net/shm/copy_method.h"
#include "net/shm/long.h"
#include "net/shm/offers.h"
#include "net/shm/region.h"
#include "net/shm/ring.h"
#include "net/shm/shm.h"

typedef struct whi_shm {
    whi_lane lane;
    whi_ring_rx rx;
    whi_ring_tx tx;
    uint64_t answered;  // rx.pos when we last sent
    bool asymmetric;
    uint64_t moved;  // bytes of payloads that this poll has copied out
    bool attention;  // poll must look further than the ring: failed, something was refused, or owed
    bool bell_owed;  // the wire could not ring: the peer may sleep over what we did
    uint32_t refused_size;  // payload of the record that found no space
    uint32_t refused_bulk;  // and the bulk memory that it needed besides
    uint32_t eager_limit;
    bool takes_long;   // both sides take long records
    wh_status failed;  // WH_OK, or what every call answers from now on
    bool offers;       // the peer was told by what it knows our memory
    whi_copy_method ring_method;
    whi_copy_method bulk_method[2];  // [whi_bulk_in_long_lap]
    whi_offers_tx offered;
    whi_fetcher fetcher;
    whi_bulk_tx out;
    whi_bulk_rx in;
    whi_long_tx long_tx;
    whi_long_rx long_rx;
    whi_region *tx_region, *rx_region, *out_region, *in_region;
    size_t ring_max;   // 0: the sending ring grows no more
    size_t bulk_size;  // what to make at the first push; 0: chunks go through the ring
    size_t bulk_chunk_max;
    bool bulk_laps;  // whether laps through it may be short
    whi_shm_budget *budget;
    whi_list holder;  // among budget->lanes while out_region is there
    const whi_shm_wire *wire;
    void *wire_arg;
} whi_shm;

// whi_shm_fail makes the lane fail for good and returns the status.
wh_status whi_shm_fail(whi_shm *lane, wh_status status);

// whi_shm_broken fails the lane with WH_EPROTOCOL and logs what the peer has done.
wh_status whi_shm_broken(whi_shm *lane, const char *what);

// whi_shm_refuse remembers what found no space, for poll and ready, and returns WH_EAGAIN.
wh_status whi_shm_refuse(whi_shm *lane, uint32_t size, uint32_t bulk);

// whi_shm_retry says whether what was refused would still be (WH_EAGAIN).
wh_status whi_shm_retry(whi_shm *lane);

// whi_shm_reserve makes space for a record, growing the ring if it may; WH_EAGAIN: refused.
wh_status whi_shm_reserve(whi_shm *lane, uint32_t size);

// whi_shm_reserve_bytes does so for records that take so many bytes of the ring in one piece.
static inline wh_status whi_shm_reserve_bytes(whi_shm *lane, uint64_t bytes) {
    uint32_t size = (uint32_t)(bytes - sizeof(whi_hdr));  // of one record that takes as much
    return whi_ring_fits(&lane->tx, size) ? WH_OK : whi_shm_reserve(lane, size);
}

// whi_shm_map_ring goes over to receiving from this ring.  The descriptor stays the caller's.
wh_status whi_shm_map_ring(whi_shm *lane, int fd);

// whi_shm_ring_bell wakes the peer.  A bell that the wire cannot ring now is owed: poll and arm try
// again, and until then the lane does not let its own worker sleep.
void whi_shm_ring_bell(whi_shm *lane);

// whi_shm_tell tells the sender what is free in its ring, and wakes it if it waits for that.
void whi_shm_tell(whi_shm *lane);

// whi_shm_poll, whi_shm_next and whi_shm_push are these members of the vtable.
int whi_shm_poll(whi_lane *base, int budget);
bool whi_shm_next(whi_lane *base, whi_hdr *hdr);
wh_status whi_shm_push(whi_lane *base, const whi_hdr *hdr, const whi_span *src, uint64_t size,
                       size_t *moved);

// whi_shm_drop_bulk gives our bulk memory back without a word to the peer.
void whi_shm_drop_bulk(whi_shm *lane);

// whi_shm_publish publishes a record that was reserved, with a gap behind it or not, and wakes the peer if it sleeps.
static inline void whi_shm_publish(whi_shm *lane, const whi_hdr *hdr, bool apart) {
    whi_ring_publish(&lane->tx, hdr, apart);
    whi_ring_order(lane->asymmetric);
    if (whi_ring_sleeper(&lane->tx.shared->armed))
        whi_shm_ring_bell(lane);
}

// whi_shm_commit does so with a gap where that is good.
//
// Whoever answers will be answered: there the peer polls for what comes next, so the record gets a
// gap behind it (docs/design/shm.md); in a one-way flow its processor should fetch ahead.  The
// price is ring space when both sides send at once: every record then looks like an answer, and an
// 8-byte message takes 1,088 bytes instead of 64.
static inline void whi_shm_commit(whi_shm *lane, const whi_hdr *hdr) {
    bool answers = lane->answered != lane->rx.pos;
    lane->answered = lane->rx.pos;
    whi_shm_publish(lane, hdr, answers);
}

#endif
