// SPDX-License-Identifier: BSD-3-Clause
//
// Attacks by a peer that has got through the handshake (hostile_kit.h): single rules of the protocol, and floods.
#include "engine/hostile_kit.h"

// ---- single rules

TEST(a_wrong_sequence_number) {
    static const uint32_t wrong[] = {1, 2, UINT32_MAX, 0x80000000};
    begin();
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        attack();
        whi_hdr hdr = {.cls = WHI_CLASS_TAG, .ep = 1, .seq = wrong[i]};
        CHECK(raw_send(&victim, &hostile, &hdr, NULL));
        refused("sequence number is not the next");
    }
    attack();
    whi_hdr hdr = {.cls = WHI_CLASS_TAG, .ep = 1, .seq = 0};
    CHECK(raw_send(&victim, &hostile, &hdr, NULL) && raw_send(&victim, &hostile, &hdr, NULL));
    refused("sequence number is not the next");
    end();
}

TEST(more_than_the_credit) {
    begin();
    attack();
    uint64_t sent = 0;
    while (say((whi_hdr){.cls = WHI_CLASS_TAG, .size = 4096, .tag = 5}, bytes) && sent < 2 * CREDIT)
        sent += 4096;
    refused("credit");
    end();
}

// What was matched costs no credit: the same flood, received, goes on.
TEST(credit_comes_back) {
    begin();
    attack();
    static char into[4096];
    for (int i = 0; i < 100; i++) {
        wh_request *recv = NULL;
        CHECK_EQ_INT(wh_tag_recv(target, into, sizeof(into), 5, WH_TAG_MASK_ALL, NULL, &recv),
                     WH_PENDING);
        CHECK(say((whi_hdr){.cls = WHI_CLASS_TAG, .size = 4096, .tag = 5}, bytes));
        CHECK_EQ_INT(done_as(&victim, recv), WH_OK);
    }
    hang_up();
    PUMP_UNTIL(&victim, whi_hash_count(&whi_links_of(victim.server)->links) == 1);
    end();
}

// Control records cost no credit: any number of them leaves room for messages.
TEST(control_is_free) {
    begin();
    attack();
    for (uint32_t i = 1; i <= 2 * CREDIT / WHI_MESSAGE_COST; i++) {
        CHECK(say((whi_hdr){.cls = i % 2 ? WHI_CLASS_FLUSH : WHI_CLASS_WITHDRAW, .tag = i}, NULL));
        if (i % 16 == 0)
            CHECK(!raw_hung_up(hostile.fd));  // reads the answers
    }
    CHECK(say((whi_hdr){.cls = WHI_CLASS_TAG, .size = 4096, .tag = 5}, bytes));
    PUMP_UNTIL(&victim, wh_tag_probe(target, 5, WH_TAG_MASK_ALL, NULL) == WH_OK);
    CHECK_EQ_INT(wh_endpoint_status(target), WH_OK);
    hang_up();
    PUMP_UNTIL(&victim, whi_hash_count(&whi_links_of(victim.server)->links) == 1);
    end();
}

TEST(more_announcements_than_allowed) {
    begin();
    attack();
    for (uint32_t i = 1; i <= ANNOUNCE_MAX; i++)
        CHECK(announce(WHI_CLASS_TAG, i, 5, 1 << 20));
    pump_for(&victim, 20);
    CHECK_EQ_INT(wh_endpoint_status(target), WH_OK);
    CHECK(announce(WHI_CLASS_TAG, 1000, 5, 1 << 20));
    refused("announcements");
    end();
}

// A message that the user has taken counts until it is gone, and its withdrawal counts once.
TEST(withdrawals_do_not_buy_announcements) {
    begin();
    attack();
    CHECK(announce(WHI_CLASS_TAG, 7, 5, 1 << 20));
    wh_message *taken = NULL;
    PUMP_UNTIL(&victim, wh_tag_take(target, 5, WH_TAG_MASK_ALL, NULL, &taken) == WH_OK);
    for (int i = 0; i < 50; i++)
        CHECK(say((whi_hdr){.cls = WHI_CLASS_WITHDRAW, .tag = 7}, NULL));
    for (uint32_t i = 0; i < ANNOUNCE_MAX; i++)
        CHECK(announce(WHI_CLASS_TAG, 100 + i, 6, 1 << 20));
    pump_for(&victim, 20);
    CHECK_EQ_INT(wh_endpoint_status(target), WH_OK);
    CHECK(announce(WHI_CLASS_TAG, 99, 6, 1 << 20));
    PUMP_UNTIL(&victim, wh_endpoint_status(target) != WH_OK);
    wh_message_drop(taken);
    refused("announcements");
    end();
}

TEST(announcements_without_a_name) {
    begin();
    attack();
    CHECK(say((whi_hdr){.cls = WHI_CLASS_TAG, .flags = WHI_FLAG_ANNOUNCED, .size = 4}, bytes));
    refused("send id");
    attack();
    CHECK(announce(WHI_CLASS_OBJECT, 0, 5, 100));
    refused("send id");
    attack();
    CHECK(announce(WHI_CLASS_TAG, 8, 5, 100) && announce(WHI_CLASS_TAG, 8, 6, 100));
    refused("send id of its own");
    attack();
    CHECK(say((whi_hdr){.cls = WHI_CLASS_WITHDRAW}, NULL));
    refused("withdrawal of nothing");
    end();
}

// Withdrawals of nothing cost the victim next to nothing, however many announcements it holds.
TEST(withdrawals_are_cheap) {
    enum { MANY = 60000 };
    static const char *const many[] = {"announce_max=60000", NULL};
    whi_rng_init(&raw_rng, 4);
    duo_begin(&victim, many, many);
    duo_connect(&victim);
    port = wh_listener_port(victim.listener);
    attack();
    struct {
        whi_hdr hdr;
        whi_announce announcement;
    } *made = calloc(MANY, sizeof(*made));
    whi_hdr *unmade = calloc(MANY, sizeof(*unmade));
    CHECK(made && unmade);
    for (uint32_t i = 0; i < MANY; i++) {
        made[i].hdr = (whi_hdr){.cls = WHI_CLASS_TAG,
                                .flags = WHI_FLAG_ANNOUNCED,
                                .size = sizeof(made[i].announcement),
                                .ep = 1,
                                .seq = seq++};
        made[i].announcement.send_id = i + 1;
    }
    // Half of them name nothing; the others go from the last to the first.
    for (uint32_t i = 0; i < MANY; i++)
        unmade[i] = (whi_hdr){.cls = WHI_CLASS_WITHDRAW,
                              .ep = 1,
                              .seq = seq++,
                              .tag = i % 2 ? 2 * MANY + i : MANY - i};
    CHECK(raw_write(&victim, hostile.fd, made, MANY * sizeof(*made)));
    PUMP_UNTIL(&victim, target->rx_announced == MANY);
    uint64_t start = whi_clock_ns();
    CHECK(raw_write(&victim, hostile.fd, unmade, MANY * sizeof(*unmade)));
    PUMP_UNTIL(&victim, target->rx_announced == MANY / 2);
    CHECK(whi_clock_ns() - start < 2 * WHI_NS_PER_S);
    free(made);
    free(unmade);
    hang_up();
    PUMP_UNTIL(&victim, whi_hash_count(&whi_links_of(victim.server)->links) == 1);
    end();
}

TEST(endpoints_that_are_not_there) {
    static const uint32_t numbers[] = {2, 3, 1000, UINT32_MAX, UINT32_MAX - 1};
    begin();
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        attack();
        whi_hdr hdr = {.cls = WHI_CLASS_TAG, .ep = numbers[i]};
        CHECK(raw_send(&victim, &hostile, &hdr, NULL));
        refused("no such endpoint");
    }
    end();
}

TEST(numbers_that_are_not_the_peers_to_give) {
    static const uint32_t numbers[] = {0, 1, 2, 4, UINT32_MAX - 1};
    begin();
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        attack();
        whi_hdr hdr = {.cls = WHI_CLASS_OPEN, .ep = numbers[i], .tag = hostile.peer.listener};
        CHECK(raw_send(&victim, &hostile, &hdr, NULL));
        refused("not the peer's to give");
    }
    end();
}

TEST(records_that_are_too_large) {
    static const uint32_t sizes[] = {EAGER + 1, 1 << 20, UINT32_MAX};
    begin();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        attack();
        whi_hdr hdr = {.cls = WHI_CLASS_TAG, .ep = 1, .size = sizes[i]};
        CHECK(raw_write(&victim, hostile.fd, &hdr, sizeof(hdr)));
        refused(i == 0 ? "too large" : "");  // a lane repeats itself only once a second
    }
    attack();
    whi_hdr hdr = {.cls = WHI_CLASS_CHUNK, .ep = 1, .size = UINT32_MAX};
    CHECK(raw_write(&victim, hostile.fd, &hdr, sizeof(hdr)));
    refused("");
    end();
}

TEST(unknown_classes) {
    begin();
    for (unsigned cls = 0; cls < 256; cls++) {
        bool message = cls >= WHI_CLASS_TAG && cls <= WHI_CLASS_ATOMIC;
        bool control = cls >= WHI_CLASS_GRANT && cls <= WHI_CLASS_TAKEN;
        if (message || control || cls == WHI_CLASS_CHUNK || cls == WHI_CLASS_LONG)
            continue;
        attack();
        CHECK(say((whi_hdr){.cls = (uint8_t)cls}, NULL));
        refused(cls < WHI_CLASS_LANE ? "unknown class" : "");
        kit_log_begin();
    }
    end();
}

TEST(control_with_a_payload) {
    begin();
    for (uint8_t cls = WHI_CLASS_GRANT; cls <= WHI_CLASS_RECALLED; cls++) {
        if (cls == WHI_CLASS_REFUSE)
            continue;
        attack();
        CHECK(say((whi_hdr){.cls = cls, .size = 1}, bytes));
        refused("control record with that payload");
    }
    end();
}

// Strangers who come again and again fill no log.
TEST(what_a_peer_does_wrong_is_logged_now_and_then) {
    enum { TIMES = 60 };
    begin();
    whi_log_set_limited(true);
    kit_log.lines = 0;
    for (int i = 0; i < TIMES; i++) {
        attack();
        CHECK(say((whi_hdr){.cls = WHI_CLASS_LANE - 1}, NULL));
        PUMP_UNTIL(&victim, raw_hung_up(hostile.fd));
        PUMP_UNTIL(&victim, wh_endpoint_status(target) != WH_OK);
        hang_up();
    }
    CHECK(kit_log.lines < TIMES);  // none, when the test before this one has had its line
    whi_log_set_limited(false);
    end();
}

// Answers to questions that were never asked are late, or wrong; neither does anything.
TEST(answers_to_nothing) {
    begin();
    attack();
    for (uint64_t id = 0; id < 50; id++) {
        const uint64_t name = id < 25 ? id | (UINT64_C(1) << 22) : whi_rng_u64(&raw_rng);
        CHECK(say((whi_hdr){.cls = WHI_CLASS_GRANT, .tag = name, .arg = 1 << 20}, NULL));
        CHECK(say((whi_hdr){.cls = WHI_CLASS_ACK, .tag = name}, NULL));
        CHECK(say((whi_hdr){.cls = WHI_CLASS_FLUSH_ACK, .tag = name}, NULL));
        whi_hdr chunk = {.cls = WHI_CLASS_CHUNK,
                         .ep = (uint32_t)name,
                         .size = 1000,
                         .arg = whi_rng_u64(&raw_rng)};
        CHECK(raw_send(&victim, &hostile, &chunk, bytes));
    }
    CHECK(say((whi_hdr){.cls = WHI_CLASS_FLUSH, .tag = 9}, NULL));
    CHECK_EQ_INT(hear(WHI_CLASS_FLUSH_ACK).tag, 9);  // still there
    hang_up();
    PUMP_UNTIL(&victim, whi_hash_count(&whi_links_of(victim.server)->links) == 1);
    end();
}

TEST(more_credit_than_there_is) {
    begin();
    attack();
    CHECK(say((whi_hdr){.cls = WHI_CLASS_CREDIT, .arg = UINT64_MAX}, NULL));
    refused("more credit");
    attack();
    for (int i = 0; i < 3; i++)
        CHECK(say((whi_hdr){.cls = WHI_CLASS_CREDIT, .arg = INT64_MAX / 2}, NULL));
    refused("more credit");
    end();
}

TEST(replies_that_nobody_asked_for) {
    static const struct {
        uint8_t cls;
        const char *word;
    } cases[] = {{WHI_CLASS_CLOSE_ACK, "nothing was closed"},
                 {WHI_CLASS_ACCEPT, "nobody asked"},
                 {WHI_CLASS_REFUSE, "nobody asked"},
                 {WHI_CLASS_SWITCH, "lane was not agreed on"}};
    begin();
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        attack();
        CHECK(say((whi_hdr){.cls = cases[i].cls, .aux = WHI_LANE_SHM}, NULL));
        refused(cases[i].word);
    }
    end();
}

// After a CLOSE, and after a BYE, whatever comes is survived.
TEST(words_after_the_last_one) {
    begin();
    static const uint8_t lasts[] = {WHI_CLASS_CLOSE, WHI_CLASS_BYE, WHI_CLASS_ABORT};
    for (size_t i = 0; i < sizeof(lasts); i++) {
        attack();
        CHECK(say((whi_hdr){.cls = lasts[i]}, NULL));
        for (int n = 0; n < 20 && say((whi_hdr){.cls = WHI_CLASS_TAG, .size = 100}, bytes); n++) {
        }
        (void)say((whi_hdr){.cls = WHI_CLASS_OPEN, .ep = 3, .tag = hostile.peer.listener}, NULL);
        pump_for(&victim, 10);
        hang_up();
        PUMP_UNTIL(&victim, whi_hash_count(&whi_links_of(victim.server)->links) == 1);
    }
    end();
}

// ---- floods

// A peer that opens endpoints without end is refused at a bound.
TEST(endless_endpoints) {
    begin();
    raw_link(&victim, &hostile, port);
    whi_hdr open = {
        .cls = WHI_CLASS_OPEN, .seq = 100, .tag = 999, .arg = 1 << 20};  // nobody is there
    for (uint32_t n = 0; n < 20000; n++) {
        open.ep = 2 * n + 1;
        CHECK(raw_send(&victim, &hostile, &open, NULL));
        if (n % 64 == 0)
            (void)raw_hung_up(hostile.fd);  // reads the refusals
    }
    CHECK_EQ_INT(victim.accepted_count, 1);
    hang_up();
    PUMP_UNTIL(&victim, whi_hash_count(&whi_links_of(victim.server)->links) == 1);
    end();
}

// A peer that asks and never listens: what waits for it is bounded by what it may ask, and its link ends.
TEST(a_peer_that_never_reads) {
    begin();
    attack();
    uint64_t records = 0, last_ns = whi_clock_ns();
    whi_hdr flush = {.cls = WHI_CLASS_FLUSH, .ep = 1, .tag = 1};
    // Until the victim is no longer reading, or has hung up.
    while (whi_clock_ns() - last_ns < 200 * WHI_NS_PER_MS && records < (3u << 20)) {
        whi_hdr batch[256];
        for (int i = 0; i < 256; i++) {
            flush.seq = (uint32_t)records + (uint32_t)i;
            batch[i] = flush;
        }
        if (!raw_write(&victim, hostile.fd, batch, sizeof(batch)))
            break;
        records += 256;
        last_ns = whi_clock_ns();
    }
    PUMP_UNTIL(&victim,
               raw_hung_up(hostile.fd) || whi_hash_count(&whi_links_of(victim.server)->links) == 1);
    CHECK(logged("does not read them"));
    hang_up();
    PUMP_UNTIL(&victim, whi_hash_count(&whi_links_of(victim.server)->links) == 1);
    end();
}

TEST_MAIN()
