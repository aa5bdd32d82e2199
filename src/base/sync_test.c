// SPDX-License-Identifier: BSD-3-Clause
//
// Futexes and events: waking, not sleeping when there is no need, and timeouts.
#include "base/sync.h"

#include "base/test.h"

TEST(futex_does_not_sleep_on_another_value) {
    _Atomic uint32_t word = 1;
    CHECK_EQ_INT(whi_futex_wait(&word, 0, WHI_FOREVER), WH_OK);
}

TEST(futex_timeout) {
    _Atomic uint32_t word = 1;
    uint64_t start = whi_clock_ns();
    wh_status status;
    do  // WH_OK may also mean a signal
        status = whi_futex_wait(&word, 1, 10 * WHI_NS_PER_MS);
    while (status == WH_OK);
    CHECK_EQ_INT(status, WH_ETIMEDOUT);
    CHECK(whi_clock_ns() - start >= 10 * WHI_NS_PER_MS);
}

TEST(event_without_threads) {
    whi_event event;
    whi_event_init(&event);
    CHECK_EQ_INT(whi_event_wait(&event, 0), WH_ETIMEDOUT);
    uint64_t start = whi_clock_ns();
    CHECK_EQ_INT(whi_event_wait(&event, 10 * WHI_NS_PER_MS), WH_ETIMEDOUT);
    CHECK(whi_clock_ns() - start >= 10 * WHI_NS_PER_MS);
    whi_event_set(&event);
    whi_event_set(&event);
    CHECK_EQ_INT(whi_event_wait(&event, 0), WH_OK);
    CHECK_EQ_INT(whi_event_wait(&event, WHI_FOREVER), WH_OK);  // it stays set
}

// Two threads hand a plain number to and fro; each handover is an event.
enum { ROUNDS = 5000 };

static whi_event ping, pong;

static void *answer(void *arg) {
    // Plain, since the events order it; no static, which gcc under the thread sanitizer keeps in a
    // register across the atomics that stand in for real ones.
    int *number = arg;
    for (int i = 0; i < ROUNDS; i++) {
        if (whi_event_wait(&ping, WHI_FOREVER) != WH_OK)
            abort();
        whi_event_init(&ping);
        ++*number;
        whi_event_set(&pong);
    }
    return NULL;
}

TEST(handover) {
    whi_event_init(&ping);
    whi_event_init(&pong);
    int number = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, answer, &number);
    for (int i = 0; i < ROUNDS; i++) {
        number++;
        whi_event_set(&ping);
        CHECK_EQ_INT(whi_event_wait(&pong, 10 * WHI_NS_PER_S), WH_OK);
        whi_event_init(&pong);
        CHECK_EQ_INT(number, 2 * (i + 1));
    }
    pthread_join(thread, NULL);
}

static whi_event gate;

static void *pass_gate(void *arg) {
    *(wh_status *)arg = whi_event_wait(&gate, 10 * WHI_NS_PER_S);
    return NULL;
}

TEST(set_wakes_all) {
    enum { THREADS = 4 };
    whi_event_init(&gate);
    pthread_t threads[THREADS];
    wh_status results[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, pass_gate, &results[i]);
    while (atomic_load(&gate.state) != WHI_EVENT_AWAITED)
        usleep(100);
    usleep(10 * 1000);  // let the others fall asleep too
    whi_event_set(&gate);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQ_INT(results[i], WH_OK);
    }
}

TEST_MAIN()
