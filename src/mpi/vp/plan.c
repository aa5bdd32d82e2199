// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/vp/plan.h"

#include <stdlib.h>

static int most_of(int n, const double *sum) {
    int most = 0;
    for (int i = 1; i < n; i++)
        most = sum[i] > sum[most] ? i : most;
    return most;
}

static int least_of(int n, const double *sum) {
    int least = 0;
    for (int i = 1; i < n; i++)
        least = sum[i] < sum[least] ? i : least;
    return least;
}

// fitting returns the rank of a process whose load comes nearest to half of what two processes differ by, which makes them most alike; -1: any would make the
// larger of the two no smaller.
static int fitting(int ranks, const double *load, const unsigned char *movable, const int *home,
                   int process, double differ) {
    int best = -1;
    double best_left = differ;
    for (int i = 0; i < ranks; i++) {
        if (home[i] != process || !movable[i] || load[i] <= 0 || load[i] >= differ)
            continue;
        double left = differ - 2 * load[i];
        left = left < 0 ? -left : left;
        // A hundredth less is worth no move.
        if (left < best_left * 0.99 || (best < 0 && left < differ * 0.99)) {
            best = i;
            best_left = left;
        }
    }
    return best;
}

void whm_plan(int ranks, int processes, const double *load, const unsigned char *movable,
              int *home) {
    double *sum = calloc((size_t)processes, sizeof(*sum));
    if (!sum)
        return;
    for (int i = 0; i < ranks; i++)
        sum[home[i]] += load[i];
    for (int moves = 0; moves < 4 * ranks; moves++) {  // rounding could have it go round
        int from = most_of(processes, sum), to = least_of(processes, sum);
        int who = fitting(ranks, load, movable, home, from, sum[from] - sum[to]);
        if (who < 0)
            break;
        home[who] = to;
        sum[from] -= load[who];
        sum[to] += load[who];
    }
    free(sum);
}
