// SPDX-License-Identifier: BSD-3-Clause
//
// What the end of an operation promises: nothing ends before what it stands for has happened at the peer.
//
// Each test stops one of two honest workers at the moment that matters and looks at the other.
#include "engine/test_kit.h"

enum { LARGE = 4 << 20, SMALL = 4096 };

static duo d;
static uint8_t source[LARGE], into[LARGE];

static const char *const plain[] = {"lanes=auto", "credit=64K", NULL};
static const char *const stream[] = {"lanes=stream", "credit=64K", NULL};

static void begin(const char *const *options) {
    duo_begin(&d, options, options);
    duo_connect(&d);
}

// only lets one of the two workers go on for some passes.
static void only(wh_worker *worker, int passes) {
    while (passes-- > 0)
        (void)wh_worker_progress(worker);
}

// A flush ends when the payload that was being moved has arrived, and not before.
TEST(a_flush_waits_for_what_moves) {
    for (int round = 0; round < 2; round++) {
        begin(round ? stream : plain);
        wh_request *send = NULL, *recv = NULL, *flush = NULL;
        CHECK_EQ_INT(wh_tag_recv(d.from, into, LARGE, 1, WH_TAG_MASK_ALL, NULL, &recv), WH_PENDING);
        CHECK_EQ_INT(wh_tag_send(d.to, source, LARGE, 1, NULL, &send), WH_PENDING);
        UNTIL(&d, send->stage == WHI_STAGE_MOVING);
        CHECK_EQ_INT(wh_endpoint_flush(d.to, NULL, &flush), WH_PENDING);
        UNTIL(&d, wh_request_status(flush) != WH_PENDING);
        CHECK_EQ_INT(wh_request_status(recv), WH_OK);
        CHECK_EQ_INT(wh_request_status(send), WH_OK);
        CHECK_EQ_INT(done_as(&d, flush), WH_OK);
        wh_request_free(send);
        wh_request_free(recv);
        duo_end(&d);
    }
}

// What nobody has asked for may never move: a flush does not wait for it.  What was sent eagerly is there.
TEST(a_flush_passes_what_nobody_wants) {
    begin(plain);
    wh_request *send = NULL, *flush = NULL;
    CHECK_EQ_INT(wh_tag_send(d.to, source, LARGE, 1, NULL, &send), WH_PENDING);
    CHECK_EQ_INT(wh_tag_send(d.to, source, 8, 2, NULL, NULL), WH_OK);
    CHECK_EQ_INT(wh_endpoint_flush(d.to, NULL, &flush), WH_PENDING);
    CHECK_EQ_INT(done_as(&d, flush), WH_OK);
    CHECK_EQ_INT(wh_request_status(send), WH_PENDING);
    CHECK_EQ_INT(wh_tag_recv(d.from, into, 8, 2, WH_TAG_MASK_ALL, NULL, NULL), WH_OK);
    wh_request_cancel(send);
    CHECK_EQ_INT(done_as(&d, send), WH_ECANCELLED);
    duo_end(&d);
}

// Only a match ends a synchronous send: that the message has come is not enough.
TEST(a_synchronous_send_waits_for_its_match) {
    static const size_t sizes[] = {0, 8, LARGE};
    begin(plain);
    for (int i = 0; i < 3; i++) {
        wh_request *send = NULL, *recv = NULL;
        CHECK_EQ_INT(wh_tag_send(d.to, source, sizes[i], 1, WH_OP_OPTS(.flags = WH_OP_SYNC), &send),
                     WH_PENDING);
        UNTIL(&d, wh_tag_probe(d.from, 1, WH_TAG_MASK_ALL, NULL) == WH_OK);
        duo_for(&d, 10);
        CHECK_EQ_INT(wh_request_status(send), WH_PENDING);
        wh_status st = wh_tag_recv(d.from, into, sizes[i], 1, WH_TAG_MASK_ALL, NULL, &recv);
        CHECK_EQ_INT(st == WH_PENDING ? done_as(&d, recv) : st, WH_OK);
        CHECK_EQ_INT(done_as(&d, send), WH_OK);
    }
    duo_end(&d);
}

// A close ends when the peer has read all that came before and said so.
TEST(a_close_waits_for_its_answer) {
    begin(plain);
    wh_request *closing = NULL;
    CHECK_EQ_INT(wh_endpoint_close(d.to, NULL, &closing), WH_PENDING);
    d.to = NULL;
    only(d.client, 1000);
    CHECK_EQ_INT(wh_request_status(closing), WH_PENDING);
    UNTIL(&d, wh_endpoint_status(d.from) == WH_ECLOSED);
    CHECK_EQ_INT(done_as(&d, closing), WH_OK);
    duo_end(&d);
}

// A kept message gives its credit back when it is received: who receives what comes is never out of credit.
TEST(a_match_returns_the_credit) {
    enum { ROUNDS = 20, EACH = 8 };
    for (int late = 0; late < 2; late++) {
        begin(late ? stream : plain);
        for (int round = 0; round < ROUNDS; round++) {
            for (int i = 0; i < EACH; i++)
                CHECK_EQ_INT(wh_tag_send(d.to, source, SMALL, 1, NULL, NULL), WH_OK);
            for (int i = 0; i < EACH; i++) {
                UNTIL(&d, wh_tag_probe(d.from, 1, WH_TAG_MASK_ALL, NULL) == WH_OK);
                CHECK_EQ_INT(wh_tag_recv(d.from, into, SMALL, 1, WH_TAG_MASK_ALL, NULL, NULL),
                             WH_OK);
            }
            duo_for(&d, 2);
        }
        CHECK_EQ_INT(d.to->counters.no_credit, 0);
        CHECK_EQ_INT(d.to->counters.rendezvous, 0);
        duo_end(&d);
    }
}

// A message that is too long for its receive says so, whichever way it came, and the next one is whole.
TEST(a_short_receive_is_told) {
    static const size_t sizes[] = {9, 8192, 100000};
    begin(plain);
    for (int i = 0; i < 6; i++) {
        size_t size = sizes[i % 3];
        bool kept = i >= 3;
        wh_request *send = NULL, *recv = NULL;
        wh_result result = {.status = WH_PENDING};
        memset(source, i + 1, size);
        memset(into, 0xee, sizeof(into));
        if (!kept)
            CHECK_EQ_INT(wh_tag_recv(d.from, into, 8, 1, WH_TAG_MASK_ALL, NULL, &recv), WH_PENDING);
        wh_status st = wh_tag_send(d.to, source, size, 1, NULL, &send);
        CHECK(st == WH_OK || st == WH_PENDING);
        if (kept) {
            UNTIL(&d, wh_tag_probe(d.from, 1, WH_TAG_MASK_ALL, NULL) == WH_OK);
            CHECK_EQ_INT(wh_tag_recv(d.from, into, 8, 1, WH_TAG_MASK_ALL, NULL, &recv), WH_PENDING);
        }
        UNTIL(&d, wh_request_result(recv, &result) == WH_OK);
        CHECK_EQ_INT(result.status, WH_ETRUNCATED);
        CHECK_EQ_INT(result.size, size);
        CHECK(into[7] == i + 1 && into[8] == 0xee);
        wh_request_free(recv);
        if (send)
            CHECK_EQ_INT(done_as(&d, send), WH_OK);
        recv = NULL;
        CHECK_EQ_INT(wh_tag_send(d.to, source, 8, 1, NULL, NULL), WH_OK);
        st = wh_tag_recv(d.from, into, 8, 1, WH_TAG_MASK_ALL, NULL, &recv);
        CHECK_EQ_INT(st == WH_PENDING ? done_as(&d, recv) : st, WH_OK);
    }
    duo_end(&d);
}

// The receive that was posted first gets the message, whichever of the two tables it is in.
TEST(the_earliest_receive_wins) {
    begin(plain);
    for (int any_first = 0; any_first < 2; any_first++) {
        wh_request *any = NULL, *one = NULL;
        char a[8], b[8];
        for (int i = 0; i < 2; i++) {
            if (i != any_first)
                CHECK_EQ_INT(wh_worker_tag_recv(d.server, a, 8, 1, WH_TAG_MASK_ALL, NULL, &any),
                             WH_PENDING);
            else
                CHECK_EQ_INT(wh_tag_recv(d.from, b, 8, 1, WH_TAG_MASK_ALL, NULL, &one), WH_PENDING);
        }
        CHECK_EQ_INT(wh_tag_send(d.to, "first..", 8, 1, NULL, NULL), WH_OK);
        CHECK_EQ_INT(done_as(&d, any_first ? any : one), WH_OK);
        CHECK_EQ_INT(wh_request_status(any_first ? one : any), WH_PENDING);
        CHECK_EQ_INT(wh_tag_send(d.to, "second.", 8, 1, NULL, NULL), WH_OK);
        CHECK_EQ_INT(done_as(&d, any_first ? one : any), WH_OK);
    }
    duo_end(&d);
}

// Whoever does not listen is sent no more than it has given credit for; the rest is announced, in order.
TEST(credit_is_obeyed) {
    enum { MANY = 40 };
    begin(plain);
    wh_request *sends[MANY];
    for (int i = 0; i < MANY; i++) {
        wh_status st = wh_tag_send(d.to, source, SMALL, (uint64_t)i, NULL, &sends[i]);
        CHECK(st == WH_OK || st == WH_PENDING);
        CHECK(d.to->credit >= 0);
        if (st == WH_OK)
            sends[i] = NULL;
    }
    CHECK(d.to->counters.no_credit > 0);
    for (int i = 0; i < MANY; i++) {
        wh_request *recv = NULL;
        wh_result result = {.status = WH_OK};
        wh_status st = wh_tag_recv(d.from, into, SMALL, 0, 0, WH_OP_OPTS(.result = &result), &recv);
        if (st == WH_PENDING) {
            UNTIL(&d, wh_request_result(recv, &result) == WH_OK);
            wh_request_free(recv);
        }
        CHECK_EQ_INT(result.status, WH_OK);
        CHECK_EQ_INT(result.tag, i);
    }
    for (int i = 0; i < MANY; i++)
        CHECK_EQ_INT(sends[i] ? done_as(&d, sends[i]) : WH_OK, WH_OK);
    duo_end(&d);
}

// What has to wait for its endpoint to be open, or for room, is not overtaken by what comes later.
TEST(nothing_overtakes_the_queue) {
    enum { MANY = 3000 };
    static uint32_t words[MANY];
    duo_begin(&d, plain, plain);
    CHECK_EQ_INT(wh_endpoint_connect(d.client, d.address, NULL, &d.to), WH_OK);
    unsigned waited = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        words[i] = i;
        wh_status st = wh_tag_send(d.to, &words[i], sizeof(words[i]), 1, NULL, NULL);
        CHECK(st == WH_OK || st == WH_PENDING);
        waited += st == WH_PENDING;
        if (i % 64 == 63)
            duo_pass(&d);
    }
    CHECK(waited > 0);
    UNTIL(&d, d.accepted_count == 1);
    d.from = d.accepted[0];
    for (uint32_t i = 0; i < MANY; i++) {
        uint32_t got = UINT32_MAX;
        wh_request *recv = NULL;
        wh_status st = wh_tag_recv(d.from, &got, sizeof(got), 1, WH_TAG_MASK_ALL, NULL, &recv);
        CHECK_EQ_INT(st == WH_PENDING ? done_as(&d, recv) : st, WH_OK);
        CHECK_EQ_INT(got, i);
    }
    duo_end(&d);
}

// A receive that found an announced message when it was posted has a place in the order like any other, which it
// regains when the message is withdrawn.
TEST(a_receive_that_matched_at_once_has_a_place) {
    begin(plain);
    wh_request *send = NULL, *first = NULL, *second = NULL;
    wh_result found;
    CHECK_EQ_INT(wh_tag_send(d.to, source, LARGE, 1, NULL, &send), WH_PENDING);
    UNTIL(&d, wh_tag_probe(d.from, 1, WH_TAG_MASK_ALL, &found) == WH_OK);
    CHECK_EQ_INT(wh_tag_recv(d.from, into, SMALL, 2, WH_TAG_MASK_ALL, NULL, &first), WH_PENDING);
    CHECK_EQ_INT(wh_tag_recv(d.from, into, LARGE, 0, 0, NULL, &second), WH_PENDING);
    wh_request_cancel(send);  // the grant is on its way, and comes too late
    CHECK_EQ_INT(done_as(&d, send), WH_ECANCELLED);
    UNTIL(&d, second->stage == WHI_STAGE_QUEUED);
    CHECK_EQ_INT(wh_tag_send(d.to, source, SMALL, 2, NULL, NULL), WH_OK);
    CHECK_EQ_INT(done_as(&d, first), WH_OK);
    CHECK_EQ_INT(wh_request_status(second), WH_PENDING);
    wh_request_cancel(second);
    CHECK_EQ_INT(done_as(&d, second), WH_ECANCELLED);
    duo_end(&d);
}

// A receive from any source never fails because one peer goes: if it was cancelled, that is how it ends.
TEST(a_cancelled_receive_ends_as_such_when_its_peer_goes) {
    begin(stream);
    wh_request *recv = NULL;
    CHECK_EQ_INT(wh_worker_tag_recv(d.server, into, LARGE, 1, WH_TAG_MASK_ALL, NULL, &recv),
                 WH_PENDING);
    CHECK_EQ_INT(wh_tag_send(d.to, source, LARGE, 1, NULL, NULL), WH_PENDING);
    while (recv->stage != WHI_STAGE_MOVING)
        only(d.server, 1);
    wh_request_cancel(recv);
    wh_endpoint_abort(d.to);
    d.to = NULL;
    CHECK_EQ_INT(done_as(&d, recv), WH_ECANCELLED);
    duo_end(&d);
}

// Nor when its endpoint is aborted with a chunk half in its buffer: it waits for the chunk, and then for another message.
TEST(a_receive_from_any_source_outlives_half_a_chunk) {
    begin(stream);
    wh_request *recv = NULL;
    wh_result result;
    CHECK_EQ_INT(wh_worker_tag_recv(d.server, into, LARGE, 1, WH_TAG_MASK_ALL, NULL, &recv),
                 WH_PENDING);
    CHECK_EQ_INT(wh_tag_send(d.to, source, LARGE, 1, NULL, NULL), WH_PENDING);
    UNTIL(&d, whi_messages_on(d.from->link)->landing == recv);
    wh_endpoint_abort(d.from);
    d.from = NULL;
    CHECK_EQ_INT(recv->stage, WHI_STAGE_MOVING);
    UNTIL(&d, recv->stage == WHI_STAGE_QUEUED);
    wh_endpoint_abort(d.to);
    duo_connect(&d);
    CHECK_EQ_INT(wh_tag_send(d.to, source, SMALL, 1, NULL, NULL), WH_OK);
    UNTIL(&d, wh_request_status(recv) != WH_PENDING);
    CHECK_EQ_INT(wh_request_result(recv, &result), WH_OK);
    CHECK_EQ_INT(result.status, WH_OK);
    CHECK_EQ_INT(result.size, SMALL);
    CHECK(result.source == d.from);
    wh_request_free(recv);
    duo_end(&d);
}

TEST_MAIN()
