// SPDX-License-Identifier: BSD-3-Clause
//
// Collectives that fail: a PE is killed in the middle, a member cancels, memory runs out.  None hangs, who says WH_OK has the right
// data, the sentence names the PE, and no message is left over that another operation could take for one of its own.
#include "rt/coll/test_net.h"

#include "rt/coll/test_program.h"

typedef struct tally {
    unsigned good, failed;
} tally;

// check_failures sees that all that has failed, has failed with `status`, and that its sentence has `word`.
static tally check_failures(wh_status status, const char *word) {
    tally sum = {0};
    for (unsigned i = 0; i < op_count; i++)
        for (uint32_t r = 0; r < teams[ops[i].team].count; r++) {
            const member *m = &ops[i].m[r];
            if (n.pe[teams[ops[i].team].pes[r]].dead || !m->ended)
                continue;
            if (m->status == WH_OK) {
                sum.good++;
                continue;
            }
            sum.failed++;
            const char *text = wh_request_error(m->req);
            if (m->status != status || !strstr(text, word) || !strstr(text, " of "))
                FAIL("seed %llu: %s: %s: %s, wanted %s %s", (unsigned long long)seed,
                     names[ops[i].what], wh_status_name(m->status), text, wh_status_name(status),
                     word);
        }
    return sum;
}

// afterwards runs one more collective on each team that still has all its members.
static void afterwards(void) {
    for (unsigned i = 0; i < op_count; i++)
        for (uint32_t r = 0; r < NET_PES; r++) {
            wh_request_free(ops[i].m[r].req);
            ops[i].m[r].req = NULL;
        }
    static int64_t sums[2][NET_PES];
    wh_request *reqs[2][NET_PES] = {{NULL}};
    for (unsigned i = 0; i < 2; i++)
        for (uint32_t r = 0; r < teams[i].count; r++) {
            int64_t *sum = &sums[i][r];
            *sum = r + 1;
            wh_status st =
                wh_coll_allreduce(teams[i].of[r], WH_IN_PLACE, sum, 1, wh_type_basic(WH_TYPE_INT64),
                                  WH_REDUCTION(.op = WH_REDUCE_SUM), NULL, &reqs[i][r]);
            CHECK(st == WH_PENDING || (st == WH_OK && teams[i].count == 1));
        }
    uint64_t end = whi_clock_ns() + PATIENCE_S * WHI_NS_PER_S;
    while (net_under_way(&n) && whi_clock_ns() < end)
        net_step(&n);
    for (unsigned i = 0; i < 2; i++)
        for (uint32_t r = 0; r < teams[i].count; r++) {
            CHECK_EQ_INT(reqs[i][r] ? wh_request_status(reqs[i][r]) : WH_OK, WH_OK);
            CHECK_EQ_INT(sums[i][r], teams[i].count * (teams[i].count + 1) / 2);
            wh_request_free(reqs[i][r]);
        }
}

TEST(a_pe_is_killed) {
    make_types();
    tally sum = {0};
    uint64_t first = first_seed();
    for (uint64_t s = first; s < first + seeds(1500); s++) {
        begin(s, 2 + (uint32_t)(s % 9), 1 + (unsigned)(s % OPS), 60);
        uint32_t dead = (uint32_t)whi_rng_below(&rng, n.count);
        unsigned when = (unsigned)whi_rng_below(&rng, 60);
        for (unsigned step = 0; step < when; step++) {
            start_some();
            net_step(&n);
        }
        net_kill(&n, dead);
        run();
        check_all();
        char name[16];
        snprintf(name, sizeof(name), "PE %u", dead);
        tally t = check_failures(WH_EPEER, name);
        sum.good += t.good;
        sum.failed += t.failed;
        finish();
    }
    CHECK(sum.good > 100 && sum.failed > 100);
    free_types();
}

TEST(a_member_cancels) {
    make_types();
    tally sum = {0};
    uint64_t first = first_seed();
    for (uint64_t s = first; s < first + seeds(1500); s++) {
        begin(s, 2 + (uint32_t)(s % 9), 1 + (unsigned)(s % OPS), 60);
        unsigned when = (unsigned)whi_rng_below(&rng, 60);
        for (unsigned step = 0; step < when; step++) {
            start_some();
            net_step(&n);
        }
        collective *c = &ops[whi_rng_below(&rng, op_count)];
        uint32_t r = (uint32_t)whi_rng_below(&rng, teams[c->team].count);
        if (c->m[r].req)
            wh_request_cancel(c->m[r].req);
        run();
        check_all();
        char name[16];
        snprintf(name, sizeof(name), "PE %u", teams[c->team].pes[r]);
        tally t = check_failures(WH_ECANCELLED, "cancelled");
        sum.good += t.good;
        sum.failed += t.failed;
        CHECK_EQ_INT(net_left(&n), 0);
        afterwards();
        CHECK_EQ_INT(net_left(&n), 0);
        finish();
    }
    CHECK(sum.good > 100 && sum.failed > 100);
    free_types();
}

// A cancel needs nobody's help, and who comes later is told of it.
TEST(a_cancel_does_not_wait) {
    for (int small = 0; small < 2; small++) {
        net_begin(&n, 2, 1, 16384);
        static char buf[2][1000];
        wh_team *of[2];
        wh_request *reqs[2];
        size_t size = small ? 3 : sizeof(buf[0]);
        for (uint32_t r = 0; r < 2; r++)
            CHECK_EQ_INT(whi_team_new(&n.pe[r].port, NULL, 2, 0, &of[r]), WH_OK);
        CHECK_EQ_INT(wh_coll_broadcast(of[1], buf[1], (int64_t)size, NULL, 0, NULL, &reqs[1]),
                     WH_PENDING);
        wh_request_cancel(reqs[1]);
        for (int i = 0; i < 100; i++)
            net_step(&n);
        CHECK_EQ_INT(wh_request_status(reqs[1]), WH_ECANCELLED);
        CHECK_EQ_INT(n.pe[1].port.under_way, 1);
        memset(buf, 7, sizeof(buf));
        CHECK(wh_coll_broadcast(of[0], buf[0], (int64_t)size, NULL, 0, NULL, &reqs[0]) >= WH_OK);
        buf[1][0] = 9;
        uint64_t end = whi_clock_ns() + PATIENCE_S * WHI_NS_PER_S;
        while (net_under_way(&n) && whi_clock_ns() < end)
            net_step(&n);
        CHECK_EQ_INT(net_under_way(&n), 0);
        CHECK_EQ_INT(net_left(&n), 0);
        CHECK_EQ_INT(buf[1][0], 9);  // nothing was received
        for (uint32_t r = 0; r < 2; r++) {
            wh_request_free(reqs[r]);
            wh_team_free(of[r]);
        }
        net_end(&n);
    }
}

TEST(memory_runs_out) {
    make_types();
    unsigned failed = 0;
    for (uint64_t s = 1; s <= 25; s++) {
        for (uint64_t at = 1;; at++) {
            begin(s, 2 + (uint32_t)(s % 5), 2, 40);
            whi_alloc_fail_at(at);
            run();
            bool reached = whi_alloc_count() >= at;
            whi_alloc_fail_at(0);
            check_all();
            failed += check_failures(WH_ENOMEM, "memory").failed;
            CHECK_EQ_INT(net_left(&n), 0);
            afterwards();
            finish();
            if (!reached)
                break;
        }
    }
    CHECK(failed > 0);
    free_types();
}

// What has to be said is said when there is memory for it.
TEST(memory_is_scarce) {
    make_types();
    tally sum = {0};
    for (uint64_t s = first_seed(); s < first_seed() + seeds(300); s++) {
        begin(s, 2 + (uint32_t)(s % 9), 1 + (unsigned)(s % OPS), 60);
        n.refused = 1 + (unsigned)(s % 30);
        run();
        n.refused = 0;
        check_all();
        tally t = check_failures(WH_ENOMEM, "memory");
        sum.good += t.good;
        sum.failed += t.failed;
        CHECK_EQ_INT(net_left(&n), 0);
        afterwards();
        finish();
    }
    CHECK(sum.good > 100 && sum.failed > 100);
    free_types();
}

TEST_MAIN()
