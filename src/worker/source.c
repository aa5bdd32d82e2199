// SPDX-License-Identifier: BSD-3-Clause
//
// Sources, see source.h: the two lists of a worker that they stand in.
#include "worker/source.h"

void whi_source_init(whi_source *source, const whi_source_ops *ops) {
    *source = (whi_source){.ops = ops};
    whi_list_init(&source->hot_link);
    whi_list_init(&source->dirty_link);
}

void whi_source_heat(wh_worker *worker, whi_source *source) {
    source->idle = 0;
    if (source->hot)
        return;
    source->hot = true;
    whi_list_push_back(&worker->hot, &source->hot_link);
}

void whi_source_cool(wh_worker *worker, whi_source *source) {
    source->hot = false;
    // A pass may be under way: its cursor must not stay on what leaves the list.
    if (worker->hot_next == &source->hot_link)
        worker->hot_next = source->hot_link.next;
    whi_list_remove(&source->hot_link);
}

void whi_source_mark(wh_worker *worker, whi_source *source) {
    if (source->dirty)
        return;
    source->dirty = true;
    source->blocked = false;
    whi_list_push_back(&worker->dirty, &source->dirty_link);
}

void whi_source_sent(whi_source *source) {
    source->dirty = false;
    source->blocked = false;
    whi_list_remove(&source->dirty_link);
}
