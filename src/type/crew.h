// SPDX-License-Identifier: BSD-3-Clause
//
// The crew: helper threads that share the work of large orders, none unless wh_pack_set_threads asks.
//
// An order becomes a job of many parts; whoever is free takes the next one, the caller among them.
// So a job ends also when every helper is busy elsewhere, or gone.
#ifndef WHI_TYPE_CREW_H
#define WHI_TYPE_CREW_H

#include <stdatomic.h>

#include "base/list.h"
#include "type/move.h"

typedef struct whi_job {
    whi_order order;
    int64_t step, parts;   // packed bytes of a part, about; how many there are
    _Atomic int64_t next;  // the first part that nobody has taken
    unsigned helpers;      // at work on it; under the crew's lock
    bool queued;           // in the queue; under the crew's lock
    whi_list link;
} whi_job;

// Not for callers: behind whi_crew_wanted.
extern _Atomic unsigned whi_crew_size;
enum {
    // Packed bytes, and bytes moved in and out of the memory.  Waking a thread takes as long as moving
    // a few megabytes, and what fits into one core's caches had better stay there.
    WHI_CREW_LEAST = 1 << 20,
    WHI_CREW_LEAST_MOVED = 1 << 24,
};

// whi_crew_wanted says whether an order is large enough to share, and there is somebody to help.
static inline bool whi_crew_wanted(const whi_order *order) {
    int64_t size = order->to - order->from;
    return atomic_load_explicit(&whi_crew_size, memory_order_relaxed) > 0 &&
           size >= WHI_CREW_LEAST &&
           whi_elements_touched(&order->elements, size) + size >= WHI_CREW_LEAST_MOVED;
}

// whi_crew_post hands an order to the helpers and returns.  The job must stay where it is until
// whi_crew_finish.
void whi_crew_post(whi_job *job, const whi_order *order);

// whi_crew_done says whether all of it has been carried out; without helpers it does the rest here.
bool whi_crew_done(whi_job *job);

// whi_crew_finish takes part in the work until all is done.
void whi_crew_finish(whi_job *job);

// whi_crew_run carries out an order, with helpers when that pays.
static inline void whi_crew_run(const whi_order *order) {
    whi_job job;
    if (!whi_crew_wanted(order)) {
        whi_order_run(order);
        return;
    }
    whi_crew_post(&job, order);
    whi_crew_finish(&job);
}

#endif
