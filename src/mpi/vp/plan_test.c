// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/vp/plan.h"

#include <string.h>

#include "base/test.h"

enum { RANKS = 64, PROCESSES = 8 };

static double highest(int ranks, int processes, const double *load, const int *home) {
    double sum[PROCESSES] = {0}, most = 0;
    for (int i = 0; i < ranks; i++)
        sum[home[i]] += load[i];
    for (int i = 0; i < processes; i++)
        most = sum[i] > most ? sum[i] : most;
    return most;
}

static int moved(int ranks, const int *before, const int *after) {
    int n = 0;
    for (int i = 0; i < ranks; i++)
        n += before[i] != after[i];
    return n;
}

static void deal(int ranks, int processes, int *home) {
    for (int i = 0; i < ranks; i++)
        home[i] = i * processes / ranks;
}

// Whatever the loads, no process has more afterwards than before, nor more than the mean and one rank.
static void test_random(void) {
    unsigned char movable[RANKS];
    double load[RANKS];
    int before[RANKS], after[RANKS];
    unsigned state = 1;
    memset(movable, 1, sizeof(movable));
    for (int trial = 0; trial < 2000; trial++) {
        int processes = 1 + trial % PROCESSES, ranks = processes + trial % (RANKS - processes);
        double all = 0, largest = 0;
        deal(ranks, processes, before);
        for (int i = 0; i < ranks; i++) {
            state = state * 1103515245 + 12345;
            load[i] = (double)(state >> 16 & 255) * (state >> 24 & 7 ? 1 : 20);
            all += load[i];
            largest = load[i] > largest ? load[i] : largest;
        }
        memcpy(after, before, sizeof(after));
        whm_plan(ranks, processes, load, movable, after);
        double most = highest(ranks, processes, load, after);
        CHECK(most <= highest(ranks, processes, load, before) + 1e-9);
        CHECK(most <= all / processes * 1.03 + largest);
    }
}

// What is even stays; what differs by one rank takes one move.
static void test_few_move(void) {
    unsigned char movable[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    double load[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    int before[8] = {0, 0, 0, 0, 1, 1, 1, 1}, after[8];
    memcpy(after, before, sizeof(after));
    whm_plan(8, 2, load, movable, after);
    CHECK_EQ_INT(moved(8, before, after), 0);
    int uneven[8] = {0, 0, 0, 0, 0, 1, 1, 1};
    memcpy(after, uneven, sizeof(after));
    whm_plan(8, 2, load, movable, after);
    CHECK_EQ_INT(moved(8, uneven, after), 1);
    CHECK(highest(8, 2, load, after) == 4);
}

// Ranks that cannot move do not, and a load of nothing is no reason.
static void test_fixed(void) {
    unsigned char movable[4] = {0, 0, 1, 1};
    double load[4] = {9, 9, 1, 0};
    int home[4] = {0, 0, 0, 0};
    whm_plan(4, 2, load, movable, home);
    CHECK(home[0] == 0 && home[1] == 0 && home[2] == 1 && home[3] == 0);
}

int main(void) {
    test_random();
    test_few_move();
    test_fixed();
    return 0;
}
