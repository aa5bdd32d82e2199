// SPDX-License-Identifier: BSD-3-Clause
//
// Results as a picture: latency and bandwidth over size, both axes logarithmic, as SVG, for each layout.
//
// Any thread may call this.
#ifndef BENCH_PLOT_H
#define BENCH_PLOT_H

#include "bench/machine.h"
#include "bench/measure.h"

#include <stdio.h>

// bench_plot_svg draws all that the rows tell: a line for each of Wherry's tests, its raw counterpart
// and each peer.  A rate stands as bandwidth where none was measured.  Each layout has panels of its
// own.
void bench_plot_svg(FILE *file, const bench_row *rows, size_t count, const bench_machine *machine);

#endif
