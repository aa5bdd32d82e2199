// SPDX-License-Identifier: BSD-3-Clause
//
// The stock ucx_perftest as a measure: a server and a client process per run, on given cores.
//
// Nothing of UCX is linked; the program is run as its users run it, over shared memory, or as the ucx lane
// would.  One thread
// uses a bench_ucx.
#ifndef BENCH_UCX_H
#define BENCH_UCX_H

#include "bench/cell.h"

#include <stdbool.h>

typedef struct bench_ucx {
    char program[512];    // path of ucx_perftest
    char libraries[600];  // "LD_LIBRARY_PATH=...", empty for the system's
    char version[32];     // "1.13.1"
    int cores[2];         // client, server; -1: anywhere
    bool as_lane;         // with the settings of Wherry's ucx lane, beside which it is measured
} bench_ucx;

// bench_ucx_find looks for ucx_perftest in `dir` (an unpacked libucx wheel: DIR/bin, DIR/lib, or the
// same inside DIR/libucx), or in PATH when it is NULL, and asks for its version.
bool bench_ucx_find(bench_ucx *ucx, const char *dir, const int cores[2], bench_error *error);

// bench_ucx_run runs a cell with "tag" or "am" messages, or "put", "get" or "atomic" accesses.  There
// is no run for both ways at once.  The latency of its put is half of a round trip of two.  False: it
// has failed, or was not done after `limit_ms`; nothing of it is left, and the next cell may do better.
bool bench_ucx_run(const bench_ucx *ucx, const char *kind, const bench_cell *cell, int limit_ms,
                   bench_run *run, bench_error *error);

#endif
