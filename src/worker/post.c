// SPDX-License-Identifier: BSD-3-Clause
//
// Posts, see post.h.
//
// The invariant: a node that is pushed while the owner sleeps is followed by one write to its
// eventfd.  The push and the look at `sleeping` are one order, and so are the owner's store of
// `sleeping` and its look at the stack (try_sleep); sequentially consistent operations make it
// impossible that both look in vain.  Whoever sets `sleeping` back to zero is the one that writes, so
// nobody depends on another thread that was stopped in between, and one sleep costs one write.
#include "worker/post.h"

#include "base/log.h"

void wh_worker_post(wh_worker *worker, wh_post *post) {
    if (__builtin_expect(!worker || !post || !post->fn, 0)) {
        whi_log(WHI_ERROR, "E-WRK-03", "wh_worker_post: without a %s; nothing was posted",
                !worker ? "worker"
                : !post ? "node"
                        : "function in the node");
        return;
    }
    wh_post *top = atomic_load_explicit(&worker->gate.posts, memory_order_relaxed);
    do
        post->next = top;
    while (!atomic_compare_exchange_weak_explicit(&worker->gate.posts, &top, post,
                                                  memory_order_seq_cst, memory_order_relaxed));
    whi_worker_rouse(worker);
}

// take_in_order takes all nodes, the oldest first.
static wh_post *take_in_order(wh_worker *worker) {
    wh_post *node = atomic_exchange(&worker->gate.posts, NULL);
    wh_post *first = NULL;
    while (node) {
        wh_post *older = node->next;
        node->next = first;
        first = node;
        node = older;
    }
    return first;
}

unsigned whi_posts_run(wh_worker *worker) {
    unsigned count = 0;
    wh_post *node = take_in_order(worker);
    while (node) {
        wh_post *post = node;
        node = post->next;  // before the call, which gives the node back
        post->fn(post);
        count++;
    }
    return count;
}
