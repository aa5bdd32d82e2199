// SPDX-License-Identifier: BSD-3-Clause
//
// The lane test kit: the tests, each on a fresh pair of lanes.
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "net/lane_kit.h"

#define MUST(cond) WHI_KIT_MUST(kit, cond)
#define PATIENCE_NS (20 * WHI_NS_PER_S)

// Sizes around which lanes cut, pad and switch their ways.
static const uint64_t edges[] = {1,     7,     8,     31,     32,     33,     63,     64,    65,
                                 480,   511,   512,   513,    4095,   4096,   4097,   8191,  8192,
                                 16384, 65535, 65536, 131071, 131072, 131073, 262145, 300000};
enum { EDGES = sizeof(edges) / sizeof(edges[0]), SMALL = 200 };

static void step(const whi_kit *kit) {
    if (kit->step)
        kit->step(kit->arg);
}

static void through(const whi_kit *kit, const whi_kit_plan *a_says, const whi_kit_plan *b_says) {
    whi_kit_end a, b;
    whi_kit_open(kit, a_says, b_says, &a, &b);
    whi_kit_run(&a, &b);
    MUST(a.said == a_says->count && b.said == b_says->count);
    MUST(a.heard == b_says->count && b.heard == a_says->count);
    whi_kit_close(&a, &b);
}

static whi_kit_message every_size(const whi_kit_plan *plan, unsigned number) {
    if (number == SMALL + EDGES)
        return (whi_kit_message){.size = plan->eager_limit};
    uint64_t size = number < SMALL ? number : edges[number - SMALL];
    return (whi_kit_message){.size = size <= plan->eager_limit ? size : plan->eager_limit - 1};
}

void whi_kit_sizes(const whi_kit *kit) {
    whi_kit_plan plan = {.at = every_size, .seed = 1, .count = SMALL + EDGES + 1};
    through(kit, &plan, &whi_kit_silence);
}

void whi_kit_order(const whi_kit *kit) {
    whi_kit_plan a = whi_kit_records(3, 1500), b = whi_kit_records(4, 1500);
    through(kit, &a, &b);
}

// Four times each, since the kinds of source and sink are drawn.
static whi_kit_message every_bulk(const whi_kit_plan *plan, unsigned number) {
    (void)plan;
    return (whi_kit_message){.size = edges[number / 4], .bulk = true};
}

void whi_kit_bulk(const whi_kit *kit) {
    whi_kit_plan plan = {.at = every_bulk, .seed = 5, .count = 4 * EDGES};
    through(kit, &plan, &whi_kit_silence);
    through(kit, &whi_kit_silence, &plan);
}

void whi_kit_both_ways(const whi_kit *kit) {
    for (uint64_t seed = 10; seed < 16; seed += 2) {
        whi_kit_plan a = whi_kit_mixed(seed, 120, 200000), b = whi_kit_mixed(seed + 1, 120, 200000);
        through(kit, &a, &b);
    }
}

static whi_kit_message half_limit(const whi_kit_plan *plan, unsigned number) {
    (void)number;
    return (whi_kit_message){.size = plan->eager_limit / 2};
}

// A lane that is not read refuses at some point, has forgotten nothing, and says when it has space.
void whi_kit_refuse(const whi_kit *kit) {
    enum { PLENTY = 1 << 16 };
    whi_kit_plan plan = {.at = half_limit, .seed = 20, .count = PLENTY};
    whi_kit_end a, b;
    whi_kit_open(kit, &plan, &whi_kit_silence, &a, &b);
    while (whi_kit_say(&a))
        step(kit);
    MUST(a.said > 0 && a.said < PLENTY);
    b.hears.count = a.says.count = a.said + 50;
    uint64_t late = whi_clock_ns() + PATIENCE_NS;
    int space = 0;
    while (space == 0) {
        MUST(whi_clock_ns() < late);
        (void)whi_kit_poll(&b, 8);
        step(kit);
        space = whi_kit_poll(&a, 8);
    }
    whi_kit_run(&a, &b);
    MUST(b.heard == a.said && a.said == a.says.count);
    whi_kit_close(&a, &b);
}

void whi_kit_budget(const whi_kit *kit) {
    whi_kit_plan plan = whi_kit_records(30, 30);
    whi_kit_end a, b;
    whi_kit_open(kit, &plan, &whi_kit_silence, &a, &b);
    uint64_t late = whi_clock_ns() + PATIENCE_NS;
    for (int budget = 1; b.heard < plan.count; budget = 1 + (int)(b.heard % 3)) {
        MUST(whi_clock_ns() < late);
        while (whi_kit_say(&a))
            ;
        (void)whi_kit_poll(&a, 1);
        step(kit);
        (void)whi_kit_poll(&b, budget);
    }
    whi_kit_close(&a, &b);
}

// An upcall may answer on its own lane.
void whi_kit_echo(const whi_kit *kit) {
    whi_kit_plan plan = whi_kit_records(40, 200);
    whi_kit_end a, b;
    whi_kit_open(kit, &plan, &whi_kit_silence, &a, &b);
    b.echo = true;
    uint64_t late = whi_clock_ns() + PATIENCE_NS;
    while (a.echoes < plan.count) {
        MUST(whi_clock_ns() < late);
        if (a.echoes == a.said)
            (void)whi_kit_say(&a);
        step(kit);
        (void)whi_kit_poll(&b, 4);
        (void)whi_kit_poll(&a, 4);
    }
    whi_kit_close(&a, &b);
}

// A lane on which nothing happens says so, for as long as one likes, and still works after that.
void whi_kit_quiet(const whi_kit *kit) {
    whi_kit_plan plan = whi_kit_mixed(50, 30, 100000);
    whi_kit_end a, b;
    whi_kit_open(kit, &plan, &plan, &a, &b);
    for (int round = 0; round < 5000; round++) {
        MUST(whi_kit_poll(&a, 16) == 0 && whi_kit_poll(&b, 16) == 0);
        a.lane->ops->arm(a.lane, round % 2);
        MUST(!a.lane->ops->ready(a.lane, round % 2));
        step(kit);
    }
    whi_kit_run(&a, &b);
    MUST(a.heard == plan.count && b.heard == plan.count);
    whi_kit_close(&a, &b);
}

// await_lost polls an end whose peer has gone until its lane says so.
static void await_lost(const whi_kit *kit, whi_kit_end *end) {
    end->tolerant = true;
    uint64_t late = whi_clock_ns() + PATIENCE_NS;
    for (int polls = 0; end->status == WH_OK && (!kit->deaf || polls < 1000); polls++) {
        MUST(whi_clock_ns() < late);
        (void)whi_kit_poll(end, 4);
        step(kit);
    }
    MUST(kit->deaf || end->status == WH_EPEER);
    // The failure stays.
    MUST(kit->deaf || end->lane->ops->poll(end->lane, 4) == WH_EPEER);
    MUST(kit->deaf || end->lane->ops->ready(end->lane, false));
}

// What was sent before the end comes in order and unharmed, as far as it comes; then comes the end.
void whi_kit_close_pending(const whi_kit *kit) {
    whi_kit_plan plan = whi_kit_mixed(60, 40, 100000);
    whi_kit_end a, b;
    whi_kit_open(kit, &plan, &whi_kit_silence, &a, &b);
    while (whi_kit_say(&a))
        ;
    MUST(a.said > 0);
    whi_kit_hang_up(&a);
    await_lost(kit, &b);
    MUST(b.heard <= a.said);
    whi_kit_close(&a, &b);
}

// A lane that is closed while a chunk lands leaves the user's memory alone from then on.
void whi_kit_close_landing(const whi_kit *kit) {
    whi_kit_plan plan = {.at = every_bulk, .seed = 70, .count = 4 * EDGES};
    whi_kit_end a, b;
    whi_kit_open(kit, &plan, &whi_kit_silence, &a, &b);
    a.tolerant = true;
    uint64_t late = whi_clock_ns() + PATIENCE_NS;
    while (b.heard < 4 * EDGES - 2) {
        MUST(whi_clock_ns() < late);
        (void)whi_kit_say(&a);
        (void)whi_kit_poll(&a, 1);
        step(kit);
        (void)whi_kit_poll(&b, 1);
    }
    (void)whi_kit_say(&a);
    step(kit);
    (void)whi_kit_poll(&b, 1);
    whi_kit_hang_up(&b);
    await_lost(kit, &a);
    whi_kit_close(&a, &b);
}

void whi_kit_peer_gone(const whi_kit *kit) {
    whi_kit_plan plan = {.at = half_limit, .seed = 80, .count = 1000};
    whi_kit_end a, b;
    whi_kit_open(kit, &plan, &whi_kit_silence, &a, &b);
    whi_kit_hang_up(&b);
    a.tolerant = true;
    while (whi_kit_say(&a))
        step(kit);
    MUST(a.status == WH_OK || a.status == WH_EPEER);
    a.status = WH_OK;  // of sending; polling has to say it by itself
    await_lost(kit, &a);
    whi_kit_close(&a, &b);
}

// refused_upcall sees that an upcall's error ends its lane with just that error.
static void refused_upcall(const whi_kit *kit, whi_kit_plan plan, wh_status deliver, wh_status sink,
                           wh_status landed) {
    whi_kit_end a, b;
    whi_kit_open(kit, &plan, &whi_kit_silence, &a, &b);
    b.deliver = deliver;
    b.sink = sink;
    b.landed = landed;
    b.tolerant = true;
    uint64_t late = whi_clock_ns() + PATIENCE_NS;
    while (b.status == WH_OK) {
        MUST(whi_clock_ns() < late);
        (void)whi_kit_say(&a);
        (void)whi_kit_poll(&a, 4);
        step(kit);
        (void)whi_kit_poll(&b, 4);
    }
    MUST(b.status == WH_EREJECTED);
    unsigned upcalls = b.upcalls;
    MUST(b.lane->ops->poll(b.lane, 4) == WH_EREJECTED && b.upcalls == upcalls);
    whi_kit_close(&a, &b);
}

void whi_kit_bad_deliver(const whi_kit *kit) {
    refused_upcall(kit, whi_kit_records(90, 5), WH_EREJECTED, WH_OK, WH_OK);
}

void whi_kit_bad_sink(const whi_kit *kit) {
    whi_kit_plan plan = {.at = every_bulk, .seed = 91, .count = 5};
    refused_upcall(kit, plan, WH_OK, WH_EREJECTED, WH_OK);
}

void whi_kit_bad_landed(const whi_kit *kit) {
    whi_kit_plan plan = {.at = every_bulk, .seed = 92, .count = 5};
    refused_upcall(kit, plan, WH_OK, WH_OK, WH_EREJECTED);
}

void whi_kit_describe(const whi_kit *kit) {
    whi_kit_end a, b;
    whi_kit_open(kit, &whi_kit_silence, &whi_kit_silence, &a, &b);
    for (size_t size = 1; size <= 128; size++) {
        char text[130];
        memset(text, '#', sizeof(text));
        a.lane->ops->describe(a.lane, text, size);
        MUST(memchr(text, 0, size));
        MUST(text[size] == '#');
        MUST(size < 2 || text[0]);
    }
    whi_kit_close(&a, &b);
}

// Whatever allocation fails: the lane does without, or fails as such, and loses nothing before.
void whi_kit_memory(const whi_kit *kit) {
    whi_kit_plan plan_a = whi_kit_mixed(100, 12, 50000), plan_b = whi_kit_mixed(101, 12, 50000);
    for (uint64_t n = 1, reached = n; n <= reached && n < 300; n++) {
        whi_kit_end a, b;
        whi_alloc_fail_at(n);
        wh_status status = whi_kit_try(kit, &plan_a, &plan_b, &a, &b);
        bool open = status == WH_OK;
        if (open) {
            a.tolerant = b.tolerant = true;
            whi_kit_run(&a, &b);
            status = a.status != WH_OK ? a.status : b.status;
            MUST(status != WH_OK || (a.heard == plan_b.count && b.heard == plan_a.count));
        }
        reached = whi_alloc_count();
        whi_alloc_fail_at(0);
        MUST(status == WH_OK || status == WH_ENOMEM);
        if (open)
            whi_kit_close(&a, &b);
    }
}
