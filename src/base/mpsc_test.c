// SPDX-License-Identifier: BSD-3-Clause
//
// The bounded queue: full, empty, wrapping, and many producers that lose and repeat nothing.
#include "base/mpsc.h"

#include <sched.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/test.h"

static char things[64];

TEST(capacity) {
    static const struct {
        size_t asked, got;
    } cases[] = {{0, 2}, {1, 2}, {2, 2}, {3, 4}, {8, 8}, {9, 16}};
    for (size_t c = 0; c < sizeof(cases) / sizeof(*cases); c++) {
        whi_mpsc queue;
        CHECK_EQ_INT(whi_mpsc_init(&queue, cases[c].asked), WH_OK);
        for (size_t i = 0; i < cases[c].got; i++)
            CHECK(whi_mpsc_push(&queue, &things[i]));
        CHECK(!whi_mpsc_push(&queue, things));
        for (size_t i = 0; i < cases[c].got; i++)
            CHECK(whi_mpsc_pop(&queue) == &things[i]);
        CHECK(!whi_mpsc_pop(&queue));
        whi_mpsc_fini(&queue);
    }
    whi_mpsc queue;
    CHECK_EQ_INT(whi_mpsc_init(&queue, SIZE_MAX), WH_EINVAL);
}

TEST(many_laps) {
    whi_mpsc queue;
    CHECK_EQ_INT(whi_mpsc_init(&queue, 4), WH_OK);
    int in = 0, out = 0;
    for (int round = 0; round < 1000; round++) {
        for (int i = 0; i < 1 + round % 4; i++)
            if (whi_mpsc_push(&queue, &things[in % 64]))
                in++;
        CHECK(!whi_mpsc_empty(&queue));
        for (int i = 0; i < 1 + round % 3 && out < in; i++)
            CHECK(whi_mpsc_pop(&queue) == &things[out++ % 64]);
    }
    while (out < in)
        CHECK(whi_mpsc_pop(&queue) == &things[out++ % 64]);
    CHECK(whi_mpsc_empty(&queue));
    CHECK(in > 1000);
    whi_mpsc_fini(&queue);
}

TEST(positions_may_wrap) {
    whi_mpsc queue;
    CHECK_EQ_INT(whi_mpsc_init(&queue, 4), WH_OK);
    // As if SIZE_MAX - 3 pointers had passed already: a multiple of the capacity.
    size_t start = (size_t)0 - 4;
    atomic_store(&queue.head, start);
    queue.tail = start;
    for (size_t i = 0; i < 4; i++)
        atomic_store(&queue.cells[i].sequence, start + i);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++)
            CHECK(whi_mpsc_push(&queue, &things[i]));
        CHECK(!whi_mpsc_push(&queue, things));
        for (int i = 0; i < 4; i++)
            CHECK(whi_mpsc_pop(&queue) == &things[i]);
        CHECK(whi_mpsc_empty(&queue));
    }
    whi_mpsc_fini(&queue);
}

TEST(allocation_may_fail) {
    whi_mpsc queue;
    whi_alloc_fail_at(1);
    wh_status status = whi_mpsc_init(&queue, 8);
    whi_alloc_fail_at(0);
    CHECK_EQ_INT(status, WH_ENOMEM);
}

enum { PRODUCERS = 4, EACH = 20000 };

static whi_mpsc shared;

typedef struct message {
    int producer, number;  // plain: the queue orders them
} message;

static message messages[PRODUCERS][EACH];

static void *produce(void *arg) {
    int producer = (int)(intptr_t)arg;
    for (int i = 0; i < EACH; i++) {
        message *m = &messages[producer][i];
        m->producer = producer;
        m->number = i;
        while (!whi_mpsc_push(&shared, m))
            sched_yield();
    }
    return NULL;
}

TEST(producers_keep_their_order) {
    CHECK_EQ_INT(whi_mpsc_init(&shared, 64), WH_OK);
    pthread_t threads[PRODUCERS];
    for (int i = 0; i < PRODUCERS; i++)
        pthread_create(&threads[i], NULL, produce, (void *)(intptr_t)i);
    int next[PRODUCERS] = {0};
    for (int got = 0; got < PRODUCERS * EACH;) {
        const message *m = whi_mpsc_pop(&shared);
        if (!m) {
            sched_yield();
            continue;
        }
        CHECK_EQ_INT(m->number, next[m->producer]);
        next[m->producer]++;
        got++;
    }
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(threads[i], NULL);
    CHECK(whi_mpsc_empty(&shared));
    whi_mpsc_fini(&shared);
}

TEST_MAIN()
