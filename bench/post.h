// SPDX-License-Identifier: BSD-3-Clause
//
// Hand-overs between two threads of one process, by wh_worker_post.
//
// Rate: the calling thread posts nodes to a worker that another thread owns, as fast as their memory
// comes back.  Latency: half of the way of a node to that worker and back to one of the caller's.  The
// caller must not be in a callback.
#ifndef BENCH_POST_H
#define BENCH_POST_H

#include "bench/measure.h"

enum { BENCH_POST_ROWS_MAX = 2 * 3 };

typedef struct bench_post_plan {
    const char *modes[3];              // of the owners: "spin", "adaptive", "wait"; NULL: fewer
    bool metrics[BENCH_METRIC_COUNT];  // latency and rate are looked at
    unsigned reps;
    double seconds;  // for all repetitions of a row together
    int cores[2];    // of the two threads; -1: anywhere
} bench_post_plan;

// bench_post_measure fills `rows`, and returns false with a sentence when it cannot.
bool bench_post_measure(const bench_post_plan *plan, bench_row rows[BENCH_POST_ROWS_MAX],
                        size_t *count, bench_error *error);

#endif
