// SPDX-License-Identifier: BSD-3-Clause
//
// Collectives between real PEs, which connect when they first send; in one process and in several; and one that is lost, also
// before anybody has heard of it.
#include "rt/coll/pe_port.h"
#include "rt/coll/team.h"
#include "rt/pe/pe_kit.h"

enum { PES = 6, LARGE = 200000 };

static wh_team *team[PES];
static wh_request *reqs[PES];
static int64_t *from[PES], *to[PES];

// Addresses stay known when a PE has gone, as those in a launcher's store.
static whi_contact contacts[PES];

static wh_status contact(wh_pe *pe, int other, whi_contact *found) {
    (void)pe;
    *found = contacts[other];
    return WH_OK;
}

static void begin(int ppn) {
    kit_begin(PES, ppn);
    for (int i = 0; i < PES; i++) {
        CHECK_EQ_INT(kit_contact(job.pe[i], i, &contacts[i]), WH_OK);
        job.pe[i]->contact = contact;
        CHECK_EQ_INT(wh_pe_team(job.pe[i], &team[i]), WH_OK);
        from[i] = calloc(LARGE, sizeof(int64_t));
        to[i] = calloc(LARGE, sizeof(int64_t));
        reqs[i] = NULL;
    }
}

static bool over(void) {
    for (int i = 0; i < PES; i++)
        if (job.pe[i] && team[i]->port->under_way)
            return false;
    return true;
}

static void free_requests(void) {
    for (int i = 0; i < PES; i++) {
        wh_request_free(reqs[i]);
        reqs[i] = NULL;
    }
}

static wh_status status_of(int i) {
    return reqs[i] ? wh_request_status(reqs[i]) : WH_OK;
}

static void end(void) {
    free_requests();
    for (int i = 0; i < PES; i++) {
        wh_team_free(team[i]);
        free(from[i]);
        free(to[i]);
    }
    kit_end();
}

static void allreduce(int64_t count) {
    for (int i = 0; i < PES; i++) {
        for (int64_t k = 0; k < count; k++)
            from[i][k] = i * k;
        CHECK(wh_coll_allreduce(team[i], from[i], to[i], count, wh_type_basic(WH_TYPE_INT64),
                                WH_REDUCTION(.op = WH_REDUCE_SUM), NULL, &reqs[i]) >= WH_OK);
    }
    UNTIL(over());
    for (int i = 0; i < PES; i++) {
        CHECK_EQ_INT(status_of(i), WH_OK);
        for (int64_t k = 0; k < count; k++)
            CHECK_EQ_INT(to[i][k], k * (PES * (PES - 1) / 2));
    }
    free_requests();
}

static void all_kinds(int ppn) {
    begin(ppn);
    allreduce(1);
    allreduce(LARGE);
    for (int i = 0; i < PES; i++)
        CHECK(wh_coll_alltoall(team[i], from[i], LARGE / PES * 8, NULL, to[i], LARGE / PES * 8,
                               NULL, NULL, &reqs[i]) >= WH_OK);
    UNTIL(over());
    for (int i = 0; i < PES; i++)
        for (int j = 0; j < PES; j++)
            CHECK_MEM(to[i] + LARGE / PES * j, from[j] + LARGE / PES * i, LARGE / PES * 8);
    free_requests();
    wh_team *half[PES];
    for (int i = 0; i < PES; i++)
        CHECK(wh_team_split(team[i], i % 2, -i, &half[i], NULL, &reqs[i]) >= WH_OK);
    UNTIL(over());
    free_requests();
    for (int i = 0; i < PES; i++) {
        CHECK_EQ_INT(wh_team_rank(half[i]), PES / 2 - 1 - i / 2);
        CHECK(wh_coll_barrier(half[i], NULL, &reqs[i]) >= WH_OK);
    }
    UNTIL(over());
    for (int i = 0; i < PES; i++) {
        CHECK_EQ_INT(status_of(i), WH_OK);
        wh_team_free(half[i]);
    }
    CHECK_EQ_INT(job.failures, 0);
    end();
}

TEST(between_processes) {
    all_kinds(1);
}

TEST(within_a_process) {
    all_kinds(PES);
}

TEST(both) {
    all_kinds(2);
}

// lose ends PE 3 before it has called the barrier that all others wait in.
static void lose(bool heard_of) {
    begin(1);
    if (heard_of)
        allreduce(1);
    for (int i = 0; i < PES; i++)
        if (i != 3)
            CHECK_EQ_INT(wh_coll_barrier(team[i], NULL, &reqs[i]), WH_PENDING);
    if (heard_of)
        kit_turns(5);
    whi_pe_destroy(job.pe[3]);
    job.pe[3] = NULL;
    UNTIL(over());
    for (int i = 0; i < PES; i++)
        if (i != 3) {
            CHECK_EQ_INT(status_of(i), WH_EPEER);
            CHECK(strstr(wh_request_error(reqs[i]), "PE 3 is lost"));
        }
    end();
}

TEST(a_pe_is_lost) {
    lose(true);
}

// PE 3 is lost while something of its own is under way, which ends with it.
TEST(a_pe_ends_in_the_middle) {
    begin(1);
    allreduce(1);
    for (int i = 0; i < PES; i++)
        CHECK(wh_coll_allreduce(team[i], from[i], to[i], LARGE, wh_type_basic(WH_TYPE_INT64),
                                WH_REDUCTION(.op = WH_REDUCE_SUM), NULL, &reqs[i]) >= WH_OK);
    kit_turns(3);
    whi_pe_destroy(job.pe[3]);
    job.pe[3] = NULL;
    CHECK_EQ_INT(status_of(3), WH_ECLOSED);
    CHECK_EQ_INT(team[3]->port->under_way, 0);
    CHECK(!team[3]->port->worker);
    // The team is there until it is freed, and says that it is over.
    CHECK_EQ_INT(wh_coll_barrier(team[3], NULL, NULL), WH_ECLOSED);
    CHECK_EQ_INT(wh_coll_barrier_wait(team[3], 0), WH_ECLOSED);
    CHECK_EQ_INT(wh_team_size(team[3]), PES);
    UNTIL(over());
    for (int i = 0; i < PES; i++)
        CHECK(status_of(i) == (i == 3 ? WH_ECLOSED : WH_EPEER));
    end();
}

TEST(a_pe_is_lost_that_nobody_has_heard_of) {
    lose(false);
}

// A user-level thread waits for an operation as for anything else.
static unsigned through;

static void in_thread(wh_pe *pe, void *arg) {
    wh_team *all = NULL;
    wh_wait wait = {.done = false};
    (void)arg;
    CHECK_EQ_INT(wh_pe_team(pe, &all), WH_OK);
    wh_status st = wh_coll_barrier(all, WH_OP_OPTS(.done = wh_wait_done, .arg = &wait), NULL);
    if (st == WH_PENDING)
        CHECK_EQ_INT(wh_pe_wait(pe, &wait), WH_OK);
    CHECK_EQ_INT(wait.result.status, WH_OK);
    wh_team_free(all);
    through++;
}

TEST(in_user_level_threads) {
    begin(2);
    through = 0;
    for (int i = 0; i < PES; i++) {
        CHECK_EQ_INT(through, 0);
        CHECK_EQ_INT(wh_pe_spawn(job.pe[i], in_thread, NULL), WH_OK);
        kit_turns(10);
    }
    UNTIL(through == PES);
    end();
}

TEST_MAIN()
