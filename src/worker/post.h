// SPDX-License-Identifier: BSD-3-Clause
//
// Posts: nodes of other threads that wait for the owner, see <wherry/post.h>.
//
// They stand in a stack that any thread pushes onto with one compare-and-swap.  The owner takes all
// of it at once and turns it round, so each thread's nodes run in its order.  Nobody pops single
// nodes, so a node that comes back at the same address while another thread pushes does no harm.
#ifndef WHI_WORKER_POST_H
#define WHI_WORKER_POST_H

#include <wherry/post.h>

#include "worker/worker.h"

// whi_posts_empty says whether no node waits.  Sequentially consistent, as try_sleep needs it
// (progress.c): either it sees a node, or that node's thread sees that the owner sleeps.
static inline bool whi_posts_empty(const wh_worker *worker) {
    return !atomic_load(&worker->gate.posts);
}

// whi_posts_run runs the nodes that wait now, and returns how many those were.  Owner only, in
// progress.
unsigned whi_posts_run(wh_worker *worker);

#endif
