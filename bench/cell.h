// SPDX-License-Identifier: BSD-3-Clause
//
// A cell of the result table: what is measured, with how large messages, how many of them; and what
// one run of it gave.
//
// Two processes share every cell: the lead, which asks and holds the clock, and the follower.
#ifndef BENCH_CELL_H
#define BENCH_CELL_H

#include "bench/layout.h"
#include "bench/stats.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// X(symbol, name, unit): unit as printed and in JSON.
#define BENCH_METRICS(X)                                                                           \
    X(LATENCY, "latency", "us")       /* half of a round trip */                                   \
    X(BANDWIDTH, "bandwidth", "GB/s") /* one way, 10^9 bytes */                                    \
    X(BIDIR, "bidir", "GB/s")         /* both ways at once, both counted */                        \
    X(RATE, "rate", "M/s")            /* million messages, one way */                              \
    X(MEMORY, "memory", "B")          /* of one object; measured of chares only */

typedef enum bench_metric {
#define BENCH_METRIC_ENUM(symbol, name, unit) BENCH_##symbol,
    BENCH_METRICS(BENCH_METRIC_ENUM)
#undef BENCH_METRIC_ENUM
        BENCH_METRIC_COUNT
} bench_metric;

// Messages that a sender may have under way, and receives that a receiver keeps posted; the same
// number as ucx_perftest's.
enum { BENCH_WINDOW = 32 };

// The largest message: each side holds two of them.
#define BENCH_SIZE_MAX (UINT64_C(8) << 30)

typedef struct bench_cell {
    bench_metric metric;
    uint64_t size;   // bytes of a message, packed
    uint64_t count;  // messages, in each direction that the metric uses
    bench_layout layout;
    bool packed;  // the program packs and unpacks whole messages itself, and sends bytes
    bool check;   // that what has come is what was sent
} bench_cell;

typedef struct bench_run {
    bench_stats us;  // of latency: half round trips of this run, in microseconds
    double rate;     // of the others: messages per second, all directions together
    double seconds;  // that it took
} bench_run;

const char *bench_metric_name(bench_metric metric);
const char *bench_metric_unit(bench_metric metric);

// bench_metric_parse reads the name of a metric that a run can be asked for: not of BENCH_MEMORY.
bool bench_metric_parse(const char *name, bench_metric *metric);

// bench_rate_in_unit turns a rate into the unit of the cell's metric.
double bench_rate_in_unit(const bench_cell *cell, double rate);

// The error text of a benchmark: one sentence, empty while nothing has failed.
typedef struct bench_error {
    char text[1600];  // a command with its arguments may be quoted
} bench_error;

// bench_fail writes the sentence and returns false, so that a function can end with it.
__attribute__((format(printf, 2, 3))) bool bench_fail(bench_error *error, const char *format, ...);

// bench_fail_more appends words, such as those of a command, each behind a blank; NULL ends them.
void bench_fail_more(bench_error *error, const char *const *words);

#endif
