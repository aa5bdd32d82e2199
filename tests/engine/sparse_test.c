// SPDX-License-Identifier: BSD-3-Clause
//
// A program that computes for milliseconds between two passes: what comes from timers and sockets waits for time, not for passes.
#include <unistd.h>

#include "engine/test_kit.h"

TEST(a_timeout_comes_within_few_passes) {
    static duo d;
    duo_begin(&d, NULL, NULL);
    duo_connect(&d);
    char into[8];
    wh_request *recv = NULL;
    CHECK_EQ_INT(
        wh_tag_recv(d.from, into, 8, 1, WH_TAG_MASK_ALL, WH_OP_OPTS(.timeout_ms = 20), &recv),
        WH_PENDING);
    // While rings are polled the sockets have their turn after 1024 passes.
    UNTIL(&d, d.server->countdown > 1000);
    int passes = 0;
    for (; passes < 900 && wh_request_status(recv) == WH_PENDING; passes++) {
        usleep(3000);
        wh_worker_progress(d.server);
    }
    CHECK(passes < 100);
    CHECK_EQ_INT(done_as(&d, recv), WH_ETIMEDOUT);
    duo_end(&d);
}

TEST_MAIN()
