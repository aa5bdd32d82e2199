// SPDX-License-Identifier: BSD-3-Clause
//
// A bounded queue of pointers from any thread to one: how threads hand work to a worker's owner.
//
// Each cell carries a sequence number that says whose turn it is: `position` for the producer that
// may fill it, `position + 1` for the consumer that may empty it (D. Vyukov's bounded queue).
// Producers compete for a position by one compare-and-swap and never wait for each other; a
// producer that is stopped between taking a position and filling the cell holds up those behind it,
// not the process.  Each producer's pointers come out in its order.  The queue never owns its
// pointers.
#ifndef WHI_BASE_MPSC_H
#define WHI_BASE_MPSC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <wherry/status.h>

typedef struct whi_mpsc_cell {
    _Atomic size_t sequence;
    void *ptr;
} whi_mpsc_cell;

typedef struct whi_mpsc {
    whi_mpsc_cell *cells;
    size_t mask;
    _Alignas(64) _Atomic size_t head;  // the next position to fill: producers
    _Alignas(64) size_t tail;          // the next position to empty: the consumer alone
} whi_mpsc;

// whi_mpsc_init makes an empty queue for at least `capacity` pointers, rounded up to a power of two
// and to no less than 2.  Fails with WH_ENOMEM, or WH_EINVAL for a capacity above 2^31.
WH_CHECK wh_status whi_mpsc_init(whi_mpsc *queue, size_t capacity);

// whi_mpsc_push appends `ptr`, which must not be NULL; false when the queue is full.  Any thread.
WH_CHECK bool whi_mpsc_push(whi_mpsc *queue, void *ptr);

// whi_mpsc_pop takes the oldest pointer, or returns NULL when there is none yet.  The consumer
// only.
static inline void *whi_mpsc_pop(whi_mpsc *queue) {
    whi_mpsc_cell *cell = &queue->cells[queue->tail & queue->mask];
    if (atomic_load_explicit(&cell->sequence, memory_order_acquire) != queue->tail + 1)
        return NULL;
    void *ptr = cell->ptr;
    // The cell's next turn to be filled is one lap later.
    atomic_store_explicit(&cell->sequence, queue->tail + queue->mask + 1, memory_order_release);
    queue->tail++;
    return ptr;
}

// whi_mpsc_empty says whether whi_mpsc_pop would return NULL now.  The consumer only.
static inline bool whi_mpsc_empty(const whi_mpsc *queue) {
    const whi_mpsc_cell *cell = &queue->cells[queue->tail & queue->mask];
    return atomic_load_explicit(&cell->sequence, memory_order_acquire) != queue->tail + 1;
}

// whi_mpsc_fini frees the queue once no thread uses it any more.
void whi_mpsc_fini(whi_mpsc *queue);

#endif
