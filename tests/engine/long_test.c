// SPDX-License-Identifier: BSD-3-Clause
//
// Long messages: larger than a record's payload, and sent over the stream lane without waiting for a grant.
#include "engine/test_kit.h"
#include "message/match.h"
#include "net/shm/shm_lane.h"

enum { SIZE = 60000, SMALL = 100, COUNT = 12, TOO_LONG = 200000 };

static duo d;
static uint8_t out[COUNT][TOO_LONG], in[TOO_LONG];
static const char *const stream[] = {"lanes=stream", NULL};
static const char *const shm[] = {"lanes=shm,stream", NULL};

static void begin_with(const char *const *options) {
    duo_begin(&d, options, options);
    duo_connect(&d);
    for (size_t i = 0; i < COUNT; i++)
        for (size_t at = 0; at < TOO_LONG; at++)
            out[i][at] = (uint8_t)(at * 13 + (at >> 8) + i);
}

static void begin(void) {
    begin_with(stream);
}

static wh_request *send(int number, size_t size, uint64_t tag) {
    wh_request *req = NULL;
    CHECK(wh_tag_send(d.to, out[number], size, tag, NULL, &req) >= 0);
    return req;
}

static wh_request *receive(void *into, size_t size, uint64_t tag) {
    wh_request *req = NULL;
    CHECK(wh_tag_recv(d.from, into, size, tag, WH_TAG_MASK_ALL, NULL, &req) >= 0);
    return req;
}

static void got(wh_request *req, int number, size_t size) {
    CHECK_EQ_INT(req ? done_as(&d, req) : WH_OK, WH_OK);
    CHECK_MEM(in, out[number], size);
}

static void sent(wh_request *req) {
    if (req)
        CHECK_EQ_INT(done_as(&d, req), WH_OK);
}

static void nothing_left(void) {
    duo_for(&d, 2);
    CHECK_EQ_INT(d.server->counters.pending + d.client->counters.pending, 0);
    for (int side = 0; side < 2; side++) {
        const wh_worker *w = side ? d.client : d.server;
        CHECK_EQ_INT(whi_messages_of(w)->match[WHI_MATCH_TAG].messages, 0);
    }
    // All credit has come back, or waits to.
    CHECK_EQ_INT(d.to->credit + (int64_t)d.from->rx_owed, (256 << 10) + (int64_t)d.from->rx_more);
}

TEST(goes_at_once_into_its_receive) {
    begin();
    wh_request *recv = receive(in, SIZE, 1);
    CHECK(!send(0, SIZE, 1));  // done inside the call, without a grant
    got(recv, 0, SIZE);
    CHECK_EQ_INT(d.to->counters.rendezvous, 0);
    CHECK_EQ_INT(d.from->counters.received_bytes, SIZE);
    nothing_left();
    duo_end(&d);
}

TEST(kept_without_a_receive) {
    begin();
    CHECK(!send(0, SIZE, 1));
    duo_for(&d, 5);
    wh_result found;
    CHECK_EQ_INT(wh_tag_probe(d.from, 1, WH_TAG_MASK_ALL, &found), WH_OK);
    CHECK_EQ_INT(found.size, SIZE);
    CHECK(!receive(in, SIZE, 1));  // it is here
    got(NULL, 0, SIZE);
    CHECK_EQ_INT(d.from->counters.unexpected, 1);
    CHECK_EQ_INT(d.from->counters.received_messages, 1);
    nothing_left();
    duo_end(&d);
}

// Small, long, announced: in the order in which they were sent, whatever way they take, with and without receives.
TEST(keeps_its_place) {
    static const size_t sizes[] = {SMALL, SIZE, TOO_LONG, SMALL, SIZE,
                                   SIZE,  SIZE, SIZE,     0,     TOO_LONG};
    enum { MESSAGES = sizeof(sizes) / sizeof(sizes[0]) };
    for (int posted = 0; posted < 2; posted++) {
        begin();
        static uint8_t into[MESSAGES][TOO_LONG];
        wh_request *sends[MESSAGES], *recvs[MESSAGES] = {NULL};
        for (int i = 0; i < MESSAGES && posted; i++)
            recvs[i] = receive(into[i], TOO_LONG, 1);
        for (int i = 0; i < MESSAGES; i++)
            sends[i] = send(i, sizes[i], 1);
        duo_for(&d, 5);
        for (int i = 0; i < MESSAGES; i++) {
            if (!posted)
                recvs[i] = receive(into[i], TOO_LONG, 1);
            CHECK_EQ_INT(recvs[i] ? done_as(&d, recvs[i]) : WH_OK, WH_OK);
            CHECK_MEM(into[i], out[i], sizes[i]);
            sent(sends[i]);
        }
        CHECK(d.to->counters.rendezvous > 0 && d.to->counters.rendezvous < 7);
        nothing_left();
        duo_end(&d);
    }
}

TEST(longer_than_its_buffer) {
    for (int posted = 0; posted < 2; posted++) {
        for (size_t room = 0; room <= SMALL; room += SMALL) {
            begin();
            memset(in, 0xee, sizeof(in));
            wh_request *recv = posted ? receive(in, room, 1) : NULL;
            CHECK(!send(0, SIZE, 1));
            if (!posted) {
                duo_for(&d, 5);
                recv = receive(in, room, 1);
            }
            wh_result result;
            UNTIL(&d, wh_request_result(recv, &result) == WH_OK);
            CHECK_EQ_INT(result.status, WH_ETRUNCATED);
            CHECK_EQ_INT(result.size, SIZE);
            CHECK_MEM(in, out[0], room);
            for (size_t i = room; i < sizeof(in); i++)
                CHECK_EQ_INT(in[i], 0xee);
            wh_request_free(recv);
            nothing_left();
            duo_end(&d);
        }
    }
}

// A sender without credit announces; small messages still have some.
TEST(leaves_credit_for_small_ones) {
    begin();
    wh_request *sends[COUNT];
    for (int i = 0; i < COUNT; i++)
        sends[i] = send(i, SIZE, 1);
    CHECK(d.to->counters.rendezvous >= COUNT - 4);
    CHECK(d.to->credit >= 32 << 10);
    CHECK(!send(0, SMALL, 2));
    CHECK_EQ_INT(d.to->counters.no_credit, 0);
    for (int i = 0; i < COUNT; i++) {
        got(receive(in, SIZE, 1), i, SIZE);
        sent(sends[i]);
    }
    got(receive(in, SIZE, 2), 0, SMALL);
    nothing_left();
    duo_end(&d);
}

// A synchronous one says when it has matched, so it is announced as ever; so is what its peer reads faster.
TEST(others_are_announced) {
    begin();
    wh_request *req = NULL;
    CHECK_EQ_INT(wh_tag_send(d.to, out[0], SIZE, 1, WH_OP_OPTS(.flags = WH_OP_SYNC), &req),
                 WH_PENDING);
    duo_for(&d, 5);
    CHECK_EQ_INT(wh_request_status(req), WH_PENDING);
    got(receive(in, SIZE, 1), 0, SIZE);
    sent(req);
    CHECK_EQ_INT(d.to->counters.rendezvous, 1);
    duo_end(&d);
    for (int read = 0; read < 2; read++) {
        begin_with(shm);
        UNTIL(&d, d.to->lane->ops->pass);  // shared memory
        whi_shm *lane = (whi_shm *)d.to->lane;
        lane->offers = true;
        for (int i = 0; i < WHI_PICK_SIZES; i++)
            lane->long_tx.picks[i].second = !read;
        req = send(0, SIZE, 1);
        CHECK_EQ_INT(req != NULL, read);
        got(receive(in, SIZE, 1), 0, SIZE);
        sent(req);
        CHECK_EQ_INT(d.to->counters.rendezvous, read);
        CHECK(whi_pick_of(lane->long_tx.picks, SIZE)->begun);
        // A layout is not read, so there is nothing that could be faster.
        wh_type *pairs = NULL;
        CHECK_EQ_INT(wh_type_create_vector(2, SIZE / 4, SIZE, wh_type_basic(WH_TYPE_BYTE), &pairs),
                     WH_OK);
        req = NULL;
        CHECK(wh_tag_send(d.to, out, 1, 2, WH_OP_OPTS(.type = pairs), &req) >= 0);
        CHECK(!req);
        got(receive(in, SIZE, 2), 0, SIZE / 4);
        CHECK_MEM(in + SIZE / 4, out[0] + SIZE, SIZE / 4);
        wh_type_release(pairs);
        duo_end(&d);
    }
}

TEST(taken_from_the_queue) {
    for (int drop = 0; drop < 2; drop++) {
        begin();
        CHECK(!send(0, SIZE, 1));
        wh_message *msg = NULL;
        wh_result found;
        UNTIL(&d, wh_tag_take(d.from, 1, WH_TAG_MASK_ALL, &found, &msg) == WH_OK);
        CHECK_EQ_INT(found.size, SIZE);
        wh_request *recv = NULL;
        if (drop)
            wh_message_drop(msg);
        else
            CHECK(wh_message_recv(msg, in, SIZE, NULL, &recv) >= 0);
        if (!drop)
            got(recv, 0, SIZE);
        nothing_left();
        duo_end(&d);
    }
}

// What is announced without an offer, being no longer than a small message, has nothing to be compared with.
TEST(no_longer_than_a_small_one) {
    static const char *const options[] = {"lanes=shm,stream", "eager_max=40K", "ring_size=256K",
                                          NULL};
    static uint8_t header[24];
    begin_with(options);
    UNTIL(&d, d.to->lane->ops->pass);
    whi_shm *lane = (whi_shm *)d.to->lane;
    lane->offers = true;
    for (int i = 0; i < WHI_PICK_SIZES; i++)
        lane->long_tx.picks[i].second = false;
    for (int longer = 0; longer < 2; longer++) {
        wh_request *req = NULL;
        CHECK(wh_am_send(d.to, 1, header, sizeof(header), out[0], (40 << 10) + longer, NULL,
                         &req) >= 0);
        CHECK_EQ_INT(req != NULL, longer);
        sent(req);
    }
    duo_end(&d);
}

// What was sent before an orderly close arrives, whichever receive there is.
TEST(close_behind_it) {
    for (int posted = 0; posted < 2; posted++) {
        begin();
        wh_request *recv = posted ? receive(in, SIZE, 1) : NULL;
        CHECK(!send(0, SIZE, 1));
        wh_request *closing = NULL;
        CHECK_EQ_INT(wh_endpoint_close(d.to, NULL, &closing), WH_PENDING);
        d.to = NULL;
        CHECK_EQ_INT(done_as(&d, closing), WH_OK);
        got(posted ? recv : receive(in, SIZE, 1), 0, SIZE);
        duo_end(&d);
    }
}

// Receives of the user that have gone: the payload is passed over, and the next message is not harmed.
TEST(for_nobody) {
    begin();
    wh_endpoint *other, *second = duo_open(&d, &other);
    CHECK(!send(0, SIZE, 1));
    wh_endpoint_abort(d.from);
    d.from = NULL;
    CHECK(wh_tag_send(second, out[1], SIZE, 1, NULL, NULL) >= 0);
    wh_request *recv = NULL;
    CHECK(wh_tag_recv(other, in, SIZE, 1, WH_TAG_MASK_ALL, NULL, &recv) >= 0);
    got(recv, 1, SIZE);
    wh_endpoint_abort(second);
    wh_endpoint_abort(other);
    duo_end(&d);
}

TEST_MAIN()
