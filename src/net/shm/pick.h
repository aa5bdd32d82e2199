// SPDX-License-Identifier: BSD-3-Clause
//
// Choosing between two ways of moving a payload, by what each has cost.
//
// Which is faster depends on the processors, on the size, and on what else is under way, and cannot be
// asked.  So now and then all transfers go the other way until some have ended.  Until the next such trial the
// second way is taken unless the first one has cost less than 3/4: the first keeps a processor of the peer
// busy, too, which this side does not see.  The first way may need some time until memory is in the caches where it then
// stays, so a trial of it that does not show it to be much worse may go on for some MiB, and only their last quarter counts: a
// thorough one.  What has become much slower for a while calls for a trial at once.
//
// Costs are of bytes as they come, not of transfers as they end: many that move in turn end together.  Beside copy_method.h,
// where a copy is over when it returns and one is enough.  Belongs to its lane's thread.
#ifndef WHI_NET_SHM_PICK_H
#define WHI_NET_SHM_PICK_H

#include <stdbool.h>
#include <stdint.h>

typedef struct whi_pick {
    bool second;        // the way that is taken
    bool trial;         // for now it is the other
    bool begun;         // whi_pick_choose was called
    bool tried;         // a trial has shown which way is better
    uint32_t left;      // transfers until the next trial, or until this one is given up
    uint32_t interval;  // between trials; grows while they confirm what is done
    uint32_t in_trial;  // transfers that have begun in this one
    uint32_t most;      // of those that go the other way
    double cost[2];     // cycles per byte, smoothed; 0: not known
    double settled;     // the cost of what is done, at the last trial; 0: not known
    uint32_t
        slow;  // windows since then that cost far more, one after the other, up to as many as call for a trial

    // Thorough trials of the first way.
    uint64_t thorough;           // bytes; 0: there are none
    uint32_t thorough_left;      // trials until the next one that may be thorough
    uint32_t thorough_interval;  // between them; grows while they change nothing

    // What is being measured now.
    uint32_t skipped;  // transfers that have yet to end before it begins
    uint32_t ended;    // transfers
    double cycles, bytes;
    double due;       // bytes of the transfers that have ended
    bool goes_on;     // it is a thorough trial, of which
    double unheeded;  // so many bytes have yet to come before those that count
} whi_pick;

// A row of picks, by size from a power of two to the next: of what is smaller than 16 KiB first.
enum { WHI_PICK_SHIFT = 13, WHI_PICK_SIZES = 10 };

// whi_pick_init begins with the second way, or the first; whi_pick_init_row does so for all sizes, has no more than `most` go the
// other way in a trial, and makes thorough ones of so many bytes.
void whi_pick_init(whi_pick *pick, bool second);
void whi_pick_init_row(whi_pick row[WHI_PICK_SIZES], bool second, uint32_t most, uint64_t thorough);

// whi_pick_like has a pick that has not begun go the way that a like one has found to be better, if that has.  False: it has not.
bool whi_pick_like(whi_pick *pick, const whi_pick *like);

// whi_pick_way returns whether a transfer goes the second way now; whi_pick_choose has one begin, and returns so of it.
bool whi_pick_way(const whi_pick *pick);
bool whi_pick_choose(whi_pick *pick);

// whi_pick_of returns the pick of a size.  whi_pick_choose_of is whi_pick_choose of that; where none of the size has begun it goes
// the way that the nearest size has found to be better.
whi_pick *whi_pick_of(whi_pick row[WHI_PICK_SIZES], uint64_t size);
bool whi_pick_choose_of(whi_pick row[WHI_PICK_SIZES], uint64_t size);

// whi_pick_note says what `size` bytes have cost.  `whole` is the size of the transfer when they are its last, else 0.
void whi_pick_note(whi_pick *pick, bool second, uint64_t cycles, uint64_t size, uint64_t whole);

#endif
