// SPDX-License-Identifier: BSD-3-Clause
//
// What messages say of their elements: heard where the peer knows of it, and not said where it does not.
#include "engine/test_kit.h"

enum { WORDS = 20, LARGE_WORDS = 50000, ID = 4 };

static duo d;
static double doubles[LARGE_WORDS];
static int64_t integers[LARGE_WORDS], back[LARGE_WORDS];
static wh_request *am_request;

static const wh_op_opts *of(wh_type_id id) {
    static wh_op_opts opts;
    opts = (wh_op_opts){.size = sizeof(opts), .type = wh_type_basic(id)};
    return &opts;
}

static wh_status receive_integers(wh_am *am, void *arg) {
    (void)arg;
    wh_status st = wh_am_recv(am, integers, (size_t)am->size / 8, of(WH_TYPE_INT64), &am_request);
    CHECK_EQ_INT(st, WH_PENDING);
    return WH_OK;
}

static wh_status received_tag(size_t words) {
    wh_request *recv = NULL, *send = NULL;
    CHECK_EQ_INT(
        wh_worker_tag_recv(d.server, integers, words, 1, WH_TAG_MASK_ALL, of(WH_TYPE_INT64), &recv),
        WH_PENDING);
    CHECK(wh_tag_send(d.to, doubles, words, 1, of(WH_TYPE_DOUBLE), &send) >= 0);
    wh_status st = done_as(&d, recv);
    if (send)
        CHECK_EQ_INT(done_as(&d, send), st == WH_OK ? WH_OK : WH_EREJECTED);
    return st;
}

static wh_status received_am(size_t words) {
    wh_request *send = NULL;
    am_request = NULL;
    CHECK(wh_am_send(d.to, ID, "head", 4, doubles, words, of(WH_TYPE_DOUBLE), &send) >= 0);
    UNTIL(&d, am_request);
    wh_status st = done_as(&d, am_request);
    if (send)
        CHECK_EQ_INT(done_as(&d, send), st == WH_OK ? WH_OK : WH_EREJECTED);
    return st;
}

static wh_status received_object(size_t words) {
    wh_request *recv = NULL, *send = NULL;
    wh_frame from = {.data = doubles, .size = words, .type = wh_type_basic(WH_TYPE_DOUBLE)};
    wh_frame to = {.data = integers, .size = words, .type = wh_type_basic(WH_TYPE_INT64)};
    CHECK_EQ_INT(
        wh_worker_object_recv(d.server, &to, 1, sizeof(to), 1, WH_TAG_MASK_ALL, NULL, &recv),
        WH_PENDING);
    CHECK(wh_object_send(d.to, NULL, 0, &from, 1, sizeof(from), 1, NULL, &send) >= 0);
    wh_result result;
    UNTIL(&d, wh_request_status(recv) != WH_PENDING);
    CHECK_EQ_INT(wh_request_result(recv, &result), WH_OK);
    wh_request_free(recv);
    wh_object_free(result.object);
    if (send)
        CHECK_EQ_INT(done_as(&d, send), result.status == WH_OK ? WH_OK : WH_EREJECTED);
    return result.status;
}

// One word of two: what is not dense is counted, at both sides.
TEST(layouts_are_counted) {
    duo_begin(&d, NULL, NULL);
    duo_connect(&d);
    wh_type *spread;
    CHECK_EQ_INT(wh_type_create_resized(wh_type_basic(WH_TYPE_DOUBLE), 0, 16, &spread), WH_OK);
    for (int i = 0; i < 6; i++) {
        size_t words = i & 1 ? LARGE_WORDS / 2 : WORDS;
        wh_request *recv = NULL, *send = NULL;
        wh_frame from = {.data = doubles, .size = words, .type = spread}, to = from;
        to.data = integers;
        bool object = i & 2, dense = i >= 4;
        const wh_op_opts *opts = WH_OP_OPTS(.type = object || dense ? NULL : spread);
        if (object) {
            CHECK_EQ_INT(
                wh_object_recv(d.from, &to, 1, sizeof(to), 1, WH_TAG_MASK_ALL, NULL, &recv),
                WH_PENDING);
            CHECK(wh_object_send(d.to, NULL, 0, &from, 1, sizeof(from), 1, NULL, &send) >= 0);
        } else {
            CHECK_EQ_INT(wh_tag_recv(d.from, integers, words, 1, WH_TAG_MASK_ALL, opts, &recv),
                         WH_PENDING);
            CHECK(wh_tag_send(d.to, doubles, words, 1, opts, &send) >= 0);
        }
        wh_result result;
        UNTIL(&d, wh_request_result(recv, &result) == WH_OK);
        wh_request_free(recv);
        wh_object_free(result.object);
        if (send)
            CHECK_EQ_INT(done_as(&d, send), WH_OK);
    }
    wh_counters sent = {.size = sizeof(sent)}, received = sent;
    CHECK_EQ_INT(wh_worker_counters(d.client, &sent), WH_OK);
    CHECK_EQ_INT(wh_worker_counters(d.server, &received), WH_OK);
    CHECK_EQ_INT(sent.packed, 4);
    CHECK_EQ_INT(received.unpacked, 4);
    CHECK(sent.unpacked == 0 && received.packed == 0);
    wh_type_release(spread);
    duo_end(&d);
}

// What does not fit is unpacked as far as it does; what holds other elements is not.
TEST(what_is_refused_is_not_counted) {
    enum { SHORT = WORDS / 2 };
    wh_type *spread;
    CHECK_EQ_INT(wh_type_create_resized(wh_type_basic(WH_TYPE_INT64), 0, 16, &spread), WH_OK);
    for (int large = 0; large < 2; large++) {
        size_t words = large ? LARGE_WORDS / 2 : WORDS;
        duo_begin(&d, NULL, NULL);
        duo_connect(&d);
        for (int refused = 0; refused < 2; refused++) {
            wh_request *recv = NULL, *send = NULL;
            wh_counters received = {.size = sizeof(received)};
            CHECK_EQ_INT(wh_tag_recv(d.from, integers, refused ? words : SHORT, 1, WH_TAG_MASK_ALL,
                                     WH_OP_OPTS(.type = spread), &recv),
                         WH_PENDING);
            CHECK(wh_tag_send(d.to, doubles, words, 1, of(refused ? WH_TYPE_DOUBLE : WH_TYPE_INT64),
                              &send) >= 0);
            CHECK_EQ_INT(done_as(&d, recv), refused ? WH_ETYPE : WH_ETRUNCATED);
            if (send)
                (void)done_as(&d, send);
            CHECK_EQ_INT(wh_worker_counters(d.server, &received), WH_OK);
            CHECK_EQ_INT(received.unpacked, 1);
        }
        duo_end(&d);
    }
    wh_type_release(spread);
}

TEST(elements_are_told_to_who_knows_of_them) {
    duo_begin(&d, NULL, NULL);
    duo_connect(&d);
    CHECK_EQ_INT(wh_worker_set_am(d.server, ID, receive_integers, NULL), WH_OK);
    uint64_t features = d.to->link->peer.features;
    CHECK(features & WHI_FEATURE_TYPES);
    for (int round = 0; round < 4; round++) {
        bool knows = round & 1;
        size_t words = round & 2 ? LARGE_WORDS : WORDS;
        d.to->link->peer.features = knows ? features : features & ~(uint64_t)WHI_FEATURE_TYPES;
        CHECK_EQ_INT(received_tag(words), knows ? WH_ETYPE : WH_OK);
        CHECK_EQ_INT(received_am(words), knows ? WH_ETYPE : WH_OK);
        CHECK_EQ_INT(received_object(words), knows ? WH_ETYPE : WH_OK);
    }
    duo_end(&d);
}

// Of an object that does not fit no destination is touched, wherever in it the frame stands that does not.
TEST(an_object_that_does_not_fit_writes_nothing) {
    enum { FRAMES = 2, SHORT = 100 };
    duo_begin(&d, NULL, NULL);
    duo_connect(&d);
    for (int round = 0; round < 6; round++) {
        size_t words = round & 1 ? LARGE_WORDS : SHORT;
        bool is_short = round / 2 == 1, fits = round / 2 == 2;
        wh_frame from[FRAMES] = {
            {.data = doubles, .size = words, .type = wh_type_basic(WH_TYPE_DOUBLE)},
            {.data = doubles, .size = words, .type = wh_type_basic(WH_TYPE_DOUBLE)}};
        uint64_t other[SHORT];
        wh_frame to[FRAMES] = {
            {.data = integers, .size = words * 8},
            {.data = is_short ? (void *)other : back,
             .size = is_short ? 1 : words,
             .type = wh_type_basic(fits || is_short ? WH_TYPE_DOUBLE : WH_TYPE_INT64)}};
        wh_request *recv = NULL, *send = NULL;
        for (int i = 0; i < LARGE_WORDS; i++) {
            doubles[i] = i + 1;
            integers[i] = -1;
        }
        CHECK_EQ_INT(
            wh_object_recv(d.from, to, FRAMES, sizeof(*to), 1, WH_TAG_MASK_ALL, NULL, &recv),
            WH_PENDING);
        CHECK(wh_object_send(d.to, NULL, 0, from, FRAMES, sizeof(*from), 1, NULL, &send) >= 0);
        wh_result result;
        UNTIL(&d, wh_request_result(recv, &result) == WH_OK);
        CHECK_EQ_INT(result.status, fits ? WH_OK : is_short ? WH_ETRUNCATED : WH_ETYPE);
        for (size_t i = 0; i < words; i++)
            CHECK((integers[i] == -1) == !fits);
        wh_request_free(recv);
        wh_object_free(result.object);
        if (send)
            (void)done_as(&d, send);
    }
    duo_end(&d);
}

TEST_MAIN()
