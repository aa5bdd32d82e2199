// SPDX-License-Identifier: BSD-3-Clause
//
// Active messages whose payload follows them as a long record, over the stream lane, without waiting for a grant.
#include "engine/test_kit.h"
#include "mem/mem.h"

enum { SIZE = 60000, SMALL = 100, HEADER = 24, COUNT = 8, ID = 3, MOST = 200000 };
enum { CREDIT = 256 << 10 };

static duo d;
static uint8_t out[COUNT][MOST], in[COUNT][MOST], header[HEADER] = "who, where, what";
static const char *const stream[] = {"lanes=stream", NULL};

// What the handler does with the n-th message.
typedef enum deed { RECEIVE, KEEP, PASS_OVER, END_AND_KEEP } deed;
static deed deeds[COUNT];
static size_t room;
static unsigned came;
static wh_am *kept[COUNT];
static wh_request *recvs[COUNT];

static wh_status on_am(wh_am *am, void *arg) {
    (void)arg;
    CHECK(came < COUNT);
    unsigned n = came++;
    CHECK_EQ_INT(am->header_size, HEADER);
    CHECK_MEM((const uint8_t *)am->header, header, HEADER);
    if (am->data)
        CHECK_MEM((const uint8_t *)am->data, out[n], am->size);
    if (deeds[n] == PASS_OVER)
        return WH_OK;
    if (deeds[n] == RECEIVE) {
        CHECK_EQ_INT(wh_am_recv(am, in[n], room, NULL, &recvs[n]), WH_PENDING);
        return WH_PENDING;
    }
    if (deeds[n] == END_AND_KEEP) {
        wh_endpoint_abort(d.from);
        d.from = NULL;
    }
    kept[n] = am;
    return WH_PENDING;
}

static void begin(deed all) {
    duo_begin(&d, stream, stream);
    duo_connect(&d);
    for (size_t i = 0; i < COUNT; i++) {
        for (size_t at = 0; at < MOST; at++)
            out[i][at] = (uint8_t)(at * 13 + (at >> 8) + i);
        deeds[i] = all;
        recvs[i] = NULL;
        kept[i] = NULL;
    }
    memset(in, 0xee, sizeof(in));
    came = 0;
    room = MOST;
    CHECK_EQ_INT(wh_worker_set_am(d.server, ID, on_am, NULL), WH_OK);
}

static wh_request *send(int number, size_t size) {
    wh_request *req = NULL;
    CHECK(wh_am_send(d.to, ID, header, HEADER, out[number], size, NULL, &req) >= 0);
    return req;
}

static void got(unsigned n, size_t size) {
    CHECK_EQ_INT(done_as(&d, recvs[n]), WH_OK);
    CHECK_MEM(in[n], out[n], size);
    CHECK_EQ_INT(in[n][size], 0xee);
}

static void take(unsigned n) {
    CHECK_EQ_INT(kept[n]->header_size, HEADER);
    CHECK_MEM((const uint8_t *)kept[n]->header, header, HEADER);
    CHECK_EQ_INT(wh_am_recv(kept[n], in[n], room, NULL, &recvs[n]), WH_PENDING);
}

static void nothing_left(void) {
    duo_for(&d, 2);
    CHECK_EQ_INT(d.server->counters.pending + d.client->counters.pending, 0);
    int64_t credit = CREDIT + (int64_t)d.from->rx_more, owed = (int64_t)d.from->rx_owed;
    CHECK_EQ_INT(d.to->credit + owed, credit);
    CHECK_EQ_INT(d.from->rx_window + owed, credit);
    CHECK_EQ_INT(whi_pool_out(&whi_messages_of(d.server)->messages[0]), 0);
}

TEST(goes_at_once_into_its_receive) {
    begin(RECEIVE);
    CHECK(!send(0, SIZE));  // done inside the call, without a grant
    UNTIL(&d, came == 1);
    got(0, SIZE);
    CHECK_EQ_INT(d.to->counters.rendezvous, 0);
    CHECK_EQ_INT(d.from->counters.received_messages, 1);
    CHECK_EQ_INT(d.from->counters.received_bytes, SIZE);
    nothing_left();
    duo_end(&d);
}

TEST(kept_and_received_later) {
    for (int soon = 0; soon < 2; soon++) {
        begin(KEEP);
        CHECK(!send(0, SIZE));
        UNTIL(&d, came == 1);
        if (!soon)
            duo_for(&d, 3);  // all of it is here
        take(0);
        got(0, SIZE);
        CHECK_EQ_INT(d.from->counters.received_messages, 1);
        CHECK_EQ_INT(d.from->counters.received_bytes, SIZE);
        nothing_left();
        duo_end(&d);
    }
}

TEST(dropped) {
    for (int how = 0; how < 3; how++) {
        begin(how ? KEEP : PASS_OVER);
        CHECK(!send(0, SIZE));
        UNTIL(&d, came == 1);
        if (how == 2)
            duo_for(&d, 3);
        if (how)
            wh_am_drop(kept[0]);
        nothing_left();
        deeds[1] = RECEIVE;
        CHECK(!send(1, SIZE));  // those behind it are not harmed
        UNTIL(&d, came == 2);
        got(1, SIZE);
        nothing_left();
        duo_end(&d);
    }
}

TEST(without_a_handler) {
    begin(RECEIVE);
    CHECK_EQ_INT(wh_worker_set_am(d.server, ID, NULL, NULL), WH_OK);
    CHECK(!send(0, SIZE));
    nothing_left();
    CHECK_EQ_INT(wh_worker_set_am(d.server, ID, on_am, NULL), WH_OK);
    CHECK(!send(0, SIZE));
    UNTIL(&d, came == 1);
    got(0, SIZE);
    nothing_left();
    duo_end(&d);
}

TEST(longer_than_its_buffer) {
    for (int how = 0; how < 2; how++) {
        for (size_t fits = 0; fits <= SMALL; fits += SMALL) {
            begin(how ? KEEP : RECEIVE);
            room = fits;
            CHECK(!send(0, SIZE));
            UNTIL(&d, came == 1);
            if (how)
                take(0);
            wh_result result;
            UNTIL(&d, wh_request_result(recvs[0], &result) == WH_OK);
            CHECK_EQ_INT(result.status, WH_ETRUNCATED);
            CHECK_EQ_INT(result.size, SIZE);
            CHECK_MEM(in[0], out[0], fits);
            for (size_t i = fits; i < MOST; i++)
                CHECK_EQ_INT(in[0][i], 0xee);
            wh_request_free(recvs[0]);
            nothing_left();
            duo_end(&d);
        }
    }
}

// Small ones, those that are followed, and announced ones come in the order of their sends.
TEST(keeps_its_place) {
    static const size_t sizes[COUNT] = {SMALL, SIZE, MOST - 1, 8192, 8193, SIZE, 20000, 1};
    for (int how = 0; how < 3; how++) {
        begin(how == 1 ? KEEP : RECEIVE);
        wh_request *sends[COUNT];
        for (int i = 0; i < COUNT; i++) {
            if (how == 2 && i % 2)
                deeds[i] = KEEP;
            sends[i] = send(i, sizes[i]);
        }
        UNTIL(&d, came == COUNT);
        for (unsigned i = 0; i < COUNT; i++) {
            if (!recvs[i])
                take(i);
            got(i, sizes[i]);
            if (sends[i])
                CHECK_EQ_INT(done_as(&d, sends[i]), WH_OK);
        }
        CHECK(d.to->counters.rendezvous > 0 && d.to->counters.rendezvous < 4);
        nothing_left();
        duo_end(&d);
    }
}

// Without credit they are announced, and small ones still have some.
TEST(leaves_credit_for_small_ones) {
    begin(KEEP);
    wh_request *sends[COUNT - 1];
    for (int i = 0; i < COUNT - 1; i++)
        sends[i] = send(i, SIZE);
    CHECK(d.to->counters.rendezvous >= COUNT - 5);
    CHECK(d.to->credit >= 32 << 10);
    CHECK(!send(COUNT - 1, SMALL));
    UNTIL(&d, came == COUNT);
    for (unsigned i = 0; i < COUNT; i++) {
        take(i);
        got(i, i < COUNT - 1 ? SIZE : SMALL);
        if (i < COUNT - 1 && sends[i])
            CHECK_EQ_INT(done_as(&d, sends[i]), WH_OK);
    }
    nothing_left();
    duo_end(&d);
}

// The caller's bytes are its own again, whether the socket takes them or not.
TEST(copied) {
    begin(RECEIVE);
    static uint8_t mine[SIZE];
    for (int i = 0; i < COUNT; i++) {
        memcpy(mine, out[i], SIZE);
        CHECK(wh_am_send_copy(d.to, ID, header, HEADER, mine, SIZE, NULL, NULL) >= 0);
        memset(mine, 0, SIZE);
    }
    UNTIL(&d, came == COUNT);
    for (unsigned i = 0; i < COUNT; i++)
        got(i, SIZE);
    UNTIL(&d, d.client->counters.pending == 0);
    nothing_left();
    duo_end(&d);
}

// More than the socket takes: what waits is copied, and comes in order.
enum { CROWD = 200 };
static uint8_t crowd[CROWD][SIZE];
static unsigned crowd_came, crowd_done;

static void on_crowd_done(wh_request *req, const wh_result *result, void *arg) {
    (void)req, (void)arg;
    CHECK_EQ_INT(result->status, WH_OK);
    crowd_done++;
}

static wh_status on_crowd(wh_am *am, void *arg) {
    (void)arg;
    unsigned n;
    memcpy(&n, am->header, sizeof(n));
    CHECK_EQ_INT(n, crowd_came++);
    CHECK_EQ_INT(wh_am_recv(am, crowd[n], SIZE, WH_OP_OPTS(.done = on_crowd_done), NULL),
                 WH_PENDING);
    return WH_PENDING;
}

TEST(more_than_the_socket_takes) {
    static const char *const large[] = {"lanes=stream", "credit=64M", NULL};
    static uint8_t mine[SIZE];
    duo_begin(&d, large, large);
    duo_connect(&d);
    CHECK_EQ_INT(wh_worker_set_am(d.server, ID, on_crowd, NULL), WH_OK);
    bool waited = false;
    for (unsigned n = 0; n < CROWD; n++) {
        memset(mine, (int)n + 1, SIZE);
        wh_status st = wh_am_send_copy(d.to, ID, &n, sizeof(n), mine, SIZE, NULL, NULL);
        CHECK(st >= 0);
        waited |= st == WH_PENDING;
    }
    memset(mine, 0, SIZE);
    CHECK(waited);
    UNTIL(&d, crowd_done == CROWD);
    for (unsigned n = 0; n < CROWD; n++)
        for (size_t i = 0; i < SIZE; i++)
            CHECK_EQ_INT(crowd[n][i], (uint8_t)(n + 1));
    CHECK_EQ_INT(d.to->counters.rendezvous, 0);
    UNTIL(&d, d.client->counters.pending == 0);
    duo_end(&d);
}

TEST(a_layout) {
    begin(RECEIVE);
    wh_type *type = NULL;
    enum { BLOCKS = 5000, BLOCK = 8 };
    CHECK_EQ_INT(wh_type_create_vector(BLOCKS, 1, 2, wh_type_basic(WH_TYPE_UINT64), &type), WH_OK);
    CHECK_EQ_INT(wh_type_commit(type), WH_OK);
    wh_request *req = NULL;
    CHECK_EQ_INT(wh_am_send(d.to, ID, header, HEADER, out[0], 1,
                            WH_OP_OPTS(.type = type, .flags = WH_OP_UNTYPED), &req),
                 WH_OK);
    UNTIL(&d, came == 1);
    CHECK_EQ_INT(done_as(&d, recvs[0]), WH_OK);
    for (size_t i = 0; i < BLOCKS; i++)
        CHECK_MEM(in[0] + i * BLOCK, out[0] + 2 * i * BLOCK, BLOCK);
    CHECK_EQ_INT(d.to->counters.rendezvous, 0);
    wh_type_release(type);
    nothing_left();
    duo_end(&d);
}

// What was sent before an orderly close arrives; what is kept stays when the peer has gone.
TEST(close_behind_it) {
    for (int how = 0; how < 2; how++) {
        begin(how ? KEEP : RECEIVE);
        CHECK(!send(0, SIZE));
        wh_request *closing = NULL;
        CHECK_EQ_INT(wh_endpoint_close(d.to, NULL, &closing), WH_PENDING);
        d.to = NULL;
        CHECK_EQ_INT(done_as(&d, closing), WH_OK);
        CHECK_EQ_INT(came, 1);
        if (how)
            take(0);
        got(0, SIZE);
        duo_end(&d);
    }
}

// An endpoint that is ended in the handler, or that nobody reads any more: the payload is passed over, and others are not harmed.
TEST(for_nobody) {
    for (int how = 0; how < 2; how++) {
        begin(RECEIVE);
        wh_endpoint *other, *second = duo_open(&d, &other);
        if (how)
            deeds[0] = END_AND_KEEP;
        CHECK(!send(0, SIZE));
        if (!how) {
            wh_endpoint_abort(d.from);
            d.from = NULL;
        } else {
            UNTIL(&d, came == 1);
            CHECK_EQ_INT(wh_am_recv(kept[0], in[0], MOST, NULL, &recvs[0]), WH_ECANCELLED);
            wh_am_drop(kept[0]);
            came = 0;
            deeds[0] = RECEIVE;
        }
        CHECK(wh_am_send(second, ID, header, HEADER, out[0], SIZE, NULL, NULL) >= 0);
        UNTIL(&d, came == 1);
        got(0, SIZE);
        wh_endpoint_abort(second);
        wh_endpoint_abort(other);
        duo_end(&d);
    }
}

TEST_MAIN()
