// SPDX-License-Identifier: BSD-3-Clause
//
// The shm lane: the kit over three shapes of it, then growth and the budget.
#include "net/shm/shm.h"

#include "base/alloc.h"
#include "base/log.h"
#include "net/lane_kit.h"
#include "net/shm/test_pair.h"

// ---- the kit

static void kit_fail(const char *file, int line, const char *text) {
    whi_test_end(WHI_TEST_FAILED, file, line, "%s", text);
}

#define WAY(name, budget_limit, ...)                                                               \
    static way name##_way = {.opts = {__VA_ARGS__}, .limit = (budget_limit)};                      \
    static const whi_kit name = {.open = open_lanes,                                               \
                                 .done = close_way,                                                \
                                 .arg = &name##_way,                                               \
                                 .deaf = true,                                                     \
                                 .fail = kit_fail};
// As used; so small that everything is refused and wraps all the time; and growing without bulk
// memory.
WAY(usual, 64 << 20, .ring_size = 64 << 10, .ring_max = 256 << 10, .eager_limit = 8192, .chunks = 4)
WAY(tiny, 64 << 20, .ring_size = 4096, .eager_limit = 1000, .chunks = 2, .chunk_max = 64 << 10)
WAY(poor, 1000, .ring_size = 4096, .ring_max = 16384, .eager_limit = 1024, .chunks = 4)

#define KIT(name)                                                                                  \
    TEST(usual_##name) {                                                                           \
        whi_kit_##name(&usual);                                                                    \
    }                                                                                              \
    TEST(tiny_##name) {                                                                            \
        whi_kit_##name(&tiny);                                                                     \
    }                                                                                              \
    TEST(poor_##name) {                                                                            \
        whi_kit_##name(&poor);                                                                     \
    }
WHI_KIT_TESTS(KIT)

// ---- what is its own

TEST(grows_when_full) {
    way over = {.opts = {.ring_size = 4096, .ring_max = 65536, .eager_limit = 64}, .limit = 0};
    ear *a = &ears[0], *b = &ears[1];
    open_pair(&over, a, b);
    unsigned count = say_all(a, 0, 32);
    CHECK(count >= (4096 + 65536) / 64 - 4);
    char text[64];
    a->lane->ops->describe(a->lane, text, sizeof(text));
    CHECK_EQ_STR(text, "shm ring 64 KiB");
    CHECK(poll_all(b) >= (int)count);
    CHECK_EQ_INT(b->heard, count);
    // The other direction has not grown.
    b->lane->ops->describe(b->lane, text, sizeof(text));
    CHECK_EQ_STR(text, "shm ring 4 KiB");
    close_pair(&over, a, b);
}

TEST(growth_waits_for_the_wire) {
    way over = {.opts = {.ring_size = 4096, .ring_max = 65536, .eager_limit = 64}, .limit = 0};
    ear *a = &ears[0], *b = &ears[1];
    open_pair(&over, a, b);
    over.wires[0].refuse = 2;
    unsigned count = say_all(a, 0, 32);
    CHECK(count < 64);
    CHECK(say(a, count, 32) == WH_EAGAIN);
    count += say_all(a, count, 32);
    CHECK(count > 64);
    (void)poll_all(b);
    CHECK_EQ_INT(b->heard, count);
    close_pair(&over, a, b);
}

TEST(bulk_waits_for_the_wire) {
    way over = {.opts = {.ring_size = 4096, .eager_limit = 1024, .chunks = 2, .chunk_max = 65536},
                .limit = 1 << 20};
    ear *a = &ears[0], *b = &ears[1];
    open_pair(&over, a, b);
    over.wires[0].refuse = 1;
    size_t moved = 0;
    CHECK(push(a, 0, 100000, &moved) == WH_OK);
    CHECK_EQ_INT(moved, 1024);
    CHECK_EQ_INT(over.budget.used, 0);
    CHECK(push(a, 1024, 100000 - 1024, &moved) == WH_OK);
    CHECK(moved > 1024);
    CHECK_EQ_INT(over.budget.used, 2 * 65536);
    close_pair(&over, a, b);
}

static char said[512];

static void keep_line(const char *level, const char *id, const char *text, void *arg) {
    (void)arg;
    size_t used = strlen(said);
    snprintf(said + used, sizeof(said) - used, "%s %s %s\n", level, id, text);
}

TEST(descriptors_run_out) {
    way over = {.opts = {.ring_size = 4096, .ring_max = 65536, .eager_limit = 1024, .chunks = 4},
                .limit = 64 << 20};
    ear *a = &ears[0], *b = &ears[1];
    open_pair(&over, a, b);
    whi_log_set_level(WHI_INFO);
    whi_log_set_sink(keep_line, NULL);
    whi_alloc_fail_at(1);  // growth does without
    unsigned count = say_all(a, 0, 32);
    whi_alloc_fail_at(0);
    CHECK(strstr(said, "I-SHM-02 a ring of 4 KiB stays as it is"));
    CHECK(count < 64);
    (void)poll_all(b);
    CHECK_EQ_INT(b->heard, count);
    whi_alloc_fail_at(1);  // and so does bulk
    size_t moved = 0;
    CHECK(push(a, 0, 100000, &moved) == WH_OK);
    whi_alloc_fail_at(0);
    CHECK_EQ_INT(moved, 1024);
    CHECK(strstr(said, "W-SHM-01"));
    whi_log_set_sink(NULL, NULL);
    close_pair(&over, a, b);
}

TEST(nothing_is_allocated_per_message) {
    ear *a = &ears[0], *b = &ears[1];
    open_pair(&usual_way, a, b);
    push_through(a, b, MEMORY);
    whi_alloc_fail_at(UINT64_MAX);
    for (unsigned i = 0; i < 1000; i++) {
        CHECK(say(a, i, i) == WH_OK);
        (void)poll_all(b);
    }
    push_through(a, b, MEMORY);
    uint64_t count = whi_alloc_count();
    whi_alloc_fail_at(0);
    CHECK_EQ_INT(count, 0);
    close_pair(&usual_way, a, b);
}

TEST(wrong_options) {
    whi_shm_budget budget;
    whi_shm_budget_init(&budget, 0);
    const whi_shm_opts good = {.ring_size = 4096, .eager_limit = 1024, .budget = &budget};
    whi_shm_opts bad[] = {good, good, good, good, good, good, good};
    bad[0].ring_size = 2048;
    bad[1].ring_size = 5000;
    bad[2].eager_limit = 1025;
    bad[3].eager_limit = 0;
    bad[4].ring_max = 12288;
    bad[5].chunks = 1, bad[5].chunk_max = 4097 * 64;
    bad[6].chunks = 4, bad[6].chunk_max = (SIZE_MAX >> 2) + 65537;
    whi_lane *lane = NULL;
    int fd = -1;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        CHECK(whi_shm_create(&bad[i], &ear_up, NULL, &lane, &fd) == WH_EINVAL);
    CHECK(!lane && fd == -1);
    const char *why = NULL;
    CHECK(whi_shm_available(WHI_RING_MIN, &why) && !why);
}

// ---- the budget: two pairs whose first ends share one

typedef struct shared {
    way over[2];
    ear *from[2], *to[2];
} shared;

static void open_shared(shared *two, size_t limit) {
    for (int i = 0; i < 2; i++) {
        two->over[i] =
            (way){.opts = {.ring_size = 4096, .eager_limit = 1000, .chunks = 4, .chunk_max = 65536},
                  .limit = limit};
        two->from[i] = &ears[2 * i];
        two->to[i] = &ears[2 * i + 1];
        open_pair(&two->over[i], two->from[i], two->to[i]);
    }
    ((whi_shm *)two->from[1]->lane)->budget = &two->over[0].budget;
}

static void close_shared(shared *two) {
    two->from[1]->lane->ops->close(two->from[1]->lane);
    two->to[1]->lane->ops->close(two->to[1]->lane);
    close_pair(&two->over[0], two->from[0], two->to[0]);
    close_way(&two->over[1]);
}

static size_t bulk_of(const ear *self) {
    return ((whi_shm *)self->lane)->out.size;
}

TEST(idle_lane_gives_its_bulk_memory) {
    shared two;
    open_shared(&two, 4 * 65536 + 1000);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 2; i++) {
            push_through(two.from[i], two.to[i], 300000);
            CHECK_EQ_INT(bulk_of(two.from[i]), 4 * 65536);
            CHECK_EQ_INT(bulk_of(two.from[!i]), 0);
            CHECK_EQ_INT(two.over[0].budget.used, 4 * 65536);
        }
    }
    close_shared(&two);
}

TEST(busy_lane_keeps_its_bulk_memory) {
    shared two;
    open_shared(&two, 6 * 65536);
    size_t moved = 0;
    CHECK(push(two.from[0], 0, 100000, &moved) == WH_OK);
    // The first has a chunk in flight: the second gets what is left, and less when that is too
    // little.
    push_through(two.from[1], two.to[1], 300000);
    CHECK_EQ_INT(bulk_of(two.from[0]), 4 * 65536);
    CHECK_EQ_INT(bulk_of(two.from[1]), 2 * 65536);
    CHECK_EQ_INT(two.over[0].budget.used, 6 * 65536);
    close_shared(&two);
    open_shared(&two, 4 * 65536);
    CHECK(push(two.from[0], 0, 100000, &moved) == WH_OK);
    push_through(two.from[1], two.to[1], 300000);
    CHECK_EQ_INT(bulk_of(two.from[1]), 0);
    close_shared(&two);
}

// Short and long laps through bulk memory are copied into by methods of their own, and of both ways at once none is tried thoroughly.
TEST(laps_have_their_methods) {
    way over = {.opts = {.ring_size = 65536, .eager_limit = 4096, .chunks = 4}, .limit = 64 << 20};
    ear *a = &ears[0], *b = &ears[1];
    open_pair(&over, a, b);
    whi_shm *lane = (whi_shm *)a->lane;
    CHECK_EQ_INT(lane->bulk_method[false].gain, WHI_COPY_GAIN);
    CHECK_EQ_INT(lane->bulk_method[true].gain, WHI_COPY_WEIGHT);
    for (int i = 0; i < WHI_PICK_SIZES; i++) {
        CHECK_EQ_INT(lane->fetcher.picks[WHI_FETCH_ALONE][i].thorough, 3 * lane->bulk_size);
        CHECK_EQ_INT(lane->fetcher.picks[WHI_FETCH_BOTH_WAYS][i].thorough, 0);
        CHECK_EQ_INT(lane->fetcher.picks[WHI_FETCH_BOTH_WAYS][i].most, 16);
        CHECK_EQ_INT(lane->long_tx.picks[i].thorough, 0);
    }
    push_through(a, b, 400000);
    CHECK(!whi_bulk_in_long_lap(&lane->out) && !whi_bulk_prefers_long_laps(&lane->out));
    CHECK(lane->bulk_method[false].cost[0] > 0 && lane->bulk_method[true].cost[0] == 0);
    lane->out.pick.second = false;
    while (!whi_bulk_in_long_lap(&lane->out))
        push_through(a, b, 300000);
    lane->bulk_method[false].cost[0] = 0;
    push_through(a, b, 100000);
    CHECK(whi_bulk_in_long_lap(&lane->out) && whi_bulk_prefers_long_laps(&lane->out));
    CHECK(lane->bulk_method[true].cost[0] > 0 && lane->bulk_method[false].cost[0] == 0);
    whi_shm_drop_bulk(lane);
    CHECK(!whi_bulk_in_long_lap(&lane->out) && !whi_bulk_prefers_long_laps(&lane->out));
    close_pair(&over, a, b);
}

// deliver_numbers checks a payload of consecutive bytes, of which the header says the first.
static wh_status deliver_numbers(void *link, const whi_hdr *hdr, const void *payload) {
    const unsigned char *bytes = payload;
    for (uint32_t i = 0; i < hdr->size; i++)
        CHECK_EQ_INT(bytes[i], (unsigned char)(hdr->tag + i));
    return ear_deliver(link, hdr, payload);
}

// Two pieces arrive as one payload, and where there is no space, not at all.
TEST(joined) {
    way over = {.opts = {.ring_size = 4096, .eager_limit = 512}, .limit = 0};
    const whi_lane_up up = {.deliver = deliver_numbers, .sink = ear_sink, .landed = ear_landed};
    ear *a = &ears[0], *b = &ears[1];
    *a = *b = (ear){0};
    CHECK(open_lanes(&over, &up, a, &a->lane, b, &b->lane) == WH_OK);
    unsigned char bytes[512];
    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)i;
    uint32_t sent = 0;
    for (uint32_t size = 0; size <= 80; size++)
        for (uint32_t first = 0; first <= size; first++) {
            whi_hdr hdr = {.size = size, .cls = 0x10, .seq = sent, .tag = first};
            const unsigned char *at = bytes + first;
            unsigned char rest[80];
            memcpy(rest, at + first, size - first);
            while (a->lane->ops->send_joined(a->lane, &hdr, at, first, rest) == WH_EAGAIN) {
                (void)poll_all(b);
                (void)poll_all(a);
                CHECK_EQ_INT(b->heard, sent);
            }
            sent++;
        }
    (void)poll_all(b);
    CHECK_EQ_INT(b->heard, sent);
    close_pair(&over, a, b);
}

TEST_MAIN()
