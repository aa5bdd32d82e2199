// SPDX-License-Identifier: BSD-3-Clause
//
// Attacks by a peer that has got through the handshake (hostile_kit.h): long messages that lie, or never come whole.
#include "engine/hostile_kit.h"
#include "message/match.h"

enum { LONG = 40000, HALF = LONG / 2 };

static whi_hdr long_hdr(uint64_t tag) {
    return (whi_hdr){.cls = WHI_CLASS_LONG, .ep = 1, .size = LONG, .seq = seq++, .tag = tag};
}

// say_half sends the header of a long message and a part of its payload.
static void say_half(whi_hdr hdr) {
    CHECK(raw_write(&victim, hostile.fd, &hdr, sizeof(hdr)));
    CHECK(raw_write(&victim, hostile.fd, bytes, HALF));
    pump_for(&victim, 2);
}

static void gone(void) {
    hang_up();
    PUMP_UNTIL(&victim, whi_hash_count(&whi_links_of(victim.server)->links) == 1);
    CHECK_EQ_INT(whi_messages_of(victim.server)->match[WHI_MATCH_TAG].messages, 0);
}

static wh_request *post_any(uint8_t *into) {
    wh_request *recv = NULL;
    CHECK_EQ_INT(wh_worker_tag_recv(victim.server, into, LONG, 5, WH_TAG_MASK_ALL, NULL, &recv),
                 WH_PENDING);
    return recv;
}

// gets_honest checks that a receive from any source gets the honest client's message.
static void gets_honest(wh_request *recv, const uint8_t *into) {
    static uint8_t honest_bytes[LONG];
    memset(honest_bytes, 0x5a, sizeof(honest_bytes));
    CHECK_EQ_INT(wh_request_status(recv), WH_PENDING);
    wh_request *send = NULL;
    CHECK(wh_tag_send(victim.to, honest_bytes, LONG, 5, NULL, &send) >= 0);
    CHECK_EQ_INT(done_as(&victim, recv), WH_OK);
    CHECK_MEM(into, honest_bytes, LONG);
    if (send)
        CHECK_EQ_INT(done_as(&victim, send), WH_OK);
}

TEST(bad_headers) {
    raw_features = WHI_FEATURE_LONG;
    begin();
    static const struct {
        whi_hdr hdr;
        const char *word;
    } cases[] = {
        {{.ep = 1, .size = LONG, .seq = 1}, "sequence number is not the next"},
        {{.ep = 1, .size = LONG, .seq = UINT32_MAX}, "sequence number is not the next"},
        {{.ep = 3, .size = LONG}, "no such endpoint"},
        {{.ep = 2, .size = LONG}, "no such endpoint"},
        {{.ep = 1, .size = LONG, .flags = WHI_FLAG_ANNOUNCED}, "a long message with flags"},
        {{.ep = 1, .size = LONG, .flags = WHI_FLAG_SYNC}, "a long message with flags"},
        {{.ep = 1, .size = 0}, "a bad size"},
        {{.ep = 1, .size = (1 << 20) + 1}, "a bad size"},
        {{.ep = 1, .size = UINT32_MAX}, "a bad size"},
        {{.ep = 1, .size = CREDIT - WHI_MESSAGE_COST + 1}, "more unexpected bytes than credit"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        attack();
        whi_hdr hdr = cases[i].hdr;
        hdr.cls = WHI_CLASS_LONG;
        CHECK(raw_write(&victim, hostile.fd, &hdr, sizeof(hdr)));
        refused(cases[i].word);
        kit_log_begin();
        sleep(i >= 5 && i < 9);  // the lane's own line is limited to one per second
    }
    end();
}

TEST(not_agreed_on) {
    raw_features = 0;
    begin();
    attack();
    whi_hdr hdr = long_hdr(5);
    CHECK(raw_write(&victim, hostile.fd, &hdr, sizeof(hdr)));
    refused("a long record, which was not agreed on");
    // Nor is one sent to such a peer.
    attack();
    wh_request *send = NULL;
    CHECK_EQ_INT(wh_tag_send(target, bytes, LONG, 1, NULL, &send), WH_PENDING);
    whi_hdr heard = hear(WHI_CLASS_TAG);
    CHECK(heard.flags & WHI_FLAG_ANNOUNCED);
    CHECK_EQ_INT(heard.arg, LONG);
    gone();
    CHECK(done_as(&victim, send) != WH_OK);
    end();
}

// The credit is kept, however long messages and small ones are mixed and never received.
TEST(more_than_the_credit) {
    raw_features = WHI_FEATURE_LONG;
    begin();
    attack();
    for (int i = 0; i < 2; i++) {
        whi_hdr hdr = long_hdr(5);
        if (!raw_send(&victim, &hostile, &hdr, bytes))
            break;
    }
    refused("more unexpected bytes than credit");
    gone();
    end();
}

// A peer that is silent, or goes, in the middle of a payload: nothing that was posted for any source is lost, and no memory.
TEST(half_a_message) {
    raw_features = WHI_FEATURE_LONG;
    begin();
    static uint8_t into[LONG];
    for (int how = 0; how < 8; how++) {
        bool matched = how & 1, aborted = how & 2, late = how & 4;
        attack();
        wh_request *recv = matched ? post_any(into) : NULL;
        say_half(long_hdr(5));
        if (late && !recv)
            recv = post_any(into);
        if (aborted) {
            wh_endpoint_abort(target);
            victim.accepted_count--;
            if (late) {  // the payload goes on for an endpoint that has ended
                CHECK(raw_write(&victim, hostile.fd, bytes, LONG - HALF));
                pump_for(&victim, 2);
            }
        }
        gone();
        if (!recv)
            recv = post_any(into);
        pump_for(&victim, 2);
        gets_honest(recv, into);
    }
    end();
}

// What it had sent whole before is still received.
TEST(a_message_before_half_a_message) {
    static uint8_t into[LONG], small[8];
    raw_features = WHI_FEATURE_LONG;
    begin();
    attack();
    wh_request *recv = post_any(into);
    whi_hdr hdr = {.cls = WHI_CLASS_TAG, .ep = 1, .size = sizeof(small), .seq = seq++, .tag = 6};
    CHECK(raw_send(&victim, &hostile, &hdr, bytes));
    say_half(long_hdr(5));
    CHECK_EQ_INT(wh_worker_tag_probe(victim.server, 6, WH_TAG_MASK_ALL, NULL), WH_OK);
    CHECK_EQ_INT(shutdown(hostile.fd, SHUT_RDWR), 0);
    PUMP_UNTIL(&victim, wh_endpoint_status(target) == WH_EPEER);
    CHECK_EQ_INT(
        wh_worker_tag_recv(victim.server, small, sizeof(small), 6, WH_TAG_MASK_ALL, NULL, NULL),
        WH_OK);
    CHECK_MEM(small, bytes, sizeof(small));
    hang_up();
    gets_honest(recv, into);
    end();
}

// A receive that is cancelled in the middle ends when the peer goes on, or, when it does not, with the link.
TEST(cancelled_in_the_middle) {
    raw_features = WHI_FEATURE_LONG;
    begin();
    for (int goes_on = 0; goes_on < 2; goes_on++) {
        attack();
        static uint8_t into[LONG];
        wh_request *recv = NULL;
        CHECK_EQ_INT(wh_tag_recv(target, into, LONG, 5, WH_TAG_MASK_ALL, NULL, &recv), WH_PENDING);
        memset(bytes, 7, LONG);
        say_half(long_hdr(5));
        wh_request_cancel(recv);
        pump_for(&victim, 2);
        CHECK_EQ_INT(wh_request_status(recv), WH_PENDING);
        if (goes_on) {
            CHECK(raw_write(&victim, hostile.fd, bytes, LONG - HALF));
            CHECK_EQ_INT(done_as(&victim, recv), WH_OK);
            CHECK_EQ_INT(into[LONG - 1], 7);
        } else {
            CHECK_EQ_INT(done_as(&victim, recv), WH_ETIMEDOUT);
        }
        gone();
    }
    end();
}

// Late ones, for an endpoint that has ended, are passed over whole.
TEST(for_an_endpoint_that_has_ended) {
    raw_features = WHI_FEATURE_LONG;
    begin();
    attack();
    whi_hdr open = {
        .cls = WHI_CLASS_OPEN, .ep = 3, .seq = 100, .tag = hostile.peer.listener, .arg = 1 << 20};
    CHECK(raw_send(&victim, &hostile, &open, NULL));
    PUMP_UNTIL(&victim, victim.accepted_count == 3);
    wh_endpoint_abort(target);
    victim.accepted[1] = victim.accepted[2];
    victim.accepted_count--;
    target = victim.accepted[1];
    for (int i = 0; i < 4; i++) {
        whi_hdr hdr = long_hdr(5);
        CHECK(raw_send(&victim, &hostile, &hdr, bytes));
    }
    uint8_t word = 0;
    wh_request *recv = NULL;
    CHECK_EQ_INT(wh_tag_recv(target, &word, 1, 5, WH_TAG_MASK_ALL, NULL, &recv), WH_PENDING);
    CHECK(raw_send(&victim, &hostile,
                   &(whi_hdr){.cls = WHI_CLASS_TAG, .ep = 3, .size = 1, .tag = 5}, "x"));
    CHECK_EQ_INT(done_as(&victim, recv), WH_OK);
    CHECK_EQ_INT(word, 'x');
    gone();
    end();
}

TEST_MAIN()
