// SPDX-License-Identifier: BSD-3-Clause
//
// See stats.h.  Percentiles walk the bins from below and answer with the middle of a bin.
#include "bench/stats.h"

#include <stdlib.h>
#include <string.h>

void bench_hist_clear(bench_hist *hist) {
    memset(hist, 0, sizeof *hist);
}

// The middle of the values that fall into `bin`: the inverse of bench_hist_bin.
static double middle_of(size_t bin) {
    if (bin < ((size_t)2 << BENCH_HIST_BITS))
        return (double)bin;
    unsigned shift = (unsigned)(bin >> BENCH_HIST_BITS) - 1;
    uint64_t top = (bin & (((size_t)1 << BENCH_HIST_BITS) - 1)) | (UINT64_C(1) << BENCH_HIST_BITS);
    return ((double)top + 0.5) * (double)(UINT64_C(1) << shift);
}

static double value_at(const bench_hist *hist, uint64_t rank) {
    uint64_t seen = 0;
    for (size_t bin = 0; bin < BENCH_HIST_BINS; bin++) {
        seen += hist->bins[bin];
        if (seen > rank)
            return middle_of(bin);
    }
    return 0;
}

bench_stats bench_hist_stats(const bench_hist *hist, double unit) {
    if (hist->total == 0)
        return (bench_stats){0, 0, 0};
    return (bench_stats){
        .median = unit * value_at(hist, hist->total / 2),
        .p99 = unit * value_at(hist, hist->total - 1 - hist->total / 100),
        .min = unit * value_at(hist, 0),
    };
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, size_t count) {
    if (count == 0)
        return 0;
    qsort(values, count, sizeof *values, compare_doubles);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

bench_stats bench_stats_of_rates(double *values, size_t count) {
    bench_stats stats = {.median = bench_median(values, count)};
    if (count) {
        stats.p99 = values[count / 100];
        stats.min = values[0];
    }
    return stats;
}

bench_stats bench_stats_of_runs(const bench_stats *runs, size_t count) {
    bench_stats stats = {0, 0, 0};
    double *medians = calloc(2 * count + 1, sizeof *medians);
    if (!medians || count == 0) {
        free(medians);
        return stats;
    }
    double *p99s = medians + count;
    stats.min = runs[0].min;
    for (size_t i = 0; i < count; i++) {
        medians[i] = runs[i].median;
        p99s[i] = runs[i].p99;
        if (runs[i].min < stats.min)
            stats.min = runs[i].min;
    }
    stats.median = bench_median(medians, count);
    stats.p99 = bench_median(p99s, count);
    free(medians);
    return stats;
}
