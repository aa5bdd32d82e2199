// SPDX-License-Identifier: BSD-3-Clause
//
// What a PE does beside messages: buffers, timers, idle functions, calls of other threads, user-level threads.
#include "rt/pe/pe_kit.h"

enum { BIG = 300 << 10 };

// ---- Buffers.

static void done(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    *(wh_result *)arg = *result;
}

static void one_buffer(int ppn, bool receive_first) {
    static char from[BIG], to[BIG];
    wh_result sent = {.status = WH_PENDING}, received = {.status = WH_PENDING};
    uint64_t tag, next;
    kit_begin(2, ppn);
    kit_fill(from, BIG, 8);
    memset(to, 0, BIG);
    CHECK_EQ_INT(wh_pe_next_tag(job.pe[0], 1, &tag), WH_OK);
    CHECK_EQ_INT(wh_pe_next_tag(job.pe[0], 1, &next), WH_OK);
    CHECK(tag != next);
    for (int i = 0; i < 2; i++) {
        if ((i == 0) == receive_first) {
            wh_status st = wh_pe_recv_buffer(job.pe[1], 0, to, BIG, tag,
                                             WH_OP_OPTS(.done = done, .arg = &received), NULL);
            CHECK_EQ_INT(st, WH_PENDING);
        } else {
            wh_status st = wh_pe_send_buffer(job.pe[0], 1, from, BIG, tag,
                                             WH_OP_OPTS(.done = done, .arg = &sent), NULL);
            CHECK_EQ_INT(st, WH_PENDING);
        }
        kit_turns(5);
    }
    UNTIL(sent.status != WH_PENDING && received.status != WH_PENDING);
    CHECK_EQ_INT(sent.status, WH_OK);
    CHECK_EQ_INT(received.status, WH_OK);
    CHECK_EQ_INT(received.size, BIG);
    CHECK(kit_is_filled(to, BIG, 8));
    kit_end();
}

TEST(buffers) {
    for (int i = 0; i < 4; i++)
        one_buffer(1 + i / 2, i % 2);
}

TEST(a_receive_from_nobody_can_be_cancelled_and_times_out) {
    char to[8];
    wh_request *req;
    wh_result result = {.status = WH_PENDING};
    kit_begin(2, 1);
    CHECK_EQ_INT(wh_pe_recv_buffer(job.pe[1], 0, to, 8, 1, NULL, &req), WH_PENDING);
    CHECK_EQ_INT(wh_pe_recv_buffer(job.pe[1], 0, to, 8, 2,
                                   WH_OP_OPTS(.done = done, .arg = &result, .timeout_ms = 20),
                                   NULL),
                 WH_PENDING);
    wh_request_cancel(req);
    UNTIL(wh_request_status(req) != WH_PENDING);
    CHECK_EQ_INT(wh_request_status(req), WH_ECANCELLED);
    wh_request_free(req);
    UNTIL(result.status != WH_PENDING);
    CHECK_EQ_INT(result.status, WH_ETIMEDOUT);
    kit_end();
}

// ---- Timers, idle functions, calls.

static int called;

static void count_call(wh_pe *pe, void *arg) {
    CHECK(wh_pe_here() == pe);
    CHECK(pe == job.pe[0]);
    called += *(int *)arg;
}

TEST(timers_in_order_and_cancelled) {
    int one = 1, ten = 10, hundred = 100;
    uint32_t id;
    kit_begin(1, 1);
    called = 0;
    CHECK_EQ_INT(wh_pe_after(job.pe[0], 20000, count_call, &ten, NULL), WH_OK);
    CHECK_EQ_INT(wh_pe_after(job.pe[0], 0, count_call, &one, NULL), WH_OK);
    CHECK_EQ_INT(wh_pe_after(job.pe[0], 1000, count_call, &hundred, &id), WH_OK);
    CHECK_EQ_INT(wh_pe_cancel(job.pe[0], id), WH_OK);
    CHECK_EQ_INT(wh_pe_cancel(job.pe[0], id), WH_ENOTFOUND);
    UNTIL(called == 1);
    UNTIL(called == 11);
    CHECK_EQ_INT(wh_pe_after(job.pe[0], UINT64_MAX, count_call, &ten, NULL), WH_EINVAL);
    kit_end();
}

static bool count_idle(wh_pe *pe, void *arg) {
    (void)pe;
    return ++*(int *)arg < 5;
}

TEST(idle_functions_until_they_have_enough) {
    int a = 0, b = 0;
    uint32_t id;
    kit_begin(1, 1);
    CHECK_EQ_INT(wh_pe_on_idle(job.pe[0], count_idle, &a, NULL), WH_OK);
    CHECK_EQ_INT(wh_pe_on_idle(job.pe[0], count_idle, &b, &id), WH_OK);
    UNTIL(a == 2);
    CHECK_EQ_INT(wh_pe_cancel(job.pe[0], id), WH_OK);
    int before = b;
    kit_turns(50);
    CHECK_EQ_INT(a, 5);
    CHECK_EQ_INT(b, before);
    kit_end();
}

static void *call_from_thread(void *arg) {
    static int one = 1;
    for (int i = 0; i < 1000; i++)
        CHECK_EQ_INT(wh_pe_call(arg, count_call, &one), WH_OK);
    return NULL;
}

TEST(calls_of_other_threads) {
    pthread_t thread;
    kit_begin(1, 1);
    called = 0;
    CHECK_EQ_INT(pthread_create(&thread, NULL, call_from_thread, job.pe[0]), 0);
    UNTIL(called == 1000);
    pthread_join(thread, NULL);
    kit_end();
}

// ---- User-level threads.

typedef struct waiter {
    wh_wait wait;
    int steps;
} waiter;

static void wait_once(wh_pe *pe, void *arg) {
    waiter *w = arg;
    w->steps = 1;
    CHECK_EQ_INT(wh_pe_wait(pe, &w->wait), WH_OK);
    w->steps = 2;
    wh_pe_yield(pe);
    w->steps = 3;
}

TEST(threads_wait_and_yield) {
    enum { COUNT = 100 };
    static waiter w[COUNT];
    memset(w, 0, sizeof(w));
    kit_begin(1, 1);
    CHECK_EQ_INT(wh_pe_wait(job.pe[0], &w[0].wait), WH_EINVAL);
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ_INT(wh_pe_spawn(job.pe[0], wait_once, &w[i]), WH_OK);
        CHECK_EQ_INT(w[i].steps, 1);
    }
    for (int i = COUNT; i--;) {
        wh_pe_resume(job.pe[0], &w[i].wait);
        wh_pe_resume(job.pe[0], &w[i].wait);
    }
    kit_turn();
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ_INT(w[i].steps, 2);
    kit_turn();
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ_INT(w[i].steps, 3);
    kit_end();
}

// Two threads wake each other: they go on within a turn, but not for ever.
enum { WAKES = 200 };
static waiter two[2];

static void wake_other(wh_pe *pe, void *arg) {
    waiter *me = arg, *other = &two[me == two];
    while (me->steps < WAKES) {
        me->steps++;
        wh_pe_resume(pe, &other->wait);
        me->wait.done = false;
        if (me->steps < WAKES)
            CHECK_EQ_INT(wh_pe_wait(pe, &me->wait), WH_OK);
    }
}

TEST(threads_that_wake_each_other) {
    memset(two, 0, sizeof(two));
    kit_begin(1, 1);
    for (int i = 0; i < 2; i++)
        CHECK_EQ_INT(wh_pe_spawn(job.pe[0], wake_other, &two[i]), WH_OK);
    for (int turn = 0; two[0].steps + two[1].steps < 2 * WAKES; turn++) {
        int before = two[0].steps + two[1].steps;
        CHECK(turn < 2 * WAKES);
        kit_turn();
        CHECK(two[0].steps + two[1].steps - before <= WHI_PE_PASSES + 1);
        CHECK(turn || two[0].steps + two[1].steps - before > 2);
    }
    kit_end();
}

static char arrived[BIG];

static void receive_in_thread(wh_pe *pe, void *arg) {
    waiter *w = arg;
    wh_status st = wh_pe_recv_buffer(pe, 0, arrived, BIG, 5,
                                     WH_OP_OPTS(.done = wh_wait_done, .arg = &w->wait), NULL);
    CHECK_EQ_INT(st, WH_PENDING);
    CHECK_EQ_INT(wh_pe_wait(pe, &w->wait), WH_OK);
    CHECK_EQ_INT(w->wait.result.status, WH_OK);
    w->steps = 1;
}

TEST(a_thread_waits_for_an_operation) {
    static char data[BIG];
    static waiter w;
    w = (waiter){.steps = 0};
    kit_fill(data, BIG, 1);
    kit_begin(2, 1);
    CHECK_EQ_INT(wh_pe_spawn(job.pe[1], receive_in_thread, &w), WH_OK);
    kit_turns(10);
    CHECK_EQ_INT(w.steps, 0);
    CHECK(wh_pe_send_buffer(job.pe[0], 1, data, BIG, 5, NULL, NULL) >= WH_OK);
    UNTIL(w.steps == 1);
    CHECK(kit_is_filled(arrived, BIG, 1));
    kit_end();
}

static void receive_for_ever(wh_pe *pe, void *arg) {
    wh_wait wait = {.done = false};
    *(int *)arg = 1;
    if (wh_pe_recv_buffer(pe, 0, arrived, BIG, 6, WH_OP_OPTS(.done = wh_wait_done, .arg = &wait),
                          NULL) == WH_PENDING &&
        wh_pe_wait(pe, &wait) == WH_OK)
        *(int *)arg = 2;
}

// What it waits for lies on its stack, and ends with the PE.
TEST(a_thread_that_waits_at_the_end) {
    int step = 0;
    kit_begin(2, 1);
    CHECK_EQ_INT(wh_pe_spawn(job.pe[1], receive_for_ever, &step), WH_OK);
    kit_turns(10);
    kit_end();
    CHECK_EQ_INT(step, 1);
}

TEST_MAIN()
