// SPDX-License-Identifier: BSD-3-Clause
//
// Attacks by a peer that has got through the handshake (hostile_kit.h): offers of device memory that cannot be, that nobody has
// asked for, or that lead elsewhere, and answers to no offer.
//
// The attacker is in the victim's process, so that both addresses and handles may come from it.
#include "engine/hostile_kit.h"
#include "mem/sim.h"

enum { SIZE = 40000, TAG = 9 };

static unsigned char *into;  // the victim's device memory
static unsigned char host[SIZE];
static wh_request *received;
static uint32_t grant_id;

static unsigned char *device(unsigned char content) {
    void *ptr = NULL;
    memset(host, content, SIZE);
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_SIM, 0, SIZE, &ptr), WH_OK);
    CHECK_EQ_INT(wh_mem_copy(ptr, WH_MEM_SIM, host, WH_MEM_HOST, SIZE), WH_OK);
    return ptr;
}

static void check_into(unsigned char content) {
    CHECK_EQ_INT(wh_mem_copy(host, WH_MEM_HOST, into, WH_MEM_SIM, SIZE), WH_OK);
    for (int i = 0; i < SIZE; i++)
        CHECK_EQ_INT(host[i], content);
}

static void start(void) {
    raw_lanes = WHI_LANE_STREAM;
    raw_features = WHI_FEATURES_OWN;
    begin();
    into = device(0x11);
}

static void stop(void) {
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, into), WH_OK);
    end();
}

static void attack_locally(void) {
    raw_link_local(&victim, &hostile, port);
    target = raw_open(&victim, &hostile);
    seq = 0;
}

// announced has the victim receive a message of the attacker's, and returns the flags of its grant.
static uint8_t announced(wh_mem_kind kind) {
    received = NULL;
    CHECK_EQ_INT(wh_tag_recv(target, kind == WH_MEM_SIM ? into : host, SIZE, TAG, WH_TAG_MASK_ALL,
                             NULL, &received),
                 WH_PENDING);
    CHECK(announce(WHI_CLASS_TAG, 77, TAG, SIZE));
    whi_hdr grant = hear(WHI_CLASS_GRANT);
    grant_id = (uint32_t)(grant.tag >> 32);
    return grant.flags;
}

static whi_device_offer offer_of(const void *at) {
    return (whi_device_offer){.size = SIZE,
                              .at = (uint64_t)(uintptr_t)at,
                              .kind = WH_MEM_SIM,
                              .how = WHI_OFFER_ADDRESS,
                              .id = 1,
                              .base = 4096,
                              .length = SIZE};
}

static bool offer(const whi_device_offer *what, uint64_t offset, uint32_t segment) {
    return raw_send(&victim, &hostile,
                    &(whi_hdr){.cls = WHI_CLASS_OFFER,
                               .size = sizeof(*what),
                               .ep = 1,
                               .seq = segment,
                               .tag = grant_id | UINT64_C(5) << 32,
                               .arg = offset},
                    what);
}

static void ended(wh_status expected) {
    CHECK_EQ_INT(wh_request_status(received), expected);
    wh_request_free(received);
    received = NULL;
}

// What is right is taken, and what cannot be had is asked for instead; neither ends the link.
TEST(offers_that_can_be) {
    start();
    attack_locally();
    unsigned char *from = device(0x22);
    CHECK_EQ_INT(announced(WH_MEM_SIM), WHI_FLAG_TAKES_DEVICE);
    whi_device_offer good = offer_of(from), bad[] = {good, good, good, good, good};
    bad[0].kind = WH_MEM_CUDA;
    bad[1].at += 1;  // beyond its end
    bad[2].at = 8;   // no memory at all
    bad[3].how = WHI_OFFER_HANDLE;
    bad[3].at = 0;
    bad[4].how = WHI_OFFER_DESCRIPTOR;
    bad[4].at = 0;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK(offer(&bad[i], 0, 0));
        whi_hdr answer = hear(WHI_CLASS_TAKEN);
        CHECK_EQ_INT(answer.tag, 5);
        CHECK_EQ_INT(answer.arg, 1);
        check_into(0x11);
    }
    CHECK(offer(&good, 0, 0));
    CHECK_EQ_INT(hear(WHI_CLASS_TAKEN).arg, 0);
    PUMP_UNTIL(&victim, wh_request_status(received) != WH_PENDING);
    ended(WH_OK);
    check_into(0x22);
    // Late, for what has ended: thrown away.
    CHECK(offer(&good, 0, 0));
    CHECK_EQ_INT(hear(WHI_CLASS_TAKEN).arg, 0);
    CHECK_EQ_INT(wh_endpoint_status(target), WH_OK);
    hang_up();
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, from), WH_OK);
    stop();
}

TEST(offers_that_cannot_be) {
    enum { WAYS = 10 };
    start();
    unsigned char *from = device(0x22);
    for (int way = 0; way < WAYS; way++) {
        kit_log_begin();
        attack_locally();
        (void)announced(WH_MEM_SIM);
        whi_device_offer bad = offer_of(from);
        uint64_t offset = 0;
        uint32_t segment = 0;
        switch (way) {
        case 0: bad.size = 0; break;
        case 1: bad.size = WHI_DEVICE_OFFER_MAX + 1; break;
        case 2: bad.how = 4; break;
        case 3: bad.size = SIZE + 1; break;
        case 4: offset = 1; break;
        case 5: segment = 1; break;
        case 6: offset = UINT64_MAX; break;
        case 7:
            bad.how = WHI_OFFER_HANDLE;
            bad.at = 1;
            break;
        case 8:
            bad.how = WHI_OFFER_DESCRIPTOR;
            bad.at = 1;
            break;
        default:
            bad.how = WHI_OFFER_HANDLE;
            bad.at = UINT64_MAX;
            break;
        }
        CHECK(offer(&bad, offset, segment));
        refused("offer");
        ended(WH_EPROTOCOL);
        check_into(0x11);
    }
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, from), WH_OK);
    stop();
}

TEST(a_second_offer_while_one_is_copied) {
    start();
    unsigned char *from = device(0x22);
    attack_locally();
    (void)announced(WH_MEM_SIM);
    whi_sim_set_delay(50 * WHI_NS_PER_MS);
    whi_device_offer half = offer_of(from);
    half.size = SIZE / 2;
    CHECK(offer(&half, 0, 0) && offer(&half, 0, 0));
    refused("offer");
    ended(WH_EPROTOCOL);
    whi_sim_set_delay(0);
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, from), WH_OK);
    stop();
}

// The same bytes twice make no message.
TEST(more_bytes_than_granted) {
    start();
    unsigned char *from = device(0x22);
    attack_locally();
    (void)announced(WH_MEM_SIM);
    whi_device_offer most = offer_of(from);
    most.size = SIZE - 1;
    CHECK(offer(&most, 0, 0));
    (void)hear(WHI_CLASS_TAKEN);
    CHECK(offer(&most, 0, 0));
    refused("offer");
    ended(WH_EPROTOCOL);
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, from), WH_OK);
    stop();
}

TEST(offers_that_nobody_has_asked_for) {
    start();
    unsigned char *from = device(0x22);
    whi_device_offer good = offer_of(from);
    for (int way = 0; way < 2; way++) {
        kit_log_begin();
        if (way == 0)
            attack_locally();
        else
            attack();  // over TCP: nothing proves that it is on this host
        CHECK_EQ_INT(announced(way == 0 ? WH_MEM_HOST : WH_MEM_SIM), 0);
        CHECK(offer(&good, 0, 0));
        refused(way == 0 ? "does not fit" : "nobody has asked for");
        ended(WH_EPROTOCOL);
        check_into(0x11);
    }
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, from), WH_OK);
    stop();
}

// Answers: to nothing, with a word that there is not, twice when the send is done, and twice when it goes on by chunks.
TEST(answers_to_no_offer) {
    start();
    for (int way = 0; way < 4; way++) {
        kit_log_begin();
        attack_locally();
        wh_request *sent = NULL;
        CHECK_EQ_INT(wh_tag_send(target, into, SIZE, TAG, NULL, &sent), WH_PENDING);
        whi_hdr heard = hear(WHI_CLASS_TAG);
        whi_announce announcement;
        memcpy(&announcement, bytes, sizeof(announcement));
        CHECK_EQ_INT(heard.arg, SIZE);
        whi_hdr grant = {.cls = WHI_CLASS_GRANT,
                         .flags = WHI_FLAG_TAKES_DEVICE,
                         .tag = announcement.send_id | UINT64_C(3) << 32,
                         .arg = SIZE};
        CHECK(say(grant, NULL));
        heard = hear(WHI_CLASS_OFFER);
        CHECK_EQ_INT((uint32_t)heard.tag, 3);
        CHECK_EQ_INT(wh_request_status(sent), WH_PENDING);
        whi_hdr answer = {.cls = WHI_CLASS_TAKEN, .tag = heard.tag >> 32};
        if (way == 0)
            answer.tag = 12345;
        else if (way == 1)
            answer.arg = 3;
        else
            answer.arg = way == 3;
        answer.ep = 1;
        whi_hdr twice[] = {answer, answer};  // in one go, before anything follows the first
        CHECK(raw_write(&victim, hostile.fd, twice, way >= 2 ? sizeof(twice) : sizeof(answer)));
        refused("an answer to no offer");
        CHECK_EQ_INT(wh_request_status(sent), way == 2 ? WH_OK : WH_EPROTOCOL);
        wh_request_free(sent);
    }
    stop();
}

TEST_MAIN()
