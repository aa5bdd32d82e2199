// SPDX-License-Identifier: BSD-3-Clause
//
// See model_chares.h.
#include "bench/model_chares.h"

#include "bench/clock.h"
#include "bench/machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

typedef struct many_run {
    double create_s, call_s;  // of all
    double bytes;             // of one; 0: what the system says has not grown
} many_run;

// What is being done to all of them; a process has one PE.
static struct many {
    uint64_t missing;  // that have not had it
    wh_wait wait;
} many;

static void had(wh_chare *self) {
    if (--many.missing == 0)
        wh_pe_resume(self->pe, &many.wait);
}

static void construct(wh_chare *self, const wh_call *call) {
    (void)call;
    had(self);
}

#define ATOM_ENTRIES(ENTRY) ENTRY(atom, touch, 0)
WH_CLASS(atom, ATOM_ENTRIES, .state = BENCH_MANY_STATE, .construct = construct, .destruct = had);

static void atom_touch(wh_chare *self, const wh_call *call) {
    (void)call;
    ++*(uint64_t *)self->state;
    had(self);
}

static int on_lead(const int32_t *index, int dims, const int32_t *shape, int pes, void *arg) {
    (void)index, (void)dims, (void)shape, (void)pes, (void)arg;
    return 0;
}

wh_status bench_many_init(wh_pe *pe) {
    wh_status st = wh_map_register(pe, "on-lead", on_lead, NULL);
    return st == WH_OK ? wh_class_register(pe, &atom_class) : st;
}

static double resident(void) {
    char line[128];
    uint64_t all, pages = 0;
    if (bench_read_line("/proc/self/statm", line, sizeof line))
        (void)!(sscanf(line, "%" SCNu64 " %" SCNu64, &all, &pages) == 2);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

// await returns how long it takes until all have had what was begun at `start`.
static wh_status await(wh_pe *pe, wh_status begun, uint64_t start, double *seconds) {
    wh_status st = begun == WH_OK ? wh_pe_wait(pe, &many.wait) : begun;
    *seconds = (double)(bench_ns() - start) / (double)BENCH_NS_PER_S;
    return st;
}

static uint64_t expect(uint64_t count) {
    many = (struct many){.missing = count};
    return bench_ns();
}

static wh_status run(wh_pe *pe, uint64_t count, many_run *result) {
    wh_proxy atoms;
    double end_s, before = resident();
    uint64_t start = expect(count);
    wh_status st = wh_array_create(
        pe, "atom", WH_ARRAY_OPTS(.dims = 1, .shape = {(int32_t)count}, .map = "on-lead"), NULL, 0,
        &atoms);
    st = await(pe, st, start, &result->create_s);
    if (st != WH_OK)
        return st;
    result->bytes = resident() - before;
    result->bytes = result->bytes > 0 ? result->bytes / (double)count : 0;
    start = expect(count);
    st = await(pe, wh_chare_send(pe, atoms, atom_touch_entry, NULL, 0, NULL), start,
               &result->call_s);
    if (st != WH_OK)
        return st;
    start = expect(count);
    return await(pe, wh_chare_destroy(pe, atoms), start, &end_s);
}

static bench_row row_of(const char *test, bench_metric metric, bench_stats stats) {
    return (bench_row){.test = test,
                       .metric = metric,
                       .size = BENCH_MANY_STATE,
                       .memory = bench_host_memory(),
                       .lane = "self",
                       .stats = stats};
}

wh_status bench_many_measure(wh_pe *pe, uint64_t count, unsigned reps,
                             bench_row rows[BENCH_MANY_ROWS]) {
    double create[BENCH_REPS_MAX], call[BENCH_REPS_MAX], bytes = 0;
    for (unsigned rep = 0; rep < reps; rep++) {
        many_run one;
        wh_status st = run(pe, count, &one);
        if (st != WH_OK)
            return st;
        create[rep] = (double)count / one.create_s / 1e6;
        call[rep] = (double)count / one.call_s / 1e6;
        if (rep == 0)  // later ones get the same memory again
            bytes = one.bytes;
    }
    rows[0] = row_of("create", BENCH_RATE, bench_stats_of_rates(create, reps));
    rows[1] = row_of("bcast", BENCH_RATE, bench_stats_of_rates(call, reps));
    rows[2] = row_of("chare", BENCH_MEMORY, (bench_stats){bytes, bytes, bytes});
    return WH_OK;
}
