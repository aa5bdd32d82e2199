// SPDX-License-Identifier: BSD-3-Clause
//
// Messages that have to wait for the lane, for credit or for an earlier announcement go when that has come, without another
// call of the user's: awake, asleep, and with the link left to epoll.
#include <poll.h>

#include "engine/test_kit.h"
#include "net/stream/stream.h"

enum { SIZE = 8000, MANY = 64, PATIENCE_S = 5 };

static duo d;
static char bytes[1 << 20];

// ---- the rest of a record of which the socket took a part

// leave_rest sends over these endpoints in turn until the last send said WH_OK with a part of it still in the lane.  Returns
// the number of messages; their tags count from 0, the endpoint of tag t is t % count.
static uint64_t leave_rest(wh_endpoint *const *eps, unsigned count) {
    for (uint64_t tag = 0;; tag++) {
        wh_status st = wh_tag_send(eps[tag % count], bytes, SIZE, tag, NULL, NULL);
        bool blocked = whi_stream_blocked(eps[0]->link->control.lane);
        if (st == WH_OK && blocked)
            return tag + 1;
        CHECK(st == WH_OK && tag < 100000);
    }
}

static bool sleeps(wh_worker *worker) {
    for (int i = 0; i < 1000; i++)
        if (wh_worker_progress(worker) == 0 && wh_worker_arm(worker) == WH_OK)
            return true;
    return false;
}

// wakes says whether a sleeper's descriptor calls it.
static bool wakes(const wh_worker *worker) {
    struct pollfd item = {.fd = wh_worker_fd(worker), .events = POLLIN};
    return poll(&item, 1, 0) == 1;
}

// arrives progresses the server alone, and the client as an event loop would: when its descriptor says so.
static void arrives(wh_request *recv) {
    CHECK(sleeps(d.client));
    uint64_t end = whi_clock_ns() + PATIENCE_S * WHI_NS_PER_S;
    while (wh_request_status(recv) == WH_PENDING) {
        CHECK(whi_clock_ns() < end);
        (void)wh_worker_progress(d.server);
        if (wakes(d.client))
            CHECK(sleeps(d.client));
    }
    CHECK_EQ_INT(wh_request_status(recv), WH_OK);
    wh_request_free(recv);
}

static wh_request *expect(wh_endpoint *from, uint64_t tag) {
    static char in[SIZE];
    wh_request *recv = NULL;
    CHECK_EQ_INT(wh_tag_recv(from, in, sizeof(in), tag, WH_TAG_MASK_ALL, NULL, &recv), WH_PENDING);
    return recv;
}

TEST(rest_of_a_record_goes_while_its_worker_sleeps) {
    static const char *const options[] = {"lanes=stream", "credit=64M", NULL};
    duo_begin(&d, options, options);
    duo_connect(&d);
    uint64_t count = leave_rest(&d.to, 1);
    arrives(expect(d.from, count - 1));
    duo_end(&d);
}

// With the usual credit it takes many endpoints of one link to fill the socket.
TEST(rest_of_a_record_among_many_endpoints) {
    static const char *const options[] = {"lanes=stream", NULL};
    wh_endpoint *to[MANY], *from[MANY];
    duo_begin(&d, options, options);
    for (int i = 0; i < MANY; i++)
        to[i] = duo_open(&d, &from[i]);
    duo_for(&d, 10);
    uint64_t count = leave_rest(to, MANY);
    arrives(expect(from[(count - 1) % MANY], count - 1));
    for (int i = 0; i < MANY; i++) {
        wh_endpoint_abort(to[i]);
        wh_endpoint_abort(from[i]);
    }
    duo_end(&d);
}

// A worker with many links leaves the idle ones to epoll, but not one that has something to send.
TEST(rest_of_a_record_of_one_link_among_many) {
    enum { OTHERS = 6, PASSES = 2000 };
    static const char *const options[] = {"lanes=stream", "progress=spin", "credit=64M", NULL};
    wh_worker *workers[OTHERS];
    wh_listener *listeners[OTHERS];
    wh_endpoint *eps[OTHERS];
    duo_begin(&d, options, options);
    duo_connect(&d);
    for (int i = 0; i < OTHERS; i++) {
        char address[64];
        workers[i] = kit_worker(d.ctx[0]);
        CHECK_EQ_INT(
            wh_listener_open(workers[i], "127.0.0.1:0", NULL, duo_accept, &d, &listeners[i]),
            WH_OK);
        CHECK_EQ_INT(wh_listener_address(listeners[i], address, sizeof(address)), WH_OK);
        CHECK_EQ_INT(wh_endpoint_connect(d.client, address, NULL, &eps[i]), WH_OK);
        while (d.accepted_count < 2 + (unsigned)i || wh_endpoint_status(eps[i]) == WH_PENDING) {
            (void)wh_worker_progress(workers[i]);
            duo_pass(&d);
        }
    }
    uint64_t count = leave_rest(&d.to, 1);
    wh_request *recv = expect(d.from, count - 1);
    for (int i = 0; i < PASSES; i++)
        (void)wh_worker_progress(d.client);
    CHECK(!eps[0]->link->pollable.hot);
    CHECK_EQ_INT(done_as(&d, recv), WH_OK);
    for (int i = 0; i < OTHERS; i++) {
        wh_endpoint_abort(eps[i]);
        wh_endpoint_abort(d.accepted[1 + i]);
        wh_listener_close(listeners[i]);
        wh_worker_destroy(workers[i]);
    }
    duo_end(&d);
}

// ---- behind an announcement that stays, where announce_max is reached

// fill sends small messages until one is queued; returns how many went before it.
static uint64_t fill(size_t size, bool served, wh_request **queued) {
    for (uint64_t tag = 0;; tag++) {
        wh_status st = wh_tag_send(d.to, bytes, size, tag, NULL, queued);
        if (st == WH_PENDING)
            return tag;
        CHECK_EQ_INT(st, WH_OK);
        if (served && tag % 8 == 0)
            duo_for(&d, 1);
    }
}

static void announce_one(const char *const *options, wh_request **announced) {
    duo_begin(&d, options, options);
    duo_connect(&d);
    CHECK_EQ_INT(wh_tag_send(d.to, bytes, sizeof(bytes), UINT64_MAX, NULL, announced), WH_PENDING);
}

TEST(lane_has_room_again) {
    static const char *const options[] = {"announce_max=1", "credit=64M", NULL};
    wh_request *announced = NULL, *queued = NULL;
    announce_one(options, &announced);
    uint64_t count = fill(4096, false, &queued);
    CHECK(d.to->credit > 4096 && d.to->announced == d.to->announce_limit);
    for (int i = 0; i < 10; i++)
        (void)wh_worker_progress(d.client);
    CHECK_EQ_INT(done_as(&d, expect(d.from, count)), WH_OK);
    CHECK_EQ_INT(done_as(&d, queued), WH_OK);
    wh_request_free(announced);
    duo_end(&d);
}

TEST(credit_comes_back) {
    static const char *const options[] = {"announce_max=1", "credit=64K", NULL};
    wh_request *announced = NULL, *queued = NULL;
    announce_one(options, &announced);
    uint64_t count = fill(1024, true, &queued);
    CHECK(d.to->credit < 2048 && d.to->announced == d.to->announce_limit);
    duo_for(&d, 10);
    CHECK_EQ_INT(wh_request_status(queued), WH_PENDING);
    char in[1024];
    for (uint64_t tag = 0; tag < count; tag++) {
        wh_request *recv = NULL;
        wh_status st = wh_tag_recv(d.from, in, sizeof(in), tag, WH_TAG_MASK_ALL, NULL, &recv);
        CHECK(st == WH_OK || (st == WH_PENDING && done_as(&d, recv) == WH_OK));
    }
    CHECK_EQ_INT(done_as(&d, expect(d.from, count)), WH_OK);
    CHECK_EQ_INT(done_as(&d, queued), WH_OK);
    wh_request_free(announced);
    duo_end(&d);
}

TEST_MAIN()
