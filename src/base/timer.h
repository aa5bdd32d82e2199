// SPDX-License-Identifier: BSD-3-Clause
//
// Timers: callbacks ordered by deadline, inside objects of the caller, so that arming cannot fail.
//
// The order is kept by a pairing heap threaded through the timers: adding is O(1), removing and
// taking the earliest O(log n) amortised.  Timers of one deadline fire in the order they were
// added.  A callback may add and remove any timer, its own too, and may free its own; a timer that
// it adds fires in the next run at the earliest, however old its deadline, so that a run always
// ends.  A set belongs to one thread.
#ifndef WHI_BASE_TIMER_H
#define WHI_BASE_TIMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

typedef struct whi_timer whi_timer;

// whi_timer_fn is called by whi_timers_run.  The timer is no longer armed.
typedef void (*whi_timer_fn)(whi_timer *timer, void *arg);

struct whi_timer {
    uint64_t deadline_ns;  // of whi_clock_ns
    whi_timer_fn fn;
    void *arg;
    // The rest is the set's own.
    uint64_t order;  // tells timers of one deadline apart
    enum { WHI_TIMER_IDLE, WHI_TIMER_ARMED, WHI_TIMER_DUE } state;
    whi_timer *child, *next;  // in the heap: first child, next sibling
    whi_timer **link;         // in the heap: the pointer that points here
    whi_list due;             // in the list of a run
};

typedef struct whi_timers {
    whi_timer *root;  // the earliest
    uint64_t order;
    size_t count;
    whi_list due;  // taken out of the heap by a run, not yet called
} whi_timers;

#define WHI_TIMER_NEVER UINT64_MAX

// whi_timers_init makes an empty set.  There is nothing to free at its end.
void whi_timers_init(whi_timers *timers);

// whi_timer_init prepares a timer that is not armed.
void whi_timer_init(whi_timer *timer, whi_timer_fn fn, void *arg);

// whi_timers_add arms `timer` for `deadline_ns`; an armed timer is moved to the new deadline.  The
// timer must stay where it is until it has fired or been removed.
void whi_timers_add(whi_timers *timers, whi_timer *timer, uint64_t deadline_ns);

// whi_timers_remove disarms `timer`; one that is not armed is left alone.
void whi_timers_remove(whi_timers *timers, whi_timer *timer);

static inline size_t whi_timers_count(const whi_timers *timers) {
    return timers->count;
}

// whi_timers_next_deadline returns when the earliest timer is due, or WHI_TIMER_NEVER; 0, which is
// always past, when called by a callback while timers of the same run have yet to be called.
static inline uint64_t whi_timers_next_deadline(const whi_timers *timers) {
    if (!whi_list_empty(&timers->due))
        return 0;
    return timers->root ? timers->root->deadline_ns : WHI_TIMER_NEVER;
}

// whi_timers_run calls the timers whose deadline is at or before `now_ns`, earliest first, and
// returns how many it called.
size_t whi_timers_run(whi_timers *timers, uint64_t now_ns);

#endif
