// SPDX-License-Identifier: BSD-3-Clause
//
// The yardstick of the runtime's figures: the engine's own messages, between two workers of the same two processes.
//
// Each has an endpoint of its own beside those of the PEs.  All is called by a user-level thread of the PE, which does nothing
// else while a run lasts.
#ifndef BENCH_MODEL_YARD_H
#define BENCH_MODEL_YARD_H

#include "bench/memory.h"
#include "bench/side.h"

typedef struct bench_yard {
    wh_pe *pe;
    bench_memory memory;  // of its messages
    wh_worker *worker;
    wh_endpoint *ep;  // NULL: not connected yet
    bench_side side;
    bool open;                                     // `side` is initialised
    bool (*until)(const struct bench_yard *yard);  // what is waited for
    wh_wait wait;
} bench_yard;

// bench_yard_init makes the worker.  Undone by bench_yard_fini, when the PE has ended, and before wh_rt_finish.
wh_status bench_yard_init(bench_yard *yard, wh_pe *pe, const bench_memory *memory);
void bench_yard_fini(bench_yard *yard);

// The follower's address goes to the lead, which connects to it; the follower waits for that.
wh_status bench_yard_address(bench_yard *yard, void *blob, size_t *size);
wh_status bench_yard_connect(bench_yard *yard, const void *blob, size_t size, bool spin);
wh_status bench_yard_accept(bench_yard *yard, bool spin);

// A run on both sides; the follower says that it is about to begin before.  `hist` gets whole rounds.
wh_status bench_yard_lead(bench_yard *yard, const bench_kind *kind, const bench_cell *cell,
                          bench_hist *hist);
wh_status bench_yard_follow(bench_yard *yard, const bench_kind *kind, const bench_cell *cell);

#endif
