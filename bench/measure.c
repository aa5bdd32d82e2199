// SPDX-License-Identifier: BSD-3-Clause
//
// See measure.h.
#include "bench/measure.h"

#include <stdlib.h>
#include <string.h>

enum {
    CONTENDERS_MAX = BENCH_TESTS_MAX + 4,
    COUNT_MIN = 3,  // messages of a run, however long they take
    SMALL = 4096,   // a rate is of messages up to here,
    LARGE = 1024,   // a bandwidth of messages from here on
};

typedef struct bench_contender {
    const char *name;      // for the session, or of the UCX test
    const char *bare;      // as in bench_row; NULL: it is Wherry
    const bench_ucx *ucx;  // NULL: it runs in the session
    uint64_t count;        // messages of one run
    bench_stats runs[BENCH_REPS_MAX];
    double rates[BENCH_REPS_MAX];
} bench_contender;

typedef struct bench_cell_run {
    bench_session *session;
    const bench_plan *plan;
    bench_cell cell;
    bench_contender *all;
    size_t count;
    bench_error *error;
} bench_cell_run;

static bool wanted(const bench_plan *plan, bench_metric metric, uint64_t size) {
    if (!plan->metrics[metric])
        return false;
    if (plan->every_cell || metric == BENCH_LATENCY)
        return true;
    return metric == BENCH_RATE ? size <= SMALL : size >= LARGE;
}

static void add(bench_cell_run *run, const char *name, const char *bare, const bench_ucx *ucx) {
    bench_contender *one = &run->all[run->count++];
    one->name = name;
    one->bare = bare;
    one->ucx = ucx;
    one->count = 0;
}

// Wherry's tests first, because ucx_perftest, which cannot measure itself first, takes its number of
// messages from them.
static void gather(bench_cell_run *run) {
    const bench_plan *plan = run->plan;
    run->count = 0;
    for (size_t i = 0; i < plan->test_count; i++)
        add(run, plan->tests[i], NULL, NULL);
    if (plan->ucx && run->cell.metric != BENCH_BIDIR) {
        add(run, "tag", "ucx tag", plan->ucx);
        add(run, "am", "ucx am", plan->ucx);
    }
    if (plan->socket && run->cell.size > 0)
        add(run, "socket", "socket", NULL);
    if (plan->bells && run->cell.metric == BENCH_LATENCY && run->cell.size <= 8)
        add(run, "bells", "eventfd", NULL);
}

static bool run_once(bench_cell_run *run, bench_contender *one, uint64_t count, bench_run *result) {
    bench_cell cell = run->cell;
    cell.count = count;
    if (one->ucx)
        return bench_ucx_run(one->ucx, one->name, &cell, result, run->error);
    return bench_session_run(run->session, one->name, &cell, result, run->error);
}

// Finds how many messages fill a repetition, by running more and more of them; that also warms up.
static bool calibrate(bench_cell_run *run, bench_contender *one) {
    double target = run->plan->seconds / run->plan->reps;
    uint64_t count = 2;
    bench_run result;
    if (one->ucx) {
        one->count = run->all[0].count;
        return true;
    }
    for (;;) {
        if (!run_once(run, one, count, &result))
            return false;
        double seconds = result.seconds > 1e-7 ? result.seconds : 1e-7;
        if (seconds > target / 4) {
            one->count = (uint64_t)((double)count * target / seconds) + 1;
            one->count = one->count < COUNT_MIN ? COUNT_MIN : one->count;
            return true;
        }
        count *= seconds > target / 32 ? 4 : 16;
    }
}

// One repetition: a tenth unmeasured, because others have had the caches meanwhile.  ucx_perftest
// warms up by itself.
static bool repeat(bench_cell_run *run, bench_contender *one, unsigned rep) {
    bench_run result;
    if (!one->ucx && !run_once(run, one, one->count / 10 + 1, &result))
        return false;
    if (!run_once(run, one, one->count, &result))
        return false;
    one->runs[rep] = result.us;
    one->rates[rep] = bench_rate_in_unit(&run->cell, result.rate);
    return true;
}

static bench_stats summary(const bench_cell_run *run, bench_contender *one) {
    unsigned reps = run->plan->reps;
    return run->cell.metric == BENCH_LATENCY ? bench_stats_of_runs(one->runs, reps)
                                             : bench_stats_of_rates(one->rates, reps);
}

// The bare contender with the better median: the lower latency, the higher rate.
static void choose_bare(bench_cell_run *run, bench_row *row) {
    bool low = run->cell.metric == BENCH_LATENCY;
    for (size_t i = run->plan->test_count; i < run->count; i++) {
        bench_contender *one = &run->all[i];
        double median = summary(run, one).median;
        if (row->bare && (low ? median >= row->raw : median <= row->raw))
            continue;
        row->raw = median;
        row->bare = one->bare;
        row->ucx = one->ucx ? one->ucx->version : NULL;
    }
}

static bool run_cell(bench_cell_run *run, bench_row *rows) {
    gather(run);
    for (size_t i = 0; i < run->count; i++) {
        if (!calibrate(run, &run->all[i]))
            return false;
    }
    for (unsigned rep = 0; rep < run->plan->reps; rep++) {
        for (size_t i = 0; i < run->count; i++) {
            if (!repeat(run, &run->all[i], rep))
                return false;
        }
    }
    bench_row bare = {.metric = run->cell.metric,
                      .size = run->cell.size,
                      .lane = run->plan->lane,
                      .mode = run->plan->mode};
    choose_bare(run, &bare);
    for (size_t i = 0; i < run->plan->test_count; i++) {
        rows[i] = bare;
        rows[i].test = run->plan->tests[i];
        rows[i].stats = summary(run, &run->all[i]);
    }
    return true;
}

static size_t list_cells(const bench_plan *plan, bench_cell *cells) {
    size_t count = 0;
    for (int metric = 0; metric < BENCH_METRIC_COUNT; metric++) {
        for (size_t i = 0; i < plan->size_count; i++) {
            if (wanted(plan, (bench_metric)metric, plan->sizes[i]))
                cells[count++] = (bench_cell){(bench_metric)metric, plan->sizes[i], 0};
        }
    }
    return count;
}

bool bench_measure(bench_session *session, const bench_plan *plan, bench_row **rows, size_t *count,
                   bench_error *error) {
    bench_cell cells[BENCH_METRIC_COUNT * BENCH_SIZES_MAX];
    size_t total = list_cells(plan, cells);
    *count = 0;
    *rows = calloc(total * plan->test_count + 1, sizeof **rows);
    bench_cell_run run = {.session = session, .plan = plan, .error = error};
    run.all = calloc(CONTENDERS_MAX, sizeof *run.all);
    bool good = *rows && run.all;
    if (!good)
        bench_fail(error, "out of memory");

    for (size_t i = 0; i < total && good; i++) {
        run.cell = cells[i];
        if (plan->progress)
            plan->progress(i, total, &run.cell, plan->arg);
        good = run_cell(&run, *rows + *count);
        *count += good ? plan->test_count : 0;
    }
    free(run.all);
    return good;
}
