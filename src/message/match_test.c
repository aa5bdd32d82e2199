// SPDX-License-Identifier: BSD-3-Clause
//
// Matching against a model that is too simple to be wrong: two arrays in order, searched from the front.
//
// A seeded program posts receives, takes them out, lets messages come, and gives both their old place back; after each
// step table and model must agree on who met whom.  The last test times matching and prints it.
#include "message/match.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/test.h"
#include "message/endpoint.h"
#include "message/request.h"

enum { ENDPOINTS = 4, PENDING_MAX = 3000, SEEDS = 30, STEPS = 4000 };

static whi_match table;
static wh_endpoint eps[ENDPOINTS];
static whi_match_ep sides[ENDPOINTS];

// The model.  Receives stand in the order of their posting, messages in the order in which they came.
static struct {
    wh_request *receives[PENDING_MAX];
    whi_message *messages[PENDING_MAX];
    size_t receive_count, message_count;
} model;

static void begin(void) {
    CHECK_EQ_INT(whi_match_init(&table), WH_OK);
    for (int i = 0; i < ENDPOINTS; i++)
        whi_match_ep_init(&sides[i]);
    model.receive_count = model.message_count = 0;
}

static whi_match_ep *side_of(const wh_endpoint *ep) {
    return ep ? &sides[ep - eps] : NULL;
}

static bool accepts(const wh_request *recv, const wh_endpoint *ep, uint64_t tag) {
    return (!recv->ep || recv->ep == ep) && ((recv->tag ^ tag) & recv->mask) == 0;
}

static void cut(void **array, size_t *count, size_t at) {
    memmove(array + at, array + at + 1, (*count - at - 1) * sizeof(*array));
    --*count;
}

static wh_request *recv_new(wh_endpoint *ep, uint64_t tag, uint64_t mask) {
    wh_request *recv = calloc(1, sizeof(*recv));
    CHECK(recv);
    whi_list_init(&recv->queue_link);
    recv->ep = ep;
    recv->tag = tag;
    recv->mask = mask;
    return recv;
}

static whi_message *message_new(wh_endpoint *ep, uint64_t tag) {
    whi_message *msg = aligned_alloc(16, sizeof(*msg));
    CHECK(msg);
    *msg = (whi_message){.ep = ep, .tag = tag};
    whi_list *links[] = {&msg->all_link, &msg->ep_link, &msg->tag_link, &msg->ep_tag_link,
                         &msg->ahead_link};
    for (int i = 0; i < 5; i++)
        whi_list_init(links[i]);
    return msg;
}

// Few tags and masks, so that there is much to choose from.
static uint64_t any_tag(whi_rng *rng) {
    static const uint64_t spread[] = {1, UINT64_C(0x9e3779b97f4a7c15), UINT64_C(1) << 56};
    return whi_rng_below(rng, 8) * spread[whi_rng_below(rng, 3)];
}

static uint64_t any_mask(whi_rng *rng) {
    static const uint64_t masks[] = {WH_TAG_MASK_ALL, WH_TAG_MASK_ALL,  WH_TAG_MASK_ALL, 0, 3,
                                     ~UINT64_C(3),    UINT64_C(7) << 56};
    return masks[whi_rng_below(rng, sizeof(masks) / sizeof(*masks))];
}

static wh_endpoint *any_ep(whi_rng *rng) {
    return &eps[whi_rng_below(rng, ENDPOINTS)];
}

// post lets a receive look for a message first, as the library does.
static void post(wh_request *recv) {
    size_t at = 0;
    while (at < model.message_count &&
           !accepts(recv, model.messages[at]->ep, model.messages[at]->tag))
        at++;
    whi_message *found = whi_match_find(&table, side_of(recv->ep), recv->ep, recv->tag, recv->mask);
    if (at < model.message_count) {
        CHECK(found == model.messages[at]);
        whi_match_drop(&table, found);
        cut((void **)model.messages, &model.message_count, at);
        free(found);
        free(recv);
        return;
    }
    CHECK(!found);
    whi_match_post(&table, side_of(recv->ep), recv);
    CHECK(model.receive_count < PENDING_MAX);
    model.receives[model.receive_count++] = recv;
}

// arrive returns the receive that gets the message, which is out of both; NULL when the message was kept.
static wh_request *arrive(wh_endpoint *ep, uint64_t tag) {
    size_t at = 0;
    while (at < model.receive_count && !accepts(model.receives[at], ep, tag))
        at++;
    wh_request *got = whi_match_message(&table, side_of(ep), ep, tag);
    if (at < model.receive_count) {
        CHECK(got == model.receives[at]);
        cut((void **)model.receives, &model.receive_count, at);
        return got;
    }
    CHECK(!got);
    whi_message *msg = message_new(ep, tag);
    whi_match_keep(&table, side_of(ep), msg);
    CHECK(model.message_count < PENDING_MAX);
    model.messages[model.message_count++] = msg;
    return NULL;
}

// regain gives a receive that was matched in vain its place among the others back.
static void regain(wh_request *recv) {
    whi_message *kept = whi_match_find(&table, side_of(recv->ep), recv->ep, recv->tag, recv->mask);
    CHECK(!kept);  // nothing has come between
    whi_match_repost(&table, side_of(recv->ep), recv);
    size_t at = 0;
    while (at < model.receive_count && model.receives[at]->post_number < recv->post_number)
        at++;
    memmove(model.receives + at + 1, model.receives + at,
            (model.receive_count - at) * sizeof(model.receives[0]));
    model.receives[at] = recv;
    model.receive_count++;
}

static void withdraw(size_t at) {
    wh_request *recv = model.receives[at];
    whi_match_unpost(&table, side_of(recv->ep), recv);
    cut((void **)model.receives, &model.receive_count, at);
    free(recv);
}

static void drop_message(size_t at) {
    whi_message *msg = model.messages[at];
    whi_match_drop(&table, msg);
    cut((void **)model.messages, &model.message_count, at);
    free(msg);
}

// leave_message takes a message out and gives it its old place back, as a receive does that ends without it.
static void leave_message(size_t at) {
    whi_message *msg = model.messages[at];
    whi_match_drop(&table, msg);
    whi_match_keep_again(&table, side_of(msg->ep), msg);
}

static void check_counts(void) {
    size_t any = 0, exact[ENDPOINTS] = {0};
    for (size_t i = 0; i < model.receive_count; i++) {
        const wh_request *r = model.receives[i];
        if (r->mask == WH_TAG_MASK_ALL)
            ++*(r->ep ? &exact[r->ep - eps] : &any);
    }
    CHECK_EQ_INT(table.receives, model.receive_count);
    CHECK_EQ_INT(table.messages, model.message_count);
    CHECK_EQ_INT(table.exact_any, any);
    for (int i = 0; i < ENDPOINTS; i++)
        CHECK_EQ_INT(sides[i].exact, exact[i]);
}

static void finish(void) {
    while (model.receive_count)
        withdraw(0);
    while (model.message_count)
        drop_message(0);
    check_counts();
    whi_match_fini(&table);
}

static void one_step(whi_rng *rng, unsigned recvs) {
    unsigned what = (unsigned)whi_rng_below(rng, 100);
    if (what < recvs) {
        post(recv_new(whi_rng_chance(rng, 50) ? any_ep(rng) : NULL, any_tag(rng), any_mask(rng)));
    } else if (what < 90) {
        wh_request *got = arrive(any_ep(rng), any_tag(rng));
        if (got && whi_rng_chance(rng, 30))
            regain(got);
        else
            free(got);
    } else if (what < 95 && model.receive_count) {
        withdraw(whi_rng_below(rng, model.receive_count));
    } else if (model.message_count) {
        size_t at = whi_rng_below(rng, model.message_count);
        if (what < 98)
            leave_message(at);
        else
            drop_message(at);
    }
}

TEST(agrees_with_the_model) {
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        whi_rng rng;
        whi_rng_init(&rng, seed);
        begin();
        for (int step = 0; step < STEPS; step++) {
            // In turns more receives than messages and the other way round, so that both pile up and the tables grow.
            one_step(&rng, (step / 700) % 2 ? 25 : 65);
            if (step % 64 == 0)
                check_counts();
        }
        finish();
    }
}

// Without memory the table does not grow; it only gets slower.
TEST(does_without_memory_to_grow) {
    whi_rng rng;
    whi_rng_init(&rng, 99);
    begin();
    for (int step = 0; step < STEPS; step++) {
        whi_alloc_fail_at(1);
        one_step(&rng, (step / 700) % 2 ? 25 : 65);
        whi_alloc_fail_at(0);
    }
    finish();
}

TEST(init_fails_cleanly) {
    for (uint64_t n = 1;; n++) {
        whi_alloc_fail_at(n);
        wh_status st = whi_match_init(&table);
        bool reached = whi_alloc_count() >= n;
        whi_alloc_fail_at(0);
        CHECK_EQ_INT(st, reached ? WH_ENOMEM : WH_OK);
        if (!reached)
            break;
    }
    whi_match_fini(&table);
}

// A place that is given back lies before what was posted since, and behind what was posted before.
TEST(a_regained_place_is_the_old_one) {
    begin();
    wh_request *r[3];
    for (int i = 0; i < 3; i++)
        post(r[i] = recv_new(i == 1 ? NULL : &eps[0], 5, i == 1 ? 0 : WH_TAG_MASK_ALL));
    CHECK(arrive(&eps[0], 5) == r[0]);
    CHECK(arrive(&eps[0], 5) == r[1]);
    regain(r[1]);
    regain(r[0]);
    for (int i = 0; i < 3; i++) {
        CHECK(arrive(&eps[0], 5) == r[i]);
        free(r[i]);
    }
    finish();
}

// The time of one post and one match with 1,000 others posted.  Printed, not judged: the machine may be busy.
TEST(speed) {
    enum { POSTED = 1000, ROUNDS = 200000 };
    begin();
    for (uint64_t i = 0; i < POSTED; i++)
        post(recv_new(&eps[i % ENDPOINTS], 1000 + i, WH_TAG_MASK_ALL));
    wh_request *one = recv_new(&eps[0], 7, WH_TAG_MASK_ALL);
    uint64_t start = whi_clock_ns(), match_ns = 0;
    for (int i = 0; i < ROUNDS; i++) {
        whi_match_post(&table, &sides[0], one);
        CHECK(whi_match_message(&table, &sides[0], &eps[0], 7) == one);
    }
    match_ns = whi_clock_ns() - start;
    printf("        post and match with %d receives posted: %.1f ns\n", POSTED,
           (double)match_ns / ROUNDS);
    free(one);
    finish();
}

TEST_MAIN()
