// SPDX-License-Identifier: BSD-3-Clause
//
// Sleeping on a 32-bit word, and an event made of it.
//
// A futex sleeps only while the word still has the value that the caller has seen, which closes the
// gap between looking and sleeping.  The words belong to one process.  What one thread wrote before
// whi_event_set, another sees after whi_event_wait.  Any thread may call all functions.
#ifndef WHI_BASE_SYNC_H
#define WHI_BASE_SYNC_H

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <wherry/status.h>

#include "base/clock.h"

#define WHI_FOREVER UINT64_MAX

// whi_futex_wait sleeps while *word is `value`, for at most `timeout_ns` from now.
//
// WH_OK says that the word was different, or that somebody woke it, or a signal came: look again.
// WH_ETIMEDOUT says that the time is over.
static inline wh_status whi_futex_wait(_Atomic uint32_t *word, uint32_t value,
                                       uint64_t timeout_ns) {
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / WHI_NS_PER_S),
                               .tv_nsec = (long)(timeout_ns % WHI_NS_PER_S)};
    long rc = syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value,
                      timeout_ns == WHI_FOREVER ? NULL : &timeout, NULL, 0);
    return rc < 0 && errno == ETIMEDOUT ? WH_ETIMEDOUT : WH_OK;
}

// whi_futex_wake wakes up to `count` sleepers on the word.
static inline void whi_futex_wake(_Atomic uint32_t *word, int count) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

// An event is set or not; zeroed, it is not.  The middle state spares a setter the system call when
// nobody sleeps.
enum { WHI_EVENT_CLEAR, WHI_EVENT_AWAITED, WHI_EVENT_SET };

typedef struct whi_event {
    _Atomic uint32_t state;
} whi_event;

static inline void whi_event_init(whi_event *event) {
    atomic_init(&event->state, WHI_EVENT_CLEAR);
}

// whi_event_set sets the event and wakes all who wait for it.
static inline void whi_event_set(whi_event *event) {
    uint32_t old = atomic_exchange_explicit(&event->state, WHI_EVENT_SET, memory_order_release);
    if (old == WHI_EVENT_AWAITED)
        whi_futex_wake(&event->state, INT32_MAX);
}

// whi_event_wait sleeps until the event is set: WH_OK, or WH_ETIMEDOUT after `timeout_ns`.
static inline wh_status whi_event_wait(whi_event *event, uint64_t timeout_ns) {
    uint64_t start = timeout_ns == WHI_FOREVER ? 0 : whi_clock_ns();
    uint64_t left = timeout_ns;
    for (;;) {
        uint32_t state = WHI_EVENT_CLEAR;
        atomic_compare_exchange_strong(&event->state, &state, WHI_EVENT_AWAITED);
        if (state == WHI_EVENT_SET)
            return WH_OK;
        if (timeout_ns != WHI_FOREVER) {
            uint64_t spent = whi_clock_ns() - start;
            if (spent >= timeout_ns)
                return WH_ETIMEDOUT;
            left = timeout_ns - spent;
        }
        (void)whi_futex_wait(&event->state, WHI_EVENT_AWAITED, left);
    }
}

#endif
