// SPDX-License-Identifier: BSD-3-Clause
//
// Offers: payloads that the peer may read out of this process's memory, and the words that end them.
//
// An offer is a word in the ring that the owner of the payload writes, holding the offer's ticket.  Whoever
// reads marks it as taken *after* it has the bytes; whoever gives the buffer up clears it before that.
// Both with one exchange that expects the bare ticket, so exactly one of them succeeds: a payload that
// was read while its owner changed it is thrown away, and one that was taken has been sent.  Nobody
// waits for the other.  A peer that writes rubbish here makes its own messages wrong, nothing else.
#ifndef WHI_NET_SHM_OFFERS_H
#define WHI_NET_SHM_OFFERS_H

#include "net/shm/peer_memory.h"
#include "net/shm/pick.h"
#include "net/shm/ring.h"

enum { WHI_OFFER_SETS = WHI_RING_OFFERS / 64 };
static_assert(WHI_RING_OFFERS % 64 == 0, "whole sets");

// Offers of this side.
typedef struct whi_offers_tx {
    uint64_t used[WHI_OFFER_SETS];  // slots, as bits
    uint64_t last;                  // ticket
    uint32_t out;                   // so many of them
} whi_offers_tx;

// What moves while payloads of this side are offered to the peer is judged apart: then its processor has work of its own, and
// what it copies for us is not free.
enum { WHI_FETCH_ALONE, WHI_FETCH_BOTH_WAYS, WHI_FETCH_SITUATIONS };
// So many at most go the other way in a trial then, since the peer's half is counted, hidden or not.  Of one direction its half is
// seen only when nothing else hides it.
enum { WHI_FETCH_TRIED = 16 };
// A thorough trial of chunks is so many times the bulk memory: in the first long lap it gets into the caches, in the second the
// sender may find out that such are better, and of the third most is measured.  The peer's memory, which is taken to be as large as
// this side's.
enum { WHI_FETCH_LAPS = 3 };

// Larger payloads go by chunks: two processors at a time, with others getting their turn.
#define WHI_FETCH_MAX ((uint64_t)4 << 20)

typedef enum whi_fetch_mode { WHI_FETCH_NEVER, WHI_FETCH_AUTO, WHI_FETCH_ALWAYS } whi_fetch_mode;

// Reading the peer's.
typedef struct whi_fetcher {
    whi_fetch_mode mode;  // never: also when the kernel does not let us
    whi_peer_memory peer;
    uint64_t last;     // cycles when the last bytes came
    uint64_t fetched;  // payloads
    // By size: chunks, or reading.
    whi_pick picks[WHI_FETCH_SITUATIONS][WHI_PICK_SIZES];
} whi_fetcher;

struct whi_shm;

// whi_offers_move takes the offers to another ring, that the peer has not seen yet.
void whi_offers_move(whi_ring_shared *from, whi_ring_shared *to);

// whi_shm_introduce tells the peer by what it knows this process's memory; the lane is new.
void whi_shm_introduce(struct whi_shm *lane);

// whi_shm_meet takes the peer's record of that, and tries whether its memory can be read.
wh_status whi_shm_meet(struct whi_shm *lane, const whi_hdr *hdr, const unsigned char *payload);

// These are members of the vtable.
bool whi_shm_offer(whi_lane *lane, whi_offer *offer, uint64_t size);
bool whi_shm_revoke(whi_lane *lane, const whi_offer *offer);
void whi_shm_read(whi_lane *base, whi_fetch *list, unsigned count);
bool whi_shm_take(whi_lane *base, const whi_offer *offer);
void whi_shm_came(whi_lane *base, uint64_t size, uint64_t moved, uint64_t whole, uint64_t since);

#endif
