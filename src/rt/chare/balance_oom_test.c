// SPDX-License-Identifier: BSD-3-Clause
//
// Out of memory in a step of load balancing: the n-th allocation fails, for each n.  Either all elements go on, or the job is told
// that it cannot.
#include "base/alloc.h"
#include "rt/chare/balance_kit.h"

static bool step(const char *strategy, uint64_t n) {
    begin(3, n % 2 ? 1 : 3);
    wh_proxy array =
        make_array(0, 1, "sitter", sitter_resume_entry, strategy, SITTERS, "all-on-0", 0);
    for (int i = 0; i < SITTERS - 1; i++)
        reach(0, at(array, i), i % 5, 0);
    settle();
    whi_alloc_fail_at(n);
    double load = 3;
    wh_status st = wh_chare_send(job.pe[0], at(array, SITTERS - 1), sitter_reach_entry, &load,
                                 sizeof(load), NULL);
    CHECK(st == WH_OK || st == WH_ENOMEM);
    if (st == WH_OK)
        UNTIL(seen.resumed[0] == SITTERS || job.failures || job.lost);
    bool reached = whi_alloc_count() >= n;
    whi_alloc_fail_at(0);
    CHECK(reached || seen.resumed[0] == SITTERS);
    if (!reached)
        settle();
    CHECK(seen.resumed[0] <= SITTERS);
    kit_end();
    return reached;
}

static void each_fails_once(const char *strategy) {
    uint64_t n = 1;
    while (step(strategy, n))
        n++;
    CHECK(n > 20);
}

TEST(each_allocation_fails_once_greedy) {
    each_fails_once("greedy");
}

TEST(each_allocation_fails_once_refine) {
    each_fails_once("refine");
}

TEST(each_allocation_fails_once_distributed) {
    each_fails_once("distributed");
}

TEST_MAIN()
