// SPDX-License-Identifier: BSD-3-Clause
//
// The shm lane: the kit over three shapes of it, then growth, the budget and falling asleep.
#include "net/shm/shm.h"

#include "base/alloc.h"
#include "base/test.h"
#include "net/lane_kit.h"
#include "net/shm/shm_lane.h"
#include "net/shm/test_wire.h"

// ---- the kit

static void kit_fail(const char *file, int line, const char *text) {
    whi_test_end(WHI_TEST_FAILED, file, line, "%s", text);
}

// How the lanes of a pair are made, and what joins them.
typedef struct way {
    whi_shm_opts opts;
    size_t limit;  // of the budget
    whi_shm_budget budget;
    test_wire wires[2];
} way;

static void hang_up(way *over) {
    close(over->wires[0].fd);
    close(over->wires[1].fd);
}

// Makes one lane; its ring goes to the other end of the wire.
static wh_status make_lane(way *over, int side, const whi_lane_up *up, void *link,
                           whi_lane **lane) {
    whi_shm_opts opts = over->opts;
    opts.budget = &over->budget;
    opts.wire = &test_wire_ops;
    opts.wire_arg = &over->wires[side];
    int fd = -1;
    wh_status status = whi_shm_create(&opts, up, link, lane, &fd);
    if (status != WH_OK)
        return status;
    unsigned refuse = over->wires[side].refuse;
    over->wires[side].refuse = 0;
    CHECK(test_wire_send_fd(&over->wires[side], fd) == WH_OK);
    over->wires[side].refuse = refuse;
    close(fd);
    return WH_OK;
}

static wh_status attach(way *over, int side, whi_lane *lane) {
    int fd = test_wire_take_fd(&over->wires[side]);
    CHECK(fd >= 0);
    return whi_shm_attach(lane, fd);
}

static wh_status kit_open(void *arg, const whi_lane_up *up, void *link_a, whi_lane **a,
                          void *link_b, whi_lane **b) {
    way *over = arg;
    whi_shm_budget_init(&over->budget, over->limit);
    test_wire_pair(over->wires);
    *a = *b = NULL;
    wh_status status = make_lane(over, 0, up, link_a, a);
    if (status == WH_OK)
        status = make_lane(over, 1, up, link_b, b);
    if (status == WH_OK)
        status = attach(over, 0, *a);
    if (status == WH_OK)
        status = attach(over, 1, *b);
    if (status != WH_OK) {
        if (*a)
            (*a)->ops->close(*a);
        if (*b)
            (*b)->ops->close(*b);
        hang_up(over);
    }
    return status;
}

static void kit_done(void *arg) {
    way *over = arg;
    CHECK_EQ_INT(over->budget.used, 0);
    CHECK(whi_list_empty(&over->budget.lanes));
    hang_up(over);
}

#define WAY(name, budget_limit, ...)                                                               \
    static way name##_way = {.opts = {__VA_ARGS__}, .limit = (budget_limit)};                      \
    static const whi_kit name = {                                                                  \
        .open = kit_open, .done = kit_done, .arg = &name##_way, .deaf = true, .fail = kit_fail};
// As used; so small that everything is refused and wraps all the time; and growing without bulk
// memory.
WAY(usual, 64 << 20, .ring_size = 64 << 10, .ring_max = 256 << 10, .eager_limit = 8192, .slots = 4)
WAY(tiny, 64 << 20, .ring_size = 4096, .eager_limit = 1000, .slots = 2, .slot_size = 64 << 10)
WAY(poor, 1000, .ring_size = 4096, .ring_max = 16384, .eager_limit = 1024, .slots = 4)

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

enum { MEMORY = 512 << 10 };

typedef struct ear {
    whi_lane *lane;
    unsigned heard;
    uint64_t landed;
    unsigned char memory[MEMORY];
} ear;

static wh_status ear_deliver(void *link, const whi_hdr *hdr, const void *payload) {
    ear *self = link;
    (void)payload;
    CHECK_EQ_INT(hdr->seq, self->heard);
    self->heard++;
    return WH_OK;
}

static wh_status ear_sink(void *link, const whi_hdr *hdr, whi_span *span) {
    ear *self = link;
    CHECK(hdr->arg + hdr->size <= MEMORY);
    *span = (whi_span){.ptr = self->memory + hdr->arg};
    return WH_OK;
}

static wh_status ear_landed(void *link, const whi_hdr *hdr) {
    ((ear *)link)->landed += hdr->size;
    return WH_OK;
}

static const whi_lane_up ear_up = {.deliver = ear_deliver, .sink = ear_sink, .landed = ear_landed};

static ear ears[4];

static void open_pair(way *over, ear *a, ear *b) {
    *a = *b = (ear){0};
    CHECK(kit_open(over, &ear_up, a, &a->lane, b, &b->lane) == WH_OK);
}

static void close_pair(way *over, ear *a, ear *b) {
    a->lane->ops->close(a->lane);
    b->lane->ops->close(b->lane);
    kit_done(over);
}

static wh_status say(ear *self, uint32_t number, uint32_t size) {
    static unsigned char payload[8192];
    whi_hdr hdr = {.size = size, .cls = 0x10, .seq = number};
    return self->lane->ops->send(self->lane, &hdr, payload);
}

// Says what the lane takes, and returns how many records that were.
static unsigned say_all(ear *self, uint32_t first, uint32_t size) {
    unsigned count = 0;
    while (say(self, first + count, size) == WH_OK)
        count++;
    return count;
}

static int poll_all(ear *self) {
    int events, sum = 0;
    while ((events = self->lane->ops->poll(self->lane, 16)) > 0)
        sum += events;
    CHECK(events == 0);
    return sum;
}

static wh_status push(ear *self, uint64_t offset, uint64_t size, size_t *moved) {
    static unsigned char bytes[MEMORY];
    whi_hdr hdr = {.cls = WHI_CLASS_CHUNK, .arg = offset};
    whi_span src = {.ptr = bytes + offset};
    return self->lane->ops->push(self->lane, &hdr, &src, size, moved);
}

static void push_through(ear *from, ear *to, uint64_t size) {
    uint64_t before = to->landed;
    for (uint64_t offset = 0; offset < size;) {
        size_t moved = 0;
        if (push(from, offset, size - offset, &moved) == WH_OK)
            offset += moved;
        else
            CHECK(poll_all(to) > 0 && poll_all(from) == 1);
    }
    (void)poll_all(to);
    CHECK_EQ_INT(to->landed - before, size);
}

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
    way over = {.opts = {.ring_size = 4096, .eager_limit = 1024, .slots = 2, .slot_size = 65536},
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

TEST(descriptors_run_out) {
    way over = {.opts = {.ring_size = 4096, .ring_max = 65536, .eager_limit = 1024, .slots = 4},
                .limit = 64 << 20};
    ear *a = &ears[0], *b = &ears[1];
    open_pair(&over, a, b);
    whi_alloc_fail_at(1);  // growth does without
    unsigned count = say_all(a, 0, 32);
    whi_alloc_fail_at(0);
    CHECK(count < 64);
    (void)poll_all(b);
    CHECK_EQ_INT(b->heard, count);
    whi_alloc_fail_at(1);  // and so does bulk
    size_t moved = 0;
    CHECK(push(a, 0, 100000, &moved) == WH_OK);
    whi_alloc_fail_at(0);
    CHECK_EQ_INT(moved, 1024);
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
    bad[5].slots = 1, bad[5].slot_size = 4097 * 64;
    bad[6].slots = 4, bad[6].slot_size = (SIZE_MAX >> 2) + 65537;
    whi_lane *lane = NULL;
    int fd = -1;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        CHECK(whi_shm_create(&bad[i], &ear_up, NULL, &lane, &fd) == WH_EINVAL);
    CHECK(!lane && fd == -1);
    const char *why = NULL;
    CHECK(whi_shm_available(&why) && !why);
}

// ---- the budget: two pairs whose first ends share one

typedef struct shared {
    way over[2];
    ear *from[2], *to[2];
} shared;

static void open_shared(shared *two, size_t limit) {
    for (int i = 0; i < 2; i++) {
        two->over[i] =
            (way){.opts = {.ring_size = 4096, .eager_limit = 1000, .slots = 4, .slot_size = 65536},
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
    kit_done(&two->over[1]);
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

// ---- falling asleep

static void fall_asleep(ear *self, bool want_room) {
    self->lane->ops->arm(self->lane, want_room);
    whi_shm_barrier();
}

static void check_bells(bool asymmetric) {
    way over = {.opts = {.ring_size = 4096,
                         .eager_limit = 1000,
                         .slots = 2,
                         .slot_size = 65536,
                         .asymmetric = asymmetric},
                .limit = 1 << 20};
    ear *a = &ears[0], *b = &ears[1];
    open_pair(&over, a, b);
    CHECK(say(a, 0, 8) == WH_OK);
    CHECK_EQ_INT(over.wires[0].bells, 0);
    fall_asleep(b, false);
    CHECK(b->lane->ops->ready(b->lane, false));
    (void)poll_all(b);
    fall_asleep(b, false);
    CHECK(!b->lane->ops->ready(b->lane, false));
    // One bell per arming.
    CHECK(say(a, 1, 8) == WH_OK && say(a, 2, 8) == WH_OK);
    CHECK_EQ_INT(over.wires[0].bells, 1);
    (void)poll_all(b);

    unsigned count = 3 + say_all(a, 3, 1000);
    CHECK(!a->lane->ops->ready(a->lane, true));
    fall_asleep(a, true);
    CHECK(!a->lane->ops->ready(a->lane, true));
    CHECK_EQ_INT(over.wires[1].bells, 0);
    (void)poll_all(b);
    CHECK_EQ_INT(over.wires[1].bells, 1);
    CHECK(a->lane->ops->ready(a->lane, true) && !a->lane->ops->ready(a->lane, false));
    CHECK_EQ_INT(poll_all(a), 1);
    CHECK(say(a, count, 1000) == WH_OK);

    // Bulk memory that is full waits for a chunk: the announcement, then the first.
    (void)poll_all(b);
    size_t moved = 0;
    while (push(a, 0, MEMORY, &moved) == WH_OK)
        continue;
    fall_asleep(a, true);
    CHECK(!a->lane->ops->ready(a->lane, true));
    CHECK_EQ_INT(b->lane->ops->poll(b->lane, 1), 1);
    CHECK_EQ_INT(over.wires[1].bells, 1);
    CHECK_EQ_INT(b->lane->ops->poll(b->lane, 1), 1);
    CHECK_EQ_INT(over.wires[1].bells, 2);
    CHECK(a->lane->ops->ready(a->lane, true));
    close_pair(&over, a, b);
}

TEST(bells_fenced) {
    check_bells(false);
}

TEST(bells_asymmetric) {
    if (!whi_shm_barrier_init())
        SKIP("no membarrier here");
    check_bells(true);
}

// A sleeper polls with a budget, so its last records may be consumed and not told of; whatever was
// refused must fit nevertheless.
TEST(an_empty_ring_has_room) {
    way over = {.opts = {.ring_size = 4096, .eager_limit = 1024}, .limit = 0};
    ear *a = &ears[0], *b = &ears[1];
    for (uint32_t size = 0; size <= 1024; size += 32) {
        open_pair(&over, a, b);
        unsigned count = say_all(a, 0, size);
        CHECK(say(a, count, 1024) == WH_EAGAIN);
        CHECK(b->lane->ops->poll(b->lane, (int)count) > 0);
        while (b->heard < count)
            CHECK(b->lane->ops->poll(b->lane, 1) == 1);
        CHECK(a->lane->ops->ready(a->lane, true));
        close_pair(&over, a, b);
    }
}

TEST_MAIN()
