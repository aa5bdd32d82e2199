// SPDX-License-Identifier: BSD-3-Clause
//
// Many chares on one PE: how long it takes to make them and to call all, and how much memory one needs.
#ifndef BENCH_MODEL_CHARES_H
#define BENCH_MODEL_CHARES_H

#include <wherry/wherry.h>

#include "bench/measure.h"

enum {
    BENCH_MANY_STATE = 16,  // bytes of a chare's state
    BENCH_MANY_ROWS =
        3,  // millions made and called per second, and bytes of resident memory of one
};

// bench_many_init makes class and map known, on both PEs.
wh_status bench_many_init(wh_pe *pe);

// bench_many_measure makes `count` chares on PE 0, calls all of them at once, and ends them, `reps` times; for a user-level thread
// of PE 0.  It fills all of the rows but their mode.
wh_status bench_many_measure(wh_pe *pe, uint64_t count, unsigned reps,
                             bench_row rows[BENCH_MANY_ROWS]);

#endif
