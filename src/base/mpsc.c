// SPDX-License-Identifier: BSD-3-Clause
//
// The producers' side of the bounded queue.
//
// The invariant: a cell belongs to the producer whose position its sequence number equals, from its
// successful exchange of `head` until it stores position + 1; then it belongs to the consumer,
// until that stores position + capacity.  Positions wrap, so they are compared by their difference.
#include "base/mpsc.h"

#include <stdint.h>

#include "base/alloc.h"

enum { CAPACITY_MIN = 2 };  // with one cell, "filled" and "free for the next lap" would look alike

static const size_t capacity_max = (size_t)1 << 31;

wh_status whi_mpsc_init(whi_mpsc *queue, size_t capacity) {
    if (capacity > capacity_max)
        return WH_EINVAL;
    size_t cells = CAPACITY_MIN;
    while (cells < capacity)
        cells *= 2;
    whi_mpsc_cell *memory = whi_calloc(cells, sizeof(*memory));
    if (!memory)
        return WH_ENOMEM;
    for (size_t i = 0; i < cells; i++)
        atomic_init(&memory[i].sequence, i);
    queue->cells = memory;
    queue->mask = cells - 1;
    atomic_init(&queue->head, 0);
    queue->tail = 0;
    return WH_OK;
}

bool whi_mpsc_push(whi_mpsc *queue, void *ptr) {
    size_t position = atomic_load_explicit(&queue->head, memory_order_relaxed);
    for (;;) {
        whi_mpsc_cell *cell = &queue->cells[position & queue->mask];
        size_t sequence = atomic_load_explicit(&cell->sequence, memory_order_acquire);
        intptr_t lead = (intptr_t)(sequence - position);
        if (lead < 0)
            return false;  // the consumer has not emptied it since the last lap
        if (lead > 0) {    // another producer was faster
            position = atomic_load_explicit(&queue->head, memory_order_relaxed);
            continue;
        }
        if (!atomic_compare_exchange_weak_explicit(&queue->head, &position, position + 1,
                                                   memory_order_relaxed, memory_order_relaxed))
            continue;
        cell->ptr = ptr;
        atomic_store_explicit(&cell->sequence, position + 1, memory_order_release);
        return true;
    }
}

void whi_mpsc_fini(whi_mpsc *queue) {
    whi_free(queue->cells);
    queue->cells = NULL;
}
