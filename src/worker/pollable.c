// SPDX-License-Identifier: BSD-3-Clause
//
// Pollables, see pollable.h: the lists of a worker that they stand in.
#include "worker/pollable.h"

#include "base/clock.h"

// From arming to the last look: a thousand times what a store takes to be seen, and rare for who sleeps long.
enum { LOOK_MS = 1 };

void whi_pollable_init(whi_pollable *pollable, const whi_pollable_ops *ops) {
    *pollable = (whi_pollable){.ops = ops};
    whi_list_init(&pollable->hot_link);
    whi_list_init(&pollable->dirty_link);
    whi_list_init(&pollable->look_link);
}

void whi_pollable_heat(wh_worker *worker, whi_pollable *pollable) {
    pollable->idle = 0;
    if (pollable->hot)
        return;
    pollable->hot = true;
    whi_list_push_back(&worker->hot, &pollable->hot_link);
}

void whi_pollable_cool(wh_worker *worker, whi_pollable *pollable) {
    pollable->hot = false;
    // A pass may be under way: its cursor must not stay on what leaves the list.
    if (worker->hot_next == &pollable->hot_link)
        worker->hot_next = pollable->hot_link.next;
    whi_list_remove(&pollable->hot_link);
}

void whi_pollable_mark(wh_worker *worker, whi_pollable *pollable) {
    if (pollable->dirty)
        return;
    pollable->dirty = true;
    pollable->blocked = false;
    whi_list_push_back(&worker->dirty, &pollable->dirty_link);
}

void whi_pollable_sent(whi_pollable *pollable) {
    pollable->dirty = false;
    pollable->blocked = false;
    whi_list_remove(&pollable->dirty_link);
}

static whi_pollable *first_look(const wh_worker *worker) {
    whi_list *node = whi_list_first(&worker->looks);
    return node ? whi_container_of(node, whi_pollable, look_link) : NULL;
}

void whi_pollable_look_later(wh_worker *worker, whi_pollable *pollable) {
    pollable->look_ns = whi_clock_ns() + LOOK_MS * WHI_NS_PER_MS;
    whi_list_remove(&pollable->look_link);
    whi_list_push_back(&worker->looks, &pollable->look_link);
}

void whi_pollable_look(wh_worker *worker) {
    whi_pollable *pollable = first_look(worker);
    if (!pollable)
        return;
    uint64_t now = whi_clock_ns();
    for (; pollable && pollable->look_ns <= now; pollable = first_look(worker)) {
        whi_list_remove(&pollable->look_link);
        // What waits to be sent is tried in each pass anyhow.
        if (!pollable->hot && pollable->ops->ready(pollable))
            whi_pollable_heat(worker, pollable);
    }
}

uint64_t whi_pollable_next_look(const wh_worker *worker) {
    const whi_pollable *pollable = first_look(worker);
    return pollable ? pollable->look_ns : WHI_TIMER_NEVER;
}

void whi_pollable_end(wh_worker *worker, whi_pollable *pollable) {
    whi_pollable_cool(worker, pollable);
    whi_pollable_sent(pollable);
    whi_list_remove(&pollable->look_link);
}
