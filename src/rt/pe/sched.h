// SPDX-License-Identifier: BSD-3-Clause
//
// The messages that a PE has yet to handle: by priority, and in order of arrival among those of one priority.
//
// Those of priority 0, which are nearly all, are a queue; the others a pairing heap through the messages.  Nothing is
// allocated.
#ifndef WHI_RT_PE_SCHED_H
#define WHI_RT_PE_SCHED_H

#include <stdbool.h>

#include "rt/wire/msg.h"

typedef struct whi_sched {
    whi_queue usual;  // of priority 0
    whi_msg *others;
    uint64_t order;
    size_t count;
} whi_sched;

static inline void whi_sched_init(whi_sched *sched) {
    *sched = (whi_sched){.others = NULL};
    whi_queue_init(&sched->usual);
}

void whi_sched_push_other(whi_sched *sched, whi_msg *msg);
whi_msg *whi_sched_pop_other(whi_sched *sched);

static inline void whi_sched_push(whi_sched *sched, whi_msg *msg) {
    sched->count++;
    if (__builtin_expect(msg->pub.priority != 0, 0))
        whi_sched_push_other(sched, msg);
    else
        whi_queue_push(&sched->usual, &msg->link);
}

// whi_sched_pop takes the message that is to be handled next, or returns NULL.
static inline whi_msg *whi_sched_pop(whi_sched *sched) {
    whi_queue_node *node = NULL;
    if (!sched->count)
        return NULL;
    sched->count--;
    if (__builtin_expect(!sched->others || sched->others->pub.priority > 0, 1))
        node = whi_queue_pop(&sched->usual);
    return node ? whi_container_of(node, whi_msg, link) : whi_sched_pop_other(sched);
}

// whi_sched_take takes all messages out that match, in the order in which they would be handled.
void whi_sched_take(whi_sched *sched, bool (*match)(const whi_msg *msg, const void *arg),
                    const void *arg, whi_queue *out);

#endif
