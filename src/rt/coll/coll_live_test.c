// SPDX-License-Identifier: BSD-3-Clause
//
// Collectives over the engine: workers of one thread with real endpoints, data of all sizes; a worker that ends in the middle;
// cancels; and the calls that wait, each member in a thread of its own.
#include "rt/coll/test_live.h"

#include "rt/coll/test_program.h"

enum { PES = 5 };

TEST(right_results) {
    make_types();
    for (uint64_t s = first_seed(); s < first_seed() + seeds(60); s++) {
        begin(s, PES, OPS, s % 4 ? 200 : 30000);
        run_well();
    }
    net_close(&n);
    free_types();
}

// some_steps lets members start collectives, and those go on for a while.
static void some_steps(void) {
    for (uint64_t left = whi_rng_below(&rng, 200); left > 0; left--) {
        start_some();
        net_step(&n);
    }
}

TEST(a_worker_ends) {
    make_types();
    unsigned failed = 0;
    for (uint64_t s = first_seed(); s < first_seed() + seeds(30); s++) {
        begin(s, PES, OPS, s % 4 ? 200 : 30000);
        uint32_t dead = (uint32_t)whi_rng_below(&rng, PES);
        some_steps();
        net_kill(&n, dead);
        run();
        check_all();
        char name[16];
        snprintf(name, sizeof(name), "PE %u", dead);
        for (unsigned i = 0; i < op_count; i++)
            for (uint32_t r = 0; r < teams[ops[i].team].count; r++) {
                const member *m = &ops[i].m[r];
                bool own = teams[ops[i].team].pes[r] == dead;
                if (!m->ended || m->status == WH_OK)
                    continue;
                CHECK_EQ_INT(m->status, own ? WH_ECLOSED : WH_EPEER);
                CHECK(own || strstr(wh_request_error(m->req), name));
                failed++;
            }
        finish();
    }
    CHECK(failed > 10);
    free_types();
}

TEST(a_member_cancels) {
    make_types();
    unsigned failed = 0;
    for (uint64_t s = first_seed(); s < first_seed() + seeds(120); s++) {
        begin(s, PES, OPS, s % 4 ? 200 : 30000);
        some_steps();
        collective *c = &ops[whi_rng_below(&rng, op_count)];
        uint32_t r = (uint32_t)whi_rng_below(&rng, teams[c->team].count);
        if (c->m[r].req)
            wh_request_cancel(c->m[r].req);
        run();
        check_all();
        for (unsigned i = 0; i < op_count; i++)
            for (r = 0; r < teams[ops[i].team].count; r++) {
                wh_status st = ops[i].m[r].status;
                CHECK(st == WH_OK || (st == WH_ECANCELLED && &ops[i] == c));
                failed += st != WH_OK;
            }
        CHECK_EQ_INT(net_left(&n), 0);
        finish();
    }
    net_close(&n);
    CHECK(failed > 10);
    free_types();
}

static wh_status wait_both(wh_request *reqs[2], uint32_t which) {
    uint64_t end = whi_clock_ns() + PATIENCE_S * WHI_NS_PER_S;
    while (net_under_way(&n) && whi_clock_ns() < end)
        net_step(&n);
    return reqs[which] ? wh_request_status(reqs[which]) : WH_OK;
}

// What the engine finds out about elements is told by name.
TEST(elements_of_another_type) {
    net_begin(&n, 2, 1, 16);  // blocks go straight to the root
    wh_team *of[2];
    wh_request *reqs[2];
    int32_t whole[100] = {0};
    float real[200] = {0};
    for (uint32_t r = 0; r < 2; r++)
        CHECK_EQ_INT(whi_team_new(&n.pe[r].port, NULL, 2, 0, &of[r]), WH_OK);
    CHECK_EQ_INT(wh_coll_gather(of[0], real, 100, wh_type_basic(WH_TYPE_FLOAT), real, 100,
                                wh_type_basic(WH_TYPE_FLOAT), 0, NULL, &reqs[0]),
                 WH_PENDING);
    CHECK(wh_coll_gather(of[1], whole, 100, wh_type_basic(WH_TYPE_INT32), NULL, 0, NULL, 0, NULL,
                         &reqs[1]) >= WH_OK);
    CHECK_EQ_INT(wait_both(reqs, 0), WH_ETYPE);
    CHECK(strstr(wh_request_error(reqs[0]), "PE 1 has elements of another type"));
    CHECK_EQ_INT(n.pe[0].port.under_way + n.pe[1].port.under_way, 0);
    for (uint32_t r = 0; r < 2; r++) {
        wh_request_free(reqs[r]);
        wh_team_free(of[r]);
    }
    net_close(&n);
}

// ---- The calls that wait.

typedef struct waiter {
    pthread_t thread;
    struct net_pe *pe;
    wh_team *team;
    int64_t sum, blocks[PES];
} waiter;

static _Atomic unsigned ended;

static void *waits(void *arg) {
    waiter *w = arg;
    uint32_t r = wh_team_rank(w->team);
    const wh_type *i64 = wh_type_basic(WH_TYPE_INT64);
    int64_t mine = r + 1;
    CHECK_EQ_INT(wh_worker_adopt(w->pe->worker), WH_OK);
    for (int i = 0; i < 8; i++) {
        CHECK_EQ_INT(wh_coll_barrier_wait(w->team, -1), WH_OK);
        CHECK_EQ_INT(wh_coll_allreduce_wait(w->team, &mine, &w->sum, 1, i64,
                                            WH_REDUCTION(.op = WH_REDUCE_SUM), -1),
                     WH_OK);
        CHECK_EQ_INT(w->sum, PES * (PES + 1) / 2);
        CHECK_EQ_INT(wh_coll_allgather_wait(w->team, &mine, 1, i64, w->blocks, 1, i64, -1), WH_OK);
        for (uint32_t k = 0; k < PES; k++)
            CHECK_EQ_INT(w->blocks[k], k + 1);
        CHECK_EQ_INT(wh_coll_broadcast_wait(w->team, &w->sum, 1, i64, 2, -1), WH_OK);
        CHECK_EQ_INT(wh_coll_scan_wait(w->team, &mine, &w->sum, 1, i64,
                                       WH_REDUCTION(.op = WH_REDUCE_SUM), -1),
                     WH_OK);
        CHECK_EQ_INT(w->sum, (r + 1) * (r + 2) / 2);
        wh_team *half = NULL;
        CHECK_EQ_INT(wh_team_split_wait(w->team, r % 2, 0, &half, -1), WH_OK);
        CHECK_EQ_INT(wh_team_size(half), r % 2 ? PES / 2 : PES - PES / 2);
        CHECK_EQ_INT(wh_coll_allreduce_wait(half, &mine, &w->sum, 1, i64,
                                            WH_REDUCTION(.op = WH_REDUCE_MAX), -1),
                     WH_OK);
        CHECK_EQ_INT(w->sum, r % 2 ? 4 : 5);
        wh_team_free(half);
    }
    // By what was measured, large data and small is combined as before.
    wh_team *tuned = NULL;
    static int64_t large[PES][20000];
    // On a busy machine a measurement can say nothing; all members have the same.
    for (int i = 0; i < 20 && !(tuned && tuned->message_bytes != w->team->message_bytes); i++) {
        wh_team_free(tuned);
        CHECK_EQ_INT(wh_team_measure_wait(w->team, &tuned, -1), WH_OK);
    }
    CHECK(tuned->message_bytes != w->team->message_bytes && tuned->message_bytes >= 256);
    if (getenv("MEASURED") && r == 0)
        printf("a message costs as much as %llu bytes\n", (unsigned long long)tuned->message_bytes);
    for (int i = 0; i < 20000; i++)
        large[r][i] = i + r;
    CHECK_EQ_INT(wh_coll_allreduce_wait(tuned, WH_IN_PLACE, large[r], 20000, i64,
                                        WH_REDUCTION(.op = WH_REDUCE_MAX), -1),
                 WH_OK);
    for (int i = 0; i < 20000; i++)
        CHECK_EQ_INT(large[r][i], i + PES - 1);
    wh_team_free(tuned);
    // One member does not come before another one's patience is over.
    if (r == PES - 1)
        usleep(100000);
    wh_status st = wh_coll_barrier_wait(w->team, r == 0 ? 20 : -1);
    CHECK(r > 0 || st == WH_ETIMEDOUT);
    CHECK(r < PES - 1 || st == WH_ECANCELLED);
    CHECK(st == WH_OK || st == WH_ETIMEDOUT || st == WH_ECANCELLED);
    // Who has given up still has to tell others.
    ended++;
    while (ended < PES || w->pe->port.under_way)
        wh_worker_progress(w->pe->worker);
    return NULL;
}

TEST(waiting_in_threads) {
    net_begin(&n, PES, 1, 16384);
    static waiter w[PES];
    for (uint32_t a = 0; a < PES; a++) {
        w[a].pe = &n.pe[a];
        CHECK_EQ_INT(whi_team_new(&n.pe[a].port, NULL, PES, 0, &w[a].team), WH_OK);
    }
    for (uint32_t a = 0; a < PES; a++)
        CHECK_EQ_INT(pthread_create(&w[a].thread, NULL, waits, &w[a]), 0);
    for (uint32_t a = 0; a < PES; a++)
        CHECK_EQ_INT(pthread_join(w[a].thread, NULL), 0);
    for (uint32_t a = 0; a < PES; a++) {
        CHECK_EQ_INT(wh_worker_adopt(n.pe[a].worker), WH_OK);
        wh_team_free(w[a].team);
    }
    net_close(&n);
}

TEST_MAIN()
