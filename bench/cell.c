// SPDX-License-Identifier: BSD-3-Clause
//
// See cell.h.
#include "bench/cell.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *unit;
} metrics[] = {
#define METRIC_ROW(symbol, name, unit) {name, unit},
    BENCH_METRICS(METRIC_ROW)
#undef METRIC_ROW
};

const char *bench_metric_name(bench_metric metric) {
    return metrics[metric].name;
}

const char *bench_metric_unit(bench_metric metric) {
    return metrics[metric].unit;
}

bool bench_metric_parse(const char *name, bench_metric *metric) {
    for (int i = 0; i < BENCH_MEMORY; i++) {
        if (strcmp(name, metrics[i].name) == 0) {
            *metric = (bench_metric)i;
            return true;
        }
    }
    return false;
}

double bench_rate_in_unit(const bench_cell *cell, double rate) {
    return cell->metric == BENCH_RATE ? rate / 1e6 : rate * (double)cell->size / 1e9;
}

bool bench_fail(bench_error *error, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return false;
}

void bench_fail_more(bench_error *error, const char *const *words) {
    for (size_t used = strlen(error->text); *words && used < sizeof error->text; words++)
        used += (size_t)snprintf(error->text + used, sizeof error->text - used, " %s", *words);
}
