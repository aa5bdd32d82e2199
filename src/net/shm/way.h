// SPDX-License-Identifier: BSD-3-Clause
//
// The way into shared memory: plain stores, or nontemporal ones that go past the caches.
//
// A plain store first fetches its line from where the receiver has read it.  Between processors with a
// common cache that is cheap, and the bytes then wait where the receiver is near.  Between others it is what takes the
// most time of all, by an order of magnitude, and nontemporal stores, which fetch nothing, win although the
// receiver then reads from memory (docs/design/shm.md).  Which of the two holds cannot be asked, and changes
// when the system moves a process, so it is measured: each copy is timed, and now and then one goes the other way.
// A way belongs to its lane's thread.
#ifndef WHI_NET_SHM_WAY_H
#define WHI_NET_SHM_WAY_H

#include <stdbool.h>
#include <stdint.h>

#include "net/lane.h"

#define WHI_WAY_MIN ((size_t)4096)  // smaller copies are plain, and tell nothing

typedef struct whi_way {
    bool nontemporal;   // what copies do now
    uint32_t cost[2];   // cycles per KiB of plain and of nontemporal copies, smoothed; 0: not known
    uint32_t settled;   // the cost of what is done, at the last trial
    uint32_t left;      // copies until the other way is tried
    uint32_t interval;  // between trials; grows while they confirm what is done
} whi_way;

void whi_way_init(whi_way *way);

// whi_way_choose returns whether the next copy should be nontemporal; whi_way_note says what it has cost.
bool whi_way_choose(whi_way *way);
void whi_way_note(whi_way *way, bool nontemporal, uint64_t cycles, size_t size);

// whi_way_copy copies the first `size` bytes of a source into shared memory, the way that is faster.
void whi_way_copy(whi_way *way, void *to, const whi_span *src, size_t size);

#endif
