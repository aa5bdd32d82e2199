// SPDX-License-Identifier: BSD-3-Clause
//
// Completion: the part of an operation that its user sees: whether and how it ended.
//
// An operation completes exactly once, by whi_completion_set.  `status` is published last, so that a thread that
// reads it as final also sees what was written before.
#ifndef WHI_BASE_COMPLETION_H
#define WHI_BASE_COMPLETION_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <wherry/status.h>

#include "base/sync.h"

typedef struct whi_completion {
    _Atomic int32_t status;  // WH_PENDING until it has ended
    whi_event event;         // set by the completer when somebody may wait in another thread
} whi_completion;

static inline void whi_completion_init(whi_completion *c) {
    atomic_store_explicit(&c->status, WH_PENDING, memory_order_relaxed);
    whi_event_init(&c->event);
}

static inline wh_status whi_completion_status(const whi_completion *c) {
    return (wh_status)atomic_load_explicit(&c->status, memory_order_acquire);
}

// whi_completion_set ends the operation with a final status.
static inline void whi_completion_set(whi_completion *c, wh_status status) {
    assert(status != WH_PENDING);
    assert(atomic_load_explicit(&c->status, memory_order_relaxed) == WH_PENDING);
    atomic_store_explicit(&c->status, (int32_t)status, memory_order_release);
}

#endif
