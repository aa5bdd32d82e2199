// SPDX-License-Identifier: BSD-3-Clause
//
// Streams of the simulated device: order within, independence between, events that tie them
// together, and work that really happens later.
#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/test.h"
#include "mem/sim.h"

static const whi_mem_ops *const ops = &whi_mem_sim;

#include "mem/stream_kit.h"

enum { SIZE = 64, LATER_MS = 30 };

// Names for streams; only the addresses count.
static char one, two;

static char *make(void) {
    void *ptr = NULL;
    CHECK_EQ_INT(ops->alloc(0, SIZE, &ptr), WH_OK);
    return ptr;
}

static void unmake(char *ptr) {
    whi_sim_set_delay(0);
    CHECK_EQ_INT(ops->free(ptr), WH_OK);
}

static void wait_for(whi_mem_event *event) {
    uint64_t deadline = whi_clock_ns() + 10 * WHI_NS_PER_S;
    while (whi_mem_event_query(event) == WH_PENDING) {
        CHECK(whi_clock_ns() < deadline);
        usleep(1000);
    }
}

TEST(without_delay_it_is_done_at_once) {
    char *ptr = make(), back = 0;
    whi_alloc_fail_at(UINT64_MAX);
    wh_status in = ops->copy_async(WHI_MEM_FROM_HOST, ptr, "a", 1, &one);
    wh_status out = ops->copy_async(WHI_MEM_TO_HOST, &back, ptr, 1, &one);
    whi_alloc_fail_at(0);
    CHECK_EQ_INT(in, WH_OK);
    CHECK_EQ_INT(out, WH_OK);
    CHECK_EQ_INT(whi_alloc_count(), 0);
    CHECK_EQ_INT(back, 'a');
    whi_mem_event event = record(&one);
    CHECK_EQ_INT(whi_mem_event_query(&event), WH_OK);
    unmake(ptr);
}

TEST(a_delayed_copy_happens_later) {
    char *ptr = make(), src = 'a';
    whi_sim_set_delay(LATER_MS * WHI_NS_PER_MS);
    uint64_t start = whi_clock_ns();
    CHECK_EQ_INT(ops->copy_async(WHI_MEM_FROM_HOST, ptr, &src, 1, &one), WH_OK);
    whi_mem_event event = record(&one);
    CHECK_EQ_INT(look(ptr), 0);
    src = 'b';  // reused too early: the device sees it
    wait_for(&event);
    CHECK(whi_clock_ns() - start >= LATER_MS * WHI_NS_PER_MS);
    CHECK_EQ_INT(look(ptr), 'b');
    CHECK_EQ_INT(whi_mem_event_query(&event), WH_OK);  // and stays so
    whi_mem_event_release(&event);
    unmake(ptr);
}

TEST(an_event_covers_what_came_before_it) {
    char *ptr = make();
    put(ptr, 'a');
    whi_sim_set_delay(WHI_NS_PER_MS);
    within(ptr + 1, ptr, &one);
    whi_mem_event first = record(&one);
    whi_sim_set_delay(3600 * WHI_NS_PER_S);
    within(ptr + 2, ptr, &one);
    whi_mem_event second = record(&one);
    wait_for(&first);
    CHECK_EQ_INT(look(ptr + 1), 'a');
    CHECK_EQ_INT(whi_mem_event_query(&second), WH_PENDING);
    CHECK_EQ_INT(look(ptr + 2), 0);
    whi_sim_drain();
    CHECK_EQ_INT(whi_mem_event_query(&second), WH_OK);
    CHECK_EQ_INT(look(ptr + 2), 'a');
    unmake(ptr);
}

TEST(a_stream_is_in_order_even_when_delays_shrink) {
    char *ptr = make();
    put(ptr, 'a');
    whi_sim_set_delay(LATER_MS * WHI_NS_PER_MS);
    within(ptr + 1, ptr, &one);
    whi_sim_set_delay(0);
    within(ptr + 2, ptr + 1, &one);  // needs the one before
    whi_mem_event event = record(&one);
    CHECK_EQ_INT(whi_mem_event_query(&event), WH_PENDING);
    CHECK_EQ_INT(look(ptr + 2), 0);
    wait_for(&event);
    CHECK_EQ_INT(look(ptr + 2), 'a');
    unmake(ptr);
}

TEST(streams_do_not_wait_for_each_other) {
    char *ptr = make();
    put(ptr, 'a');
    whi_sim_set_delay(3600 * WHI_NS_PER_S);
    within(ptr + 1, ptr, &one);
    whi_mem_event slow = record(&one);
    whi_sim_set_delay(0);
    within(ptr + 2, ptr, &two);
    within(ptr + 3, ptr, NULL);  // the default stream is one like the others
    whi_mem_event fast = record(&two), other = record(NULL);
    CHECK_EQ_INT(whi_mem_event_query(&fast), WH_OK);
    CHECK_EQ_INT(whi_mem_event_query(&other), WH_OK);
    CHECK_EQ_INT(look(ptr + 2), 'a');
    CHECK_EQ_INT(look(ptr + 3), 'a');
    CHECK_EQ_INT(whi_mem_event_query(&slow), WH_PENDING);
    unmake(ptr);  // waits for the slow one
    CHECK_EQ_INT(whi_mem_event_query(&slow), WH_OK);
}

TEST(one_stream_waits_for_an_event_of_another) {
    // Both orders of first use, since the streams are visited in that order.
    for (int swap = 0; swap < 2; swap++) {
        char *ptr = make();
        put(ptr, 'a');
        if (swap) {
            whi_sim_set_delay(1);
            within(ptr + 9, ptr, &two);
        }
        whi_sim_set_delay(LATER_MS * WHI_NS_PER_MS);
        within(ptr + 1, ptr, &one);
        whi_mem_event produced = record(&one);
        whi_sim_set_delay(0);
        CHECK_EQ_INT(ops->wait(&two, &produced), WH_OK);
        whi_mem_event_release(&produced);
        within(ptr + 2, ptr + 1, &two);
        whi_mem_event consumed = record(&two);
        CHECK_EQ_INT(whi_mem_event_query(&consumed), WH_PENDING);
        CHECK_EQ_INT(look(ptr + 2), 0);
        wait_for(&consumed);
        CHECK_EQ_INT(look(ptr + 2), 'a');
        unmake(ptr);
    }
}

TEST(waiting_for_what_has_passed_costs_nothing) {
    char *ptr = make();
    whi_mem_event past = record(&one);
    whi_alloc_fail_at(UINT64_MAX);
    wh_status status = ops->wait(&two, &past);
    whi_alloc_fail_at(0);
    CHECK_EQ_INT(status, WH_OK);
    CHECK_EQ_INT(whi_alloc_count(), 0);
    unmake(ptr);
}

TEST(every_allocation_may_fail) {
    char *ptr = make();
    put(ptr, 'a');
    whi_sim_set_delay(3600 * WHI_NS_PER_S);
    whi_alloc_fail_at(1);
    wh_status status = ops->copy_async(WHI_MEM_WITHIN, ptr + 1, ptr, 1, &one);
    whi_alloc_fail_at(0);
    CHECK_EQ_INT(status, WH_ENOMEM);
    whi_mem_event event = record(&one);
    CHECK_EQ_INT(whi_mem_event_query(&event), WH_OK);  // nothing was submitted
    within(ptr + 1, ptr, &one);
    event = record(&one);
    whi_alloc_fail_at(1);
    status = ops->wait(&two, &event);
    whi_alloc_fail_at(0);
    CHECK_EQ_INT(status, WH_ENOMEM);
    whi_sim_drain();
    CHECK_EQ_INT(look(ptr + 1), 'a');
    unmake(ptr);
}

TEST(too_many_streams) {
    enum { STREAMS = 65 };
    static char streams[STREAMS];
    char *ptr = make();
    put(ptr, 'a');
    whi_sim_set_delay(3600 * WHI_NS_PER_S);
    for (int i = 0; i < STREAMS - 1; i++)
        within(ptr + 1, ptr, &streams[i]);
    wh_status status = ops->copy_async(WHI_MEM_WITHIN, ptr + 2, ptr, 1, &streams[STREAMS - 1]);
    CHECK_EQ_INT(status, WH_ELIMIT);
    within(ptr + 3, ptr, &streams[0]);  // those that are there go on
    whi_sim_drain();
    CHECK_EQ_INT(look(ptr + 2), 0);
    CHECK_EQ_INT(look(ptr + 3), 'a');
    within(ptr + 2, ptr, &streams[STREAMS - 1]);
    unmake(ptr);
}

// A chain of copies through random streams, each of which waits for the one before: whatever the
// delays, the byte must arrive at the end.
TEST(random_chains) {
    static char streams[4];
    char *ptr = make();
    whi_rng rng;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        whi_rng_init(&rng, seed);
        put(ptr, (char)seed);
        whi_mem_event last = {.ops = NULL};
        for (int i = 1; i < SIZE; i++) {
            void *stream = &streams[whi_rng_below(&rng, 4)];
            whi_sim_set_delay(whi_rng_below(&rng, 20000));
            if (last.ops)
                CHECK_EQ_INT(ops->wait(stream, &last), WH_OK);
            within(ptr + i, ptr + i - 1, stream);
            last = record(stream);
            if (whi_rng_chance(&rng, 10))
                (void)whi_mem_event_query(&last);
        }
        wait_for(&last);
        CHECK_EQ_INT(look(ptr + SIZE - 1), (char)seed);
    }
    unmake(ptr);
}

TEST_MAIN()
