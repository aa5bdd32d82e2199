// SPDX-License-Identifier: BSD-3-Clause
//
// Attacks by a peer that has got through the handshake (hostile_kit.h): chunks beyond what was granted, objects and active
// messages with lies in their heads, and receives that have met the attacker.
#include "engine/hostile_kit.h"
#include "mem/mem.h"
#include "mem/sim.h"

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
        CHECK(raw_send(&victim, &hostile, &chunk, bytes));
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
    CHECK(raw_send(&victim, &hostile, &chunk, bytes) && raw_send(&victim, &hostile, &chunk, bytes));
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
    hang_up();
    PUMP_UNTIL(&victim, whi_hash_count(&whi_links_of(victim.server)->links) == 1);
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
    hang_up();
    PUMP_UNTIL(&victim, whi_hash_count(&whi_links_of(victim.server)->links) == 1);
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
    CHECK(raw_send(&victim, &hostile, &chunk, bytes));
    pump_for(&victim, 5);
    hang_up();
    PUMP_UNTIL(&victim, whi_hash_count(&whi_links_of(victim.server)->links) == 1);
    still_receives(recv, 6);
    CHECK_EQ_INT(word[0], 4711);
    end();
}

static wh_request *post_object(wh_object **object) {
    wh_request *recv = NULL;
    *object = NULL;
    CHECK_EQ_INT(wh_worker_object_recv(victim.server, NULL, 0, 0, 6, WH_TAG_MASK_ALL, NULL, &recv),
                 WH_PENDING);
    return recv;
}

// gets_object checks that the receive still gets an honest object.
static void gets_object(wh_request *recv) {
    wh_frame frame = {.data = bytes, .size = 500};
    wh_status st = wh_object_send(victim.to, "head", 4, &frame, 1, sizeof(wh_frame), 6, NULL, NULL);
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

enum { AT_VERSION = 0, AT_COUNT = 1, AT_HEADER = 4, AT_FRAME = 8, AT_KIND = 16, AT_SIGNATURE = 20 };

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
            case 9: head[AT_SIGNATURE + 2] = 1; break;
            case 10: size--; break;
            case 12: size++; break;
            default: break;  // 11: frames that follow, though nothing was announced
            }
            CHECK(say((whi_hdr){.cls = WHI_CLASS_OBJECT, .size = (uint32_t)size, .tag = 6}, head));
            if (kept) {
                pump_for(&victim, 3);
                recv = post_object(&object);
            }
            PUMP_UNTIL(&victim, raw_hung_up(hostile.fd));
            hang_up();
            PUMP_UNTIL(&victim, whi_hash_count(&whi_links_of(victim.server)->links) == 1);
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
        PUMP_UNTIL(&victim, raw_hung_up(hostile.fd));
        hang_up();
        PUMP_UNTIL(&victim, whi_hash_count(&whi_links_of(victim.server)->links) == 1);
        gets_object(recv);
    }
    end();
}

// A frame that comes twice while the copy of another to its device is under way does not stand for that one.
TEST(a_frame_twice_while_another_is_copied) {
    enum { FRAME = 64 << 10, LATE_NS = 300 * 1000 * 1000 };
    begin();
    attack();
    wh_request *recv = NULL;
    CHECK_EQ_INT(wh_object_recv(target, NULL, 0, 0, 6, WH_TAG_MASK_ALL, NULL, &recv), WH_PENDING);
    uint8_t payload[1000];
    whi_announce announcement = {.send_id = 5};
    memcpy(payload, &announcement, sizeof(announcement));
    size_t size = envelope(payload + 8, 2, 10, FRAME, WHI_FRAME_FOLLOWS);
    payload[8 + AT_KIND] = WH_MEM_SIM;
    whi_sim_set_delay(LATE_NS);
    CHECK(say((whi_hdr){.cls = WHI_CLASS_OBJECT,
                        .flags = WHI_FLAG_ANNOUNCED,
                        .size = (uint32_t)(8 + size),
                        .tag = 6,
                        .arg = size},
              payload));
    uint64_t accept;
    whi_hdr chunk = {.cls = WHI_CLASS_CHUNK, .ep = granted(&accept), .seq = 1, .size = FRAME};
    CHECK_EQ_INT(accept, 2 * FRAME);
    CHECK(raw_send(&victim, &hostile, &chunk, bytes));
    chunk.seq = 2;
    CHECK(raw_send(&victim, &hostile, &chunk, bytes) && raw_send(&victim, &hostile, &chunk, bytes));
    refused("chunks beyond what was granted");
    // The link's end has waited for the copy, and with that the object was whole.
    wh_result result;
    PUMP_UNTIL(&victim, wh_request_result(recv, &result) == WH_OK);
    CHECK_EQ_INT(result.status, WH_OK);
    wh_object_free(result.object);
    wh_request_free(recv);
    whi_sim_set_delay(0);
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

// begin_to_park has the victim receive an object whose memory it gives later.
static wh_request *begin_to_park(void) {
    wh_request *recv = NULL;
    begin();
    CHECK_EQ_INT(
        wh_worker_set_allocator(victim.server, WH_MEM_HOST,
                                WH_ALLOCATOR(.alloc = answer_later, .free_fn = free_frame)),
        WH_OK);
    attack();
    parked = NULL;
    CHECK_EQ_INT(wh_object_recv(target, NULL, 0, 0, 6, WH_TAG_MASK_ALL, NULL, &recv), WH_PENDING);
    return recv;
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
    CHECK(raw_send(&victim, &hostile, &chunk, head));
    PUMP_UNTIL(&victim, parked);
    return chunk.ep;
}

// A head that was fetched is looked at like any other, and the log says that it was the head.
TEST(a_fetched_head_that_lies) {
    begin();
    attack();
    wh_object *object;
    wh_request *recv = post_object(&object);
    uint8_t head[1000];
    uint64_t accept;
    size_t size = envelope(head, 1, 10, 1 << 20, WHI_FRAME_FOLLOWS);
    head[AT_VERSION]++;
    CHECK(announce(WHI_CLASS_OBJECT, 5, 6, size));
    whi_hdr chunk = {.cls = WHI_CLASS_CHUNK, .ep = granted(&accept), .size = (uint32_t)size};
    CHECK(raw_send(&victim, &hostile, &chunk, head));
    refused("the head of an object that cannot be");
    gets_object(recv);
    end();
}

// Between its head and its data nothing may come for an object.
TEST(chunks_for_a_parked_object) {
    size_t size;
    wh_request *recv = begin_to_park();
    whi_hdr chunk = {.cls = WHI_CLASS_CHUNK, .ep = fetch_head(&size), .size = 1};
    CHECK(raw_send(&victim, &hostile, &chunk, bytes));
    refused("does not fit what was granted");
    CHECK_EQ_INT(done_as(&victim, recv), WH_EPROTOCOL);
    end();
}

// A parked object whose sender withdraws it ends, so that its user knows that it is gone.
TEST(withdrawal_of_a_parked_object) {
    size_t size;
    wh_request *recv = begin_to_park();
    (void)fetch_head(&size);
    CHECK(say((whi_hdr){.cls = WHI_CLASS_WITHDRAW, .tag = 5}, NULL));
    PUMP_UNTIL(&victim, wh_request_status(recv) != WH_PENDING);
    CHECK_EQ_INT(wh_object_accept(parked, 0, bytes), WH_ECANCELLED);
    CHECK_EQ_INT(done_as(&victim, recv), WH_ECANCELLED);
    hang_up();
    PUMP_UNTIL(&victim, whi_hash_count(&whi_links_of(victim.server)->links) == 1);
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
        wh_worker_set_allocator(victim.server, WH_MEM_HOST,
                                WH_ALLOCATOR(.alloc = refuse_large, .free_fn = free_frame)),
        WH_OK);
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
        CHECK_EQ_INT(wh_object_recv(target, NULL, 0, 0, 6, WH_TAG_MASK_ALL, NULL, &recv),
                     WH_PENDING);
        CHECK(say((whi_hdr){.cls = WHI_CLASS_OBJECT,
                            .flags = WHI_FLAG_ANNOUNCED,
                            .size = (uint32_t)(sizeof(announcement) + size),
                            .tag = 6,
                            .arg = size},
                  payload));
        CHECK_EQ_INT(done_as(&victim, recv), WH_ENOMEM);
        CHECK(asked_for == UINT64_C(1) << 50);
    }
    hang_up();
    PUMP_UNTIL(&victim, whi_hash_count(&whi_links_of(victim.server)->links) == 1);
    end();
}

TEST(active_messages_with_lies) {
    begin();
    static const whi_hdr lies[] = {
        {.cls = WHI_CLASS_AM, .size = 10, .tag = 11},
        {.cls = WHI_CLASS_AM, .size = 10, .tag = WH_AM_HEADER_MAX + 1},
        {.cls = WHI_CLASS_AM, .size = 2000, .tag = UINT64_MAX},
        {.cls = WHI_CLASS_AM, .size = 10, .tag = 1 << 16},
        {.cls = WHI_CLASS_AM, .size = 10, .tag = WHI_MEM_KINDS << 16},
        {.cls = WHI_CLASS_AM, .size = 10, .tag = UINT64_C(1) << 32},
        {.cls = WHI_CLASS_AM, .size = 10, .tag = WH_MEM_SIM << 16 | 1 << 24},
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

// offer_of sends an announcement that says it has `count` addresses, and `space` bytes for its ticket and them.
static void offer_of(uint8_t cls, unsigned count, size_t space, size_t frames) {
    uint8_t payload[1200];
    whi_announce announcement = {.send_id = 5, .slot = 3, .count = (uint16_t)count};
    memset(payload, 1, sizeof(payload));
    memcpy(payload, &announcement, sizeof(announcement));
    size_t size = 0;
    if (cls == WHI_CLASS_OBJECT)
        size = envelope(payload + 8 + space, frames, 10, 1 << 20, WHI_FRAME_FOLLOWS);
    CHECK(say((whi_hdr){.cls = cls,
                        .flags = WHI_FLAG_ANNOUNCED | WHI_FLAG_OFFERED,
                        .size = (uint32_t)(8 + space + size),
                        .tag = cls == WHI_CLASS_AM ? 0 : 6,
                        .arg = cls == WHI_CLASS_OBJECT ? size : 100000},
              payload));
}

TEST(offers_with_lies) {
    static const struct {
        uint8_t cls;
        unsigned count;
        size_t space;
    } lies[] = {{WHI_CLASS_TAG, 0, 16},    {WHI_CLASS_TAG, 2, 24},     {WHI_CLASS_TAG, 1, 0},
                {WHI_CLASS_TAG, 1, 15},    {WHI_CLASS_AM, 1, 15},      {WHI_CLASS_AM, 1, 17},
                {WHI_CLASS_AM, 0, 0},      {WHI_CLASS_TAG, 65535, 16}, {WHI_CLASS_OBJECT, 1, 16},
                {WHI_CLASS_OBJECT, 3, 32}, {WHI_CLASS_OBJECT, 0, 8}};
    begin();
    for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
        attack();
        wh_object *object = NULL;
        wh_request *recv = lies[i].cls == WHI_CLASS_OBJECT ? post_object(&object) : NULL;
        offer_of(lies[i].cls, lies[i].count, lies[i].space, 2);
        PUMP_UNTIL(&victim, raw_hung_up(hostile.fd));
        hang_up();
        PUMP_UNTIL(&victim, whi_hash_count(&whi_links_of(victim.server)->links) == 1);
        if (recv)
            gets_object(recv);
    }
    end();
}

// Over a lane that cannot fetch, an offer is an announcement like any other.
TEST(an_offer_over_a_socket) {
    begin();
    attack();
    wh_request *recv = NULL;
    static uint8_t into[100000];
    uint64_t accept;
    CHECK_EQ_INT(wh_tag_recv(target, into, sizeof(into), 6, WH_TAG_MASK_ALL, NULL, &recv),
                 WH_PENDING);
    offer_of(WHI_CLASS_TAG, 1, 16, 0);
    CHECK(granted(&accept) && accept == sizeof(into));
    hang_up();
    PUMP_UNTIL(&victim, wh_request_status(recv) != WH_PENDING);
    wh_request_free(recv);
    end();
}

TEST_MAIN()
