// SPDX-License-Identifier: BSD-3-Clause
//
// Two PEs that bounce messages, each from its own side: what model.c, which says when, and the kinds of messages share.
//
// The lead counts what comes back and stamps it; the follower answers each.  A pair belongs to its PE's thread.
#ifndef BENCH_MODEL_PAIR_H
#define BENCH_MODEL_PAIR_H

#include <wherry/wherry.h>

#include "bench/cell.h"

typedef struct bench_pair {
    wh_pe *pe;
    bool lead;             // on PE 0
    uint64_t size;         // of a message
    uint64_t count, done;  // messages in each direction
    char *out, *in;        // what is sent, and where it goes, with space for the largest
    wh_mem_kind mem;       // of both
    wh_proxy balls;  // the chares that bounce: 0 and 2 are with the lead, 1 is with the follower
    wh_channel *channel;  // between 0 and 1
    wh_result inline_result;
    bench_hist *hist;  // of the lead: whole rounds
    uint64_t before;   // ticks
    unsigned missing;  // of the lead: BENCH_PAIR_READY that it waits for
    wh_wait wait;      // of the thread that measures, for what comes next
    wh_status failed;  // WH_OK, or the first error
} bench_pair;

// A kind of message.  In the lead `start` sends the first one; in the follower `expect` is called before.
typedef struct bench_pair_kind {
    const char *name;
    const char *yard;  // the kind of the engine's messages that it is compared with; NULL: none
    const char *lane;  // NULL: that of the engine's
    void (*start)(bench_pair *pair);
    void (*expect)(bench_pair *pair);  // NULL: nothing
} bench_pair_kind;

enum { BENCH_PAIR_PING = 1, BENCH_PAIR_ORDER, BENCH_PAIR_READY };  // handlers of PEs

// bench_pair_kinds returns their table, and its length.
const bench_pair_kind *bench_pair_kinds(size_t *count);

// bench_pair_init has both PEs know what bounces, before the first message; bench_pair_open, on the lead, makes the chares
// and the channel: both PEs say BENCH_PAIR_READY to the lead when they have theirs.
wh_status bench_pair_init(bench_pair *pair);
wh_status bench_pair_open(bench_pair *pair);

// bench_pair_failed notes an error and ends the run.
void bench_pair_failed(bench_pair *pair, wh_status status);

#endif
