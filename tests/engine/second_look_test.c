// SPDX-License-Identifier: BSD-3-Clause
//
// A peer that does not see at once that it is to ring: who sleeps looks once more, and then rests.
//
// The test takes back what the sleeper has written, before the peer looks, as a processor does that has yet to see it.
#include <poll.h>

#include "engine/test_kit.h"
#include "net/shm/shm_lane.h"
#include "worker/pollable.h"

enum { MANY = 2000 };  // more small messages than a ring takes

static duo d;

static bool wakes_within(wh_worker *worker, int ms) {
    struct pollfd fd = {.fd = wh_worker_fd(worker), .events = POLLIN};
    return poll(&fd, 1, ms) == 1;
}

static void begin(void) {
    static const char *const over_shm[] = {"lanes=shm", "ring_max=32K", NULL};
    duo_begin(&d, over_shm, over_shm);
    duo_connect(&d);
    CHECK_EQ_INT(wh_tag_send(d.to, "x", 1, 1, NULL, NULL), WH_OK);
    UNTIL(&d, d.from->counters.unexpected == 1);
    UNTIL(&d, wh_worker_arm(d.server) == WH_OK);
}

// rest progresses a worker until it has looked at all and would sleep for good.
static void rest(wh_worker *worker) {
    KIT_UNTIL((void)wh_worker_progress(worker), "at rest",
              wh_worker_arm(worker) == WH_OK && !wakes_within(worker, 10));
    CHECK(whi_pollable_next_look(worker) == WHI_TIMER_NEVER);
}

// block_client has a client that rests send more than there is space for.
static void block_client(void) {
    begin();
    rest(d.client);
    for (uint64_t i = 0; i < MANY; i++) {
        wh_request *req = NULL;
        CHECK(wh_tag_send(d.to, &i, sizeof(i), 1, NULL, &req) >= 0);
        wh_request_free(req);
    }
    KIT_UNTIL((void)wh_worker_progress(d.client), "asleep", wh_worker_arm(d.client) == WH_OK);
    CHECK(d.to->link->pollable.blocked);
}

static void send_unseen(void) {
    whi_shm *lane = (whi_shm *)d.from->link->rx;
    atomic_store(&lane->rx.shared->armed, 0);
    CHECK_EQ_INT(wh_tag_send(d.to, "y", 1, 1, NULL, NULL), WH_OK);
}

TEST(a_record_without_a_bell_is_found) {
    begin();
    send_unseen();
    CHECK(wakes_within(d.server, KIT_PATIENCE_S * 1000));
    KIT_UNTIL((void)wh_worker_progress(d.server), "found", d.from->counters.unexpected == 2);
    duo_end(&d);
}

TEST(a_wait_finds_it_too) {
    begin();
    send_unseen();
    uint64_t end_ns = whi_clock_ns() + KIT_PATIENCE_S * WHI_NS_PER_S;
    while (d.from->counters.unexpected < 2 && whi_clock_ns() < end_ns)
        (void)!wh_worker_wait(d.server, KIT_PATIENCE_S * 1000);
    CHECK(whi_clock_ns() < end_ns);
    duo_end(&d);
}

TEST(space_without_a_bell_is_found) {
    block_client();
    whi_shm *lane = (whi_shm *)d.to->link->tx;
    CHECK_EQ_INT(atomic_exchange(&lane->tx.shared->want, 0), 1);
    for (int pass = 0; pass < 100; pass++)
        (void)wh_worker_progress(d.server);
    CHECK(wakes_within(d.client, KIT_PATIENCE_S * 1000));
    UNTIL(&d, d.from->counters.unexpected == MANY + 1);
    duo_end(&d);
}

TEST(without_space_it_rests) {
    block_client();
    rest(d.client);
    UNTIL(&d, d.from->counters.unexpected == MANY + 1);
    duo_end(&d);
}

TEST(afterwards_it_rests) {
    begin();
    CHECK(wakes_within(d.server, KIT_PATIENCE_S * 1000));  // the second look
    rest(d.server);
    CHECK(!wakes_within(d.server, 50));
    CHECK_EQ_INT(wh_tag_send(d.to, "y", 1, 1, NULL, NULL), WH_OK);
    CHECK(wakes_within(d.server, KIT_PATIENCE_S * 1000));  // the bell
    KIT_UNTIL((void)wh_worker_progress(d.server), "found", d.from->counters.unexpected == 2);
    duo_end(&d);
}

// Its link ends before it was looked at.
TEST(a_link_ends_before) {
    begin();
    whi_link_fail(d.from->link, WH_EPEER, "%s", "the test wants it so");
    CHECK(whi_pollable_next_look(d.server) == WHI_TIMER_NEVER);
    duo_for(&d, 5);
    duo_end(&d);
}

TEST_MAIN()
