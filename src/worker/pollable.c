// SPDX-License-Identifier: BSD-3-Clause
//
// Pollables, see pollable.h: the two lists of a worker that they stand in.
#include "worker/pollable.h"

void whi_pollable_init(whi_pollable *pollable, const whi_pollable_ops *ops) {
    *pollable = (whi_pollable){.ops = ops};
    whi_list_init(&pollable->hot_link);
    whi_list_init(&pollable->dirty_link);
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
