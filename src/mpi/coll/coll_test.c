// SPDX-License-Identifier: BSD-3-Clause
//
// Every algorithm against the definition of its collective, over a network that delivers in the order of a seed: sizes 1 to 17, one group and two,
// all layouts, in place, several collectives under way on one communicator, and each schedule started twice.
#include <stdlib.h>

#include "base/test.h"
#include "mpi/coll/test_trial.h"

static void start_all(trial *trials, int n) {
    for (int r = 0; r < trials[0].size; r++)
        for (int i = 0; i < n; i++)
            whm_schedule_tag(&trials[i].ranks[r]->schedule);
    int left = n * trials[0].size, order[3 * NET_RANKS];
    for (int i = 0; i < left; i++)
        order[i] = i;
    while (left > 0) {
        int chosen = net_below(left), at = order[chosen];
        order[chosen] = order[--left];
        whm_schedule_start(&trials[at % n].ranks[at / n]->schedule);
        for (int steps = net_below(4); steps > 0; steps--)
            (void)net_step();
    }
    while (net_step()) {
    }
}

static void verify(trial *trials, int n, uint64_t seed, int start) {
    for (int i = 0; i < n; i++) {
        trial *t = &trials[i];
        int wrong = trial_check(t);
        if (wrong > 0)
            printf("seed %llu, start %d: kind %d by %s, %d + %d ranks, %d units of %d, root %d%s: "
                   "%d ranks wrong\n",
                   (unsigned long long)seed, start, t->kind, t->algorithm->name, t->first,
                   t->size - t->first, t->units, t->numbers, t->root,
                   t->in_place ? ", in place" : "", wrong);
        CHECK_EQ_INT(wrong, 0);
    }
    CHECK_EQ_INT(net_left(), 0);
}

static void one_seed(uint64_t seed, bool between) {
    net_seed(seed);
    int size = between ? 2 + net_below(12) : 1 + net_below(17), n = 1 + net_below(3);
    int first = between ? 1 + net_below(size - 1) : size;
    trial *trials = calloc((size_t)n, sizeof(*trials));
    CHECK(trials);
    whm_comm comms[NET_RANKS];
    trial_comms(comms, size, first, 100);
    for (int i = 0; i < n; i++) {
        trial *t = &trials[i];
        *t = (trial){.size = size, .first = first, .comms = comms};
        do {
            t->kind = (whm_coll_kind)net_below(WHM_NEIGHBOR_ALLGATHER);
        } while (between && t->kind >= WHM_SCAN);
        trial_draw(t);
        trial_build(t);
    }
    for (int start = 0; start < 2; start++) {
        for (int i = 0; i < n; i++)
            trial_fill(&trials[i], (uint32_t)(seed * 8 + (uint64_t)start * 4) + (uint32_t)i);
        start_all(trials, n);
        verify(trials, n, seed, start);
    }
    for (int i = 0; i < n; i++)
        trial_end(&trials[i]);
    trial_comms_end(comms, size, first);
    free(trials);
}

static int seeds(void) {
    const char *text = getenv("WHERRY_SEEDS");
    return text ? atoi(text) : 2000;
}

TEST(one_group) {
    trial_ready();
    for (int seed = 1; seed <= seeds(); seed++)
        one_seed((uint64_t)seed, false);
}

TEST(two_groups) {
    trial_ready();
    for (int seed = 1; seed <= seeds() / 4; seed++)
        one_seed((uint64_t)seed, true);
}

static void ended(whm_schedule *s) {
    (void)s;
}

// What a rank was to pass on, and never got, it does not send: the next one would take it for the data.
TEST(a_lost_rank) {
    whm_comm comms[NET_RANKS];
    whm_schedule s[3];
    int data[3] = {1, 2, 3};
    whm_type *type = whm_type_of(MPI_INT);
    trial_ready();
    net_seed(1);
    trial_comms(comms, 3, 3, 100);
    for (int r = 0; r < 3; r++) {
        whm_schedule_init(&s[r], &comms[r], NULL);
        s[r].done = ended;
        if (r > 0)
            whm_step_recv(&s[r], &data[r], 1, type, r - 1);
        whm_step_wait(&s[r]);
        if (r < 2)
            whm_step_send(&s[r], &data[r], 1, type, r + 1);
        CHECK_EQ_INT(whm_schedule_close(&s[r], false), MPI_SUCCESS);
    }
    net_lose(1);
    for (int r = 0; r < 3; r++)
        whm_schedule_start(&s[r]);
    while (net_step()) {
    }
    net_lose(-1);
    CHECK_EQ_INT(s[1].error, MPI_ERR_PROC_ABORTED);
    CHECK_EQ_INT(s[2].pending, 1);  // in a job, the loss ends it
    CHECK_EQ_INT(data[2], 3);
    CHECK_EQ_INT(net_left(), 1);
    for (int r = 0; r < 3; r++)
        whm_schedule_fini(&s[r]);
    trial_comms_end(comms, 3, 3);
}

TEST_MAIN()
