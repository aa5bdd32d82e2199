// SPDX-License-Identifier: BSD-3-Clause
//
// The calls of collectives: what they refuse, what they cost in messages, how many may be under way; teams and their ids; and what
// a member makes of bytes that no member sends.
#include "rt/coll/op.h"
#include "rt/coll/test_net.h"

#include "base/clock.h"

enum { PATIENCE_S = 20 };

static net n;
static wh_team *all[NET_PES];
static wh_request *reqs[NET_PES];
static char log_text[4096];

static void log_line(const char *level, const char *id, const char *text, void *arg) {
    (void)arg;
    snprintf(log_text, sizeof(log_text), "%s %s %s", level, id, text);
}

static void begin(uint32_t pes, uint64_t message_bytes) {
    net_begin(&n, pes, 1, message_bytes);
    for (uint32_t pe = 0; pe < pes; pe++) {
        CHECK_EQ_INT(whi_team_new(&n.pe[pe].port, NULL, pes, 0, &all[pe]), WH_OK);
        reqs[pe] = NULL;
    }
    wh_log_set_sink(log_line, NULL);
}

// settle lets all that was started end.
static void settle(void) {
    uint64_t end = whi_clock_ns() + PATIENCE_S * WHI_NS_PER_S;
    while (net_under_way(&n)) {
        net_step(&n);
        CHECK(whi_clock_ns() < end);
    }
}

static void end(void) {
    for (uint32_t pe = 0; pe < n.count; pe++)
        wh_team_free(all[pe]);
    net_end(&n);
    wh_log_set_sink(NULL, NULL);
}

static void free_requests(void) {
    for (uint32_t pe = 0; pe < n.count; pe++) {
        wh_request_free(reqs[pe]);
        reqs[pe] = NULL;
    }
}

#define REFUSED(status, id, call)                                                                  \
    do {                                                                                           \
        log_text[0] = '\0';                                                                        \
        CHECK_EQ_INT(call, status);                                                                \
        if (!strstr(log_text, id))                                                                 \
            whi_test_end(WHI_TEST_FAILED, __FILE__, __LINE__, "no %s: %s", id, log_text);          \
    } while (0)

TEST(bad_arguments) {
    begin(2, 16384);
    wh_team *t = all[0];
    const wh_type *d = wh_type_basic(WH_TYPE_DOUBLE);
    const wh_reduction *sum = WH_REDUCTION(.op = WH_REDUCE_SUM);
    double a[4] = {0}, b[4] = {0};
    CHECK_EQ_INT(wh_coll_barrier(NULL, NULL, NULL), WH_EINVAL);
    CHECK_EQ_INT(wh_coll_barrier_wait(NULL, 0), WH_EINVAL);
    REFUSED(WH_EINVAL, "E-COLL-06", wh_coll_broadcast(t, a, 1, d, 2, NULL, NULL));
    REFUSED(WH_EINVAL, "E-COLL-06", wh_coll_reduce(t, a, b, 1, d, sum, 2, NULL, NULL));
    REFUSED(WH_EINVAL, "E-COLL-06", wh_coll_gather(t, a, 1, d, b, 1, d, 2, NULL, NULL));
    REFUSED(WH_EINVAL, "E-COLL-04", wh_coll_broadcast(t, a, -1, d, 0, NULL, NULL));
    REFUSED(WH_EINVAL, "E-COLL-04", wh_coll_broadcast(t, a, INT64_MAX / 9, d, 0, NULL, NULL));
    REFUSED(WH_EINVAL, "E-COLL-04",
            wh_coll_alltoall(t, a, 1ll << 45, d, b, 1ll << 45, d, NULL, NULL));
    REFUSED(WH_EINVAL, "E-COLL-05", wh_coll_broadcast(t, NULL, 1, d, 0, NULL, NULL));
    REFUSED(WH_EINVAL, "E-COLL-07", wh_coll_reduce(t, WH_IN_PLACE, b, 1, d, sum, 1, NULL, NULL));
    REFUSED(WH_EINVAL, "E-COLL-08", wh_coll_allgather(t, a, 1, d, b, 1, NULL, NULL, NULL));
    REFUSED(WH_ENOTSUP, "E-COLL-09",
            wh_coll_allreduce(t, a, b, 1, d, WH_REDUCTION(.op = WH_REDUCE_BAND), NULL, NULL));
    CHECK_EQ_INT(wh_coll_allreduce(t, a, b, 1, d, NULL, NULL, NULL), WH_EINVAL);
    CHECK_EQ_INT(wh_coll_allreduce(t, a, b, 1, d, &(wh_reduction){.size = 0}, NULL, NULL),
                 WH_EINVAL);
    CHECK_EQ_INT(wh_coll_barrier(t, &(wh_op_opts){.size = 1}, NULL), WH_EINVAL);
    CHECK_EQ_INT(wh_team_split(t, 0, 0, NULL, NULL, NULL), WH_EINVAL);
    uint32_t pe;
    CHECK_EQ_INT(wh_team_pe(t, 2, &pe), WH_EINVAL);
    // Nothing has happened: this is the first operation of both.
    for (uint32_t r = 0; r < 2; r++)
        CHECK_EQ_INT(wh_coll_barrier(all[r], NULL, &reqs[r]), WH_PENDING);
    settle();
    CHECK(!wh_request_status(reqs[0]) && !wh_request_status(reqs[1]));
    free_requests();
    end();
}

TEST(alone_it_is_done_within_the_call) {
    begin(1, 16384);
    int32_t a[2] = {1, 2}, b[2] = {0};
    const wh_type *i = wh_type_basic(WH_TYPE_INT32);
    wh_result result = {.status = WH_EPEER};
    wh_request *req = (wh_request *)(void *)a;
    CHECK_EQ_INT(wh_coll_allreduce(all[0], a, b, 2, i, WH_REDUCTION(.op = WH_REDUCE_SUM),
                                   WH_OP_OPTS(.result = &result), &req),
                 WH_OK);
    CHECK(!req && result.status == WH_OK && result.size == 8 && b[0] == 1 && b[1] == 2);
    wh_counters counters = {.size = sizeof(counters)};
    CHECK_EQ_INT(wh_worker_counters(n.worker, &counters), WH_OK);
    CHECK_EQ_INT(counters.pending, 0);
    end();
}

// ---- What they cost.

static char from[16 << 20], to[16 << 20];

static void cost(wh_status (*call)(uint32_t r, int64_t size), uint32_t pes, int64_t size,
                 size_t messages, size_t bytes) {
    begin(pes, 16384);
    for (uint32_t r = 0; r < pes; r++)
        CHECK(call(r, size) >= WH_OK);
    settle();
    if (n.sent != messages || n.sent_bytes != bytes)
        whi_test_end(WHI_TEST_FAILED, __FILE__, __LINE__,
                     "%u PEs, %lld bytes: %zu messages, %zu bytes", pes, (long long)size, n.sent,
                     n.sent_bytes);
    end();
}

static wh_status barrier(uint32_t r, int64_t size) {
    (void)size;
    return wh_coll_barrier(all[r], NULL, NULL);
}

static wh_status broadcast(uint32_t r, int64_t size) {
    return wh_coll_broadcast(all[r], to + r * size, size, NULL, 3, NULL, NULL);
}

static const wh_type *u8(void) {
    return wh_type_basic(WH_TYPE_UINT8);
}

static wh_status reduce(uint32_t r, int64_t size) {
    return wh_coll_reduce(all[r], from + r * size, to, size, u8(),
                          WH_REDUCTION(.op = WH_REDUCE_SUM), 3, NULL, NULL);
}

static wh_status allreduce(uint32_t r, int64_t size) {
    return wh_coll_allreduce(all[r], from + r * size, to + r * size, size, u8(),
                             WH_REDUCTION(.op = WH_REDUCE_SUM), NULL, NULL);
}

static wh_status scan(uint32_t r, int64_t size) {
    return wh_coll_scan(all[r], from + r * size, to + r * size, size, u8(),
                        WH_REDUCTION(.op = WH_REDUCE_SUM), NULL, NULL);
}

static wh_status gather(uint32_t r, int64_t size) {
    return wh_coll_gather(all[r], from + r * size, size, NULL, to, size, NULL, 3, NULL, NULL);
}

static wh_status allgather(uint32_t r, int64_t size) {
    return wh_coll_allgather(all[r], from, size, NULL, to + r * 16 * size, size, NULL, NULL, NULL);
}

static wh_status alltoall(uint32_t r, int64_t size) {
    return wh_coll_alltoall(all[r], from, size, NULL, to + r * 16 * size, size, NULL, NULL, NULL);
}

static wh_status reduce_scatter(uint32_t r, int64_t size) {
    return wh_coll_reduce_scatter(all[r], from, to + r * size, size, u8(),
                                  WH_REDUCTION(.op = WH_REDUCE_SUM), NULL, NULL);
}

TEST(costs) {
    size_t mib = 1 << 20;
    cost(barrier, 16, 0, 16 * 4, 16 * 4);
    cost(barrier, 13, 0, 13 * 4, 13 * 4);
    cost(broadcast, 16, 8, 15, 15 * 8);
    cost(broadcast, 16, 1 << 20, 15 * 16, 15 * mib);
    cost(reduce, 16, 8, 15, 15 * 8);
    cost(reduce, 16, 1 << 20, 15 * 16, 15 * mib);
    cost(allreduce, 16, 8, 16 * 4, 16 * 4 * 8);
    cost(allreduce, 13, 8, 8 * 3 + 10, 34 * 8);
    cost(allreduce, 16, 1 << 20, 16 * 8, 2 * 15 * mib);
    cost(scan, 16, 8, 15 + 14 + 12 + 8, 49 * 8);
    cost(scan, 16, 1 << 20, 15 * 32, 15 * mib);
    cost(gather, 16, 8, 15, 32 * 8);
    cost(gather, 16, 1 << 20, 15, 15 * mib);
    cost(allgather, 16, 8, 16 * 4, 16 * 15 * 8);
    cost(allgather, 16, 1 << 16, 16 * 15, 16 * 15 << 16);
    cost(alltoall, 16, 8, 16 * 4, 16 * 4 * 8 * 8);
    cost(alltoall, 16, 1 << 16, 16 * 15, 16 * 15 << 16);
    cost(reduce_scatter, 16, 1 << 16, 16 * 15, 16 * 15 << 16);
}

// ---- Many at once.

enum { MANY = 2000 };
static int64_t values[2][MANY];

TEST(many_are_under_way) {
    begin(2, 16384);
    const wh_type *i64 = wh_type_basic(WH_TYPE_INT64);
    for (int i = 0; i < MANY; i++) {
        values[0][i] = i;
        CHECK_EQ_INT(wh_coll_allreduce(all[0], WH_IN_PLACE, &values[0][i], 1, i64,
                                       WH_REDUCTION(.op = WH_REDUCE_SUM), NULL, NULL),
                     WH_PENDING);
    }
    CHECK_EQ_INT(n.pe[0].port.under_way, MANY);
    for (int i = 0; i < MANY; i++) {
        values[1][i] = 1;
        CHECK(wh_coll_allreduce(all[1], WH_IN_PLACE, &values[1][i], 1, i64,
                                WH_REDUCTION(.op = WH_REDUCE_SUM), NULL, NULL) >= WH_OK);
    }
    settle();
    for (int i = 0; i < MANY; i++)
        CHECK(values[0][i] == i + 1 && values[1][i] == i + 1);
    end();
}

// Numbers come again, and a former operation of the same number is over by then.
TEST(numbers_come_again) {
    begin(2, 16384);
    int64_t before = 0;
    for (int i = 0; i < 3 << WHI_COLL_NUMBER_BITS; i++) {
        int64_t sum[2] = {i, 1};
        for (uint32_t r = 0; r < 2; r++)
            CHECK(wh_coll_allreduce(all[r], WH_IN_PLACE, &sum[r], 1, wh_type_basic(WH_TYPE_INT64),
                                    WH_REDUCTION(.op = WH_REDUCE_SUM), NULL, NULL) >= WH_OK);
        while (net_under_way(&n)) {
            net_deliver(&n, 0, 1);
            net_deliver(&n, 1, 0);
            wh_worker_progress(n.worker);
        }
        CHECK(sum[0] == i + 1 && sum[1] == i + 1 && sum[0] > before);
        before = sum[0];
    }
    end();
}

TEST(no_number_twice_at_a_time) {
    begin(2, 16384);
    for (int i = 0; i < WHI_COLL_UNDER_WAY; i++)
        CHECK_EQ_INT(wh_coll_barrier(all[0], NULL, NULL), WH_PENDING);
    CHECK_EQ_INT(wh_coll_barrier(all[0], NULL, &reqs[0]), WH_EAGAIN);
    CHECK(!reqs[0]);
    CHECK(wh_coll_barrier(all[1], NULL, NULL) >= WH_OK);
    uint64_t until = whi_clock_ns() + PATIENCE_S * WHI_NS_PER_S;
    while (n.pe[0].port.under_way == WHI_COLL_UNDER_WAY && whi_clock_ns() < until)
        net_step(&n);
    CHECK_EQ_INT(wh_coll_barrier(all[0], NULL, &reqs[0]), WH_PENDING);
    net_kill(&n, 1);
    settle();
    CHECK_EQ_INT(wh_request_status(reqs[0]), WH_EPEER);
    free_requests();
    end();
}

// ---- Teams.

TEST(teams_are_checked) {
    begin(3, 16384);
    wh_team *t = NULL;
    whi_coll_port *port = &n.pe[1].port;
    uint32_t twice[] = {1, 1}, without[] = {0, 2}, beyond[] = {1, 3}, good[] = {2, 1};
    REFUSED(WH_EINVAL, "E-COLL-01", whi_team_new(port, twice, 2, 5, &t));
    REFUSED(WH_EINVAL, "E-COLL-01", whi_team_new(port, without, 2, 5, &t));
    REFUSED(WH_EINVAL, "E-COLL-01", whi_team_new(port, beyond, 2, 5, &t));
    CHECK_EQ_INT(whi_team_new(port, good, 0, 5, &t), WH_EINVAL);
    CHECK_EQ_INT(whi_team_new(port, NULL, 2, 5, &t), WH_EINVAL);
    CHECK_EQ_INT(whi_team_new(port, good, 2, WHI_COLL_TEAMS, &t), WH_EINVAL);
    CHECK_EQ_INT(whi_team_new(port, good, 2, 0, &t), WH_EBUSY);
    CHECK(!t);
    CHECK_EQ_INT(whi_team_new(port, good, 2, 5, &t), WH_OK);
    CHECK(wh_team_size(t) == 2 && wh_team_rank(t) == 1);
    wh_team_free(t);
    wh_team_free(NULL);
    end();
}

// Ids of members differ when one of them has been in more teams; and each is free again when its team is.
TEST(members_have_ids_of_their_own) {
    begin(3, 16384);
    static wh_team *alone[WHI_COLL_TEAMS], *both[3], *none = NULL;
    for (int i = 1; i < WHI_COLL_TEAMS - 1; i++)
        CHECK_EQ_INT(whi_team_alloc(&n.pe[0].port, 1, &alone[i]), WH_OK);
    for (uint32_t r = 0; r < 3; r++)
        CHECK(wh_team_split(all[r], r < 2 ? 7 : -1, 0, &both[r], NULL, &reqs[r]) >= WH_OK);
    settle();
    CHECK(both[0] && both[1] && !both[2]);
    CHECK(both[0]->id == WHI_COLL_TEAMS - 1 && both[1]->id == 1);
    REFUSED(WH_ELIMIT, "E-COLL-02", wh_team_split(all[0], 1, 0, &none, NULL, NULL));
    free_requests();
    for (uint32_t r = 0; r < 2; r++)
        CHECK(wh_coll_barrier(both[r], NULL, &reqs[r]) >= WH_OK);
    settle();
    CHECK(!wh_request_status(reqs[0]) && !wh_request_status(reqs[1]));
    free_requests();
    for (int i = 1; i < WHI_COLL_TEAMS - 1; i++)
        wh_team_free(alone[i]);
    for (uint32_t r = 0; r < 2; r++)
        wh_team_free(both[r]);
    CHECK_EQ_INT(whi_team_alloc(&n.pe[0].port, 1, &none), WH_OK);
    CHECK_EQ_INT(none->id, 1);
    wh_team_free(none);
    end();
}

// Where a split fails, others may have got the team, and send to the id that this member has told them.
TEST(a_failed_split_keeps_its_id) {
    begin(2, 16384);
    wh_team *made[2] = {NULL};
    for (uint32_t r = 2; r-- > 0;)
        CHECK_EQ_INT(wh_team_split(all[r], 0, 0, &made[r], NULL, &reqs[r]), WH_PENDING);
    net_deliver(&n, 0, 1);
    wh_request_cancel(reqs[0]);
    settle();
    CHECK_EQ_INT(wh_request_status(reqs[0]), WH_ECANCELLED);
    CHECK_EQ_INT(wh_request_status(reqs[1]), WH_OK);
    CHECK(!made[0] && made[1]);
    CHECK(n.pe[0].port.team_ids[0] == 3 && n.pe[1].port.team_ids[0] == 3);
    wh_team_free(made[1]);
    CHECK_EQ_INT(n.pe[1].port.team_ids[0], 1);
    free_requests();
    end();
}

static void wait_in_callback(void *arg) {
    *(wh_status *)arg = wh_coll_barrier_wait(all[0], -1);
}

TEST(no_wait_inside_a_callback) {
    begin(2, 16384);
    wh_status st = WH_PENDING;
    CHECK_EQ_INT(wh_worker_call(n.worker, wait_in_callback, &st), WH_OK);
    while (st == WH_PENDING)
        wh_worker_progress(n.worker);
    CHECK_EQ_INT(st, WH_EBUSY);
    CHECK_EQ_INT(net_under_way(&n), 0);
    end();
}

// A team that was given up with operations under way lives as long as these.
TEST(a_team_outlives_its_user) {
    begin(2, 16384);
    for (uint32_t r = 0; r < 2; r++) {
        CHECK(wh_coll_barrier(all[r], NULL, &reqs[r]) >= WH_OK);
        wh_team_free(all[r]);
        all[r] = NULL;
    }
    CHECK(n.pe[0].port.team_ids[0] & 1);
    settle();
    CHECK(!(n.pe[0].port.team_ids[0] & 1));
    CHECK(!wh_request_status(reqs[0]) && !wh_request_status(reqs[1]));
    free_requests();
    end();
}

// ---- Bytes of no member's.

static wh_status receive_foreign(const void *bytes, size_t size, const char *word) {
    begin(2, 16384);
    char buf[20];
    CHECK_EQ_INT(wh_coll_broadcast(all[1], buf, 20, NULL, 0, NULL, &reqs[1]), WH_PENDING);
    CHECK(n.pe[0].port.ops->send(&n.pe[0].port, 1, whi_coll_tag(&n.pe[0].port, 0, 0, 0), bytes,
                                 size, WH_OP_OPTS(.arg = NULL), NULL) >= WH_OK);
    settle();
    wh_status st = wh_request_status(reqs[1]);
    if (!strstr(wh_request_error(reqs[1]), word))
        whi_test_end(WHI_TEST_FAILED, __FILE__, __LINE__, "%s", wh_request_error(reqs[1]));
    free_requests();
    end();
    return st;
}

TEST(foreign_bytes) {
    const int32_t good[] = {WH_ETIMEDOUT, 1}, success[] = {WH_OK, 1}, nobody[] = {WH_EPEER, 2},
                  unknown[] = {-1000, 0};
    static const char zeros[40];
    CHECK_EQ_INT(receive_foreign(good, 8, "PE 1 has given up"), WH_ETIMEDOUT);
    CHECK_EQ_INT(receive_foreign(success, 8, "sent 8 bytes where 20 were"), WH_EINVAL);
    CHECK_EQ_INT(receive_foreign(nobody, 8, "sent 8 bytes where 20 were"), WH_EINVAL);
    CHECK_EQ_INT(receive_foreign(unknown, 8, "sent 8 bytes where 20 were"), WH_EINVAL);
    CHECK_EQ_INT(receive_foreign(zeros, 0, "sent 0 bytes where 20 were"), WH_EINVAL);
    CHECK_EQ_INT(receive_foreign(zeros, 19, "sent 19 bytes where 20 were"), WH_EINVAL);
    CHECK_EQ_INT(receive_foreign(zeros, 40, "sent 40 bytes where 20 were"), WH_EINVAL);
    CHECK_EQ_INT(receive_foreign(zeros, 20, ""), WH_OK);
    // Data that looks like a reason is data.
    begin(2, 16384);
    int32_t sent[] = {WH_EPEER, 1}, came[2] = {0};
    CHECK(wh_coll_broadcast(all[0], sent, 8, NULL, 0, NULL, NULL) >= WH_OK);
    CHECK(wh_coll_broadcast(all[1], came, 8, NULL, 0, NULL, &reqs[1]) >= WH_OK);
    settle();
    CHECK_EQ_INT(wh_request_status(reqs[1]), WH_OK);
    CHECK_MEM(sent, came, 8);
    free_requests();
    end();
}

// A part that is cancelled without the operation's doing, as by an endpoint that is aborted, is no success.
TEST(a_part_is_cancelled_by_somebody_else) {
    begin(2, 16384);
    static char buf[2][1000];
    for (uint32_t r = 2; r-- > 0;)
        CHECK_EQ_INT(wh_coll_broadcast(all[r], buf[r], 1000, NULL, 0, NULL, &reqs[r]), WH_PENDING);
    whi_list *receive = whi_list_first(&n.pair[0][1].receives),
             *send = whi_list_first(&n.pair[0][1].flying);
    CHECK(receive && send);
    wh_request_cancel(whi_container_of(receive, net_op, link)->req);
    wh_request_cancel(whi_container_of(send, net_op, link)->req);
    settle();
    for (uint32_t r = 0; r < 2; r++) {
        CHECK_EQ_INT(wh_request_status(reqs[r]), WH_EPEER);
        CHECK(strstr(wh_request_error(reqs[r]), r ? "PE 0 is lost" : "PE 1 is lost"));
    }
    free_requests();
    end();
}

// A wish for a team with an id that is none.
TEST(a_foreign_wish) {
    begin(2, 16384);
    wh_team *made = NULL;
    uint32_t wish[5] = {5, 0, WHI_COLL_TEAMS};
    CHECK_EQ_INT(wh_team_split(all[1], 5, 0, &made, NULL, &reqs[1]), WH_PENDING);
    char theirs[20];
    whi_coll_port *port = &n.pe[0].port;
    CHECK(port->ops->recv(port, 1, whi_coll_tag(port, 1, 0, 0), theirs, sizeof(theirs),
                          WH_OP_OPTS(.arg = NULL), NULL) >= WH_OK);
    CHECK(n.pe[0].port.ops->send(&n.pe[0].port, 1, whi_coll_tag(&n.pe[0].port, 0, 0, 0), wish,
                                 sizeof(wish), WH_OP_OPTS(.arg = NULL), NULL) >= WH_OK);
    settle();
    CHECK_EQ_INT(wh_request_status(reqs[1]), WH_EPROTOCOL);
    CHECK(!made);
    free_requests();
    end();
}

// Member 1 stands between the root and member 2, gives up, and says so in the place of eight bytes.
TEST(a_reason_in_the_place_of_eight_bytes) {
    begin(3, 16384);
    char buf[3][8] = {{0}};
    for (uint32_t r = 3; r-- > 0;) {
        CHECK(wh_coll_broadcast(all[r], buf[r], 8, NULL, 0, NULL, &reqs[r]) >= WH_OK);
        if (r == 1)
            wh_request_cancel(reqs[1]);
    }
    settle();
    CHECK_EQ_INT(wh_request_status(reqs[1]), WH_ECANCELLED);
    CHECK_EQ_INT(wh_request_status(reqs[2]), WH_ECANCELLED);
    CHECK(strstr(wh_request_error(reqs[2]), "broadcast of 3 PEs: PE 1 has given up"));
    CHECK_EQ_INT(net_left(&n), 0);
    free_requests();
    end();
}

TEST_MAIN()
