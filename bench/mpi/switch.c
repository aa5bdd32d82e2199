// SPDX-License-Identifier: BSD-3-Clause
//
// What a switch between user-level threads of the runtime costs, with its scheduler and without MPI: switch THREADS SECONDS.
//
// All threads yield in turns.  The first takes the time of 1,000 yields, in which each other one has yielded as often; the figure is one
// switch, in us, the median of such rounds: {"figure": N}.
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <wherry/rt.h>

#include "bench/clock.h"
#include "bench/stats.h"

enum { YIELDS = 1000, ROUNDS = 2000 };

static double *times;  // ns
static uint64_t until;
static int rounds;
static bool over;

static void yield(wh_pe *pe, void *arg) {
    (void)arg;
    while (!over)
        wh_pe_yield(pe);
}

static void measure(wh_pe *pe, void *arg) {
    (void)arg;
    while (!over) {
        uint64_t before = bench_ns();
        for (int i = 0; i < YIELDS; i++)
            wh_pe_yield(pe);
        uint64_t after = bench_ns();
        times[rounds++] = (double)(after - before);
        over = rounds == ROUNDS || after > until;
    }
}

static void nothing(wh_pe *pe, void *arg) {
    (void)pe;
    (void)arg;
}

static int fail(wh_status st) {
    fprintf(stderr, "switch: %s\n", wh_status_text(st));
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: switch THREADS SECONDS\n");
        return 2;
    }
    int threads = atoi(argv[1]), status;
    times = malloc(ROUNDS * sizeof(*times));
    wh_rt *rt = NULL;
    wh_pe *pe = NULL;
    wh_status st = !times ? WH_ENOMEM : threads < 1 ? WH_EINVAL : WH_OK;
    if (st == WH_OK)
        st = wh_rt_init(WH_RT_OPTS(.pes = 1), &rt);
    if (st == WH_OK)
        st = wh_rt_begin(rt, nothing, NULL, &pe);
    until = bench_ns() + (uint64_t)(strtod(argv[2], NULL) * BENCH_NS_PER_S);
    for (int i = 0; i < threads && st == WH_OK; i++)
        st = wh_pe_spawn(pe, i ? yield : measure, NULL);
    while (st == WH_OK && !over)
        (void)wh_pe_step(pe);
    if (st != WH_OK)
        return fail(st);
    printf("{\"figure\": %.5f}\n", bench_median(times, (size_t)rounds) / 1e3 / YIELDS / threads);
    wh_pe_exit(pe, 0);
    while (wh_pe_step(pe))
        ;
    st = wh_rt_end(rt, &status);
    wh_rt_finish(rt);
    free(times);
    return st == WH_OK ? status : fail(st);
}
