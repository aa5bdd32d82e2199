// SPDX-License-Identifier: BSD-3-Clause
//
// Attacks by a peer that has got through the handshake (hostile_kit.h): active messages whose payload follows, and that lie, or
// never come whole.
#include "engine/hostile_kit.h"

enum { LONG = 40000, HALF = LONG / 2, HEADER = 16, ID = 9 };

static bool keeps;
static unsigned came;
static wh_am *kept;
static wh_request *recv_req;
static uint8_t into[LONG];

static wh_status on_am(wh_am *am, void *arg) {
    (void)arg;
    came++;
    CHECK_EQ_INT(am->size, LONG);
    CHECK(!am->data);
    if (keeps)
        kept = am;
    else
        CHECK_EQ_INT(wh_am_recv(am, into, LONG, NULL, &recv_req), WH_PENDING);
    return WH_PENDING;
}

static void begin_so(bool later) {
    begin();
    keeps = later;
    came = 0;
    CHECK_EQ_INT(wh_worker_set_am(victim.server, ID, on_am, NULL), WH_OK);
}

static whi_hdr head(void) {
    return (whi_hdr){.cls = WHI_CLASS_AM,
                     .flags = WHI_FLAG_FOLLOWED,
                     .aux = ID,
                     .size = HEADER,
                     .tag = HEADER,
                     .arg = LONG};
}

static whi_hdr body(void) {
    return (whi_hdr){.cls = WHI_CLASS_LONG, .flags = WHI_FLAG_FOLLOWED, .ep = 1, .size = LONG};
}

static void gone(void) {
    hang_up();
    PUMP_UNTIL(&victim, whi_hash_count(&whi_links_of(victim.server)->links) == 1);
    CHECK_EQ_INT(whi_pool_out(&whi_messages_of(victim.server)->messages[0]), 0);
}

TEST(heads_that_cannot_be) {
    raw_features = WHI_FEATURE_LONG;
    begin_so(false);
    static const struct {
        whi_hdr hdr;
        const char *word;
    } cases[] = {
        {{.cls = WHI_CLASS_AM, .arg = 0}, "a payload that cannot follow"},
        {{.cls = WHI_CLASS_AM, .arg = UINT64_C(1) << 32}, "a payload that cannot follow"},
        {{.cls = WHI_CLASS_AM, .arg = UINT64_MAX}, "a payload that cannot follow"},
        {{.cls = WHI_CLASS_AM, .arg = LONG, .flags = WHI_FLAG_SYNC},
         "a payload that cannot follow"},
        {{.cls = WHI_CLASS_TAG, .arg = LONG}, "a payload that cannot follow"},
        {{.cls = WHI_CLASS_OBJECT, .arg = LONG}, "a payload that cannot follow"},
        {{.cls = WHI_CLASS_AM, .arg = CREDIT}, "more unexpected bytes than credit"},
        {{.cls = WHI_CLASS_AM, .arg = LONG, .tag = HEADER - 1}, "makes no sense"},
        {{.cls = WHI_CLASS_AM, .arg = LONG, .tag = HEADER + 1}, "makes no sense"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        attack();
        whi_hdr hdr = cases[i].hdr;
        hdr.flags |= WHI_FLAG_FOLLOWED;
        hdr.size = HEADER;
        hdr.aux = hdr.cls == WHI_CLASS_AM ? ID : 0;
        hdr.tag = hdr.tag ? hdr.tag : HEADER;
        (void)say(hdr, bytes);
        refused(cases[i].word);
        kit_log_begin();
    }
    CHECK_EQ_INT(came, 0);
    end();
}

TEST(not_agreed_on) {
    raw_features = 0;
    begin_so(false);
    attack();
    (void)say(head(), bytes);
    refused("a payload that cannot follow");
    // Nor does one go to such a peer, or to one that takes long messages only.
    for (int i = 0; i < 2; i++) {
        raw_features = i ? WHI_FEATURE_LONG : 0;
        attack();
        wh_request *send = NULL;
        CHECK_EQ_INT(wh_am_send(target, ID, NULL, 0, bytes, LONG, NULL, &send), WH_PENDING);
        CHECK(hear(WHI_CLASS_AM).flags & WHI_FLAG_ANNOUNCED);
        gone();
        CHECK(done_as(&victim, send) != WH_OK);
    }
    end();
}

TEST(bodies_that_belong_to_nothing) {
    raw_features = WHI_FEATURE_LONG;
    begin_so(false);
    for (int how = 0; how < 3; how++) {
        attack();
        whi_hdr hdr = body();
        if (how)
            CHECK(say(head(), bytes));
        if (how == 1)
            hdr.size--;
        if (how == 2) {  // twice
            hdr.seq = seq++;
            CHECK(raw_send(&victim, &hostile, &hdr, bytes));
            PUMP_UNTIL(&victim, came == 2);
            CHECK_EQ_INT(done_as(&victim, recv_req), WH_OK);
        }
        hdr.seq = seq++;
        (void)raw_write(&victim, hostile.fd, &hdr, sizeof(hdr));
        refused("belongs to no active message");
        kit_log_begin();
        if (how == 1)
            CHECK(done_as(&victim, recv_req) != WH_OK);
    }
    end();
}

// begin_one sends a head and, if it is to be begun, half of its payload, whose header it returns.
static whi_hdr begin_one(bool begun) {
    attack();
    CHECK(say(head(), bytes));
    PUMP_UNTIL(&victim, came == 1);
    whi_hdr hdr = body();
    hdr.seq = seq++;
    if (begun) {
        CHECK(raw_write(&victim, hostile.fd, &hdr, sizeof(hdr)));
        CHECK(raw_write(&victim, hostile.fd, bytes, HALF));
        pump_for(&victim, 2);
    }
    return hdr;
}

// A peer that goes, or says nothing more, before the payload or in the middle of it.
TEST(half_a_payload) {
    raw_features = WHI_FEATURE_LONG;
    for (int how = 0; how < 8; how++) {
        bool begun = how & 1, late = how & 4;
        begin_so(how & 2);
        (void)begin_one(begun);
        if (keeps && !late)
            CHECK_EQ_INT(wh_am_recv(kept, into, LONG, NULL, &recv_req), WH_PENDING);
        CHECK_EQ_INT(shutdown(hostile.fd, SHUT_RDWR), 0);
        PUMP_UNTIL(&victim, wh_endpoint_status(target) == WH_EPEER);
        if (keeps && late) {
            CHECK_EQ_INT(wh_am_recv(kept, into, LONG, NULL, &recv_req), WH_ECANCELLED);
            wh_am_drop(kept);
        } else {
            CHECK(done_as(&victim, recv_req) != WH_OK);
        }
        gone();
        end();
    }
}

// A receive that is cancelled ends when the peer goes on, or, when it does not, with the link.
TEST(cancelled) {
    raw_features = WHI_FEATURE_LONG;
    for (int how = 0; how < 8; how++) {
        bool goes_on = how & 1, begun = how & 4;
        begin_so(how & 2);
        memset(bytes, 7, LONG);
        whi_hdr hdr = begin_one(begun);
        if (keeps)
            CHECK_EQ_INT(wh_am_recv(kept, into, LONG, NULL, &recv_req), WH_PENDING);
        wh_request_cancel(recv_req);
        pump_for(&victim, 2);
        CHECK_EQ_INT(wh_request_status(recv_req), WH_PENDING);
        if (goes_on) {
            if (!begun)
                CHECK(raw_write(&victim, hostile.fd, &hdr, sizeof(hdr)));
            CHECK(raw_write(&victim, hostile.fd, bytes, begun ? LONG - HALF : LONG));
            CHECK_EQ_INT(done_as(&victim, recv_req), WH_OK);
            CHECK_EQ_INT(into[LONG - 1], 7);
        } else {
            CHECK_EQ_INT(done_as(&victim, recv_req), WH_ETIMEDOUT);
        }
        gone();
        end();
    }
}

// What nobody wants any more is passed over whole, and what is dropped costs the peer nothing for good.
TEST(passed_over) {
    raw_features = WHI_FEATURE_LONG;
    begin_so(true);
    attack();
    for (int i = 0; i < 10; i++) {
        CHECK(say(head(), bytes));
        PUMP_UNTIL(&victim, came == (unsigned)i + 1);
        if (i % 2)
            wh_am_drop(kept);
        whi_hdr hdr = body();
        hdr.seq = seq++;
        CHECK(raw_send(&victim, &hostile, &hdr, bytes));
        pump_for(&victim, 2);
        if (i % 2 == 0)
            wh_am_drop(kept);
        CHECK_EQ_INT(target->rx_window + (int64_t)target->rx_owed, CREDIT);
        pump_for(&victim, 1);
    }
    gone();
    end();
}

TEST_MAIN()
