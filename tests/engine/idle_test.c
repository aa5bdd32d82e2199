// SPDX-License-Identifier: BSD-3-Clause
//
// Idle links: with many of them a pass costs as much as there are active ones, and a message on an idle one still comes.
//
// Counted in passes, not in time: the list of polled links must get short, and each message must come back by its bell.
#include "engine/test_kit.h"

enum { PEERS = 8, MANY_PASSES = 60000, FEW = 4 };  // a few are polled while the worker is awake

static duo d;  // the server; its own client stays unused
static wh_worker *peers[PEERS];
static wh_endpoint *eps[PEERS];

static size_t hot_links(void) {
    size_t count = 0;
    for (const whi_list *node = d.server->hot.next; node != &d.server->hot; node = node->next)
        count++;
    return count;
}

static void pass_all(void) {
    (void)wh_worker_progress(d.server);
    for (int i = 0; i < PEERS; i++)
        if (peers[i])
            (void)wh_worker_progress(peers[i]);
}

#define UNTIL_ALL(cond)                                                                            \
    do {                                                                                           \
        uint64_t end_ns = whi_clock_ns() + KIT_PATIENCE_S * WHI_NS_PER_S;                          \
        while (!(cond)) {                                                                          \
            pass_all();                                                                            \
            if (whi_clock_ns() > end_ns)                                                           \
                whi_test_end(WHI_TEST_FAILED, __FILE__, __LINE__, "UNTIL_ALL(%s)", #cond);         \
        }                                                                                          \
    } while (0)

static void begin(const char *const *options) {
    duo_begin(&d, options, options);
    for (int i = 0; i < PEERS; i++) {
        peers[i] = kit_worker(d.ctx[1]);
        CHECK_EQ_INT(wh_endpoint_connect(peers[i], d.address, NULL, &eps[i]), WH_OK);
        UNTIL_ALL(wh_endpoint_status(eps[i]) != WH_PENDING);
        CHECK_EQ_INT(wh_endpoint_status(eps[i]), WH_OK);
    }
    UNTIL_ALL(d.accepted_count == PEERS);
}

static void end(void) {
    for (int i = 0; i < PEERS; i++) {
        wh_endpoint_abort(eps[i]);
        wh_worker_destroy(peers[i]);
        peers[i] = NULL;
    }
    while (d.accepted_count)
        wh_endpoint_abort(d.accepted[--d.accepted_count]);
    duo_end(&d);
}

static void rest_and_wake(const char *const *options) {
    begin(options);
    for (int round = 0; round < 2; round++) {
        for (int pass = 0; pass < MANY_PASSES; pass++)
            (void)wh_worker_progress(d.server);
        CHECK(hot_links() <= FEW);
        for (int i = 0; i < PEERS; i++) {
            uint64_t out = (uint64_t)i + 100, in = 0;
            wh_request *recv = NULL;
            CHECK_EQ_INT(
                wh_worker_tag_recv(d.server, &in, sizeof(in), 7, WH_TAG_MASK_ALL, NULL, &recv),
                WH_PENDING);
            CHECK_EQ_INT(wh_tag_send(eps[i], &out, sizeof(out), 7, NULL, NULL), WH_OK);
            UNTIL_ALL(wh_request_status(recv) != WH_PENDING);
            CHECK_EQ_INT(wh_request_status(recv), WH_OK);
            CHECK(in == out);
            wh_request_free(recv);
        }
    }
    end();
}

TEST(rings) {
    rest_and_wake(NULL);
}

TEST(sockets) {
    static const char *const stream[] = {"lanes=stream", NULL};
    rest_and_wake(stream);
}

TEST_MAIN()
