// SPDX-License-Identifier: BSD-3-Clause
//
// A pairing heap of timers.
//
// The idea: a tree in which no child is earlier than its parent.  Two trees merge by making the
// later root the first child of the other; taking the root out merges its children in pairs, then
// the pairs from right to left, and that is all the balancing there is.  The invariant that makes
// removal from anywhere possible: timer->link is the one pointer that points to the timer, be it
// the set's root, its parent's child or its elder sibling's next.
#include "base/timer.h"

void whi_timers_init(whi_timers *timers) {
    timers->root = NULL;
    timers->order = 0;
    timers->count = 0;
    whi_list_init(&timers->due);
}

void whi_timer_init(whi_timer *timer, whi_timer_fn fn, void *arg) {
    *timer = (whi_timer){.fn = fn, .arg = arg, .state = WHI_TIMER_IDLE};
}

static bool earlier(const whi_timer *a, const whi_timer *b) {
    return a->deadline_ns != b->deadline_ns ? a->deadline_ns < b->deadline_ns : a->order < b->order;
}

// Makes `timer`, with all below it, what *link points to.
static void hang(whi_timer **link, whi_timer *timer) {
    *link = timer;
    if (timer)
        timer->link = link;
}

// Joins two trees, either of which may be empty, and returns the root, whose link the caller sets.
static whi_timer *merge(whi_timer *a, whi_timer *b) {
    if (!a || !b)
        return a ? a : b;
    if (earlier(b, a)) {
        whi_timer *swap = a;
        a = b;
        b = swap;
    }
    hang(&b->next, a->child);
    hang(&a->child, b);
    a->next = NULL;
    return a;
}

// Joins a list of siblings to one tree.
static whi_timer *merge_siblings(whi_timer *first) {
    // Left to right in pairs; `pairs` collects them, so it ends up right to left.
    whi_timer *pairs = NULL;
    while (first) {
        whi_timer *a = first, *b = a->next;
        first = b ? b->next : NULL;
        a->next = NULL;
        if (b)
            b->next = NULL;
        whi_timer *pair = merge(a, b);
        pair->next = pairs;
        pairs = pair;
    }
    whi_timer *root = NULL;
    while (pairs) {
        whi_timer *pair = pairs;
        pairs = pair->next;
        pair->next = NULL;
        root = merge(root, pair);
    }
    return root;
}

// Takes `timer` out of the heap wherever it is; what was below it goes back in from the top.
static void take(whi_timers *timers, whi_timer *timer) {
    whi_timer *below = merge_siblings(timer->child);
    hang(timer->link, timer->next);
    timer->child = timer->next = NULL;
    hang(&timers->root, merge(timers->root, below));
}

void whi_timers_add(whi_timers *timers, whi_timer *timer, uint64_t deadline_ns) {
    whi_timers_remove(timers, timer);
    timer->deadline_ns = deadline_ns;
    timer->order = timers->order++;
    timer->state = WHI_TIMER_ARMED;
    timer->child = timer->next = NULL;
    hang(&timers->root, merge(timers->root, timer));
    timers->count++;
}

void whi_timers_remove(whi_timers *timers, whi_timer *timer) {
    if (timer->state == WHI_TIMER_IDLE)
        return;
    if (timer->state == WHI_TIMER_ARMED)
        take(timers, timer);
    else
        whi_list_remove(&timer->due);
    timer->state = WHI_TIMER_IDLE;
    timers->count--;
}

size_t whi_timers_run(whi_timers *timers, uint64_t now_ns) {
    // First all that are due leave the heap, so that what callbacks add is not seen by this run.
    while (timers->root && timers->root->deadline_ns <= now_ns) {
        whi_timer *timer = timers->root;
        take(timers, timer);
        timer->state = WHI_TIMER_DUE;
        whi_list_push_back(&timers->due, &timer->due);
    }
    size_t called = 0;
    whi_list *node;
    while ((node = whi_list_pop_front(&timers->due))) {
        whi_timer *timer = whi_container_of(node, whi_timer, due);
        timer->state = WHI_TIMER_IDLE;
        timers->count--;
        timer->fn(timer, timer->arg);
        called++;
    }
    return called;
}
