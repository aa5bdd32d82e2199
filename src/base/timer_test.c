// SPDX-License-Identifier: BSD-3-Clause
//
// Timers fire in order and once, can leave from anywhere, and callbacks may do as they like.
#include "base/timer.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "base/test.h"

enum { MANY = 500 };

static whi_timers set;
static whi_timer timers[MANY];
static int fired[MANY * 4], fired_count;

static void note(whi_timer *timer, void *arg) {
    (void)arg;
    CHECK_EQ_INT(timer->state, WHI_TIMER_IDLE);
    fired[fired_count++] = (int)(timer - timers);
}

static void start(void) {
    fired_count = 0;
    whi_timers_init(&set);
    for (int i = 0; i < MANY; i++)
        whi_timer_init(&timers[i], note, NULL);
}

TEST(empty) {
    start();
    CHECK(whi_timers_next_deadline(&set) == WHI_TIMER_NEVER);
    CHECK_EQ_INT(whi_timers_run(&set, UINT64_MAX), 0);
    whi_timers_remove(&set, &timers[0]);  // not armed: nothing happens
}

TEST(in_order_of_deadline) {
    start();
    whi_timers_add(&set, &timers[0], 30);
    whi_timers_add(&set, &timers[1], 10);
    whi_timers_add(&set, &timers[2], 20);
    CHECK_EQ_INT(whi_timers_next_deadline(&set), 10);
    CHECK_EQ_INT(whi_timers_run(&set, 9), 0);
    CHECK_EQ_INT(whi_timers_run(&set, 20), 2);  // at the deadline is due
    CHECK_EQ_INT(fired[0], 1);
    CHECK_EQ_INT(fired[1], 2);
    CHECK_EQ_INT(whi_timers_count(&set), 1);
    CHECK_EQ_INT(whi_timers_next_deadline(&set), 30);
    CHECK_EQ_INT(whi_timers_run(&set, UINT64_MAX), 1);
    CHECK_EQ_INT(whi_timers_count(&set), 0);
}

TEST(same_deadline_in_order_of_adding) {
    start();
    for (int i = 0; i < MANY; i++)
        whi_timers_add(&set, &timers[i], 5);
    CHECK_EQ_INT(whi_timers_run(&set, 5), MANY);
    for (int i = 0; i < MANY; i++)
        CHECK_EQ_INT(fired[i], i);
}

TEST(adding_again_moves) {
    start();
    whi_timers_add(&set, &timers[0], 10);
    whi_timers_add(&set, &timers[1], 20);
    whi_timers_add(&set, &timers[0], 30);
    CHECK_EQ_INT(whi_timers_count(&set), 2);
    CHECK_EQ_INT(whi_timers_next_deadline(&set), 20);
    CHECK_EQ_INT(whi_timers_run(&set, 100), 2);
    CHECK_EQ_INT(fired[0], 1);
    CHECK_EQ_INT(fired[1], 0);
}

// Adds, moves, removes and runs at random, beside an array that is searched.
static void random_against_array(uint64_t seed) {
    enum { STEPS = 20000 };
    uint64_t deadline[MANY] = {0};  // 0: not armed
    whi_rng rng;
    whi_rng_init(&rng, seed);
    start();
    uint64_t now = 1;
    for (int step = 0; step < STEPS; step++) {
        size_t i = whi_rng_below(&rng, MANY);
        uint64_t dice = whi_rng_below(&rng, 10);
        if (dice < 6) {
            deadline[i] = now + 1 + whi_rng_below(&rng, 1000);
            whi_timers_add(&set, &timers[i], deadline[i]);
        } else if (dice < 9) {
            deadline[i] = 0;
            whi_timers_remove(&set, &timers[i]);
        } else {
            now += whi_rng_below(&rng, 100);
            fired_count = 0;
            whi_timers_run(&set, now);
            uint64_t last = 0;
            for (int f = 0; f < fired_count; f++) {
                CHECK(deadline[fired[f]] >= last && deadline[fired[f]] <= now);
                last = deadline[fired[f]];
                deadline[fired[f]] = 0;
            }
        }
        uint64_t next = WHI_TIMER_NEVER;
        size_t armed = 0;
        for (int k = 0; k < MANY; k++) {
            CHECK_EQ_INT(timers[k].state, deadline[k] ? WHI_TIMER_ARMED : WHI_TIMER_IDLE);
            armed += deadline[k] != 0;
            if (deadline[k] && deadline[k] < next)
                next = deadline[k];
        }
        CHECK(whi_timers_next_deadline(&set) == next);
        CHECK_EQ_INT(whi_timers_count(&set), armed);
        CHECK(next > now);
    }
}

TEST(random_against_an_array) {
    random_against_array(1);
    random_against_array(2);
}

static void add_itself(whi_timer *timer, void *arg) {
    note(timer, arg);
    whi_timers_add(&set, timer, 0);
}

TEST(callback_adds_itself_for_the_past) {
    start();
    timers[0].fn = add_itself;
    whi_timers_add(&set, &timers[0], 1);
    CHECK_EQ_INT(whi_timers_run(&set, 10), 1);  // and not for ever
    CHECK_EQ_INT(whi_timers_run(&set, 10), 1);
    CHECK_EQ_INT(fired_count, 2);
}

static void remove_others(whi_timer *timer, void *arg) {
    note(timer, arg);
    whi_timers_remove(&set, &timers[1]);              // due in the same run
    whi_timers_remove(&set, &timers[3]);              // due later
    whi_timers_add(&set, &timers[2], 50);             // due in the same run, put off
    CHECK_EQ_INT(whi_timers_next_deadline(&set), 0);  // timers[4] is waiting to be called
}

TEST(callback_removes_and_moves_others) {
    start();
    timers[0].fn = remove_others;
    for (int i = 0; i < 5; i++)
        whi_timers_add(&set, &timers[i], i == 3 ? 40 : 10);
    CHECK_EQ_INT(whi_timers_run(&set, 10), 2);
    CHECK_EQ_INT(fired[0], 0);
    CHECK_EQ_INT(fired[1], 4);
    CHECK_EQ_INT(whi_timers_next_deadline(&set), 50);
    CHECK_EQ_INT(whi_timers_run(&set, 60), 1);
    CHECK_EQ_INT(fired[2], 2);
}

static void free_itself(whi_timer *timer, void *arg) {
    whi_free(timer);
    ++*(int *)arg;
}

TEST(callback_frees_its_timer) {
    start();
    int freed = 0;
    for (int i = 0; i < 10; i++) {
        whi_timer *timer = whi_malloc(sizeof(*timer));
        whi_timer_init(timer, free_itself, &freed);
        whi_timers_add(&set, timer, 5);
    }
    CHECK_EQ_INT(whi_timers_run(&set, 5), 10);
    CHECK_EQ_INT(freed, 10);
}

static void run_again(whi_timer *timer, void *arg) {
    note(timer, arg);
    whi_timers_run(&set, 100);
}

TEST(callback_runs_the_set) {
    start();
    timers[0].fn = run_again;
    for (int i = 0; i < 4; i++)
        whi_timers_add(&set, &timers[i], 10 + (i == 3));
    CHECK_EQ_INT(whi_timers_run(&set, 10), 1);  // the inner run called the rest
    CHECK_EQ_INT(fired_count, 4);
    for (int i = 0; i < 4; i++)
        CHECK_EQ_INT(fired[i], i);
}

TEST_MAIN()
