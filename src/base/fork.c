// SPDX-License-Identifier: BSD-3-Clause
//
// The list of what has to be closed in a forked child.
//
// The idea: the lock of the list is taken before the fork and given back after it on both sides, so
// that the child finds the list whole whatever other threads were doing.  The invariant: a node is
// in the list exactly as long as its callback has yet to run in this process's next child; the
// child empties its own copy of the list, so that a grandchild calls nothing twice.
#include "base/fork.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static whi_list nodes = {&nodes, &nodes};
static bool installed;  // under the lock

_Atomic uint32_t whi_fork_count;

static void before_fork(void) {
    pthread_mutex_lock(&lock);
}

static void after_in_parent(void) {
    pthread_mutex_unlock(&lock);
}

static void after_in_child(void) {
    atomic_fetch_add_explicit(&whi_fork_count, 1, memory_order_relaxed);
    whi_list copy;
    whi_list_take(&copy, &nodes);
    // A callback may unregister any node, which takes the lock.
    pthread_mutex_unlock(&lock);
    whi_list *link;
    while ((link = whi_list_pop_front(&copy))) {
        whi_fork_node *node = whi_container_of(link, whi_fork_node, link);
        node->fn(node->arg);
    }
}

wh_status whi_fork_register(whi_fork_node *node) {
    whi_list_init(&node->link);
    pthread_mutex_lock(&lock);
    if (!installed && pthread_atfork(before_fork, after_in_parent, after_in_child)) {
        pthread_mutex_unlock(&lock);
        return WH_ENOMEM;
    }
    installed = true;
    whi_list_push_back(&nodes, &node->link);
    pthread_mutex_unlock(&lock);
    return WH_OK;
}

void whi_fork_unregister(whi_fork_node *node) {
    pthread_mutex_lock(&lock);
    whi_list_remove(&node->link);
    pthread_mutex_unlock(&lock);
}
