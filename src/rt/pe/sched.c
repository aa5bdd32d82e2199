// SPDX-License-Identifier: BSD-3-Clause
#include "rt/pe/sched.h"

// In the heap a message is known by its node: `link` leads to the next sibling, `child` to the first child.
static bool before(const whi_msg *a, const whi_msg *b) {
    if (a->pub.priority != b->pub.priority)
        return a->pub.priority < b->pub.priority;
    return a->order < b->order;
}

static whi_msg *next_of(const whi_msg *msg) {
    return msg->link.next ? whi_container_of(msg->link.next, whi_msg, link) : NULL;
}

static whi_msg *meld(whi_msg *a, whi_msg *b) {
    if (!a || !b)
        return a ? a : b;
    if (before(b, a)) {
        whi_msg *swap = a;
        a = b;
        b = swap;
    }
    b->link.next = a->child ? &a->child->link : NULL;
    a->child = b;
    return a;
}

void whi_sched_push_other(whi_sched *sched, whi_msg *msg) {
    msg->order = sched->order++;
    msg->child = NULL;
    msg->link.next = NULL;
    sched->others = meld(sched->others, msg);
}

// meld_pairs makes one heap of siblings: pairs first, then these from the last to the first.
static whi_msg *meld_pairs(whi_msg *first) {
    whi_msg *pairs = NULL;
    while (first) {
        whi_msg *a = first, *b = next_of(a);
        first = b ? next_of(b) : NULL;
        a->link.next = NULL;
        if (b)
            b->link.next = NULL;
        a = meld(a, b);
        a->link.next = pairs ? &pairs->link : NULL;
        pairs = a;
    }
    whi_msg *all = NULL;
    while (pairs) {
        whi_msg *pair = pairs;
        pairs = next_of(pair);
        pair->link.next = NULL;
        all = meld(all, pair);
    }
    return all;
}

whi_msg *whi_sched_pop_other(whi_sched *sched) {
    whi_msg *msg = sched->others;
    if (msg)
        sched->others = meld_pairs(msg->child);
    return msg;
}

void whi_sched_take(whi_sched *sched, bool (*match)(const whi_msg *msg, const void *arg),
                    const void *arg, whi_queue *out) {
    whi_queue all;
    whi_queue_init(&all);
    whi_msg *msg;
    while ((msg = whi_sched_pop(sched)))
        whi_queue_push(&all, &msg->link);
    whi_queue_node *node;
    while ((node = whi_queue_pop(&all))) {
        msg = whi_container_of(node, whi_msg, link);
        if (match(msg, arg))
            whi_queue_push(out, node);
        else
            whi_sched_push(sched, msg);
    }
}
