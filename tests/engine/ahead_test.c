// SPDX-License-Identifier: BSD-3-Clause
//
// Small messages beyond the credit: they are prefetched, and are otherwise like any other.
#include "engine/test_kit.h"

enum { SIZE = 1000, COUNT = 300, EAGER = 61, FIRST = 30 };

static duo d;
static char out[COUNT][SIZE], in[COUNT][SIZE];
static wh_request *sends[COUNT], *recvs[COUNT];
static const char *const little[] = {"credit=64k", NULL};

static void send_all(void) {
    for (int i = 0; i < COUNT; i++) {
        memset(out[i], 'a' + i % 23, SIZE);
        memcpy(out[i], &i, sizeof(i));
        sends[i] = NULL;
        CHECK(wh_tag_send(d.to, out[i], SIZE, 1, NULL, &sends[i]) >= 0);
    }
    duo_for(&d, 5);
}

static wh_status receive(int i, size_t room) {
    recvs[i] = NULL;
    memset(in[i], 0, SIZE);
    return wh_tag_recv(d.from, in[i], room, 1, WH_TAG_MASK_ALL, NULL, &recvs[i]);
}

static bool is_message(int i, int number) {
    return memcmp(in[i], out[number], SIZE) == 0;
}

// take_first receives what came with the credit, so that the rest is asked for.
static void take_first(void) {
    for (int i = 0; i < FIRST; i++) {
        CHECK_EQ_INT(receive(i, SIZE), WH_OK);
        CHECK(is_message(i, i));
    }
}

static void begin(void) {
    duo_begin(&d, little, little);
    duo_connect(&d);
    send_all();
    CHECK(d.to->counters.no_credit > COUNT / 2);
    take_first();
}

static void free_sends(void) {
    for (int i = 0; i < COUNT; i++)
        wh_request_free(sends[i]);
}

static void receive_rest(int from) {
    for (int i = from; i < COUNT; i++) {
        wh_status st = receive(i, SIZE);
        CHECK_EQ_INT(st == WH_PENDING ? done_as(&d, recvs[i]) : st, WH_OK);
        CHECK(is_message(i, i));
    }
    duo_for(&d, 2);
    CHECK_EQ_INT(d.from->counters.received_messages, COUNT);
    CHECK_EQ_INT(d.from->counters.received_bytes, COUNT * SIZE);
    CHECK_EQ_INT(d.server->counters.pending + d.client->counters.pending, 0);
    for (int i = 0; i < COUNT; i++)
        CHECK(!sends[i] || wh_request_status(sends[i]) == WH_OK);
}

// Without any progress, more is received than came with the credit.
TEST(prefetched) {
    begin();
    duo_for(&d, 5);
    for (int i = FIRST; i < EAGER + 20; i++) {
        CHECK_EQ_INT(receive(i, SIZE), WH_OK);
        CHECK(is_message(i, i));
    }
    receive_rest(EAGER + 20);
    free_sends();
    duo_end(&d);
}

// The endpoint never holds more than its credit.
TEST(no_more_than_the_credit) {
    begin();
    duo_for(&d, 5);
    int ready = 0;
    for (int i = FIRST; i < COUNT && receive(i, SIZE) == WH_OK; i++)
        ready++;
    CHECK(ready <= (64 << 10) / SIZE + (64 << 10) / 16 / SIZE);
    UNTIL(&d, wh_request_status(recvs[FIRST + ready]) == WH_OK);
    wh_request_free(recvs[FIRST + ready]);
    receive_rest(FIRST + ready + 1);
    free_sends();
    duo_end(&d);
}

// Receives that are posted while the payload is on its way; some too short, some cancelled, one from any source.
TEST(receives_that_come_before_the_payload) {
    begin();
    for (int i = FIRST; i < COUNT; i++) {
        wh_status st = i % 7 == 3 ? wh_worker_tag_recv(d.server, in[i], SIZE, 1, WH_TAG_MASK_ALL,
                                                       NULL, &recvs[i])
                                  : receive(i, i % 7 ? SIZE : 10);
        if (st == WH_PENDING && i % 5 == 0)
            wh_request_cancel(recvs[i]);  // it has matched, so that it is done all the same
        if (st != WH_PENDING)
            recvs[i] = NULL;
    }
    for (int i = FIRST; i < COUNT; i++) {
        if (recvs[i])
            CHECK_EQ_INT(done_as(&d, recvs[i]), i % 7 ? WH_OK : WH_ETRUNCATED);
        CHECK(memcmp(in[i], out[i], i % 7 ? SIZE : 10) == 0);
    }
    free_sends();
    duo_end(&d);
}

// A sender that withdraws what is being asked for: the receive goes on to the next message.
TEST(withdrawn_meanwhile) {
    begin();  // the server has asked, and the client has not read it
    bool cancelled[COUNT] = {false};
    for (int i = EAGER; i < COUNT; i += 2) {
        wh_request_cancel(sends[i]);
        cancelled[i] = wh_request_status(sends[i]) == WH_ECANCELLED;
        CHECK(cancelled[i]);
    }
    int left = 0;
    for (int i = FIRST; i < COUNT; i++)
        left += !cancelled[i];
    for (int i = 0; i < left; i++)
        CHECK(receive(i, SIZE) >= 0);
    for (int i = 0, number = FIRST; i < left; i++, number++) {
        while (cancelled[number])
            number++;
        CHECK_EQ_INT(recvs[i] ? done_as(&d, recvs[i]) : WH_OK, WH_OK);
        int got;
        memcpy(&got, in[i], sizeof(got));
        CHECK(!cancelled[got] && is_message(i, got));
    }
    duo_for(&d, 2);
    CHECK_EQ_INT(d.server->counters.pending, 0);
    free_sends();
    duo_end(&d);
}

// Whatever ends the endpoint in the middle: each receive ends once, and nothing is left.
TEST(ends_meanwhile) {
    for (int how = 0; how < 24; how++) {
        begin();
        wh_message *taken = NULL;
        for (int pass = 0; pass < how / 8; pass++)
            duo_pass(&d);
        if (how & 1)
            for (int i = FIRST; i < FIRST + 60; i++)
                CHECK(receive(i, SIZE) >= 0);
        else
            for (int i = FIRST; i <= EAGER; i++)  // the last of them is on its way
                CHECK_EQ_INT(wh_tag_take(d.from, 1, WH_TAG_MASK_ALL, NULL, &taken), WH_OK),
                    i < EAGER ? wh_message_drop(taken) : (void)0;
        switch (how / 2 % 4) {
        case 0:
            wh_endpoint_abort(d.to);
            d.to = NULL;
            break;
        case 1:
            wh_endpoint_abort(d.from);
            d.from = NULL;
            break;
        case 2:
            CHECK(wh_endpoint_close(d.from, NULL, NULL) >= 0);
            d.from = NULL;
            break;
        default: wh_worker_destroy(d.client); d.client = NULL;
        }
        for (int k = 0; k < 200; k++) {
            (void)wh_worker_progress(d.server);
            if (d.client)
                (void)wh_worker_progress(d.client);
        }
        for (int i = FIRST; (how & 1) && i < FIRST + 60; i++) {
            if (!recvs[i])
                continue;
            CHECK(wh_request_status(recvs[i]) != WH_PENDING);
            wh_request_free(recvs[i]);
        }
        if (taken)
            wh_message_drop(taken);
        free_sends();
        if (!d.client) {  // duo_end wants one
            wh_endpoint_abort(d.to);
            d.to = NULL;
            d.client = kit_worker(d.ctx[1]);
        }
        duo_end(&d);
    }
}

TEST_MAIN()
