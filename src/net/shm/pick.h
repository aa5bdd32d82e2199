// SPDX-License-Identifier: BSD-3-Clause
//
// Choosing between two ways of moving a payload, by what each has cost.
//
// Which is faster depends on the processors, on the size, and on what else is under way, and cannot be
// asked.  So a short run of transfers now and then goes the other way.  Until the next such trial the
// second way is taken unless the first one has cost less than half: it keeps a processor of the peer
// busy, too, which this side does not see.  A run, because ways that overlap with one another say nothing about a
// single transfer: the first ones of a trial are not counted.  Beside way.h, where a copy is
// over when it returns and one is enough.  Belongs to its lane's thread.
#ifndef WHI_NET_SHM_PICK_H
#define WHI_NET_SHM_PICK_H

#include <stdbool.h>
#include <stdint.h>

typedef struct whi_pick {
    bool second;        // the way that is taken
    uint32_t cost[2];   // cycles per KiB, smoothed; 0: not known
    uint32_t left;      // transfers until the next trial, or until the end of this one
    uint32_t interval;  // between trials; grows while they confirm what is done
    bool trial;
    uint32_t noted;  // transfers of this trial that are over
    uint32_t later;  // transfers that began after its last
    uint64_t sum;    // their cost
} whi_pick;

void whi_pick_init(whi_pick *pick);

// whi_pick_choose returns whether the next transfer goes the second way.
bool whi_pick_choose(whi_pick *pick);

// whi_pick_note says what one has cost, in the order in which they end.
void whi_pick_note(whi_pick *pick, bool second, uint64_t cycles, uint64_t size);

#endif
