// SPDX-License-Identifier: BSD-3-Clause
//
// Credit grows where receives wait for messages that were announced for want of it, within bounds, and shrinks again
// where the receiver is behind.
#include "engine/test_kit.h"
#include "message/long.h"

enum {
    SIZE = 60000,
    LITTLE = 5000,
    COUNT = 8,
    LITTLES = 100,
    ID = 3,
    COST = SIZE + 2 * WHI_MESSAGE_COST
};
enum { CREDIT = 256 << 10 };

static duo d;
static uint8_t out[SIZE], in[LITTLES][SIZE];
static wh_request *sends[LITTLES], *recvs[LITTLES];
static const char *const stream[] = {"lanes=stream", NULL};

static void begin(const char *const *options) {
    duo_begin(&d, options, stream);
    duo_connect(&d);
    for (size_t i = 0; i < SIZE; i++)
        out[i] = (uint8_t)(i * 13 + (i >> 8));
}

static void post(int count) {
    for (int i = 0; i < count; i++) {
        memset(in[i], 0, SIZE);
        recvs[i] = recv_tagged(&d, in[i], SIZE, 1, NULL);
    }
}

static void send_all(int count, size_t size, const wh_op_opts *opts) {
    for (int i = 0; i < count; i++)
        sends[i] = send_tagged(&d, out, size, 1, opts);
}

static void finish(int count, size_t size) {
    for (int i = 0; i < count; i++) {
        CHECK_EQ_INT(recvs[i] ? done_as(&d, recvs[i]) : WH_OK, WH_OK);
        CHECK_EQ_INT(sends[i] ? done_as(&d, sends[i]) : WH_OK, WH_OK);
        CHECK_MEM(in[i], out, size);
    }
    duo_for(&d, 2);
}

// awaited sends a burst to receives that wait and returns how many of it were announced.
static uint64_t awaited(int count, size_t size, const wh_op_opts *opts) {
    uint64_t before = d.to->counters.rendezvous;
    post(count);
    send_all(count, size, opts);
    finish(count, size);
    return d.to->counters.rendezvous - before;
}

// soon_enough sends bursts until none of one is announced.  Not all credit may have been returned, so it takes a few.
static void soon_enough(int count, size_t size) {
    int rounds = 0;
    while (awaited(count, size, NULL) > 0)
        CHECK(++rounds < 5);
}

// is_agreed says whether both sides know the same credit, all of it the peer's to use.
static bool is_agreed(void) {
    int64_t all = CREDIT + (int64_t)d.from->rx_more, owed = (int64_t)d.from->rx_owed;
    return d.to->credit + owed == all && d.from->rx_window + owed == all;
}

static wh_status on_am(wh_am *am, void *arg) {
    unsigned *came = arg;
    CHECK_EQ_INT(wh_am_recv(am, in[*came], SIZE, NULL, &recvs[*came]), WH_PENDING);
    ++*came;
    return WH_PENDING;
}

TEST(as_much_as_was_lacking) {
    begin(stream);
    CHECK_EQ_INT(awaited(COUNT, SIZE, NULL), COUNT - 3);
    CHECK_EQ_INT(d.from->rx_more, (COUNT - 3) * COST);
    CHECK(is_agreed());
    soon_enough(COUNT, SIZE);
    CHECK(is_agreed());
    duo_end(&d);
}

TEST(of_active_messages) {
    begin(stream);
    unsigned came = 0;
    CHECK_EQ_INT(wh_worker_set_am(d.server, ID, on_am, &came), WH_OK);
    for (int round = 0; round < 3; round++) {
        came = 0;
        uint64_t before = d.to->counters.rendezvous;
        for (int i = 0; i < COUNT; i++) {
            sends[i] = NULL;
            CHECK(wh_am_send(d.to, ID, NULL, 0, out, SIZE, NULL, &sends[i]) >= 0);
        }
        UNTIL(&d, came == COUNT);
        finish(COUNT, SIZE);
        CHECK_EQ_INT(d.to->counters.rendezvous - before, round == 0   ? COUNT - 3
                                                         : round == 1 ? 2
                                                                      : 0);
        CHECK(is_agreed());
    }
    duo_end(&d);
}

static wh_am *kept[COUNT];

static wh_status on_am_later(wh_am *am, void *arg) {
    unsigned *came = arg;
    kept[(*came)++] = am;
    return WH_PENDING;
}

TEST(not_of_active_messages_that_are_kept) {
    begin(stream);
    unsigned came = 0;
    CHECK_EQ_INT(wh_worker_set_am(d.server, ID, on_am_later, &came), WH_OK);
    for (int i = 0; i < COUNT; i++) {
        sends[i] = NULL;
        CHECK(wh_am_send(d.to, ID, NULL, 0, out, SIZE, NULL, &sends[i]) >= 0);
    }
    UNTIL(&d, came == COUNT);
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ_INT(wh_am_recv(kept[i], in[i], SIZE, NULL, &recvs[i]), WH_PENDING);
    finish(COUNT, SIZE);
    CHECK_EQ_INT(d.from->rx_more, 0);
    CHECK(is_agreed());
    duo_end(&d);
}

TEST(of_small_ones) {
    begin(stream);
    CHECK(awaited(LITTLES, LITTLE, NULL) > 0);
    soon_enough(LITTLES, LITTLE);
    duo_end(&d);
}

// What is announced for other reasons lacks no credit.
TEST(of_no_others) {
    begin(stream);
    CHECK_EQ_INT(awaited(COUNT, SIZE, WH_OP_OPTS(.flags = WH_OP_SYNC)), COUNT);
    CHECK_EQ_INT(d.from->rx_more, 0);
    static uint8_t large[WHI_LONG_MAX + 1], into[WHI_LONG_MAX + 1];
    wh_request *recv = recv_tagged(&d, into, sizeof(into), 1, NULL);
    wh_request *sent = send_tagged(&d, large, sizeof(large), 1, NULL);
    CHECK_EQ_INT(done_as(&d, recv), WH_OK);
    CHECK_EQ_INT(done_as(&d, sent), WH_OK);
    send_all(COUNT, SIZE, NULL);
    duo_for(&d, 2);
    post(COUNT);  // too late
    finish(COUNT, SIZE);
    CHECK_EQ_INT(d.from->rx_more, 0);
    CHECK(is_agreed());
    duo_end(&d);
}

TEST(up_to_a_share) {
    for (int none = 0; none < 2; none++) {
        const char *const options[] = {"lanes=stream", none ? "credit_more=0" : "credit_more=4M",
                                       NULL};
        begin(options);
        for (int round = 0; round < 3; round++)
            (void)awaited(LITTLES / 2, SIZE, NULL);
        CHECK_EQ_INT(d.from->rx_more, none ? 0 : CREDIT / COST * COST);
        CHECK(is_agreed());
        duo_end(&d);
    }
}

// A worker's endpoints share a bound, and one that has gone leaves its part to the others.
TEST(of_all_endpoints) {
    enum { MOST = 64 << 20, ENDPOINTS = 20 };
    begin(stream);
    wh_endpoint *first = d.to, *first_from = d.from, *to[ENDPOINTS], *from[ENDPOINTS];
    for (int i = 0; i < ENDPOINTS; i++) {
        d.to = to[i] = duo_open(&d, &from[i]);
        d.from = from[i];
        (void)awaited(LITTLES, SIZE, NULL);
        CHECK(whi_messages_of(d.server)->credit_more <= MOST);
    }
    d.to = first;
    d.from = first_from;
    CHECK(whi_messages_of(d.server)->credit_more > MOST - COST);
    CHECK(awaited(COUNT, SIZE, NULL) > 0);
    CHECK(awaited(COUNT, SIZE, NULL) > 0);
    for (int i = 0; i < ENDPOINTS; i++) {
        wh_endpoint_abort(to[i]);
        wh_endpoint_abort(from[i]);
    }
    duo_for(&d, 5);
    CHECK_EQ_INT(whi_messages_of(d.server)->credit_more, d.from->rx_more);
    soon_enough(COUNT, SIZE);
    duo_end(&d);
}

// More than the setting is held only once: what is received of that does not come back.
TEST(not_where_the_receiver_is_behind) {
    begin(stream);
    (void)awaited(LITTLES / 2, SIZE, NULL);
    uint64_t more = d.from->rx_more;
    CHECK(more > 2 * CREDIT);
    send_all(LITTLES / 2, SIZE, NULL);
    UNTIL(&d, d.from->counters.unexpected >= LITTLES / 2);
    post(LITTLES / 2);
    finish(LITTLES / 2, SIZE);
    CHECK(d.from->rx_more < CREDIT);
    CHECK(is_agreed());
    CHECK_EQ_INT(whi_messages_of(d.server)->credit_more, d.from->rx_more);
    duo_end(&d);
}

TEST_MAIN()
