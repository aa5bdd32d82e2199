// SPDX-License-Identifier: BSD-3-Clause
//
// How bytes are copied into shared memory: plain stores, or nontemporal ones that go past the
// caches.
//
// A plain store first fetches its line from where the receiver has read it.  Between processors
// with a common cache that is cheap, and the bytes then wait where the receiver is near.  Between
// others it is what takes the most time of all, by an order of magnitude, and nontemporal stores,
// which fetch nothing, win although the receiver then reads from memory (docs/design/shm.md).
// Which of the two holds cannot be asked, and changes when the system moves a process, so it is
// measured: each copy is timed, and now and then one is made by the other method.  A method belongs
// to its lane's thread.
#ifndef WHI_NET_SHM_COPY_METHOD_H
#define WHI_NET_SHM_COPY_METHOD_H

#include <stdbool.h>
#include <stdint.h>

#include "net/lane.h"

#define WHI_COPY_METHOD_MIN ((size_t)4096)  // smaller copies are plain, and tell nothing

// The receiver, too, pays for nontemporal copies: it reads from memory, where plain ones would have left the bytes in a cache that is
// common.  So they must halve the sender's cost; and where plain ones have the better alternative, lines that have left the
// receiver's cache, they must cost no more than a quarter, and count fourfold: in a common cache the receiver took four times as
// long as the sender (docs/design/shm.md).
enum { WHI_COPY_GAIN = 2, WHI_COPY_WEIGHT = 4 };

typedef struct whi_copy_method {
    uint32_t
        gain;  // nontemporal copies are chosen where plain ones cost more than so many times as much
    bool nontemporal;   // what copies do now
    uint32_t cost[2];   // cycles per KiB of plain and of nontemporal copies, smoothed; 0: not known
    uint32_t settled;   // the cost of what is done, at the last trial
    uint32_t left;      // copies until the other method is tried
    uint32_t interval;  // between trials; grows while they confirm what is done
} whi_copy_method;

// whi_copy_method_init begins with plain copies, and goes on with nontemporal ones where plain ones cost more than `gain` times as much.
void whi_copy_method_init(whi_copy_method *method, uint32_t gain);

// whi_copy_method_choose returns whether the next copy should be nontemporal; whi_copy_method_note
// says what it has cost.
bool whi_copy_method_choose(whi_copy_method *method);
void whi_copy_method_note(whi_copy_method *method, bool nontemporal, uint64_t cycles, size_t size);

// whi_copy_method_copy copies the first `size` bytes of a source into shared memory, by the method
// that is faster, and returns the cycles that this has cost, nontemporal ones with their weight; 0: not measured.
uint64_t whi_copy_method_copy(whi_copy_method *method, void *to, const whi_span *src, size_t size);

#endif
