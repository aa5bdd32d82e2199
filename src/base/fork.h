// SPDX-License-Identifier: BSD-3-Clause
//
// What happens to the library's objects when the process forks.
//
// A child gets copies of descriptors and memory that it must not use: two owners of one socket
// would tear its messages apart.  So each child has a new generation, which objects compare with
// the one they were made in to refuse calls, and objects may register a callback that closes their
// descriptors in the child.  Any thread may call all functions.
#ifndef WHI_BASE_FORK_H
#define WHI_BASE_FORK_H

#include <stdatomic.h>
#include <stdint.h>

#include <wherry/status.h>

#include "base/list.h"

// A node belongs to the object it is in; fill in fn and arg, then register it.
typedef struct whi_fork_node {
    void (*fn)(void *arg);  // runs in the child: close(2) and the like; no locks, no heap, no log
    void *arg;
    whi_list link;
} whi_fork_node;

// Not for callers: behind whi_fork_generation.
extern _Atomic uint32_t whi_fork_count;

// whi_fork_generation returns a number that differs between a process and its forked children.  It
// counts from the first whi_fork_register in the process on: register first, then remember it.
static inline uint32_t whi_fork_generation(void) {
    return atomic_load_explicit(&whi_fork_count, memory_order_relaxed);
}

// whi_fork_register arranges that node->fn runs once in each child that this process forks.
//
// Fails with WH_ENOMEM only, and only until a first call has succeeded; whi_fork_unregister is
// allowed then too.  The node must stay where it is until whi_fork_unregister.
WH_CHECK wh_status whi_fork_register(whi_fork_node *node);

// whi_fork_unregister ends that.  In a child, where the callback has run, it does nothing.
void whi_fork_unregister(whi_fork_node *node);

#endif
