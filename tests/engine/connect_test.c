// SPDX-License-Identifier: BSD-3-Clause
//
// Connecting and closing: who ends up on which link, when both dial, dial twice, dial themselves, or close and come again.
#include "engine/test_kit.h"
#include "link/acceptor.h"

enum { AT_ONCE = 8 };

static duo d;
static wh_listener *other;  // of the client
static char other_address[64];
static wh_endpoint *others[64];  // that the client has accepted
static unsigned other_count;

static void other_accept(wh_endpoint *ep, void *arg) {
    (void)arg;
    others[other_count++] = ep;
}

static void begin(const char *const *options) {
    duo_begin(&d, options, options);
    other_count = 0;
    CHECK_EQ_INT(wh_listener_open(d.client, "127.0.0.1:0", NULL, other_accept, NULL, &other),
                 WH_OK);
    CHECK_EQ_INT(wh_listener_address(other, other_address, sizeof(other_address)), WH_OK);
}

static void end(void) {
    while (d.accepted_count)
        wh_endpoint_abort(d.accepted[--d.accepted_count]);
    while (other_count)
        wh_endpoint_abort(others[--other_count]);
    wh_listener_close(other);
    duo_end(&d);
}

static wh_endpoint *dial(wh_worker *worker, const char *address) {
    wh_endpoint *ep = NULL;
    CHECK_EQ_INT(wh_endpoint_connect(worker, address, NULL, &ep), WH_OK);
    return ep;
}

static size_t links(const wh_worker *worker) {
    return whi_hash_count(&whi_links_of(worker)->links);
}

// carries sends a word over an endpoint and finds it at one of the other side's.
static void carries(wh_endpoint *ep, wh_worker *to, uint64_t word) {
    uint64_t got = 0;
    wh_request *recv = NULL;
    CHECK_EQ_INT(wh_worker_tag_recv(to, &got, sizeof(got), word, WH_TAG_MASK_ALL, NULL, &recv),
                 WH_PENDING);
    wh_status st = wh_tag_send(ep, &word, sizeof(word), word, NULL, NULL);
    CHECK(st == WH_OK || st == WH_PENDING);
    CHECK_EQ_INT(done_as(&d, recv), WH_OK);
    CHECK(got == word);
}

// Both sides dial, each several times, at every offset in time: one link comes of it, and all endpoints are on it.
TEST(both_dial_at_once) {
    static const char *const stream[] = {"lanes=stream", NULL};
    for (int round = 0; round < 60; round++) {
        begin(round % 2 ? stream : NULL);
        wh_endpoint *eps[2 * AT_ONCE];
        int count = round % 3 == 2 ? AT_ONCE : 1;
        uint64_t start = whi_clock_ns();
        for (int i = 0; i < count; i++) {
            eps[2 * i] = dial(d.client, d.address);
            // The other side dials a few steps later, a different number in each round.
            for (int step = 0; step < round / 4; step++)
                (void)wh_worker_progress(step % 2 ? d.server : d.client);
            eps[2 * i + 1] = dial(d.server, other_address);
        }
        for (int i = 0; i < 2 * count; i++) {
            UNTIL(&d, wh_endpoint_status(eps[i]) != WH_PENDING);
            CHECK_EQ_STR(wh_endpoint_error(eps[i]), "");
            CHECK_EQ_INT(wh_endpoint_status(eps[i]), WH_OK);
        }
        // Nobody had to wait for a timeout.
        CHECK(whi_clock_ns() - start < 2 * WHI_NS_PER_S);
        UNTIL(&d, d.accepted_count == (unsigned)count && other_count == (unsigned)count);
        CHECK_EQ_INT(links(d.client), 1);
        CHECK_EQ_INT(links(d.server), 1);
        for (int i = 0; i < 2 * count; i++) {
            carries(eps[i], i % 2 ? d.client : d.server, (uint64_t)i + 100);
            wh_endpoint_abort(eps[i]);
        }
        end();
    }
}

// step lets one worker go on for some passes.
static void step(wh_worker *worker, int passes) {
    while (passes-- > 0)
        (void)wh_worker_progress(worker);
}

// Offers that cross: each side has answered the other's before it sees the answer to its own.  One of the two
// connections must be kept, the same on both sides.
TEST(hellos_cross) {
    unsigned crossed = 0;
    for (int round = 0; round < 72; round++) {
        begin(NULL);
        wh_endpoint *a = dial(d.client, d.address), *b = dial(d.server, other_address);
        step(d.server, round % 6);
        step(d.client, round / 6 % 6);
        for (int i = 0; i < 50 && !whi_acceptor_pending(d.server, d.client->uuid); i++)
            step(d.server, 1);
        for (int i = 0; i < 50 && !whi_acceptor_pending(d.client, d.server->uuid); i++)
            step(d.client, 1);
        crossed += whi_acceptor_pending(d.server, d.client->uuid) &&
                   whi_acceptor_pending(d.client, d.server->uuid);
        UNTIL(&d, wh_endpoint_status(a) != WH_PENDING && wh_endpoint_status(b) != WH_PENDING);
        CHECK_EQ_STR(wh_endpoint_error(a), "");
        CHECK_EQ_STR(wh_endpoint_error(b), "");
        CHECK(links(d.client) == 1 && links(d.server) == 1);
        carries(a, d.server, 5);
        carries(b, d.client, 6);
        wh_endpoint_abort(a);
        wh_endpoint_abort(b);
        end();
    }
    printf("        %u of 72 crossed\n", crossed);
    CHECK(crossed > 0);
}

TEST(many_endpoints_share_a_link) {
    begin(NULL);
    wh_endpoint *eps[32];
    for (int i = 0; i < 32; i++)
        eps[i] = dial(i % 3 ? d.client : d.server, i % 3 ? d.address : other_address);
    for (int i = 0; i < 32; i++)
        UNTIL(&d, wh_endpoint_status(eps[i]) == WH_OK);
    CHECK_EQ_INT(links(d.client), 1);
    // Each side numbers its own: no number is used twice.
    for (int i = 0; i < 32; i++)
        for (int k = 0; k < i; k++)
            CHECK(eps[i]->number != eps[k]->number);
    for (int i = 0; i < 32; i++)
        wh_endpoint_abort(eps[i]);
    UNTIL(&d, links(d.client) + links(d.server) == 0);
    end();
}

TEST(to_oneself) {
    begin(NULL);
    uint8_t blob[WH_ADDRESS_MAX];
    size_t size;
    wh_endpoint *ep = dial(d.server, d.address);
    UNTIL(&d, wh_endpoint_status(ep) == WH_OK && d.accepted_count == 1);
    carries(ep, d.server, 5);
    carries(d.accepted[0], d.server, 6);
    CHECK_EQ_INT(links(d.server), 2);  // the two ends
    // By one's own blob too; nobody accepts there.
    wh_endpoint *by_blob = NULL;
    CHECK_EQ_INT(wh_worker_address(d.server, blob, &size), WH_OK);
    CHECK_EQ_INT(wh_endpoint_connect_blob(d.server, blob, size, NULL, &by_blob), WH_OK);
    UNTIL(&d, wh_endpoint_status(by_blob) != WH_PENDING);
    CHECK_EQ_INT(wh_endpoint_status(by_blob), WH_EREFUSED);
    wh_endpoint_abort(by_blob);
    wh_endpoint_abort(ep);
    UNTIL(&d, wh_endpoint_status(d.accepted[0]) == WH_EPEER);
    end();
}

// A listener's own secret must be given by its own worker, too.
TEST(to_oneself_with_a_secret) {
    begin(NULL);
    wh_listener *guarded[2];
    static const char *const secrets[] = {"one", "two"};
    char address[2][64];
    for (int i = 0; i < 2; i++) {
        CHECK_EQ_INT(wh_listener_open(d.server, "127.0.0.1:0",
                                      WH_LISTENER_OPTS(.secret = secrets[i]), duo_accept, &d,
                                      &guarded[i]),
                     WH_OK);
        CHECK_EQ_INT(wh_listener_address(guarded[i], address[i], sizeof(address[i])), WH_OK);
    }
    // The second pair goes over the link that the first has made; the wrong pairs come in between.
    static const struct {
        int listener;
        const char *secret;
        wh_status ends;
    } tries[] = {{0, "one", WH_OK}, {1, "one", WH_EAUTH}, {1, NULL, WH_EAUTH}, {1, "two", WH_OK}};
    for (unsigned i = 0; i < 4; i++) {
        wh_endpoint *ep = NULL;
        unsigned before = d.accepted_count;
        CHECK_EQ_INT(wh_endpoint_connect(d.server, address[tries[i].listener],
                                         WH_ENDPOINT_OPTS(.secret = tries[i].secret), &ep),
                     WH_OK);
        UNTIL(&d, wh_endpoint_status(ep) != WH_PENDING);
        CHECK_EQ_INT(wh_endpoint_status(ep), tries[i].ends);
        if (tries[i].ends == WH_OK) {
            UNTIL(&d, d.accepted_count == before + 1);
            carries(ep, d.server, 5 + i);
        }
        wh_endpoint_abort(ep);
    }
    wh_listener_close(guarded[0]);
    wh_listener_close(guarded[1]);
    end();
}

// A link that closes while the same peer dials again, at every offset.
TEST(close_and_come_again) {
    begin(NULL);
    for (int round = 0; round < 60; round++) {
        wh_endpoint *ep = dial(d.client, d.address);
        UNTIL(&d, wh_endpoint_status(ep) != WH_PENDING && d.accepted_count == 1);
        CHECK_EQ_INT(wh_endpoint_status(ep), WH_OK);
        if (round % 2)
            CHECK_EQ_INT(wh_endpoint_close(ep, NULL, NULL), WH_PENDING);
        else
            wh_endpoint_abort(ep);
        for (int step = 0; step < round / 4; step++)
            duo_pass(&d);
        wh_endpoint *again = dial(d.client, d.address);
        UNTIL(&d, wh_endpoint_status(again) != WH_PENDING);
        CHECK_EQ_STR(wh_endpoint_error(again), "");
        UNTIL(&d, d.accepted_count == 2);
        carries(again, d.server, 9);
        wh_endpoint_abort(again);
        while (d.accepted_count)
            wh_endpoint_abort(d.accepted[--d.accepted_count]);
        UNTIL(&d, links(d.client) + links(d.server) == 0);
    }
    end();
}

// What was sent before a close is delivered, whatever its size; then comes the end of the stream, and no earlier.
TEST(the_end_comes_last) {
    static const size_t sizes[] = {0, 100, 5000, 20000, 300000, 3 << 20};
    static uint8_t out[3 << 20], in[3 << 20];
    static const char *const stream[] = {"lanes=stream", NULL};
    for (int round = 0; round < 24; round++) {
        size_t size = sizes[round % 6];
        duo_begin(&d, round >= 12 ? stream : NULL, round >= 12 ? stream : NULL);
        duo_connect(&d);
        memset(out, round + 1, size);
        memset(in, 0, size);
        wh_request *send = NULL, *closing = NULL, *recv = NULL;
        wh_status st = wh_tag_send(d.to, out, size, 5, NULL, &send);
        CHECK(st == WH_OK || st == WH_PENDING);
        CHECK_EQ_INT(wh_endpoint_close(d.to, NULL, &closing), WH_PENDING);
        d.to = NULL;
        if (round % 2)
            duo_for(&d, 5);
        // What goes with its header is there before the close, and waits here for its receive.
        bool at_once = size <= 20000;
        CHECK_EQ_INT(wh_endpoint_status(d.from), at_once && round % 2 ? WH_ECLOSED : WH_OK);
        st = wh_tag_recv(d.from, in, size, 5, WH_TAG_MASK_ALL, NULL, &recv);
        CHECK(st == WH_OK || st == WH_PENDING);
        CHECK_EQ_INT(st == WH_OK ? WH_OK : done_as(&d, recv), WH_OK);
        CHECK_MEM(in, out, size);
        CHECK_EQ_INT(done_as(&d, closing), WH_OK);
        if (send)
            CHECK_EQ_INT(done_as(&d, send), WH_OK);
        UNTIL(&d, wh_endpoint_status(d.from) == WH_ECLOSED);
        CHECK_EQ_INT(wh_tag_recv(d.from, in, 1, 5, 0, NULL, NULL), WH_ECLOSED);
        CHECK_EQ_INT(wh_tag_send(d.from, in, 1, 5, NULL, NULL), WH_ECLOSED);
        duo_end(&d);
    }
}

// A receive that the peer's close ends says so.
// What was sent before a close arrives, also when both come before the connection.
TEST(closed_before_connected) {
    static const size_t sizes[] = {8, 5000, 20000, 300000};
    static uint8_t out[300000], in[300000];
    static const char *const stream[] = {"lanes=stream", NULL};
    for (int round = 0; round < 2; round++) {
        duo_begin(&d, round ? stream : NULL, round ? stream : NULL);
        wh_endpoint *ep = dial(d.client, d.address);
        wh_request *sends[4] = {NULL}, *closing = NULL;
        for (int i = 0; i < 4; i++) {
            memset(out, i + 1, sizeof(out));
            CHECK_EQ_INT(wh_tag_send(ep, out, sizes[i], 5, NULL, &sends[i]), WH_PENDING);
            memset(in, 0, sizeof(in));
        }
        CHECK_EQ_INT(wh_endpoint_close(ep, NULL, &closing), WH_PENDING);
        UNTIL(&d, d.accepted_count == 1);
        for (int i = 0; i < 4; i++) {
            wh_request *recv = NULL;
            wh_status st =
                wh_tag_recv(d.accepted[0], in, sizes[i], 5, WH_TAG_MASK_ALL, NULL, &recv);
            CHECK(st == WH_OK || st == WH_PENDING);
            CHECK_EQ_INT(st == WH_OK ? WH_OK : done_as(&d, recv), WH_OK);
            CHECK_EQ_INT(done_as(&d, sends[i]), WH_OK);
        }
        CHECK_EQ_INT(done_as(&d, closing), WH_OK);
        wh_endpoint_abort(d.accepted[--d.accepted_count]);
        duo_end(&d);
    }
}

// A close says so when what was sent before it could not be.
TEST(closed_and_never_connected) {
    for (int round = 0; round < 3; round++) {
        duo_begin(&d, NULL, NULL);
        uint16_t port = wh_listener_port(d.listener);
        char nobody[32];
        snprintf(nobody, sizeof(nobody), "127.0.0.1:%u", port);
        if (!round)
            wh_listener_close(d.listener), d.listener = NULL;
        wh_endpoint *ep = dial(d.client, nobody);
        uint64_t word = 1;
        wh_request *send = NULL, *closing = NULL;
        CHECK_EQ_INT(wh_tag_send(ep, &word, sizeof(word), 5, NULL, &send), WH_PENDING);
        CHECK_EQ_INT(
            wh_endpoint_close(ep, round == 1 ? WH_OP_OPTS(.timeout_ms = 1) : NULL, &closing),
            WH_PENDING);
        if (round == 2)  // nothing is left to wait for: the close goes on once connected
            wh_request_cancel(send);
        else if (round == 1)  // nobody answers in time
            for (int i = 0; i < 20; i++)
                usleep(1000), (void)wh_worker_progress(d.client);
        wh_status st = done_as(&d, closing);
        CHECK(round == 0   ? st == WH_EREFUSED || st == WH_EPEER
              : round == 1 ? st == WH_ETIMEDOUT
                           : st == WH_OK);
        CHECK(done_as(&d, send) != WH_OK);
        while (d.accepted_count)
            wh_endpoint_abort(d.accepted[--d.accepted_count]);
        duo_end(&d);
    }
}

TEST(the_end_is_told) {
    duo_begin(&d, NULL, NULL);
    duo_connect(&d);
    uint8_t byte;
    wh_request *recv = NULL, *closing = NULL;
    CHECK_EQ_INT(wh_tag_recv(d.from, &byte, 1, 0, 0, NULL, &recv), WH_PENDING);
    CHECK_EQ_INT(wh_endpoint_close(d.to, NULL, &closing), WH_PENDING);
    d.to = NULL;
    UNTIL(&d, wh_request_status(recv) != WH_PENDING);
    CHECK_EQ_STR(wh_request_error(recv), "tag receive: the peer has closed the endpoint");
    CHECK_EQ_STR(wh_endpoint_error(d.from), "the peer has closed the endpoint");
    CHECK_EQ_INT(done_as(&d, recv), WH_ECLOSED);
    CHECK_EQ_INT(done_as(&d, closing), WH_OK);
    duo_end(&d);
}

TEST(addresses_that_cannot_be) {
    begin(NULL);
    static const char *const bad[] = {"",    "nohost",     "host:", "host:0",
                                      ":80", "host:99999", "[::1]"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        wh_endpoint *ep = NULL;
        CHECK_EQ_INT(wh_endpoint_connect(d.client, bad[i], NULL, &ep), WH_EADDRESS);
        CHECK(!ep);
    }
    wh_endpoint *ep = dial(d.client, "name.invalid:80");
    UNTIL(&d, wh_endpoint_status(ep) != WH_PENDING);
    CHECK_EQ_INT(wh_endpoint_status(ep), WH_EADDRESS);
    wh_endpoint_abort(ep);
    ep = dial(d.client, "127.0.0.1:1");
    UNTIL(&d, wh_endpoint_status(ep) != WH_PENDING);
    CHECK_EQ_INT(wh_endpoint_status(ep), WH_EREFUSED);
    wh_endpoint_abort(ep);
    end();
}

TEST_MAIN()
