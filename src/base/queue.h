// SPDX-License-Identifier: BSD-3-Clause
//
// An intrusive singly linked queue, first in first out.
//
// It costs one pointer per object, against two of a list, and gives up a node from its middle only to
// who has come to it from the front.  The head points to itself when the queue is empty, so a queue must not be copied or
// moved.  Nothing is allocated and nothing is locked: a queue belongs to one thread or one lock.
#ifndef WHI_BASE_QUEUE_H
#define WHI_BASE_QUEUE_H

#include "base/list.h"  // whi_container_of

typedef struct whi_queue_node {
    struct whi_queue_node *next;
} whi_queue_node;

typedef struct whi_queue {
    whi_queue_node *first;
    whi_queue_node **last;  // where the next node's address goes
} whi_queue;

static inline void whi_queue_init(whi_queue *queue) {
    queue->first = NULL;
    queue->last = &queue->first;
}

static inline bool whi_queue_empty(const whi_queue *queue) {
    return !queue->first;
}

// whi_queue_first returns the oldest node and leaves it where it is, or NULL.
static inline whi_queue_node *whi_queue_first(const whi_queue *queue) {
    return queue->first;
}

static inline void whi_queue_push(whi_queue *queue, whi_queue_node *node) {
    node->next = NULL;
    *queue->last = node;
    queue->last = &node->next;
}

// whi_queue_pop takes the oldest node out, or returns NULL.
static inline whi_queue_node *whi_queue_pop(whi_queue *queue) {
    whi_queue_node *node = queue->first;
    if (!node)
        return NULL;
    queue->first = node->next;
    if (!node->next)
        queue->last = &queue->first;
    node->next = NULL;
    return node;
}

// whi_queue_take_out takes out and returns the node that the link `at` leads to, which is the queue's `first` or the `next` of
// one of its nodes.
static inline whi_queue_node *whi_queue_take_out(whi_queue *queue, whi_queue_node **at) {
    whi_queue_node *node = *at;
    *at = node->next;
    if (!*at)
        queue->last = at;
    node->next = NULL;
    return node;
}

// whi_queue_take makes `to`, which need not be initialised, a queue of all nodes of `from`, and leaves that empty.
static inline void whi_queue_take(whi_queue *to, whi_queue *from) {
    whi_queue_init(to);
    if (!from->first)
        return;
    *to = *from;
    whi_queue_init(from);
}

#endif
