// SPDX-License-Identifier: BSD-3-Clause
//
// Results on paper: a table for people, JSON for programs, and what must be said about the machine.
//
// Any thread may call these functions.
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "bench/machine.h"
#include "bench/measure.h"

#include <stdio.h>

// bench_report_machine writes one line on what the figures were measured on.
void bench_report_machine(FILE *file, const bench_machine *machine, const int cores[2]);

// bench_report_table writes the rows in columns.
void bench_report_table(FILE *file, const bench_row *rows, size_t count);

// bench_report_json writes a list of rows:
// {test, metric, size, lane, mode, unit, median, p99, min, raw, ratio, ucx, peer, layout, memory,
// device_parts}; what did not run is null.
void bench_report_json(FILE *file, const bench_row *rows, size_t count);

// bench_report_load warns when others used the processors during the run.
void bench_report_load(FILE *file, const bench_load *from, const bench_load *to);

#endif
