// SPDX-License-Identifier: BSD-3-Clause
//
// Statistics of a measurement: a histogram for stamps of single messages, and the summary of a few
// repetitions.
//
// The histogram keeps 9 significant bits: values below 1024 ticks are exact, larger ones within
// 0.1 %.  Adding is one increment, so that it can stand inside the measured loop; nothing is sorted
// and nothing grows with the length of a run.  Both types belong to whoever made them.
#ifndef BENCH_STATS_H
#define BENCH_STATS_H

#include <stddef.h>
#include <stdint.h>

enum {
    BENCH_HIST_BITS = 9,
    BENCH_HIST_BINS = (64 - BENCH_HIST_BITS + 1) << BENCH_HIST_BITS,
};

typedef struct bench_hist {
    uint64_t total;
    uint32_t bins[BENCH_HIST_BINS];
} bench_hist;

// The three figures of every row.  For durations `p99` is what 99 % stayed within and `min` the
// shortest; for rates `p99` is what 99 % reached and `min` the lowest.
typedef struct bench_stats {
    double median, p99, min;
} bench_stats;

void bench_hist_clear(bench_hist *hist);

// bench_hist_bin returns the bin of `value`: as it is while small, then its exponent and top bits.
static inline size_t bench_hist_bin(uint64_t value) {
    if (value < (UINT64_C(2) << BENCH_HIST_BITS))
        return (size_t)value;
    unsigned shift = 63u - (unsigned)__builtin_clzll(value) - BENCH_HIST_BITS;
    return ((size_t)shift << BENCH_HIST_BITS) + (size_t)(value >> shift);
}

static inline void bench_hist_add(bench_hist *hist, uint64_t value) {
    hist->total++;
    hist->bins[bench_hist_bin(value)]++;
}

// bench_hist_stats returns median, 99th percentile and minimum of what was added, times `unit`; all
// zero when nothing was.
bench_stats bench_hist_stats(const bench_hist *hist, double unit);

// bench_median returns the median of `count` values, which it sorts; 0 for none.
double bench_median(double *values, size_t count);

// bench_stats_of_rates summarises one rate per repetition; it sorts the values.
bench_stats bench_stats_of_rates(double *values, size_t count);

// bench_stats_of_runs summarises the repetitions of a duration: the median of the medians and of the
// p99s, which a disturbed repetition cannot move, and the least of the minima.
bench_stats bench_stats_of_runs(const bench_stats *runs, size_t count);

#endif
