// SPDX-License-Identifier: BSD-3-Clause
//
// Attacks by a peer that has got through the handshake: records that no honest library sends.
//
// The attacker is a bare socket (raw_peer.h) with a link to the victim and an endpoint on it.  Whatever it writes may cost it
// that link and nothing else: the honest client's messages go on, and what the victim had posted for any source
// is still there for it.
#include <sys/mman.h>

#include "comm/raw_peer.h"
#include "mem/mem.h"
#include "net/shm/ring.h"
#include "net/shm/shm.h"
#include "net/stream/stream.h"

enum { CREDIT = 64 << 10, ANNOUNCE_MAX = 100, EAGER = 8192 };

static const char *const options[] = {"credit=64K", "announce_max=100", "grace=1s", NULL};

static duo victim;
static uint16_t port;
static raw foe;
static uint32_t seq;         // of the foe's endpoint
static wh_endpoint *target;  // the victim's end of it
static uint8_t bytes[1 << 20];

static void begin(void) {
    whi_rng_init(&raw_rng, 3);
    duo_begin(&victim, options, options);
    duo_connect(&victim);
    port = wh_listener_port(victim.listener);
}

// attack links the foe, and opens an endpoint.
static void attack(void) {
    raw_link(&victim, &foe, port);
    target = raw_open(&victim, &foe);
    seq = 0;
}

static void give_up(void) {
    close(foe.fd);
    while (victim.accepted_count > 1)  // the first one is the honest client's
        wh_endpoint_abort(victim.accepted[--victim.accepted_count]);
    target = NULL;
}

// refused waits until the victim has ended the link, and checks why.
static void refused(const char *word) {
    PUMP_UNTIL(&victim, raw_hung_up(foe.fd));
    PUMP_UNTIL(&victim, wh_endpoint_status(target) != WH_OK);
    CHECK_EQ_INT(wh_endpoint_status(target), WH_EPROTOCOL);
    if (!logged(word))
        whi_test_end(WHI_TEST_FAILED, __FILE__, __LINE__, "no \"%s\" in: %s", word, kit_log.text);
    give_up();
}

static void end(void) {
    honest(&victim);
    CHECK_EQ_INT(wh_endpoint_status(victim.to), WH_OK);
    CHECK_EQ_INT(whi_hash_count(&victim.server->links), 1);
    duo_end(&victim);
}

// say sends a record of the foe's endpoint with the next number.
static bool say(whi_hdr hdr, const void *payload) {
    if (!hdr.ep)
        hdr.ep = 1;
    if (hdr.cls >= WHI_CLASS_TAG && hdr.cls < WHI_CLASS_UNORDERED)
        hdr.seq = seq++;
    return raw_send(&victim, &foe, &hdr, payload);
}

static bool announce(uint8_t cls, uint32_t send_id, uint64_t tag, uint64_t length) {
    whi_announce announcement = {.send_id = send_id};
    return say((whi_hdr){.cls = cls,
                         .flags = WHI_FLAG_ANNOUNCED,
                         .size = sizeof(announcement),
                         .tag = tag,
                         .arg = length},
               &announcement);
}

// hear reads records of the victim until one of class `cls` has come.
static whi_hdr hear(uint8_t cls) {
    return raw_hear(&victim, &foe, cls, bytes, sizeof(bytes));
}

// ---- single rules of the protocol

TEST(a_wrong_sequence_number) {
    static const uint32_t wrong[] = {1, 2, UINT32_MAX, 0x80000000};
    begin();
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        attack();
        whi_hdr hdr = {.cls = WHI_CLASS_TAG, .ep = 1, .seq = wrong[i]};
        CHECK(raw_send(&victim, &foe, &hdr, NULL));
        refused("sequence number is not the next");
    }
    attack();
    whi_hdr hdr = {.cls = WHI_CLASS_TAG, .ep = 1, .seq = 0};
    CHECK(raw_send(&victim, &foe, &hdr, NULL) && raw_send(&victim, &foe, &hdr, NULL));
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
    give_up();
    PUMP_UNTIL(&victim, whi_hash_count(&victim.server->links) == 1);
    end();
}

// Control records cost no credit: any number of them leaves room for messages.
TEST(control_is_free) {
    begin();
    attack();
    for (uint32_t i = 1; i <= 2 * CREDIT / WHI_MESSAGE_COST; i++) {
        CHECK(say((whi_hdr){.cls = i % 2 ? WHI_CLASS_FLUSH : WHI_CLASS_WITHDRAW, .tag = i}, NULL));
        if (i % 16 == 0)
            CHECK(!raw_hung_up(foe.fd));  // reads the answers
    }
    CHECK(say((whi_hdr){.cls = WHI_CLASS_TAG, .size = 4096, .tag = 5}, bytes));
    PUMP_UNTIL(&victim, wh_tag_probe(target, 5, WH_TAG_MASK_ALL, NULL) == WH_OK);
    CHECK_EQ_INT(wh_endpoint_status(target), WH_OK);
    give_up();
    PUMP_UNTIL(&victim, whi_hash_count(&victim.server->links) == 1);
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
    PUMP_UNTIL(&victim, wh_tag_peek(target, 5, WH_TAG_MASK_ALL, NULL, &taken) == WH_OK);
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
    CHECK(raw_write(&victim, foe.fd, made, MANY * sizeof(*made)));
    PUMP_UNTIL(&victim, target->rx_announced == MANY);
    uint64_t start = whi_clock_ns();
    CHECK(raw_write(&victim, foe.fd, unmade, MANY * sizeof(*unmade)));
    PUMP_UNTIL(&victim, target->rx_announced == MANY / 2);
    CHECK(whi_clock_ns() - start < 2 * WHI_NS_PER_S);
    free(made);
    free(unmade);
    give_up();
    PUMP_UNTIL(&victim, whi_hash_count(&victim.server->links) == 1);
    end();
}

TEST(endpoints_that_are_not_there) {
    static const uint32_t numbers[] = {2, 3, 1000, UINT32_MAX, UINT32_MAX - 1};
    begin();
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        attack();
        whi_hdr hdr = {.cls = WHI_CLASS_TAG, .ep = numbers[i]};
        CHECK(raw_send(&victim, &foe, &hdr, NULL));
        refused("no such endpoint");
    }
    end();
}

TEST(numbers_that_are_not_the_peers_to_give) {
    static const uint32_t numbers[] = {0, 1, 2, 4, UINT32_MAX - 1};
    begin();
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        attack();
        whi_hdr hdr = {.cls = WHI_CLASS_OPEN, .ep = numbers[i], .tag = foe.peer.listener};
        CHECK(raw_send(&victim, &foe, &hdr, NULL));
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
        CHECK(raw_write(&victim, foe.fd, &hdr, sizeof(hdr)));
        refused(i == 0 ? "too large" : "");  // a lane repeats itself only once a second
    }
    attack();
    whi_hdr hdr = {.cls = WHI_CLASS_CHUNK, .ep = 1, .size = UINT32_MAX};
    CHECK(raw_write(&victim, foe.fd, &hdr, sizeof(hdr)));
    refused("");
    end();
}

TEST(unknown_classes) {
    begin();
    for (unsigned cls = 0; cls < 256; cls++) {
        bool message = cls >= WHI_CLASS_TAG && cls <= WHI_CLASS_ATOMIC;
        bool control = cls >= WHI_CLASS_GRANT && cls <= WHI_CLASS_RECALLED;
        if (message || control || cls == WHI_CLASS_CHUNK)
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
        CHECK(raw_send(&victim, &foe, &chunk, bytes));
    }
    CHECK(say((whi_hdr){.cls = WHI_CLASS_FLUSH, .tag = 9}, NULL));
    CHECK_EQ_INT(hear(WHI_CLASS_FLUSH_ACK).tag, 9);  // still there
    give_up();
    PUMP_UNTIL(&victim, whi_hash_count(&victim.server->links) == 1);
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
        (void)say((whi_hdr){.cls = WHI_CLASS_OPEN, .ep = 3, .tag = foe.peer.listener}, NULL);
        pump_for(&victim, 10);
        give_up();
        PUMP_UNTIL(&victim, whi_hash_count(&victim.server->links) == 1);
    }
    end();
}

// ---- payloads

static uint32_t granted(uint64_t *accept) {
    whi_hdr grant = hear(WHI_CLASS_GRANT);
    *accept = grant.arg;
    return (uint32_t)(grant.tag >> 32);
}

// A chunk that reaches beyond what was granted never touches the memory behind the buffer.
TEST(chunks_beyond_the_grant) {
    static const struct {
        uint32_t segment, size;
        uint64_t offset;
    } cases[] = {{0, 101, 0},
                 {0, 1, 100},
                 {0, 2, 99},
                 {0, 1, UINT64_MAX},
                 {1, 10, 0},
                 {UINT32_MAX, 1, 0},
                 {0, 50, UINT64_MAX - 20}};
    begin();
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        attack();
        uint8_t into[120];
        memset(into, 0xee, sizeof(into));
        wh_request *recv = NULL;
        uint64_t accept;
        CHECK_EQ_INT(wh_tag_recv(target, into, 100, 5, WH_TAG_MASK_ALL, NULL, &recv), WH_PENDING);
        CHECK(announce(WHI_CLASS_TAG, 9, 5, 5000));
        whi_hdr chunk = {.cls = WHI_CLASS_CHUNK,
                         .ep = granted(&accept),
                         .seq = cases[i].segment,
                         .size = cases[i].size,
                         .arg = cases[i].offset};
        CHECK_EQ_INT(accept, 100);
        CHECK(raw_send(&victim, &foe, &chunk, bytes));
        refused("does not fit what was granted");
        CHECK_EQ_INT(done_as(&victim, recv), WH_EPROTOCOL);
        for (size_t b = 100; b < sizeof(into); b++)
            CHECK_EQ_INT(into[b], 0xee);
    }
    end();
}

// The same bytes twice make more than was granted.
TEST(chunks_that_overlap) {
    begin();
    attack();
    uint8_t into[100];
    wh_request *recv = NULL;
    uint64_t accept;
    CHECK_EQ_INT(wh_tag_recv(target, into, 100, 5, WH_TAG_MASK_ALL, NULL, &recv), WH_PENDING);
    CHECK(announce(WHI_CLASS_TAG, 9, 5, 100));
    whi_hdr chunk = {.cls = WHI_CLASS_CHUNK, .ep = granted(&accept), .size = 60};
    CHECK(raw_send(&victim, &foe, &chunk, bytes) && raw_send(&victim, &foe, &chunk, bytes));
    refused("more bytes than were granted");
    CHECK_EQ_INT(done_as(&victim, recv), WH_EPROTOCOL);
    end();
}

// A long message into a short buffer, by way of the header's size.
TEST(a_message_longer_than_the_buffer) {
    begin();
    attack();
    uint8_t into[64];
    memset(into, 0xee, sizeof(into));
    memset(bytes, 1, 4096);
    wh_request *recv = NULL;
    wh_result result;
    CHECK_EQ_INT(wh_tag_recv(target, into, 32, 5, WH_TAG_MASK_ALL, NULL, &recv), WH_PENDING);
    CHECK(say((whi_hdr){.cls = WHI_CLASS_TAG, .size = 4096, .tag = 5}, bytes));
    PUMP_UNTIL(&victim, wh_request_result(recv, &result) == WH_OK);
    CHECK_EQ_INT(result.status, WH_ETRUNCATED);
    CHECK_EQ_INT(result.size, 4096);
    CHECK_EQ_INT(into[31], 1);
    for (int i = 32; i < 64; i++)
        CHECK_EQ_INT(into[i], 0xee);
    wh_request_free(recv);
    give_up();
    PUMP_UNTIL(&victim, whi_hash_count(&victim.server->links) == 1);
    end();
}

// ---- receives from any source outlive an attacker that they have met

// still_receives checks that an any-source receive gets the honest client's message.
static void still_receives(wh_request *recv, uint64_t tag) {
    uint64_t word = 4711;
    CHECK_EQ_INT(wh_request_status(recv), WH_PENDING);
    wh_status st = wh_tag_send(victim.to, &word, sizeof(word), tag, NULL, NULL);
    CHECK(st == WH_OK || st == WH_PENDING);
    CHECK_EQ_INT(done_as(&victim, recv), WH_OK);
}

TEST(any_source_outlives_a_promise) {
    begin();
    attack();
    uint64_t word = 0;
    wh_request *recv = NULL;
    CHECK_EQ_INT(
        wh_worker_tag_recv(victim.server, &word, sizeof(word), 6, WH_TAG_MASK_ALL, NULL, &recv),
        WH_PENDING);
    CHECK(announce(WHI_CLASS_TAG, 9, 6, 8));
    (void)hear(WHI_CLASS_GRANT);
    give_up();
    PUMP_UNTIL(&victim, whi_hash_count(&victim.server->links) == 1);
    still_receives(recv, 6);
    CHECK_EQ_INT(word, 4711);
    end();
}

TEST(any_source_outlives_half_a_payload) {
    begin();
    attack();
    uint64_t word[2] = {0};
    wh_request *recv = NULL;
    uint64_t accept;
    CHECK_EQ_INT(
        wh_worker_tag_recv(victim.server, word, sizeof(word), 6, WH_TAG_MASK_ALL, NULL, &recv),
        WH_PENDING);
    CHECK(announce(WHI_CLASS_TAG, 9, 6, 16));
    whi_hdr chunk = {.cls = WHI_CLASS_CHUNK, .ep = granted(&accept), .size = 8};
    CHECK(raw_send(&victim, &foe, &chunk, bytes));
    pump_for(&victim, 5);
    give_up();
    PUMP_UNTIL(&victim, whi_hash_count(&victim.server->links) == 1);
    still_receives(recv, 6);
    CHECK_EQ_INT(word[0], 4711);
    end();
}

static wh_request *post_object(wh_object **object) {
    wh_request *recv = NULL;
    *object = NULL;
    CHECK_EQ_INT(wh_worker_object_recv(victim.server, NULL, 0, 6, WH_TAG_MASK_ALL, NULL, &recv),
                 WH_PENDING);
    return recv;
}

// gets_object checks that the receive still gets an honest object.
static void gets_object(wh_request *recv) {
    wh_frame frame = {.data = bytes, .size = 500};
    wh_status st = wh_object_send(victim.to, "head", 4, &frame, 1, 6, NULL, NULL);
    CHECK(st == WH_OK || st == WH_PENDING);
    wh_result result;
    PUMP_UNTIL(&victim, wh_request_result(recv, &result) == WH_OK);
    CHECK_EQ_INT(result.status, WH_OK);
    CHECK_EQ_INT(wh_object_count(result.object), 1);
    wh_object_free(result.object);
    wh_request_free(recv);
}

// Puts an envelope together; the caller spoils it.
static size_t envelope(uint8_t *to, uint32_t frames, uint64_t header, uint64_t frame_size,
                       uint8_t flags) {
    whi_envelope head = whi_envelope_of(frames, header);
    size_t size = sizeof(head);
    memcpy(to, &head, sizeof(head));
    for (uint32_t i = 0; i < frames; i++) {
        whi_wire_frame frame = {.size = frame_size, .kind = WH_MEM_HOST, .flags = flags};
        memcpy(to + size, &frame, sizeof(frame));
        size += sizeof(frame);
    }
    memset(to + size, 0x55, header);
    size += header;
    if (!(flags & WHI_FRAME_FOLLOWS)) {
        memset(to + size, 0x66, frames * frame_size);
        size += frames * frame_size;
    }
    return size;
}

static void set_u64(uint8_t *at, uint64_t value) {
    memcpy(at, &value, sizeof(value));
}

enum { AT_VERSION = 0, AT_COUNT = 1, AT_HEADER = 4, AT_FRAME = 8, AT_KIND = 16, AT_LAYOUT = 20 };

TEST(objects_with_lies_in_their_heads) {
    begin();
    for (int lie = 0; lie < 13; lie++) {
        for (int kept = 0; kept < 2; kept++) {
            attack();
            wh_object *object;
            wh_request *recv = kept ? NULL : post_object(&object);
            uint8_t head[1000];
            size_t size = envelope(head, 2, 10, 20, lie == 11 ? WHI_FRAME_FOLLOWS : 0);
            switch (lie) {
            case 0: head[AT_VERSION]++; break;
            case 1: head[AT_COUNT]++; break;
            case 2: head[AT_COUNT + 2] = 0x7f; break;
            case 3: head[AT_HEADER] = 11; break;
            case 4: memset(head + AT_HEADER, 0xff, 4); break;
            case 5: set_u64(head + AT_FRAME, 21); break;
            case 6: set_u64(head + AT_FRAME, UINT64_MAX); break;
            case 7: head[AT_KIND] = WH_MEM_AUTO; break;
            case 8: head[AT_KIND] = 200; break;
            case 9: head[AT_LAYOUT] = 1; break;
            case 10: size--; break;
            case 12: size++; break;
            default: break;  // 11: frames that follow, though nothing was announced
            }
            CHECK(say((whi_hdr){.cls = WHI_CLASS_OBJECT, .size = (uint32_t)size, .tag = 6}, head));
            if (kept) {
                pump_for(&victim, 3);
                recv = post_object(&object);
            }
            PUMP_UNTIL(&victim, raw_hung_up(foe.fd));
            give_up();
            PUMP_UNTIL(&victim, whi_hash_count(&victim.server->links) == 1);
            gets_object(recv);
        }
    }
    end();
}

TEST(announced_objects_with_lies) {
    begin();
    for (int lie = 0; lie < 5; lie++) {
        attack();
        wh_object *object;
        wh_request *recv = post_object(&object);
        uint8_t payload[1000];
        whi_announce announcement = {.send_id = 5};
        memcpy(payload, &announcement, sizeof(announcement));
        size_t size = envelope(payload + 8, 2, 10, 1 << 20, WHI_FRAME_FOLLOWS);
        uint64_t length = lie == 0 ? size + 1 : size;
        if (lie == 1)
            set_u64(payload + 8 + AT_FRAME, 0);  // nothing follows, though it says so
        if (lie == 2)
            set_u64(payload + 8 + AT_FRAME, UINT64_MAX / 2);
        if (lie == 3)
            length = 3, size = 0;  // to be fetched, and too short
        if (lie == 4)
            length = UINT64_C(82) << 20, size = 0;  // more than heads may have
        CHECK(say((whi_hdr){.cls = WHI_CLASS_OBJECT,
                            .flags = WHI_FLAG_ANNOUNCED,
                            .size = (uint32_t)(8 + size),
                            .tag = 6,
                            .arg = length},
                  payload));
        PUMP_UNTIL(&victim, raw_hung_up(foe.fd));
        give_up();
        PUMP_UNTIL(&victim, whi_hash_count(&victim.server->links) == 1);
        gets_object(recv);
    }
    end();
}

static wh_object *parked;
static wh_status answer_later(wh_object *object, size_t index, void **ptr, void *arg) {
    (void)index, (void)ptr, (void)arg;
    parked = object;
    return WH_PENDING;
}

static void free_frame(void *ptr, size_t size, wh_mem_kind kind, int device, void *arg) {
    (void)size, (void)kind, (void)device, (void)arg;
    free(ptr);
}

// fetch_head lets the victim ask for an object's head, and sends it; returns the name of the grant.
static uint32_t fetch_head(size_t *size) {
    *size = envelope(bytes, 1, 10, 1 << 20, WHI_FRAME_FOLLOWS);
    CHECK(announce(WHI_CLASS_OBJECT, 5, 6, *size));
    uint8_t head[1000];
    memcpy(head, bytes, *size);
    uint64_t accept;
    whi_hdr chunk = {.cls = WHI_CLASS_CHUNK, .ep = granted(&accept), .size = (uint32_t)*size};
    CHECK_EQ_INT(accept, *size);
    CHECK(raw_send(&victim, &foe, &chunk, head));
    PUMP_UNTIL(&victim, parked);
    return chunk.ep;
}

// Between its head and its data nothing may come for an object.
TEST(chunks_for_a_parked_object) {
    begin();
    CHECK_EQ_INT(
        wh_worker_set_allocator(victim.server, WH_MEM_HOST, answer_later, free_frame, NULL), WH_OK);
    attack();
    parked = NULL;
    wh_request *recv = NULL;
    CHECK_EQ_INT(wh_object_recv(target, NULL, 0, 6, WH_TAG_MASK_ALL, NULL, &recv), WH_PENDING);
    size_t size;
    whi_hdr chunk = {.cls = WHI_CLASS_CHUNK, .ep = fetch_head(&size), .size = 1};
    CHECK(raw_send(&victim, &foe, &chunk, bytes));
    refused("does not fit what was granted");
    CHECK_EQ_INT(done_as(&victim, recv), WH_EPROTOCOL);
    end();
}

// A parked object whose sender withdraws it ends, so that its user knows that it is gone.
TEST(withdrawal_of_a_parked_object) {
    begin();
    CHECK_EQ_INT(
        wh_worker_set_allocator(victim.server, WH_MEM_HOST, answer_later, free_frame, NULL), WH_OK);
    attack();
    parked = NULL;
    wh_request *recv = NULL;
    CHECK_EQ_INT(wh_object_recv(target, NULL, 0, 6, WH_TAG_MASK_ALL, NULL, &recv), WH_PENDING);
    size_t size;
    (void)fetch_head(&size);
    CHECK(say((whi_hdr){.cls = WHI_CLASS_WITHDRAW, .tag = 5}, NULL));
    PUMP_UNTIL(&victim, wh_request_status(recv) != WH_PENDING);
    CHECK_EQ_INT(wh_object_accept(parked, 0, bytes), WH_ECANCELLED);
    CHECK_EQ_INT(done_as(&victim, recv), WH_ECANCELLED);
    give_up();
    PUMP_UNTIL(&victim, whi_hash_count(&victim.server->links) == 1);
    end();
}

static uint64_t asked_for;
static wh_status refuse_large(wh_object *object, size_t index, void **ptr, void *arg) {
    (void)ptr, (void)arg;
    asked_for = wh_object_frame(object, index)->size;
    return WH_ENOMEM;
}

// A frame for a device that is not here comes to the host, and there its user's allocator decides.
TEST(frames_for_absent_devices) {
    begin();
    CHECK_EQ_INT(
        wh_worker_set_allocator(victim.server, WH_MEM_HOST, refuse_large, free_frame, NULL), WH_OK);
    attack();
    for (uint8_t kind = 0; kind < WHI_MEM_KINDS; kind++) {
        if (kind == WH_MEM_AUTO || whi_mem_ops_of((wh_mem_kind)kind))
            continue;
        uint8_t payload[1000];
        whi_announce announcement = {.send_id = 5u + kind};
        memcpy(payload, &announcement, sizeof(announcement));
        size_t size =
            envelope(payload + sizeof(announcement), 1, 10, UINT64_C(1) << 50, WHI_FRAME_FOLLOWS);
        payload[sizeof(announcement) + AT_KIND] = kind;
        wh_request *recv = NULL;
        asked_for = 0;
        CHECK_EQ_INT(wh_object_recv(target, NULL, 0, 6, WH_TAG_MASK_ALL, NULL, &recv), WH_PENDING);
        CHECK(say((whi_hdr){.cls = WHI_CLASS_OBJECT,
                            .flags = WHI_FLAG_ANNOUNCED,
                            .size = (uint32_t)(sizeof(announcement) + size),
                            .tag = 6,
                            .arg = size},
                  payload));
        CHECK_EQ_INT(done_as(&victim, recv), WH_ENOMEM);
        CHECK(asked_for == UINT64_C(1) << 50);
    }
    give_up();
    PUMP_UNTIL(&victim, whi_hash_count(&victim.server->links) == 1);
    end();
}

TEST(active_messages_with_lies) {
    begin();
    static const whi_hdr lies[] = {
        {.cls = WHI_CLASS_AM, .size = 10, .tag = 11},
        {.cls = WHI_CLASS_AM, .size = 10, .tag = WH_AM_HEADER_MAX + 1},
        {.cls = WHI_CLASS_AM, .size = 2000, .tag = UINT64_MAX},
        {.cls = WHI_CLASS_AM, .flags = WHI_FLAG_ANNOUNCED, .size = 8, .tag = 1, .arg = 100},
        {.cls = WHI_CLASS_AM, .flags = WHI_FLAG_ANNOUNCED, .size = 20, .tag = 0, .arg = 100},
    };
    memset(bytes, 1, 100);
    for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
        attack();
        CHECK(say(lies[i], bytes));
        refused("");
    }
    end();
}

// ---- floods

// A peer that opens endpoints without end is refused at a bound.
TEST(endless_endpoints) {
    begin();
    raw_link(&victim, &foe, port);
    whi_hdr open = {
        .cls = WHI_CLASS_OPEN, .seq = 100, .tag = 999, .arg = 1 << 20};  // nobody is there
    for (uint32_t n = 0; n < 20000; n++) {
        open.ep = 2 * n + 1;
        CHECK(raw_send(&victim, &foe, &open, NULL));
        if (n % 64 == 0)
            (void)raw_hung_up(foe.fd);  // reads the refusals
    }
    CHECK_EQ_INT(victim.accepted_count, 1);
    give_up();
    PUMP_UNTIL(&victim, whi_hash_count(&victim.server->links) == 1);
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
        if (!raw_write(&victim, foe.fd, batch, sizeof(batch)))
            break;
        records += 256;
        last_ns = whi_clock_ns();
    }
    PUMP_UNTIL(&victim, raw_hung_up(foe.fd) || whi_hash_count(&victim.server->links) == 1);
    CHECK(logged("does not read them"));
    give_up();
    PUMP_UNTIL(&victim, whi_hash_count(&victim.server->links) == 1);
    end();
}

// ---- rubbish

static whi_hdr random_record(void) {
    static const uint32_t sizes[] = {0, 0, 0, 8, 16, 100, 4096};
    whi_hdr hdr;
    uint8_t *raw_hdr = (uint8_t *)&hdr;
    for (size_t i = 0; i < sizeof(hdr); i++)
        raw_hdr[i] = (uint8_t)whi_rng_u64(&raw_rng);
    // Mostly nearly right, so that it gets past the first checks.
    if (whi_rng_chance(&raw_rng, 90))
        hdr.cls = (uint8_t)whi_rng_between(&raw_rng, 0x10, WHI_CLASS_RECALLED);
    if (whi_rng_chance(&raw_rng, 20))
        hdr.cls = WHI_CLASS_CHUNK;
    hdr.size = sizes[whi_rng_below(&raw_rng, 7)];
    hdr.ep = (uint32_t)whi_rng_below(&raw_rng, 4);
    hdr.flags = (uint8_t)whi_rng_below(&raw_rng, 4);
    hdr.aux = (uint16_t)whi_rng_below(&raw_rng, 3);
    if (whi_rng_chance(&raw_rng, 70))
        hdr.tag = whi_rng_below(&raw_rng, 3) | (uint64_t)whi_rng_below(&raw_rng, 3) << 32;
    if (whi_rng_chance(&raw_rng, 70))
        hdr.arg = whi_rng_below(&raw_rng, 5000);
    if (whi_rng_chance(&raw_rng, 95))
        hdr.seq = seq;
    return hdr;
}

// Random records; the endpoint has operations of all kinds pending, which all end.
TEST(random_records) {
    enum { ROUNDS = 300 };
    begin();
    for (int round = 0; round < ROUNDS; round++) {
        attack();
        static uint8_t into[5000], from[200000];
        wh_request *reqs[7] = {NULL};
        (void)!wh_tag_recv(target, into, sizeof(into), 0, 0, NULL, &reqs[0]);
        (void)!wh_object_recv(target, NULL, 0, 0, 0, NULL, &reqs[1]);
        (void)!wh_tag_send(target, from, sizeof(from), 1, NULL, &reqs[2]);
        (void)!wh_tag_send(target, from, 100, 2, WH_OP_OPTS(.flags = WH_OP_SYNC), &reqs[3]);
        (void)!wh_object_send(target, "h", 1, &(wh_frame){.data = from, .size = sizeof(from)}, 1, 3,
                              NULL, &reqs[4]);
        (void)!wh_endpoint_flush(target, NULL, &reqs[5]);
        (void)!wh_am_send(target, 4, "h", 1, from, sizeof(from), NULL, &reqs[6]);
        for (int n = 0; n < 60; n++) {
            whi_hdr hdr = random_record();
            if (!raw_send(&victim, &foe, &hdr, bytes))
                break;
            seq += hdr.cls >= WHI_CLASS_TAG && hdr.cls < WHI_CLASS_UNORDERED;
            if (raw_hung_up(foe.fd))
                break;
        }
        give_up();
        PUMP_UNTIL(&victim, whi_hash_count(&victim.server->links) == 1);
        for (int i = 0; i < 7; i++) {
            if (!reqs[i])
                continue;
            wh_result result;
            PUMP_UNTIL(&victim, wh_request_result(reqs[i], &result) == WH_OK);
            if (result.object)
                wh_object_free(result.object);
            wh_request_free(reqs[i]);
        }
        kit_log_begin();
    }
    end();
}

// ---- the shared ring

typedef struct ring_foe {
    whi_lane *stream, *shm;
    int ring_fd, their_fd;
    whi_shm_budget budget;
} ring_foe;

static ring_foe ring;

static wh_status ring_deliver(void *link, const whi_hdr *hdr, const void *payload) {
    (void)payload;
    ring_foe *self = link;
    if (hdr->cls != WHI_CLASS_SWITCH)
        return WH_OK;
    whi_stream_rx_bytes(self->stream);
    self->their_fd = whi_stream_take_fd(self->stream);
    return WH_OK;
}

static wh_status ring_sink(void *link, const whi_hdr *hdr, whi_span *span) {
    (void)link, (void)hdr;
    *span = (whi_span){.ptr = bytes};
    return hdr->size <= sizeof(bytes) ? WH_OK : WH_EPROTOCOL;
}

static wh_status ring_landed(void *link, const whi_hdr *hdr) {
    (void)link, (void)hdr;
    return WH_OK;
}

static const whi_lane_up ring_up = {
    .deliver = ring_deliver, .sink = ring_sink, .landed = ring_landed};

static wh_status ring_bell(void *arg) {
    return whi_stream_bell(((ring_foe *)arg)->stream);
}

static wh_status ring_pass(void *arg, int fd) {
    return whi_stream_pass_fd(((ring_foe *)arg)->stream, fd);
}

static int ring_take(void *arg) {
    return whi_stream_take_fd(((ring_foe *)arg)->stream);
}

static const whi_shm_wire ring_wire = {ring_bell, ring_pass, ring_take};

// attack_locally makes a link over shared memory as an honest library does, and keeps a mapping of both rings.
static void attack_locally(uint8_t **mine, uint8_t **theirs, size_t *size) {
    raw_link_local(&victim, &foe, port);
    ring = (ring_foe){.their_fd = -1};
    whi_shm_budget_init(&ring.budget, 1 << 20);
    whi_stream_opts stream = {.eager_limit = EAGER, .chunk = 1 << 20, .local = true};
    CHECK_EQ_INT(whi_stream_create(foe.fd, &stream, &ring_up, &ring, &ring.stream), WH_OK);
    whi_shm_opts shm = {.ring_size = 32 << 10,
                        .eager_limit = EAGER,
                        .budget = &ring.budget,
                        .wire = &ring_wire,
                        .wire_arg = &ring};
    CHECK_EQ_INT(whi_shm_create(&shm, &ring_up, &ring, &ring.shm, &ring.ring_fd), WH_OK);
    whi_hdr hdr = {.cls = WHI_CLASS_SWITCH, .aux = WHI_LANE_SHM};
    CHECK_EQ_INT(whi_stream_send_fd(ring.stream, &hdr, ring.ring_fd), WH_OK);
    CHECK_EQ_INT(whi_stream_tx_bytes(ring.stream), WH_OK);
    PUMP_UNTIL(&victim, (ring.stream->ops->poll(ring.stream, 8), ring.their_fd) >= 0);
    *size = sizeof(whi_ring_shared) + (32 << 10);
    *mine = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_SHARED, ring.ring_fd, 0);
    *theirs = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_SHARED, ring.their_fd, 0);
    CHECK(*mine != MAP_FAILED && *theirs != MAP_FAILED);
    CHECK_EQ_INT(whi_shm_attach(ring.shm, ring.their_fd), WH_OK);
    unsigned before = victim.accepted_count;
    whi_hdr open = {
        .cls = WHI_CLASS_OPEN, .ep = 1, .seq = 100, .tag = foe.peer.listener, .arg = 1 << 20};
    CHECK_EQ_INT(ring.shm->ops->send(ring.shm, &open, NULL), WH_OK);
    PUMP_UNTIL(&victim, victim.accepted_count > before);
    target = victim.accepted[before];
    seq = 0;
}

static void scribble(uint8_t *memory, size_t size) {
    uint64_t words[] = {0, whi_rng_u64(&raw_rng), UINT64_MAX,
                        1, WHI_RING_LIVE,         whi_rng_below(&raw_rng, 1 << 16) | WHI_RING_LIVE};
    for (int i = 0; i < 20; i++) {
        // The words at the beginning, the places of records, and anywhere.
        uint64_t step = whi_rng_below(&raw_rng, size / 64) * 64;
        uint64_t at = i % 3 == 0   ? 128 * whi_rng_below(&raw_rng, 3)
                      : i % 3 == 1 ? step
                                   : whi_rng_below(&raw_rng, size / 8) * 8;
        uint64_t word = words[whi_rng_below(&raw_rng, 6)] ^
                        (i % 5 == 0 ? whi_rng_below(&raw_rng, 256) << 32 : 0);
        memcpy(memory + at, &word, sizeof(word));
    }
}

TEST(rubbish_in_the_shared_ring) {
    if (!whi_shm_available(NULL))
        SKIP("no shared memory here");
    enum { ROUNDS = 60 };
    begin();
    for (int round = 0; round < ROUNDS; round++) {
        uint8_t *mine, *theirs;
        size_t size;
        attack_locally(&mine, &theirs, &size);
        wh_request *reqs[3] = {NULL};
        static uint8_t into[5000], from[200000];
        (void)!wh_tag_recv(target, into, sizeof(into), 0, 0, NULL, &reqs[0]);
        (void)!wh_tag_send(target, from, sizeof(from), 1, NULL, &reqs[1]);
        (void)!wh_object_recv(target, NULL, 0, 0, 0, NULL, &reqs[2]);
        for (int n = 0; n < 40 && wh_endpoint_status(target) == WH_OK; n++) {
            whi_hdr hdr = random_record();
            bool sendable = hdr.cls < WHI_CLASS_LANE && hdr.cls != WHI_CLASS_CHUNK;
            if (sendable && ring.shm->ops->send(ring.shm, &hdr, bytes) == WH_OK)
                seq += hdr.cls >= WHI_CLASS_TAG && hdr.cls < WHI_CLASS_UNORDERED;
            if (round % 3 != 0 && n > 5)
                scribble(round % 3 == 1 ? mine : theirs, size);
            (void)whi_stream_bell(ring.stream);
            pump(&victim);
            (void)!wh_tag_send(target, from, 100, 3, NULL, NULL);
        }
        ring.shm->ops->close(ring.shm);
        ring.stream->ops->close(ring.stream);
        foe.fd = -1;  // it was the lane's
        give_up();
        munmap(mine, size);
        munmap(theirs, size);
        close(ring.ring_fd);
        PUMP_UNTIL(&victim, whi_hash_count(&victim.server->links) == 1);
        for (int i = 0; i < 3; i++) {
            wh_result result;
            if (!reqs[i])
                continue;
            PUMP_UNTIL(&victim, wh_request_result(reqs[i], &result) == WH_OK);
            if (result.object)
                wh_object_free(result.object);
            wh_request_free(reqs[i]);
        }
        kit_log_begin();
    }
    end();
}

TEST_MAIN()
