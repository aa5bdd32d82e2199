// SPDX-License-Identifier: BSD-3-Clause
//
// Whether a run has brought what was sent, for cells that ask for it: a layout that is quick and wrong
// is no figure.
//
// Both sides have marked their buffers when a run begins (bench_side_begin).  The thread that owns the
// worker calls these outside of what is timed; neither does anything for other runs.
#ifndef BENCH_CHECK_H
#define BENCH_CHECK_H

#include "bench/side.h"

// bench_check_begin gives the other side's memory something to get.
bool bench_check_begin(bench_side *side, bench_error *error);

// bench_check_end looks at what has been received, or at the other side's memory after puts.
bool bench_check_end(bench_side *side, bench_error *error);

#endif
