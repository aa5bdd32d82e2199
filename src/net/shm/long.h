// SPDX-License-Identifier: BSD-3-Clause
//
// Long records through the ring: payloads of a few pages, sent unasked.
//
// Each would be copied into the ring as a whole before its reader sees it, and would be too large for a small ring.  So it goes in
// parts, which one side copies in while the other copies them out, straight to where their owner wants them.
// Belongs to its lane's thread.
#ifndef WHI_NET_SHM_LONG_H
#define WHI_NET_SHM_LONG_H

#include "net/lane.h"
#include "net/shm/pick.h"

struct whi_shm;

// The most that a peer may send in one.
#define WHI_SHM_LONG_MOST ((uint64_t)64 << 10)

// What has come of a long record: `hdr.size` is that of all of it, 0 when none is under way.
typedef struct whi_long_rx {
    whi_hdr hdr;
    whi_span span;
    uint32_t at;
} whi_long_rx;

// So many at most are offered in a trial: a sender that waits for each waits for its receiver in those.
enum { WHI_LONG_TRIED = 16 };

// Whether payloads are better offered, to be read by the peer, or sent as long records.
typedef struct whi_long_tx {
    whi_pick picks[WHI_PICK_SIZES];  // the second way is the long record
    // The offer that is timed: the last one, if it was made when no other was out.
    uint64_t since;  // cycles; 0: none
    uint64_t size;
} whi_long_tx;

// whi_shm_long_offered says that a payload is offered that could be a long record, if its size is not 0; whi_shm_long_revoked that
// an offer has ended, and whether the peer has read it.
void whi_shm_long_offered(struct whi_shm *lane, uint64_t size, bool alone);
void whi_shm_long_revoked(struct whi_shm *lane, bool was_read);

// These are members of the vtable.
size_t whi_shm_long_limit(const whi_lane *base);
bool whi_shm_long_better(whi_lane *base, size_t size);
wh_status whi_shm_send_long(whi_lane *base, const whi_hdr *front, const void *front_payload,
                            const whi_hdr *hdr, const whi_span *src);

// whi_shm_take_long takes the first part of one, whi_shm_take_rest the others.
wh_status whi_shm_take_long(struct whi_shm *lane, const whi_hdr *hdr, const unsigned char *payload);
wh_status whi_shm_take_rest(struct whi_shm *lane, const whi_hdr *hdr, const unsigned char *payload);

#endif
