// SPDX-License-Identifier: BSD-3-Clause
//
// Records that overtake each other, on a lane that may let them: they are put right, within a bound.
//
// The peer is a bare end of a loop lane, so that the test says what arrives when.
#include "base/alloc.h"
#include "base/rng.h"
#include "engine/test_kit.h"
#include "link/wire.h"
#include "net/loop/loop.h"

enum { MESSAGES = 300 };

static wh_context *ctx;
static wh_worker *worker;
static whi_lane *peer;
static wh_endpoint *ep;
static uint8_t uuid[16] = {1};
static whi_hdr last_heard;

static wh_status hear(void *link, const whi_hdr *hdr, const void *payload) {
    (void)link, (void)payload;
    last_heard = *hdr;
    return WH_OK;
}

static wh_status sink(void *link, const whi_hdr *hdr, whi_span *span) {
    (void)link, (void)hdr, (void)span;
    return WH_EPROTOCOL;
}

static wh_status landed(void *link, const whi_hdr *hdr) {
    (void)link, (void)hdr;
    return WH_OK;
}

static void on_accept(wh_endpoint *made, void *arg) {
    (void)arg;
    ep = made;
}

static void progress(void) {
    for (int i = 0; i < 50; i++)
        (void)wh_worker_progress(worker);
    (void)peer->ops->poll(peer, 1 << 20);
}

// begin makes a link whose lane says that it may reorder; the lane itself keeps the order here.
static void begin(bool reorders, bool active) {
    static const whi_lane_up up = {.deliver = hear, .sink = sink, .landed = landed};
    whi_loop_opts opts = {.window = 1 << 20, .eager_limit = 2048};
    whi_loop_net *net = NULL;
    whi_link *link = NULL;
    whi_lane *lane = NULL;
    kit_log_begin();
    ctx = kit_context(NULL);
    ep = NULL;
    CHECK_EQ_INT(wh_worker_create(ctx, WH_WORKER_OPTS(.accept = on_accept), &worker), WH_OK);
    CHECK_EQ_INT(whi_link_bare(worker, uuid, active, "the peer", &link), WH_OK);
    CHECK_EQ_INT(whi_loop_net_create(&opts, &net), WH_OK);
    CHECK_EQ_INT(whi_loop_pair(net, whi_link_up_of(link)->lane_up, link, &lane, &up, NULL, &peer),
                 WH_OK);
    whi_loop_net_release(net);
    // Its own vtable, with the one member changed.
    static whi_lane_ops ops;
    ops = *lane->ops;
    ops.reorders = reorders;
    lane->ops = &ops;
    whi_link_set_lane(link, lane);
    if (active) {
        CHECK_EQ_INT(whi_ep_new(worker, &ep), WH_OK);
        whi_ep_bind(ep, link);
        return;
    }
    whi_hdr open = {.cls = WHI_CLASS_OPEN, .ep = 1, .seq = 10, .arg = 1 << 20};
    CHECK_EQ_INT(peer->ops->send(peer, &open, NULL), WH_OK);
    progress();
    CHECK(ep);
}

static void end(void) {
    peer->ops->close(peer);
    wh_endpoint_abort(ep);
    wh_worker_destroy(worker);
    wh_context_destroy(ctx);
    wh_log_set_sink(NULL, NULL);
}

static void send_number(uint32_t number) {
    whi_hdr hdr = {.cls = WHI_CLASS_TAG, .ep = ep->number, .seq = number, .size = 4, .tag = 5};
    CHECK_EQ_INT(peer->ops->send(peer, &hdr, &number), WH_OK);
}

static void check_order(uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t got = UINT32_MAX;
        CHECK_EQ_INT(wh_tag_recv(ep, &got, sizeof(got), 0, 0, NULL, NULL), WH_OK);
        CHECK_EQ_INT(got, i);
    }
}

TEST(any_order_is_put_right) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint32_t order[MESSAGES];
        whi_rng rng;
        whi_rng_init(&rng, seed);
        begin(true, false);
        for (uint32_t i = 0; i < MESSAGES; i++)
            order[i] = i;
        for (uint32_t i = MESSAGES - 1; i > 0; i--) {
            uint32_t with = (uint32_t)whi_rng_below(&rng, i + 1), held = order[i];
            order[i] = order[with];
            order[with] = held;
        }
        for (uint32_t i = 0; i < MESSAGES; i++)
            send_number(order[i]);
        progress();
        check_order(MESSAGES);
        CHECK_EQ_INT(ep->early_count, 0);
        end();
    }
}

// Other endpoints of the link do not wait for one that has a gap, nor does control.
TEST(a_gap_holds_up_its_own_endpoint_only) {
    begin(true, false);
    wh_endpoint *first = ep;
    whi_hdr open = {.cls = WHI_CLASS_OPEN, .ep = 3, .seq = 10, .arg = 1 << 20};
    CHECK_EQ_INT(peer->ops->send(peer, &open, NULL), WH_OK);
    progress();
    CHECK(ep != first);
    wh_endpoint *second = ep;
    ep = first;
    send_number(1);
    ep = second;
    send_number(0);
    progress();
    check_order(1);
    ep = first;
    CHECK_EQ_INT(wh_tag_probe(ep, 0, 0, NULL), WH_ENOTFOUND);
    send_number(0);
    progress();
    check_order(2);
    wh_endpoint_abort(second);
    end();
}

// A message that overtakes the ACCEPT of its endpoint waits for it.
TEST(messages_before_their_endpoint_is_open) {
    begin(true, true);
    send_number(1);
    send_number(0);
    progress();
    CHECK_EQ_INT(wh_endpoint_status(ep), WH_PENDING);
    whi_hdr yes = {.cls = WHI_CLASS_ACCEPT, .ep = ep->number, .seq = 10, .arg = 1 << 20};
    CHECK_EQ_INT(peer->ops->send(peer, &yes, NULL), WH_OK);
    progress();
    CHECK_EQ_INT(wh_endpoint_status(ep), WH_OK);
    check_order(2);
    end();
}

TEST(too_many_early_ones_fail_the_link) {
    begin(true, false);
    for (uint32_t i = 1; i <= WHI_EARLY_MAX; i++)
        send_number(i);
    progress();
    CHECK_EQ_INT(wh_endpoint_status(ep), WH_OK);
    CHECK_EQ_INT(ep->early_count, WHI_EARLY_MAX);
    send_number(WHI_EARLY_MAX + 1);
    progress();
    CHECK_EQ_INT(wh_endpoint_status(ep), WH_EPROTOCOL);
    CHECK(logged("W-PRT-01"));
    end();
}

TEST(numbers_that_were_used_fail_the_link) {
    begin(true, false);
    send_number(0);
    send_number(0);
    progress();
    CHECK_EQ_INT(wh_endpoint_status(ep), WH_EPROTOCOL);
    end();
}

TEST(a_lane_that_keeps_order_may_not_lose_it) {
    begin(false, false);
    send_number(1);
    progress();
    CHECK_EQ_INT(wh_endpoint_status(ep), WH_EPROTOCOL);
    end();
}

// Sequence numbers go round.
TEST(numbers_wrap) {
    begin(true, false);
    ep->rx_seq = UINT32_MAX - 1;
    send_number(0);
    send_number(UINT32_MAX);
    send_number(UINT32_MAX - 1);
    progress();
    static const uint32_t expected[] = {UINT32_MAX - 1, UINT32_MAX, 0};
    for (int i = 0; i < 3; i++) {
        uint32_t got = 1;
        CHECK_EQ_INT(wh_tag_recv(ep, &got, sizeof(got), 0, 0, NULL, NULL), WH_OK);
        CHECK(got == expected[i]);
    }
    end();
}

// Without memory for a record that came early the link fails, in order; what came before it can be received.
TEST(no_memory_for_early_ones) {
    unsigned failed = 0;
    for (uint64_t n = 1;; n++) {
        begin(true, false);
        whi_alloc_fail_at(n);
        for (uint32_t i = 0; i < 8; i++)
            send_number(i ^ 1);
        progress();
        bool reached = whi_alloc_count() >= n;
        whi_alloc_fail_at(0);
        wh_status st = wh_endpoint_status(ep);
        CHECK(st == WH_OK || st == WH_ENOMEM);
        failed += st != WH_OK;
        if (st == WH_OK)
            check_order(8);
        end();
        if (!reached)
            break;
    }
    CHECK(failed > 0);
}

TEST_MAIN()
