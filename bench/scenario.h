// SPDX-License-Identifier: BSD-3-Clause
//
// The scenarios: ping-pong, messages in one or both directions, and the same with accesses to the
// other side's memory.
//
// Each is a loop over one side; the other process runs its counterpart, or only progresses.  They return WH_OK or what
// ended them.  The thread that owns the worker calls them, after bench_side_begin.
#ifndef BENCH_SCENARIO_H
#define BENCH_SCENARIO_H

#include "bench/side.h"
#include "bench/stats.h"

// bench_pingpong_lead sends and waits for the answer, `count` times; the ticks of each round trip go
// into `hist`.
wh_status bench_pingpong_lead(bench_side *side, uint64_t count, bench_hist *hist);

// bench_pingpong_follow answers `count` messages.  The first receive is posted by bench_side_expect.
wh_status bench_pingpong_follow(bench_side *side, uint64_t count);

// bench_windowed sends `out` messages, a window at a time, while it receives those that
// bench_side_expect has announced.
wh_status bench_windowed(bench_side *side, uint64_t out);

// bench_access makes `count` accesses, each when the one before has taken effect; the ticks of each
// go into `hist`.
wh_status bench_access(bench_side *side, uint64_t count, bench_hist *hist);

// bench_access_windowed makes `count` accesses, a window at a time, and waits until all have taken
// effect.
wh_status bench_access_windowed(bench_side *side, uint64_t count);

#endif
