// SPDX-License-Identifier: BSD-3-Clause
//
// The memory that accesses of a session go to: the follower offers it, the lead opens it.
//
// Its key travels as text, as all else in a session.  The thread that owns the worker uses a
// bench_remote; who has opened or offered ends it with bench_remote_close.
#ifndef BENCH_REMOTE_H
#define BENCH_REMOTE_H

#include <stdbool.h>
#include <stddef.h>

#include <wherry/wherry.h>

typedef struct bench_remote {
    bool user;         // memory that was registered, and not made by wh_mr_alloc
    wh_mem_kind kind;  // of the follower's; what is not the host's is registered
    void *buffer;      // the follower's, when it was registered
    wh_mr *mr;         // the follower's
    wh_rkey *rkey;     // the lead's
} bench_remote;

// bench_remote_offer makes memory of at least `size` bytes and writes its key in hex, at most
// 2 * WH_MR_KEY_MAX digits and a NUL.
wh_status bench_remote_offer(bench_remote *remote, wh_worker *worker, size_t size, char *text);

// bench_remote_open opens a key as bench_remote_offer has written it.
wh_status bench_remote_open(bench_remote *remote, wh_endpoint *ep, const char *text);

// bench_remote_close gives up whatever there is, and keeps what kind it was.
void bench_remote_close(bench_remote *remote, wh_worker *worker);

#endif
