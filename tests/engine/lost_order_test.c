// SPDX-License-Identifier: BSD-3-Clause
//
// Messages that are lost with their peer: no receive gets a later one of the same endpoint in their place, unless some receive
// has failed for them.
#include "engine/test_kit.h"

enum { TAG = 1, LARGE = 8 << 20, MIDDLE = 1000, CREDIT = 61, LATE = 77 };

static duo d;
static char large[LARGE], into[LARGE], many[CREDIT + 1][MIDDLE];
static const char *const lanes[] = {"lanes=shm", "lanes=stream"};

typedef enum ending { PEER_ABORTS, LINK_FAILS, ENDINGS } ending;

static void begin(const char *option) {
    const char *options[] = {option, NULL};
    duo_begin(&d, options, options);
    duo_connect(&d);
    memset(into, 0, 8);
}

static void send_tag(const void *buf, size_t size) {
    wh_request *req = NULL;
    CHECK(wh_tag_send(d.to, buf, size, TAG, NULL, &req) >= 0);
    wh_request_free(req);
}

static void send_number(uint64_t number) {
    CHECK_EQ_INT(wh_tag_send(d.to, &number, sizeof(number), TAG, NULL, NULL), WH_OK);
}

static void send_object(uint64_t number, size_t size) {
    wh_frame frame = {.data = large, .size = size};
    wh_request *req = NULL;
    CHECK(wh_object_send(d.to, &number, sizeof(number), &frame, 1, sizeof(frame), TAG, NULL,
                         &req) >= 0);
    wh_request_free(req);
}

static void lose(int how) {
    if (how == PEER_ABORTS) {
        wh_endpoint_abort(d.to);
        d.to = NULL;
    } else {
        whi_link_fail(d.from->link, WH_EPEER, "%s", "the test wants it so");
    }
    UNTIL(&d, wh_endpoint_status(d.from) != WH_OK);
    CHECK_EQ_INT(wh_endpoint_status(d.from), WH_EPEER);
    UNTIL(&d, whi_hash_count(&whi_links_of(d.server)->links) == 0);
}

static wh_request *receive(bool any, size_t size) {
    wh_request *req = NULL;
    wh_status st = any ? wh_worker_tag_recv(d.server, into, size, TAG, 0, NULL, &req)
                       : wh_tag_recv(d.from, into, size, TAG, 0, NULL, &req);
    CHECK_EQ_INT(st, WH_PENDING);
    return req;
}

// must_find_nothing requires that neither the endpoint nor the worker has a message left.
static void must_find_nothing(void) {
    uint64_t number = 0;
    wh_request *req = NULL;
    CHECK_EQ_INT(wh_tag_probe(d.from, TAG, 0, NULL), WH_ENOTFOUND);
    CHECK_EQ_INT(wh_tag_recv(d.from, &number, 8, TAG, 0, NULL, &req), WH_EPEER);
    CHECK_EQ_INT(wh_worker_tag_probe(d.server, TAG, 0, NULL), WH_ENOTFOUND);
    CHECK_EQ_INT(d.server->counters.pending, 0);
}

// must_fail requires that a receive of the endpoint ends with the peer, and that then what was sent behind its message, a
// number, can be had, and nothing else.
static void must_fail(wh_request *req, uint64_t behind) {
    CHECK_EQ_INT(done_as(&d, req), WH_EPEER);
    uint64_t number = 0;
    CHECK_EQ_INT(wh_tag_recv(d.from, &number, 8, TAG, 0, NULL, NULL), WH_OK);
    CHECK_EQ_INT(number, behind);
    must_find_nothing();
}

// must_go_on requires that a receive from any source still waits, for there is nothing.
static void must_go_on(wh_request *req) {
    duo_for(&d, 2);
    CHECK_EQ_INT(wh_request_status(req), WH_PENDING);
    wh_request_cancel(req);
    CHECK_EQ_INT(done_as(&d, req), WH_ECANCELLED);
    must_find_nothing();
}

#define EACH(how, lane)                                                                            \
    for (int how = 0; how < ENDINGS; how++)                                                        \
        for (int lane = 0; lane < 2; lane++)

TEST(what_came_before_is_received_and_what_came_behind_is_not) {
    EACH(how, lane) {
        begin(lanes[lane]);
        send_number(1);
        send_tag(large, LARGE);
        send_number(2);
        UNTIL(&d, d.from->counters.unexpected == 3);
        lose(how);
        uint64_t number = 0;
        CHECK_EQ_INT(wh_tag_recv(d.from, &number, 8, TAG, 0, NULL, NULL), WH_OK);
        CHECK_EQ_INT(number, 1);
        must_find_nothing();
        duo_end(&d);
    }
}

TEST(objects_as_well) {
    EACH(how, lane) {
        begin(lanes[lane]);
        send_object(1, 8);
        send_object(2, LARGE);
        send_object(3, 8);
        UNTIL(&d, d.from->counters.unexpected == 3);
        lose(how);
        wh_object *object = NULL;
        CHECK_EQ_INT(wh_object_recv_wait(d.from, TAG, 0, 1000, &object), WH_OK);
        CHECK(*(const uint64_t *)wh_object_header(object, NULL) == 1);
        wh_object_free(object);
        CHECK_EQ_INT(wh_object_recv_wait(d.from, TAG, 0, 1000, &object), WH_EPEER);
        duo_end(&d);
    }
}

// match_large has a receive that is in the middle of a large message, behind which a number was sent.
static wh_request *match_large(bool any) {
    wh_request *req = receive(any, LARGE);
    send_tag(large, LARGE);
    send_number(2);
    UNTIL(&d, d.from->counters.unexpected == 1);
    CHECK_EQ_INT(wh_request_status(req), WH_PENDING);
    return req;
}

// A receive that has matched fails, and so says that something is missing: what was sent behind that can be had.
TEST(a_receive_of_the_endpoint_fails) {
    EACH(how, lane) {
        begin(lanes[lane]);
        wh_request *req = match_large(false);
        lose(how);
        must_fail(req, 2);
        duo_end(&d);
    }
}

// One from any source says nothing: it waits for the next peer.
TEST(a_receive_from_any_source_goes_on) {
    EACH(how, lane) {
        begin(lanes[lane]);
        wh_request *req = match_large(true);
        lose(how);
        must_go_on(req);
        duo_end(&d);
    }
}

// prefetch_one has the server hold a credit's worth of messages, ask for one more that was announced, and hold a small one that
// was sent behind that; the client has not read the question.
static void prefetch_one(void) {
    begin("credit=64k");
    for (int i = 0; i <= CREDIT; i++)
        send_tag(many[i], MIDDLE);
    send_number(LATE);
    CHECK_EQ_INT(d.to->counters.no_credit, 1);
    UNTIL(&d, d.from->counters.unexpected == CREDIT + 2);
    for (int i = 0; i < CREDIT; i++)
        CHECK_EQ_INT(wh_tag_recv(d.from, into, MIDDLE, TAG, 0, NULL, NULL), WH_OK);
    CHECK_EQ_INT(d.from->rx_announced, 0);
}

TEST(prefetched_and_nobody_has_asked) {
    for (int how = 0; how < ENDINGS; how++) {
        prefetch_one();
        lose(how);
        must_find_nothing();
        duo_end(&d);
    }
}

TEST(prefetched_for_a_receive_of_the_endpoint) {
    for (int how = 0; how < ENDINGS; how++) {
        prefetch_one();
        wh_request *req = receive(false, MIDDLE);
        lose(how);
        must_fail(req, LATE);
        duo_end(&d);
    }
}

TEST(prefetched_for_a_receive_from_any_source) {
    for (int how = 0; how < ENDINGS; how++) {
        prefetch_one();
        wh_request *req = receive(true, MIDDLE);
        lose(how);
        must_go_on(req);
        duo_end(&d);
    }
}

TEST_MAIN()
