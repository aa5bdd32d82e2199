// SPDX-License-Identifier: BSD-3-Clause
//
// See model.h.
//
// The main threads of the two PEs measure: the lead's orders one run after the other, the follower's has nothing to do but in
// runs of the yardstick, which its PE cannot carry out.  An order is a message of a PE, and answered by one.
#include "bench/model.h"

#include "bench/clock.h"
#include "bench/model_chares.h"
#include "bench/model_pair.h"
#include "bench/model_yard.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT_MIN = 64, CONTENDERS_MAX = 12 };

// What the lead asks for.  The processes of a job are of one program on one host, or on hosts alike.
typedef struct order {
    char name[16];  // of a kind of message
    bool yard;      // it is the yardstick's
    uint64_t size, count;
} order;

// What the follower says of itself at first.
typedef struct hello {
    int32_t pid;
    uint32_t blob_size;
    uint8_t blob[WH_ADDRESS_MAX];
} hello;

typedef struct contender {
    const bench_pair_kind *kind;  // NULL: the yardstick
    const bench_kind *yard;
    uint64_t count;  // messages of a repetition
    bench_stats runs[BENCH_REPS_MAX], stats;
} contender;

typedef struct job {
    const bench_model_plan *plan;
    bench_model_result *result;
    bench_error *error;
    wh_pe *pe;
    bench_pair pair;
    bench_yard yard;
    bench_hist hist;
    order order;  // the follower's
    hello hello;  // the lead's
    contender all[CONTENDERS_MAX];
    size_t count;
} job;

// ---- Parts of a run.

static bool fail(job *j, const char *what, wh_status st) {
    return bench_fail(j->error, "%s: %s", what, wh_status_text(st));
}

// await waits for what was begun; `what` is said of what has failed.
static bool await(job *j, const char *what, wh_status begun) {
    wh_status st = begun == WH_OK ? wh_pe_wait(j->pe, &j->pair.wait) : begun;
    if (st == WH_OK)
        st = j->pair.failed;
    return st == WH_OK || fail(j, what, st);
}

static void expect_ready(job *j, unsigned missing) {
    j->pair.wait = (wh_wait){.done = false};
    j->pair.missing = missing;
}

static void on_ready(wh_pe *pe, wh_pe_msg *msg, void *arg) {
    job *j = arg;
    if (msg->size == sizeof(hello))
        memcpy(&j->hello, msg->data, sizeof(hello));
    if (j->pair.missing && --j->pair.missing == 0)
        wh_pe_resume(pe, &j->pair.wait);
}

static wh_status say_ready(job *j, const void *data, size_t size) {
    return wh_pe_send(j->pe, 0, BENCH_PAIR_READY, NULL, 0, data, size, 0);
}

// ---- The follower.

static void give_up(job *j, const char *what, wh_status st) {
    if (st == WH_OK)
        return;
    fail(j, what, st);
    wh_pe_exit(j->pe, 1);
}

static const bench_pair_kind *kind_of(const char *name) {
    size_t count;
    const bench_pair_kind *kinds = bench_pair_kinds(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

static void on_order(wh_pe *pe, wh_pe_msg *msg, void *arg) {
    job *j = arg;
    if (msg->size != sizeof(order)) {
        give_up(j, "the other process is of another version", WH_EPROTOCOL);
        return;
    }
    memcpy(&j->order, msg->data, sizeof(order));
    if (j->order.yard) {
        wh_pe_resume(pe, &j->pair.wait);
        return;
    }
    const bench_pair_kind *kind = kind_of(j->order.name);
    j->pair.size = j->order.size;
    j->pair.count = j->order.count;
    j->pair.done = 0;
    if (kind && kind->expect)
        kind->expect(&j->pair);
    give_up(j, "a run cannot begin", kind ? say_ready(j, NULL, 0) : WH_EPROTOCOL);
}

static wh_status follow_yard(job *j) {
    const bench_kind *kind = bench_kind_find(j->order.name);
    bench_cell cell = {.metric = BENCH_LATENCY, .size = j->order.size, .count = j->order.count};
    wh_status st = kind ? say_ready(j, NULL, 0) : WH_EPROTOCOL;
    return st == WH_OK ? bench_yard_follow(&j->yard, kind, &cell) : st;
}

static void follow(job *j) {
    hello about = {.pid = (int32_t)getpid()};
    size_t size = sizeof about.blob;
    wh_status st = bench_yard_address(&j->yard, about.blob, &size);
    about.blob_size = (uint32_t)size;
    if (st == WH_OK)
        st = say_ready(j, &about, sizeof about);
    if (st == WH_OK)
        st = bench_yard_accept(&j->yard, strcmp(j->plan->mode, "spin") == 0);
    while (st == WH_OK) {
        st = wh_pe_wait(j->pe, &j->pair.wait);
        j->pair.wait = (wh_wait){.done = false};
        if (st == WH_OK)
            st = j->pair.failed;
        if (st == WH_OK)
            st = follow_yard(j);
    }
    give_up(j, "a run has failed", st);
}

// ---- The lead.

// order_run has the follower ready for a run.
static bool order_run(job *j, const order *what) {
    expect_ready(j, 1);
    return await(j, "the other process does not answer",
                 wh_pe_send(j->pe, 1, BENCH_PAIR_ORDER, NULL, 0, what, sizeof *what, 0));
}

static bool run_once(job *j, contender *one, uint64_t size, uint64_t count, double *seconds) {
    order what = {.yard = !one->kind, .size = size, .count = count};
    snprintf(what.name, sizeof what.name, "%s", one->kind ? one->kind->name : one->yard->name);
    bench_pair *pair = &j->pair;
    bench_hist_clear(&j->hist);
    if (!(one->kind && one->kind->lane) && !order_run(j, &what))
        return false;
    uint64_t start = bench_ns();
    if (one->kind) {
        expect_ready(j, 0);
        pair->size = size;
        pair->count = count;
        pair->done = 0;
        pair->before = bench_ticks();
        one->kind->start(pair);
        if (!await(j, one->kind->name, WH_OK))
            return false;
    } else {
        bench_cell cell = {.metric = BENCH_LATENCY, .size = size, .count = count};
        wh_status st = bench_yard_lead(&j->yard, one->yard, &cell, &j->hist);
        if (st != WH_OK)
            return fail(j, one->yard->name, st);
    }
    *seconds = (double)(bench_ns() - start) / (double)BENCH_NS_PER_S;
    return true;
}

// Finds how many messages fill a repetition, by running more and more of them; that also warms up.
static bool calibrate(job *j, contender *one, uint64_t size) {
    double target = j->plan->seconds / j->plan->reps, seconds = 0;
    uint64_t count = 2;
    for (;;) {
        if (!run_once(j, one, size, count, &seconds))
            return false;
        seconds = seconds > 1e-7 ? seconds : 1e-7;
        if (seconds > target / 4)
            break;
        count *= seconds > target / 32 ? 4 : 16;
    }
    one->count = (uint64_t)((double)count * target / seconds) + 1;
    one->count = one->count < COUNT_MIN ? COUNT_MIN : one->count;
    return true;
}

// repeat runs all in turns; a tenth is unmeasured, because others have had the caches meanwhile.
static bool repeat(job *j, uint64_t size) {
    double unused;
    for (unsigned rep = 0; rep < j->plan->reps; rep++) {
        for (size_t i = 0; i < j->count; i++) {
            contender *one = &j->all[i];
            if (!run_once(j, one, size, one->count / 10 + 1, &unused) ||
                !run_once(j, one, size, one->count, &unused))
                return false;
            one->runs[rep] = bench_hist_stats(&j->hist, bench_ns_per_tick() / 2 / 1000);
        }
    }
    for (size_t i = 0; i < j->count; i++)
        j->all[i].stats = bench_stats_of_runs(j->all[i].runs, j->plan->reps);
    return true;
}

static const contender *yard_of(const job *j, const char *name) {
    for (size_t i = 0; i < j->count; i++)
        if (!j->all[i].kind && strcmp(j->all[i].yard->name, name) == 0)
            return &j->all[i];
    return NULL;
}

static void write_rows(job *j, uint64_t size) {
    for (size_t i = 0; i < j->count; i++) {
        const contender *one = &j->all[i];
        if (!one->kind && !j->plan->models[BENCH_MODEL_ENGINE])
            continue;
        bench_row *row = &j->result->rows[j->result->count++];
        *row = (bench_row){.test = one->kind ? one->kind->name : one->yard->name,
                           .metric = BENCH_LATENCY,
                           .size = size,
                           .memory = j->plan->memory,
                           .lane = one->kind && one->kind->lane ? one->kind->lane : j->result->lane,
                           .mode = j->plan->mode,
                           .stats = one->stats};
        const contender *yard = one->kind && one->kind->yard ? yard_of(j, one->kind->yard) : NULL;
        if (!yard)
            continue;
        row->bare = yard->yard->name;
        row->raw = yard->stats.median;
        row->ratio = row->stats.median / row->raw;
    }
}

// gather lists the yardsticks, then what is asked for.
static void gather(job *j) {
    static const char *const yards[] = {"am", "tag"};
    size_t count;
    const bench_pair_kind *kinds = bench_pair_kinds(&count);
    for (size_t i = 0; i < sizeof yards / sizeof *yards; i++)
        j->all[j->count++] = (contender){.yard = bench_kind_find(yards[i])};
    for (size_t i = 0; i < count; i++)
        for (int m = 0; m < BENCH_MODEL_COUNT; m++)
            if (j->plan->models[m] && strcmp(kinds[i].name, bench_model_name(m)) == 0)
                j->all[j->count++] = (contender){.kind = &kinds[i]};
    if (j->count == sizeof yards / sizeof *yards && !j->plan->models[BENCH_MODEL_ENGINE])
        j->count = 0;
}

static bool measure_chares(job *j) {
    bench_row *rows = &j->result->rows[j->result->count];
    wh_status st = bench_many_measure(j->pe, j->plan->chares, j->plan->reps, rows);
    for (size_t i = 0; i < BENCH_MANY_ROWS; i++)
        rows[i].mode = j->plan->mode;
    j->result->count += st == WH_OK ? BENCH_MANY_ROWS : 0;
    return st == WH_OK || fail(j, "chares cannot be made", st);
}

static bool connect_yard(job *j) {
    wh_status st = bench_yard_connect(&j->yard, j->hello.blob, j->hello.blob_size,
                                      strcmp(j->plan->mode, "spin") == 0);
    if (st == WH_OK)
        st = wh_endpoint_lanes(j->yard.ep, j->result->lane, sizeof j->result->lane);
    if (st != WH_OK)
        return fail(j, "no connection for the yardstick", st);
    j->result->lane[strcspn(j->result->lane, " ,")] = '\0';
    return true;
}

static bool lead(job *j) {
    // A PE that has so much to do that it does not connect in time would be lost.
    if (!order_run(j, &(order){.name = "message"}))
        return false;
    if (j->plan->models[BENCH_MODEL_CHARES] && !measure_chares(j))
        return false;
    gather(j);
    if (!j->count)
        return true;
    expect_ready(j, 2);
    if (!connect_yard(j) || !await(j, "chares cannot be made", bench_pair_open(&j->pair)))
        return false;
    for (size_t s = 0; s < j->plan->size_count; s++) {
        for (size_t i = 0; i < j->count; i++)
            if (!calibrate(j, &j->all[i], j->plan->sizes[s]))
                return false;
        if (!repeat(j, j->plan->sizes[s]))
            return false;
        write_rows(j, j->plan->sizes[s]);
    }
    return true;
}

static void lead_all(job *j) {
    expect_ready(j, 1);
    bool good = await(j, "the other process does not come", WH_OK);
    bench_load_read(&j->result->before, j->hello.pid);
    good = good && lead(j);
    bench_load_read(&j->result->after, j->hello.pid);
    wh_pe_exit(j->pe, good ? 0 : 1);
}

// ---- The job.

static wh_status fit(job *j) {
    uint64_t most = 1;
    for (size_t i = 0; i < j->plan->size_count; i++)
        most = j->plan->sizes[i] > most ? j->plan->sizes[i] : most;
    const bench_memory *memory = &j->plan->memory;
    j->pair.mem = memory->kind;
    j->pair.out = bench_memory_alloc(memory->kind, memory->managed, most);
    j->pair.in = bench_memory_alloc(memory->kind, memory->managed, most);
    return j->pair.out && j->pair.in ? WH_OK : WH_ENOMEM;
}

static void give_memory(const bench_memory *memory, char *given) {
    if (given)
        bench_memory_free(memory->kind, memory->managed, given);
}

static void pe_main(wh_pe *pe, void *arg) {
    job *j = arg;
    j->pe = j->pair.pe = pe;
    j->pair.lead = wh_pe_number(pe) == 0;
    j->pair.hist = &j->hist;
    wh_status st = wh_pe_set_handler(pe, BENCH_PAIR_READY, on_ready, j);
    if (st == WH_OK)
        st = wh_pe_set_handler(pe, BENCH_PAIR_ORDER, on_order, j);
    if (st == WH_OK)
        st = bench_pair_init(&j->pair);
    if (st == WH_OK)
        st = bench_many_init(pe);
    if (st == WH_OK)
        st = bench_yard_init(&j->yard, pe, &j->plan->memory);
    const char *what = "cannot begin";
    if (st == WH_OK) {
        st = fit(j);
        what = "memory for two messages";
    }
    give_up(j, what, st);
    if (st == WH_OK && j->pair.lead)
        lead_all(j);
    else if (st == WH_OK)
        follow(j);
}

static bool run(job *j, wh_rt *rt) {
    int status = 1;
    if (wh_rt_pes(rt) != 2 || wh_rt_processes(rt) != 2)
        return bench_fail(j->error, "it takes a job of two processes");
    j->result->lead = wh_rt_rank(rt) == 0;
    j->result->rows = calloc(CONTENDERS_MAX * (j->plan->size_count + 1), sizeof(bench_row));
    if (!j->result->rows)
        return bench_fail(j->error, "out of memory");
    if (!bench_pin(j->plan->cores[wh_rt_rank(rt)]))
        return bench_fail(j->error, "cannot run on core %d", j->plan->cores[wh_rt_rank(rt)]);
    wh_status st = wh_rt_run(rt, pe_main, j, &status);
    if (st != WH_OK && !*j->error->text)
        return fail(j, "the job has failed", st);
    return st == WH_OK && status == 0;
}

bool bench_model_measure(const bench_model_plan *plan, bench_model_result *result,
                         bench_error *error) {
    wh_rt *rt;
    memset(result, 0, sizeof *result);
    job *j = calloc(1, sizeof *j);
    if (!j)
        return bench_fail(error, "out of memory");
    j->plan = plan;
    j->result = result;
    j->error = error;
    wh_status st = wh_rt_init(WH_RT_OPTS(.pes = 1), &rt);
    bool good = st == WH_OK ? run(j, rt) : fail(j, "cannot join the job", st);
    bench_yard_fini(&j->yard);
    if (st == WH_OK)
        wh_rt_finish(rt);
    give_memory(&plan->memory, j->pair.out);
    give_memory(&plan->memory, j->pair.in);
    free(j);
    return good;
}
