// SPDX-License-Identifier: BSD-3-Clause
//
// Post: any thread hands a node of its own to a worker's owner, which calls the node's function in
// its progress.
//
// The node lies in the caller's memory, so a post allocates nothing, takes no lock and is never
// refused.  Nodes that one thread posts run in its order; those of several threads run in some order
// that keeps each thread's.  One pass of progress runs the nodes that were there when it looked, so
// that other work has its turn however many threads post.
#ifndef WHERRY_POST_H
#define WHERRY_POST_H

#include <wherry/worker.h>

#ifdef __cplusplus
extern "C" {
#endif

// A node.  Set `fn`, and find the rest of your struct from the node's address.
typedef struct wh_post {
    struct wh_post *next;              // the library's from the post until fn is called
    void (*fn)(struct wh_post *post);  // called once, in the owner's progress
} wh_post;

// wh_worker_post has the owner call post->fn(post) once, inside its progress: in its next pass when it
// spins, which takes no system call, and else by waking it, once however many nodes come meanwhile.
//
// The node is the library's until fn is called.  From then on it is the caller's again: fn may free
// it, or post it anew.  Any thread, the owner included; not signal handlers.  A node that is posted
// already must not be posted again before its fn is called.
//
// wh_worker_destroy runs the nodes that were posted before, and those that are posted by what it
// runs (a node that would post itself for ever is left after 1000 calls, with an error in the log).  A wh_worker_post of another thread must have returned before wh_worker_destroy is called,
// even when its node has run.  In a child of fork() the parent's nodes do not run, and neither does
// what the child posts to its parent's worker.
WH_API void wh_worker_post(wh_worker *worker, wh_post *post);

#ifdef __cplusplus
}
#endif
#endif
