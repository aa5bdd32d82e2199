// SPDX-License-Identifier: BSD-3-Clause
//
// Measuring: a plan of cells, each run by all contenders in turn, repetition by repetition.
//
// A, B, A, B and not A, A, B, B: what disturbs the machine for a while then disturbs all contenders,
// and the ratio survives it.  The thread that owns the session calls bench_measure.
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include "bench/cell.h"
#include "bench/memory.h"
#include "bench/peer.h"
#include "bench/session.h"
#include "bench/ucx.h"

enum { BENCH_TESTS_MAX = 6, BENCH_SIZES_MAX = 32, BENCH_REPS_MAX = 101, BENCH_LAYOUTS_MAX = 8 };

typedef struct bench_row {
    const char *test;  // "tag"
    bench_metric metric;
    uint64_t size;
    bench_layout layout;
    bench_memory memory;
    const char *lane, *mode;
    bench_stats stats;  // in the metric's unit
    double raw;         // median of the best bare contender in the same unit; 0: none did its work
    const char *bare;   // which: "ucx tag", "socket", "eventfd", "packed"; NULL: none
    const char *ucx;    // its version when it was UCX, else NULL
    const char *peer;   // who else it is that ran, "mpich 5.0.2" or "memcpy"; NULL: Wherry
    double ratio;       // Wherry's median to raw, or to this peer's; 0: none
    uint64_t device_parts;  // of Wherry's payloads, by one copy from device to device, at this end
} bench_row;

typedef struct bench_plan {
    const char *tests[BENCH_TESTS_MAX];
    size_t test_count;
    uint64_t sizes[BENCH_SIZES_MAX];
    size_t size_count;
    bench_layout layouts[BENCH_LAYOUTS_MAX];
    size_t layout_count;
    bench_memory memory;  // of the messages
    bool metrics[BENCH_METRIC_COUNT];
    bool every_cell;  // else only those that say something: no rate of large messages, and so on
    unsigned reps;
    double seconds;           // for all repetitions of a cell and contender together
    double patience;          // seconds that a program's run may take beyond its due
    const char *lane, *mode;  // for the rows
    // The bare contenders:
    const bench_ucx *ucx;  // or NULL
    bool socket, bells;
    bool packed;        // of layouts: a program that packs whole messages, and sends bytes
    bool copy;          // memcpy to compare with put and get, with a row of its own
    bench_peer *peers;  // with rows of their own, to compare with tagged messages
    size_t peer_count;
    // Called as cells begin; may be NULL.
    void (*progress)(size_t done, size_t total, const bench_cell *cell, void *arg);
    // Called when a contender that is not Wherry has failed, and its figure of the cell is left out.
    void (*left_out)(const bench_cell *cell, const char *why, void *arg);
    void *arg;
} bench_plan;

// bench_measure runs the plan.  The caller frees *rows; on false they hold what was done before.  A
// failure of Wherry's or of the session's ends it; that of another program costs its own figure.
bool bench_measure(bench_session *session, const bench_plan *plan, bench_row **rows, size_t *count,
                   bench_error *error);

#endif
