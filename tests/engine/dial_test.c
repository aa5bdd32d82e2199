// SPDX-License-Identifier: BSD-3-Clause
//
// Dialling when the other side, or this one, cannot do its part: the endpoint ends, in time.  What still uses a link that has
// failed is for the address sanitizer to see.
#include <signal.h>
#include <sys/resource.h>

#include "engine/test_kit.h"

static duo d;

// A process of this host answers on its local socket only when it progresses.
TEST(local_peer_that_does_not_progress) {
    char blob[WH_ADDRESS_MAX];
    size_t size = sizeof(blob);
    wh_endpoint *ep = NULL;
    duo_begin(&d, NULL, NULL);
    CHECK_EQ_INT(wh_worker_address(d.server, blob, &size), WH_OK);
    wh_endpoint_opts opts = {.size = sizeof(opts), .timeout_ms = 300};
    CHECK_EQ_INT(wh_endpoint_connect_blob(d.client, blob, size, &opts, &ep), WH_OK);
    uint64_t start = whi_clock_ns();
    while (wh_endpoint_status(ep) == WH_PENDING) {
        (void)wh_worker_progress(d.client);
        CHECK(whi_clock_ns() - start < 3 * WHI_NS_PER_S);
    }
    CHECK_EQ_INT(wh_endpoint_status(ep), WH_ETIMEDOUT);
    wh_endpoint_abort(ep);
    duo_end(&d);
}

// Both dial, and the link that comes of it fails in its making, because no file may have a size.
TEST(link_that_fails_in_its_making) {
    struct rlimit usual, none;
    signal(SIGXFSZ, SIG_IGN);
    CHECK(getrlimit(RLIMIT_FSIZE, &usual) == 0);
    none = usual;
    none.rlim_cur = 0;
    for (int round = 0; round < 20; round++) {
        wh_listener *listener = NULL;
        wh_endpoint *eps[2] = {NULL, NULL};
        char address[64];
        duo_begin(&d, NULL, NULL);
        CHECK_EQ_INT(wh_listener_open(d.client, "127.0.0.1:0", NULL, duo_accept, &d, &listener),
                     WH_OK);
        CHECK_EQ_INT(wh_listener_address(listener, address, sizeof(address)), WH_OK);
        wh_endpoint_opts opts = {.size = sizeof(opts), .timeout_ms = 300};
        CHECK(setrlimit(RLIMIT_FSIZE, &none) == 0);
        CHECK_EQ_INT(wh_endpoint_connect(d.client, d.address, &opts, &eps[0]), WH_OK);
        CHECK_EQ_INT(wh_endpoint_connect(d.server, address, &opts, &eps[1]), WH_OK);
        for (int i = 0; i < 2; i++)
            UNTIL(&d, wh_endpoint_status(eps[i]) != WH_PENDING);
        CHECK(setrlimit(RLIMIT_FSIZE, &usual) == 0);
        for (int i = 0; i < 2; i++) {
            CHECK(wh_endpoint_status(eps[i]) < 0);
            wh_endpoint_abort(eps[i]);
        }
        wh_listener_close(listener);
        duo_end(&d);
    }
}

// A peer that dials again at once meets the link that was closing and could not say so yet, because its lane was full.
TEST(link_made_anew_while_the_old_one_closes) {
    duo_begin(&d, NULL, NULL);
    duo_connect(&d);
    whi_link *old = d.from->link, *link = NULL;
    CHECK_EQ_INT(whi_link_bare(d.server, old->uuid, false, "a name that is taken", &link),
                 WH_EREFUSED);
    old->closing = true;
    CHECK_EQ_INT(whi_link_bare(d.server, old->uuid, false, "made anew", &link), WH_OK);
    CHECK(old->dead && whi_link_find(d.server, link->uuid) == link);
    whi_link_drop(link);
    duo_end(&d);
}

TEST_MAIN()
