// SPDX-License-Identifier: BSD-3-Clause
//
// The loop lane: the kit over a quiet, a slow and a reordering network, then its faults.
#include "net/loop/loop.h"

#include "base/test.h"
#include "net/lane_kit.h"

// ---- the kit

static void kit_fail(const char *file, int line, const char *text) {
    whi_test_end(WHI_TEST_FAILED, file, line, "%s", text);
}

// A network per pair, made from these options.
typedef struct way {
    whi_loop_opts opts;
    whi_loop_net *net;
} way;

static wh_status kit_open(void *arg, const whi_lane_up *up, void *link_a, whi_lane **a,
                          void *link_b, whi_lane **b) {
    way *over = arg;
    wh_status status = whi_loop_net_create(&over->opts, &over->net);
    if (status != WH_OK)
        return status;
    status = whi_loop_pair(over->net, up, link_a, a, up, link_b, b);
    if (status != WH_OK)
        whi_loop_net_release(over->net);
    return status;
}

static void kit_step(void *arg) {
    whi_loop_tick(((way *)arg)->net);
}

static void kit_done(void *arg) {
    way *over = arg;
    CHECK(whi_loop_idle(over->net));
    whi_loop_net_release(over->net);
}

#define WAY(name, ...)                                                                             \
    static way name##_way = {.opts = {__VA_ARGS__}};                                               \
    static const whi_kit name = {.open = kit_open,                                                 \
                                 .step = kit_step,                                                 \
                                 .done = kit_done,                                                 \
                                 .arg = &name##_way,                                               \
                                 .fail = kit_fail};
WAY(quiet, .seed = 1)
WAY(slow, .seed = 2, .delay_max = 7, .window = 5, .eager_limit = 600, .split = true)
WAY(wild, .seed = 3, .delay_max = 5, .split = true, .reorder = true)

#define KIT(name)                                                                                  \
    TEST(quiet_##name) {                                                                           \
        whi_kit_##name(&quiet);                                                                    \
    }                                                                                              \
    TEST(slow_##name) {                                                                            \
        whi_kit_##name(&slow);                                                                     \
    }                                                                                              \
    TEST(wild_##name) {                                                                            \
        whi_kit_##name(&wild);                                                                     \
    }
WHI_KIT_TESTS(KIT)

// ---- what is its own

enum { TRACE = 4096, MEMORY = 1000 };

// An end that writes down what it hears.
typedef struct ear {
    whi_lane *lane;
    unsigned heard;
    uint32_t seq[TRACE];
    unsigned sinks, landed;
    uint8_t memory[MEMORY];
} ear;

static wh_status ear_deliver(void *link, const whi_hdr *hdr, const void *payload) {
    (void)payload;
    ear *end = link;
    CHECK(end->heard < TRACE);
    end->seq[end->heard++] = hdr->seq;
    return WH_OK;
}

static wh_status ear_sink(void *link, const whi_hdr *hdr, whi_span *span) {
    ear *end = link;
    end->sinks++;
    CHECK(hdr->arg + hdr->size <= MEMORY);
    *span = (whi_span){.ptr = end->memory + hdr->arg};
    return WH_OK;
}

static wh_status ear_landed(void *link, const whi_hdr *hdr) {
    (void)hdr;
    ear *end = link;
    end->landed++;
    return WH_OK;
}

static const whi_lane_up ear_up = {.deliver = ear_deliver, .sink = ear_sink, .landed = ear_landed};

static whi_loop_net *meet(const whi_loop_opts *opts, ear *a, ear *b) {
    whi_loop_net *net;
    CHECK(whi_loop_net_create(opts, &net) == WH_OK);
    *a = *b = (ear){.heard = 0};
    CHECK(whi_loop_pair(net, &ear_up, a, &a->lane, &ear_up, b, &b->lane) == WH_OK);
    return net;
}

static void part(whi_loop_net *net, ear *a, ear *b) {
    whi_loop_net_release(net);  // first: the lanes hold it
    a->lane->ops->close(a->lane);
    b->lane->ops->close(b->lane);
}

static wh_status say(ear *end, uint32_t seq) {
    whi_hdr hdr = {.cls = 0x20, .seq = seq};
    return end->lane->ops->send(end->lane, &hdr, NULL);
}

static wh_status say_chunk(ear *end, const uint8_t *data, size_t size, size_t *moved) {
    whi_hdr hdr = {.cls = WHI_CLASS_CHUNK};
    whi_span src = {.ptr = (void *)(uintptr_t)data};
    return end->lane->ops->push(end->lane, &hdr, &src, size, moved);
}

static int hear(ear *end) {
    return end->lane->ops->poll(end->lane, 16);
}

// chatter sends 1,000 records and returns which order they came in.
static void chatter(const whi_loop_opts *opts, ear *b) {
    ear a;
    whi_loop_net *net = meet(opts, &a, b);
    for (uint32_t seq = 0; b->heard < 1000; whi_loop_tick(net)) {
        while (seq < 1000 && say(&a, seq) == WH_OK)
            seq++;
        CHECK(hear(&a) >= 0 && hear(b) >= 0);
    }
    CHECK(whi_loop_idle(net));
    part(net, &a, b);
}

TEST(a_run_repeats_exactly) {
    static ear first, again, other;
    whi_loop_opts opts = {.seed = 7, .delay_max = 9, .reorder = true};
    chatter(&opts, &first);
    chatter(&opts, &again);
    CHECK_MEM(first.seq, again.seq, sizeof(first.seq));
    opts.seed = 8;
    chatter(&opts, &other);
    CHECK(memcmp(first.seq, other.seq, sizeof(first.seq)) != 0);
}

TEST(reorder_is_real_and_bounded) {
    static ear b;
    chatter(&(whi_loop_opts){.seed = 9, .reorder = true, .window = 100}, &b);
    unsigned displaced = 0;
    for (unsigned i = 0; i < 1000; i++) {
        displaced += b.seq[i] != i;
        // Overtaken by 8 at most, so no record comes more than 8 places late.
        CHECK(i <= b.seq[i] + 8);
    }
    CHECK(displaced > 100);
}

TEST(delay_takes_ticks) {
    static ear a, b;
    whi_loop_net *net = meet(&(whi_loop_opts){.seed = 4, .delay_max = 50}, &a, &b);
    for (uint32_t seq = 0; seq < 20; seq++)
        CHECK_EQ_INT(say(&a, seq), WH_OK);
    CHECK(!whi_loop_idle(net));
    unsigned ticks = 0;
    for (; b.heard < 20; ticks++) {
        bool ready = b.lane->ops->ready(b.lane, false);
        CHECK((hear(&b) > 0) == ready);
        whi_loop_tick(net);
    }
    CHECK(ticks > 10 && ticks <= 64);
    for (uint32_t i = 0; i < 20; i++)
        CHECK_EQ_INT(b.seq[i], i);
    part(net, &a, &b);
}

TEST(window_refuses_and_says_when_not) {
    static ear a, b;
    whi_loop_net *net = meet(&(whi_loop_opts){.window = 3}, &a, &b);
    for (uint32_t seq = 0; seq < 3; seq++)
        CHECK_EQ_INT(say(&a, seq), WH_OK);
    CHECK_EQ_INT(say(&a, 3), WH_EAGAIN);
    CHECK(!a.lane->ops->ready(a.lane, true));
    CHECK_EQ_INT(hear(&a), 0);
    CHECK_EQ_INT(b.lane->ops->poll(b.lane, 1), 1);
    CHECK(a.lane->ops->ready(a.lane, true) && !a.lane->ops->ready(a.lane, false));
    CHECK_EQ_INT(hear(&a), 1);
    CHECK_EQ_INT(hear(&a), 0);
    CHECK_EQ_INT(say(&a, 3), WH_OK);
    part(net, &a, &b);
}

TEST(disconnect_fails_both) {
    static ear a, b;
    whi_loop_net *net = meet(&(whi_loop_opts){.seed = 5}, &a, &b);
    CHECK_EQ_INT(say(&a, 0), WH_OK);
    whi_loop_disconnect(a.lane);
    CHECK_EQ_INT(say(&b, 0), WH_EPEER);
    CHECK(a.lane->ops->ready(a.lane, false));
    CHECK_EQ_INT(hear(&a), WH_EPEER);
    CHECK_EQ_INT(hear(&b), WH_EPEER);
    CHECK_EQ_INT(b.heard, 0);
    part(net, &a, &b);
}

TEST(drop_after_counts_both_ways) {
    static ear a, b;
    whi_loop_net *net = meet(&(whi_loop_opts){.drop_after = 4}, &a, &b);
    for (uint32_t seq = 0; seq < 3; seq++)
        CHECK_EQ_INT(say(&a, seq), WH_OK);
    CHECK_EQ_INT(hear(&b), 3);
    CHECK_EQ_INT(say(&b, 0), WH_OK);
    CHECK_EQ_INT(say(&b, 1), WH_EPEER);
    CHECK_EQ_INT(hear(&a), WH_EPEER);
    CHECK_EQ_INT(hear(&b), WH_EPEER);
    CHECK_EQ_INT(a.heard, 0);
    part(net, &a, &b);
}

// What was sent before the truncated record still comes, it does not, and nothing passes it.
static void truncated(bool reorder) {
    static ear a, b;
    whi_loop_net *net =
        meet(&(whi_loop_opts){.drop_after = 4, .truncate = true, .reorder = reorder}, &a, &b);
    for (uint32_t seq = 0; seq < 8; seq++)
        CHECK_EQ_INT(say(&a, seq), WH_OK);
    CHECK_EQ_INT(hear(&b), WH_EPEER);
    CHECK_EQ_INT(b.heard, 3);
    for (unsigned i = 0; i < 3; i++)
        CHECK(b.seq[i] < 3);
    CHECK_EQ_INT(hear(&a), WH_EPEER);
    CHECK_EQ_INT(hear(&b), WH_EPEER);
    part(net, &a, &b);
}

TEST(truncated_record_never_comes) {
    truncated(false);
    truncated(true);
}

TEST(truncated_chunk_never_lands) {
    static ear a, b;
    static uint8_t data[MEMORY];
    memset(data, 7, sizeof(data));
    whi_loop_net *net = meet(&(whi_loop_opts){.drop_after = 2, .truncate = true}, &a, &b);
    size_t moved = 0;
    CHECK_EQ_INT(say_chunk(&a, data, 10, &moved), WH_OK);
    CHECK_EQ_INT(moved, 10);
    CHECK_EQ_INT(say_chunk(&a, data, MEMORY, &moved), WH_OK);
    CHECK_EQ_INT(hear(&b), WH_EPEER);
    CHECK_EQ_INT(b.sinks, 2);
    CHECK_EQ_INT(b.landed, 1);
    CHECK(b.memory[MEMORY / 2 - 1] == 7 && b.memory[MEMORY - 1] == 0);
    CHECK_EQ_INT(hear(&a), WH_EPEER);
    part(net, &a, &b);
}

TEST(close_lets_the_rest_arrive) {
    static ear a, b;
    whi_loop_net *net = meet(&(whi_loop_opts){.delay_max = 3}, &a, &b);
    for (uint32_t seq = 0; seq < 5; seq++)
        CHECK_EQ_INT(say(&a, seq), WH_OK);
    CHECK_EQ_INT(say(&b, 0), WH_OK);
    a.lane->ops->close(a.lane);
    CHECK_EQ_INT(say(&b, 1), WH_EPEER);
    int events = 0;
    for (int i = 0; i < 10 && events >= 0; i++, whi_loop_tick(net))
        events = hear(&b);
    CHECK_EQ_INT(events, WH_EPEER);
    CHECK_EQ_INT(b.heard, 5);
    CHECK(whi_loop_idle(net));
    b.lane->ops->close(b.lane);
    whi_loop_net_release(net);
}

TEST_MAIN()
