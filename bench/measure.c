// SPDX-License-Identifier: BSD-3-Clause
//
// See measure.h.
#include "bench/measure.h"

#include "bench/raw.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
    CONTENDERS_MAX = 2 * BENCH_TESTS_MAX + 4 + 2 * 3 + BENCH_PEERS_MAX,
    COUNT_MIN = 3,   // messages of a run, however long they take
    TRIAL = 1000,    // accesses of a first run of ucx_perftest
    SMALL = 4096,    // a rate is of messages up to here,
    LARGE = 1024,    // a bandwidth of messages from here on,
    COPIED = 65536,  // memcpy says something of a put or get from here on
};

typedef struct bench_contender {
    const char *name;   // for the session, or of the UCX test
    const char *group;  // who has the same group is compared: "tag" for all kinds of dense messages
    const char *bare;   // as in bench_row; NULL: it has rows of its own
    const char *peer;   // as in bench_row; both NULL: it is Wherry
    const bench_ucx *ucx;  // who runs it; all three NULL: the session does
    bench_peer *mpi;
    bench_copy *copy;
    bool packed;            // as in bench_cell
    uint64_t count;         // messages of one run
    double seconds;         // of the last one
    bool out;               // it has failed in this cell
    uint64_t device_parts;  // as in bench_row
    bench_stats runs[BENCH_REPS_MAX];
    double rates[BENCH_REPS_MAX];
} bench_contender;

typedef struct bench_cell_run {
    bench_session *session;
    const bench_plan *plan;
    bench_cell cell;
    bench_contender *all;
    size_t count;
    bench_copy copy;
    bench_error *error;
} bench_cell_run;

static bool is_remote(const char *test) {
    return bench_kind_find(test)->remote;
}

// What a test cannot do, it is not asked: an atomic has a word, and accesses go one way.
static bool applies(const char *test, const bench_cell *cell) {
    if (!bench_layout_fits(&cell->layout, cell->size))
        return false;
    if (strcmp(test, "atomic") == 0)
        return (cell->size == 4 || cell->size == 8) &&
               (cell->metric == BENCH_LATENCY || cell->metric == BENCH_RATE);
    return cell->metric != BENCH_BIDIR || !is_remote(test);
}

static bool wanted(const bench_plan *plan, const bench_cell *cell) {
    if (!plan->metrics[cell->metric])
        return false;
    bool any = false;
    for (size_t i = 0; i < plan->test_count; i++)
        any |= applies(plan->tests[i], cell);
    if (!any || plan->every_cell || cell->metric == BENCH_LATENCY)
        return any;
    return cell->metric == BENCH_RATE ? cell->size <= SMALL : cell->size >= LARGE;
}

static void add(bench_cell_run *run, const bench_contender *one) {
    assert(run->count < CONTENDERS_MAX);
    run->all[run->count++] = *one;
}

static void add_ucx(bench_cell_run *run, const char *name, const char *group, const char *bare) {
    bench_contender one = {.name = name, .group = group, .bare = bare, .ucx = run->plan->ucx};
    if (one.ucx && run->cell.metric != BENCH_BIDIR)
        add(run, &one);
}

static void add_peers(bench_cell_run *run, const char *group) {
    const bench_plan *plan = run->plan;
    for (size_t i = 0; i < plan->peer_count && run->cell.metric != BENCH_BIDIR; i++) {
        bench_peer *peer = &plan->peers[i];
        if (peer->gone)
            continue;
        add(run,
            &(bench_contender){.name = "tag", .group = group, .peer = peer->name, .mpi = peer});
    }
}

static void add_beside_messages(bench_cell_run *run) {
    const bench_plan *plan = run->plan;
    add_ucx(run, "tag", "tag", "ucx tag");
    add_ucx(run, "am", "tag", "ucx am");
    if (plan->socket && run->cell.size > 0)
        add(run, &(bench_contender){.name = "socket", .group = "tag", .bare = "socket"});
    if (plan->bells && run->cell.metric == BENCH_LATENCY && run->cell.size <= 8)
        add(run, &(bench_contender){.name = "bells", .group = "tag", .bare = "eventfd"});
    add_peers(run, "tag");
}

static void add_beside_access(bench_cell_run *run, const char *test) {
    static const char *const ucx_names[][2] = {
        {"put", "ucx put"}, {"get", "ucx get"}, {"atomic", "ucx atomic"}};
    for (size_t i = 0; i < sizeof ucx_names / sizeof *ucx_names; i++) {
        if (strcmp(test, ucx_names[i][0]) == 0)
            add_ucx(run, test, test, ucx_names[i][1]);
    }
    bench_contender copy = {.name = test, .group = test, .peer = "memcpy", .copy = &run->copy};
    bool whole = run->cell.metric == BENCH_LATENCY || run->cell.metric == BENCH_BANDWIDTH;
    if (run->plan->copy && whole && run->cell.size >= COPIED && strcmp(test, "atomic") != 0)
        add(run, &copy);
}

// Beside a layout: a program that packs and unpacks by itself, for each test, and the peers, which
// are compared with the first kind of message.
static void add_beside_layout(bench_cell_run *run) {
    size_t tests = run->count;
    for (size_t i = 0; i < tests && run->plan->packed; i++) {
        const char *test = run->all[i].name;
        add(run, &(bench_contender){.name = test, .group = test, .bare = "packed", .packed = true});
    }
    for (size_t i = 0; i < tests; i++) {
        if (!is_remote(run->all[i].name)) {
            add_peers(run, run->all[i].group);
            return;
        }
    }
}

// Wherry's tests first, because ucx_perftest, which cannot measure itself first, takes its number of
// messages from them.
static void gather(bench_cell_run *run) {
    const bench_plan *plan = run->plan;
    bool messages = false, laid_out = run->cell.layout.kind != BENCH_DENSE;
    run->count = 0;
    for (size_t i = 0; i < plan->test_count; i++) {
        const char *test = plan->tests[i];
        if (!applies(test, &run->cell))
            continue;
        messages |= !is_remote(test);
        bool alone = is_remote(test) || laid_out;
        add(run, &(bench_contender){.name = test, .group = alone ? test : "tag"});
    }
    if (laid_out) {
        add_beside_layout(run);
        return;
    }
    if (messages)
        add_beside_messages(run);
    for (size_t i = 0; i < plan->test_count; i++) {
        if (is_remote(plan->tests[i]) && applies(plan->tests[i], &run->cell))
            add_beside_access(run, plan->tests[i]);
    }
}

// Wherry's first test in the group of `one`.
static bench_contender *first_beside(const bench_cell_run *run, const bench_contender *one) {
    for (size_t i = 0; i < run->count; i++) {
        bench_contender *first = &run->all[i];
        if (!first->bare && !first->peer && strcmp(first->group, one->group) == 0)
            return first;
    }
    return NULL;
}

// How long a run of a program may take: who needs twenty times as long as was planned, and as Wherry,
// besides the time to start, counts as hung.
static int limit_ms(const bench_cell_run *run, const bench_contender *one) {
    double due = run->plan->seconds / run->plan->reps, ours = first_beside(run, one)->seconds;
    double ms = 1000 * (run->plan->patience + 20 * (ours > due ? ours : due));
    return ms < INT_MAX ? (int)ms : INT_MAX;
}

static uint64_t count_device_parts(const bench_session *session) {
    wh_counters counters = {.size = sizeof counters};
    if (wh_worker_counters(session->side.worker, &counters) != WH_OK)
        return 0;
    return counters.device_sent + counters.device_received;
}

static bool run_checked(bench_cell_run *run, bench_contender *one, uint64_t count, bool check,
                        bench_run *result) {
    bench_cell cell = run->cell;
    cell.count = count;
    cell.packed = one->packed;
    cell.check = check;
    if (one->ucx)
        return bench_ucx_run(one->ucx, one->name, &cell, limit_ms(run, one), result, run->error);
    if (one->mpi)
        return bench_peer_run(one->mpi, &cell, limit_ms(run, one), result, run->error);
    if (one->copy)
        return bench_copy_run(one->copy, &cell, result) ||
               bench_fail(run->error, "no memory for two buffers of memcpy");
    uint64_t before = count_device_parts(run->session);
    bool good = bench_session_run(run->session, one->name, &cell, result, run->error);
    one->device_parts += count_device_parts(run->session) - before;
    one->seconds = good ? result->seconds : 0;
    return good;
}

static bool run_once(bench_cell_run *run, bench_contender *one, uint64_t count, bench_run *result) {
    return run_checked(run, one, count, false, result);
}

// leave_out goes on without the figure of what has failed.  False: it cannot be done without.
static bool leave_out(bench_cell_run *run, bench_contender *one) {
    if (!one->ucx && !one->mpi && !one->copy)
        return false;
    one->out = true;
    if (run->plan->left_out)
        run->plan->left_out(&run->cell, run->error->text, run->plan->arg);
    run->error->text[0] = '\0';
    return true;
}

// As many messages as Wherry's.  Accesses may be a hundred times slower by a system call each, so they
// are tried.  Its clock has microseconds, in which a few small ones take no time.
static bool calibrate_ucx(bench_cell_run *run, bench_contender *one, double target) {
    bench_run result;
    one->count = first_beside(run, one)->count;
    if (one->count < TRIAL && run->cell.size <= SMALL)
        one->count = TRIAL;
    if (one->count <= TRIAL || !is_remote(one->name))
        return true;
    if (!run_once(run, one, TRIAL, &result))
        return false;
    double fill = target * result.rate;
    if (fill < (double)one->count)
        one->count = fill < TRIAL ? TRIAL : (uint64_t)fill;
    return true;
}

// Whether the content of a cell's first run is looked at.  Of bytes in host memory it is not: the
// handler of an active message has seen them, and copies them nowhere.
static bool needs_check(const bench_cell_run *run) {
    return run->cell.layout.kind != BENCH_DENSE || run->plan->memory.kind != WH_MEM_HOST;
}

// Finds how many messages fill a repetition, by running more and more of them; that also warms up.
static bool calibrate(bench_cell_run *run, bench_contender *one) {
    double target = run->plan->seconds / run->plan->reps;
    uint64_t count = 2;
    bool check = needs_check(run);
    bench_run result;
    if (one->ucx)
        return calibrate_ucx(run, one, target);
    for (;;) {
        if (!run_checked(run, one, count, check, &result))
            return false;
        if (check) {  // and so the first: what it allocates and maps the others find
            check = false;
            continue;
        }
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

// Sets the bare contender with the better median: the lower latency, the higher rate.
static void set_bare(bench_cell_run *run, const char *group, bench_row *row) {
    bool low = run->cell.metric == BENCH_LATENCY;
    for (size_t i = 0; i < run->count; i++) {
        bench_contender *one = &run->all[i];
        if (!one->bare || one->out || strcmp(one->group, group) != 0)
            continue;
        double median = summary(run, one).median;
        if (row->bare && (low ? median >= row->raw : median <= row->raw))
            continue;
        row->raw = median;
        row->bare = one->bare;
        row->ucx = one->ucx ? one->ucx->version : NULL;
    }
    row->ratio = row->bare ? row->stats.median / row->raw : 0;
}

// A row for each of Wherry's tests, then for those who are no mere yardstick.
static size_t write_rows(bench_cell_run *run, bench_row *rows) {
    size_t count = 0;
    for (size_t i = 0; i < run->count; i++) {
        bench_contender *one = &run->all[i];
        if (one->bare || one->out)
            continue;
        bench_row *row = &rows[count++];
        *row = (bench_row){.test = one->name,
                           .metric = run->cell.metric,
                           .size = run->cell.size,
                           .layout = run->cell.layout,
                           .memory = run->plan->memory,
                           .lane = run->plan->lane,
                           .mode = run->plan->mode,
                           .stats = summary(run, one),
                           .device_parts = one->device_parts,
                           .peer = one->peer};
        if (one->peer)
            row->ratio = summary(run, first_beside(run, one)).median / row->stats.median;
        else
            set_bare(run, one->group, row);
    }
    return count;
}

static bool run_cell(bench_cell_run *run, bench_row *rows, size_t *count) {
    gather(run);
    for (size_t i = 0; i < run->count; i++) {
        if (!calibrate(run, &run->all[i]) && !leave_out(run, &run->all[i]))
            return false;
    }
    for (unsigned rep = 0; rep < run->plan->reps; rep++) {
        for (size_t i = 0; i < run->count; i++) {
            bench_contender *one = &run->all[i];
            if (!one->out && !repeat(run, one, rep) && !leave_out(run, one))
                return false;
        }
    }
    *count += write_rows(run, rows);
    return true;
}

static size_t list_cells(const bench_plan *plan, bench_cell *cells) {
    size_t count = 0, per_metric = plan->layout_count * plan->size_count;
    for (size_t i = 0; i < (size_t)BENCH_METRIC_COUNT * per_metric; i++) {
        bench_cell cell = {.metric = (bench_metric)(i / per_metric),
                           .size = plan->sizes[i % plan->size_count],
                           .layout = plan->layouts[i % per_metric / plan->size_count]};
        if (wanted(plan, &cell))
            cells[count++] = cell;
    }
    return count;
}

bool bench_measure(bench_session *session, const bench_plan *plan, bench_row **rows, size_t *count,
                   bench_error *error) {
    bench_cell cells[BENCH_METRIC_COUNT * BENCH_SIZES_MAX * BENCH_LAYOUTS_MAX];
    size_t total = list_cells(plan, cells);
    *count = 0;
    *rows = calloc(total * CONTENDERS_MAX + 1, sizeof **rows);
    bench_cell_run run = {.session = session, .plan = plan, .error = error};
    run.all = calloc(CONTENDERS_MAX, sizeof *run.all);
    bool good = *rows && run.all;
    if (!good)
        bench_fail(error, "out of memory");
    else if (total == 0)
        good = bench_fail(error, "nothing to measure: no test has these metrics and sizes, "
                                 "of which a layout takes multiples of its blocks");

    for (size_t i = 0; i < total && good; i++) {
        run.cell = cells[i];
        if (plan->progress)
            plan->progress(i, total, &run.cell, plan->arg);
        good = run_cell(&run, *rows + *count, count);
    }
    bench_copy_free(&run.copy);
    free(run.all);
    return good;
}
