// SPDX-License-Identifier: BSD-3-Clause
//
// What heat1.c, heat2.c and heat3.c have in common: a rod of cells, its loop in one process, what PE 0 prints.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <wherry/wherry.h>

enum { PIECES = 16, CELLS = 100, STEPS = 100, EVERY = 10 };

// The rod at the beginning: hot in the first quarter.  Beyond its ends it is always 0 degrees.
static void fill(double *cells, int first, int count) {
    for (int i = first; i < first + count; i++)
        *cells++ = i * 7919 % 101 * (i < PIECES * CELLS / 4 ? 1.0 : 0.05);
}

// advance makes `next` of `now`, both of `count` cells and one more at each end, and returns the highest of them.
static double advance(const double *now, double *next, int count) {
    double hottest = 0;
    for (int i = 1; i <= count; i++) {
        next[i] = now[i] + 0.25 * (now[i - 1] - 2 * now[i] + now[i + 1]);
        hottest = fmax(hottest, next[i]);
    }
    return hottest;
}

// must ends the process when a call has failed, and so the job.
static void must(const char *what, wh_status status) {
    if (status == WH_OK)
        return;
    fprintf(stderr, "heat: %s: %s\n", what, wh_status_text(status));
    exit(1);
}

// on_hottest is called on PE 0 with the highest temperature of all pieces.
static inline void on_hottest(wh_pe *pe, const wh_call *call, void *arg) {
    (void)pe;
    (void)arg;
    double hottest;
    memcpy(&hottest, call->args, sizeof(hottest));
    printf("step %d: %.3f degrees\n", (int)call->ref, hottest);
}

// on_end is called on PE 0 with the cells of all pieces, in order, compares them with the loop, and ends the job.
static void on_end(wh_pe *pe, const wh_call *call, void *arg) {
    (void)arg;
    static double now[PIECES * CELLS + 2], next[PIECES * CELLS + 2];
    double difference = 0;
    fill(now + 1, 0, PIECES * CELLS);
    for (int step = 0; step < STEPS; step++) {
        advance(now, next, PIECES * CELLS);
        memcpy(now + 1, next + 1, PIECES * CELLS * sizeof(double));
    }
    size_t cursor = 0;
    int cell = 1;
    wh_reduction_item item;
    while (wh_reduction_next(call->args, call->size, &cursor, &item)) {
        const double *cells = item.data;
        for (int i = 0; i < CELLS; i++)
            difference = fmax(difference, fabs(cells[i] - now[cell++]));
    }
    printf("%d cells, largest difference from the loop: %g\n", cell - 1, difference);
    wh_pe_exit(pe, difference == 0 && cell - 1 == PIECES * CELLS ? 0 : 1);
}

// contribute gives this piece's part in the next sum, maximum or the like over all pieces.
static void contribute(wh_chare *self, wh_contribution part, const char *function, int step) {
    wh_callback to = {
        .kind = WH_CALLBACK_FUNCTION, .function = wh_function_id(function), .pe = 0, .ref = step};
    must("contribute", wh_contribute(self, &part, 1, sizeof(part), &to));
}

static inline void tell_hottest(wh_chare *self, double hottest, int step) {
    wh_contribution part = {.reducer = WH_REDUCER_OP,
                            .op = WH_REDUCE_MAX,
                            .type = WH_TYPE_DOUBLE,
                            .data = &hottest,
                            .count = 1};
    contribute(self, part, "hottest", step);
}

static void tell_cells(wh_chare *self, const double *cells) {
    wh_contribution part = {
        .reducer = WH_REDUCER_SET, .data = cells, .count = CELLS * sizeof(*cells)};
    contribute(self, part, "end", STEPS);
}
