// SPDX-License-Identifier: BSD-3-Clause
//
// What a switch between user-level threads of the runtime costs, with its scheduler and without MPI: switch THREADS SECONDS.
//
// All threads yield in turns.  The first takes the time of 1,000 yields, in which each other one has yielded as often; the figure is one
// switch, in us, the median of such rounds: {"figure": N}.
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <wherry/rt.h>

enum { YIELDS = 1000, ROUNDS = 2000 };

static double *times, until;
static int rounds;
static bool over;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int ascending(const void *x, const void *y) {
    double p = *(const double *)x, q = *(const double *)y;
    return (p > q) - (p < q);
}

static void yield(wh_pe *pe, void *arg) {
    (void)arg;
    while (!over)
        wh_pe_yield(pe);
}

static void measure(wh_pe *pe, void *arg) {
    (void)arg;
    while (!over) {
        double before = now();
        for (int i = 0; i < YIELDS; i++)
            wh_pe_yield(pe);
        times[rounds++] = now() - before;
        over = rounds == ROUNDS || now() > until;
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
    until = now() + strtod(argv[2], NULL);
    for (int i = 0; i < threads && st == WH_OK; i++)
        st = wh_pe_spawn(pe, i ? yield : measure, NULL);
    while (st == WH_OK && !over)
        (void)wh_pe_step(pe);
    if (st != WH_OK)
        return fail(st);
    qsort(times, (size_t)rounds, sizeof(*times), ascending);
    printf("{\"figure\": %.5f}\n", times[rounds / 2] * 1e6 / YIELDS / threads);
    wh_pe_exit(pe, 0);
    while (wh_pe_step(pe))
        ;
    st = wh_rt_end(rt, &status);
    wh_rt_finish(rt);
    free(times);
    return st == WH_OK ? status : fail(st);
}
