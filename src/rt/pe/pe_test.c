// SPDX-License-Identifier: BSD-3-Clause
//
// PEs in one thread: messages between them, within a process and between processes, what stands beside messages, and ends.
#include "rt/pe/pe_kit.h"

enum { NUMBERS = 7, BIG = 300 << 10 };

// ---- Messages.

typedef struct seen {
    int next[PES_MAX];  // number of the next message, by source
    int total;
} seen;

static void fill(char *data, size_t size, unsigned seed) {
    for (size_t i = 0; i < size; i++)
        data[i] = (char)(i * 7 + i / 256 + seed);
}

static bool is_filled(const char *data, size_t size, unsigned seed) {
    for (size_t i = 0; i < size; i++)
        if (data[i] != (char)(i * 7 + i / 256 + seed))
            return false;
    return true;
}

static size_t size_of(int number) {
    static const size_t sizes[] = {0, 8, 300, 5000, 9000, BIG};
    return sizes[(size_t)number % (sizeof(sizes) / sizeof(sizes[0]))];
}

static void on_number(wh_pe *pe, wh_pe_msg *msg, void *arg) {
    (void)pe;
    seen *s = arg;
    int number;
    CHECK_EQ_INT(msg->head_size, sizeof(number));
    CHECK((uintptr_t)msg->head % 8 == 0 && (uintptr_t)msg->data % 16 == 0);
    memcpy(&number, msg->head, sizeof(number));
    CHECK_EQ_INT(number, s->next[msg->source]);
    CHECK_EQ_INT(msg->size, size_of(number));
    CHECK(is_filled(msg->data, msg->size, (unsigned)number));
    s->next[msg->source]++;
    s->total++;
}

// all_to_all has every PE send numbered messages of many sizes to every one, itself included.
static void all_to_all(int pes, int ppn, int rounds) {
    static seen all[PES_MAX];
    static char data[BIG];
    memset(all, 0, sizeof(all));
    kit_begin(pes, ppn);
    for (int i = 0; i < pes; i++)
        CHECK_EQ_INT(wh_pe_set_handler(job.pe[i], NUMBERS, on_number, &all[i]), WH_OK);
    for (int number = 0; number < rounds; number++) {
        fill(data, size_of(number), (unsigned)number);
        for (int from = 0; from < pes; from++)
            for (int to = 0; to < pes; to++)
                CHECK_EQ_INT(wh_pe_send(job.pe[from], to, NUMBERS, &number, sizeof(number), data,
                                        size_of(number), 0),
                             WH_OK);
    }
    for (int i = 0; i < pes; i++)
        UNTIL(all[i].total == pes * rounds);
    kit_turns(20);
    for (int i = 0; i < pes; i++)
        CHECK_EQ_INT(all[i].total, pes * rounds);
    CHECK_EQ_INT(job.failures, 0);
    kit_end();
}

TEST(messages_between_processes_are_in_order) {
    all_to_all(4, 1, 40);
}

TEST(messages_within_a_process_are_in_order) {
    all_to_all(4, 4, 40);
}

TEST(messages_of_both_kinds) {
    all_to_all(6, 2, 20);
}

TEST(a_job_of_one) {
    all_to_all(1, 1, 40);
}

static int order[8], ordered;

static void on_ordered(wh_pe *pe, wh_pe_msg *msg, void *arg) {
    (void)pe;
    (void)arg;
    CHECK(ordered < 8);
    order[ordered++] = *(const int *)msg->head;
}

TEST(lower_priorities_first_and_equal_ones_in_order) {
    static const int priority[] = {5, 0, -1, 5, 0, -7, 1, -1};
    static const int expected[] = {5, 2, 7, 1, 4, 6, 0, 3};
    kit_begin(1, 1);
    ordered = 0;
    CHECK_EQ_INT(wh_pe_set_handler(job.pe[0], 1, on_ordered, NULL), WH_OK);
    for (int i = 0; i < 8; i++)
        CHECK_EQ_INT(wh_pe_send(job.pe[0], 0, 1, &i, sizeof(i), NULL, 0, priority[i]), WH_OK);
    UNTIL(ordered == 8);
    for (int i = 0; i < 8; i++)
        CHECK_EQ_INT(order[i], expected[i]);
    kit_end();
}

static void on_kept(wh_pe *pe, wh_pe_msg *msg, void *arg) {
    (void)pe;
    *(wh_pe_msg **)arg = msg;
    wh_pe_msg_keep(msg);
}

// A message that was kept can be sent on, from where it lies in the engine too.
static void keep_and_send_on(int ppn, size_t size) {
    static char data[BIG];
    wh_pe_msg *first = NULL, *second = NULL;
    kit_begin(2, ppn);
    CHECK_EQ_INT(wh_pe_set_handler(job.pe[1], 1, on_kept, &first), WH_OK);
    CHECK_EQ_INT(wh_pe_set_handler(job.pe[0], 1, on_kept, &second), WH_OK);
    fill(data, size, 3);
    CHECK_EQ_INT(wh_pe_send(job.pe[0], 1, 1, "head", 4, data, size, 9), WH_OK);
    UNTIL(first);
    CHECK(is_filled(first->data, size, 3));
    CHECK_EQ_INT(wh_pe_msg_send(job.pe[1], 0, first), WH_OK);
    UNTIL(second);
    CHECK_EQ_INT(second->source, 1);
    CHECK_EQ_INT(second->priority, 9);
    CHECK_EQ_INT(second->size, size);
    CHECK_MEM(second->head, "head", 4);
    CHECK(is_filled(second->data, size, 3));
    wh_pe_msg_free(job.pe[0], second);
    kit_end();
}

TEST(kept_messages_are_sent_on) {
    keep_and_send_on(1, 100);
    keep_and_send_on(2, 100);
    keep_and_send_on(1, BIG);
    keep_and_send_on(2, BIG);
}

static void on_taken(wh_pe *pe, wh_pe_msg *msg, void *arg) {
    wh_pe_msg_keep(msg);
    if (++*(int *)arg % 2)
        wh_pe_msg_free(pe, msg);
    else
        CHECK_EQ_INT(wh_pe_msg_send(pe, 0, msg), WH_OK);
}

// A handler may keep a message and be done with it at once.
TEST(kept_messages_end_within_their_handler) {
    static char data[BIG];
    int taken = 0;
    kit_begin(2, 1);
    CHECK_EQ_INT(wh_pe_set_handler(job.pe[1], 1, on_taken, &taken), WH_OK);
    CHECK_EQ_INT(wh_pe_set_handler(job.pe[0], 1, on_taken, &taken), WH_OK);
    for (int i = 0; i < 4; i++)
        CHECK_EQ_INT(wh_pe_send(job.pe[0], 1, 1, NULL, 0, data, i % 2 ? BIG : 64, 0), WH_OK);
    UNTIL(taken >= 6);
    kit_end();
}

static int big_ones;

static void on_big(wh_pe *pe, wh_pe_msg *msg, void *arg) {
    (void)arg;
    CHECK_EQ_INT(*(const int *)msg->head, big_ones);
    CHECK(is_filled(msg->data, msg->size, (unsigned)big_ones));
    big_ones++;
    CHECK(pe->wire->inbox <= 1 << 20);
}

// What a PE takes in is bounded: 100 messages of 300 KiB to one whose inbox has 1 MiB, and one that is larger.
TEST(large_messages_wait_for_the_inbox) {
    enum { COUNT = 100 };
    static char data[2 << 20];
    big_ones = 0;
    kit_begin(2, 1);
    CHECK_EQ_INT(wh_pe_set_handler(job.pe[1], 1, on_big, NULL), WH_OK);
    for (int i = 0; i < COUNT; i++) {
        fill(data, BIG, (unsigned)i);
        CHECK_EQ_INT(wh_pe_send(job.pe[0], 1, 1, &i, sizeof(i), data, BIG, 0), WH_OK);
    }
    // Nothing of PE 1 is handled, so that no more than its inbox holds leaves PE 0.
    for (int i = 0; i < 300; i++) {
        wh_pe_turn(job.pe[0]);
        wh_worker_progress(job.pe[1]->worker);
    }
    CHECK(job.wires[1]->inbox <= 1 << 20 && job.wires[1]->inbox >= 3 * BIG);
    CHECK_EQ_INT(big_ones, 0);
    UNTIL(big_ones == COUNT);
    CHECK_EQ_INT(job.wires[1]->inbox, 0);
    kit_end();
}

TEST(a_handler_that_is_not_set_is_said) {
    kit_begin(2, 1);
    CHECK_EQ_INT(wh_pe_send(job.pe[0], 1, 99, NULL, 0, NULL, 0, 0), WH_OK);
    UNTIL(job.failures == 1);
    CHECK(strstr(job.failure, "handler 99"));
    kit_end();
}

TEST(arguments_that_are_none) {
    char head[WH_PE_HEAD_MAX + 1] = "";
    kit_begin(2, 1);
    CHECK_EQ_INT(wh_pe_send(job.pe[0], 2, 1, NULL, 0, NULL, 0, 0), WH_EINVAL);
    CHECK_EQ_INT(wh_pe_send(job.pe[0], -1, 1, NULL, 0, NULL, 0, 0), WH_EINVAL);
    CHECK_EQ_INT(wh_pe_send(job.pe[0], 1, 1, head, sizeof(head), NULL, 0, 0), WH_EINVAL);
    CHECK_EQ_INT(wh_pe_send(job.pe[0], 1, 1, NULL, 0, NULL, 7, 0), WH_EINVAL);
    kit_end();
}

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
    fill(from, BIG, 8);
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
    CHECK(is_filled(to, BIG, 8));
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

// ---- What stands beside messages.

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
    fill(data, BIG, 1);
    kit_begin(2, 1);
    CHECK_EQ_INT(wh_pe_spawn(job.pe[1], receive_in_thread, &w), WH_OK);
    kit_turns(10);
    CHECK_EQ_INT(w.steps, 0);
    CHECK(wh_pe_send_buffer(job.pe[0], 1, data, BIG, 5, NULL, NULL) >= WH_OK);
    UNTIL(w.steps == 1);
    CHECK(is_filled(arrived, BIG, 1));
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

// ---- Quiescence.

static int quiet, left[PES_MAX];

static void on_hop(wh_pe *pe, wh_pe_msg *msg, void *arg) {
    (void)arg;
    CHECK_EQ_INT(quiet, 0);
    int hops = *(const int *)msg->head - 1;
    left[wh_pe_number(pe)]++;
    if (hops > 0)
        CHECK_EQ_INT(wh_pe_send(pe, (wh_pe_number(pe) * 5 + hops) % job.pes, 1, &hops, sizeof(hops),
                                NULL, 0, 0),
                     WH_OK);
}

static void on_quiet(wh_pe *pe, void *arg) {
    (void)pe;
    int total = 0;
    for (int i = 0; i < job.pes; i++)
        total += left[i];
    CHECK_EQ_INT(total, *(int *)arg);
    quiet++;
}

static void quiescence(int pes, int ppn) {
    int hops = 200, total = 2 * hops * pes;
    quiet = 0;
    memset(left, 0, sizeof(left));
    kit_begin(pes, ppn);
    for (int i = 0; i < pes; i++)
        CHECK_EQ_INT(wh_pe_set_handler(job.pe[i], 1, on_hop, NULL), WH_OK);
    for (int i = 0; i < pes; i++) {
        CHECK_EQ_INT(wh_pe_send(job.pe[i], 0, 1, &hops, sizeof(hops), NULL, 0, 0), WH_OK);
        if (i == 1)
            CHECK_EQ_INT(wh_pe_on_quiescence(job.pe[i], on_quiet, &total), WH_OK);
        CHECK_EQ_INT(wh_pe_send(job.pe[i], pes - 1, 1, &hops, sizeof(hops), NULL, 0, 0), WH_OK);
    }
    CHECK_EQ_INT(wh_pe_on_quiescence(job.pe[pes - 1], on_quiet, &total), WH_OK);
    UNTIL(quiet == (pes > 1 ? 2 : 1));
    kit_turns(100);
    CHECK_EQ_INT(quiet, pes > 1 ? 2 : 1);
    kit_end();
}

TEST(quiescence_is_when_all_has_been_handled) {
    quiescence(1, 1);
    quiescence(2, 1);
    quiescence(16, 1);
    quiescence(16, 4);
}

static char large[BIG];
static int handled_late;

static void send_two(wh_pe *pe, wh_pe_msg *msg, void *arg) {
    (void)msg;
    (void)arg;
    CHECK_EQ_INT(wh_pe_send(pe, 2, 2, NULL, 0, NULL, 0, 0), WH_OK);
    CHECK_EQ_INT(wh_pe_send(pe, 2, 2, NULL, 0, large, BIG, 0), WH_OK);
}

static void count_late(wh_pe *pe, wh_pe_msg *msg, void *arg) {
    (void)pe;
    (void)msg;
    (void)arg;
    handled_late++;
}

static void turns_of(int pe, int turns) {
    for (int i = 0; i < turns; i++)
        wh_pe_turn(job.pe[pe]);
}

// PE 1 has answered before it gets a message and sends two, of which PE 2 has handled one when it answers: the sums are
// equal, though the other one is under way.
TEST(equal_sums_of_one_wave_are_not_enough) {
    int total = 0;
    quiet = handled_late = 0;
    memset(left, 0, sizeof(left));
    kit_begin(3, 1);
    CHECK_EQ_INT(wh_pe_set_handler(job.pe[1], 1, send_two, NULL), WH_OK);
    CHECK_EQ_INT(wh_pe_set_handler(job.pe[2], 2, count_late, NULL), WH_OK);
    CHECK_EQ_INT(wh_pe_send(job.pe[2], 1, 1, NULL, 0, NULL, 0, 0), WH_OK);
    UNTIL(handled_late == 2);
    CHECK_EQ_INT(wh_pe_on_quiescence(job.pe[0], on_quiet, &total), WH_OK);
    UNTIL(quiet == 1);  // from now on all are connected
    kit_turns(20);
    CHECK_EQ_INT(wh_pe_on_quiescence(job.pe[0], on_quiet, &total), WH_OK);
    turns_of(0, 20);
    turns_of(1, 50);
    CHECK_EQ_INT(wh_pe_send(job.pe[2], 1, 1, NULL, 0, NULL, 0, 0), WH_OK);
    turns_of(1, 50);
    turns_of(2, 100);
    CHECK_EQ_INT(handled_late, 3);
    turns_of(0, 100);
    turns_of(2, 100);
    CHECK_EQ_INT(quiet, 1);
    UNTIL(quiet == 2);
    CHECK_EQ_INT(handled_late, 4);
    kit_end();
}

// A PE that only waits for the answers of others may sleep meanwhile.
TEST(a_wave_lets_its_pe_sleep) {
    int total = 0, timeout_ms = 0;
    quiet = 0;
    memset(left, 0, sizeof(left));
    kit_begin(2, 1);
    CHECK_EQ_INT(wh_pe_on_quiescence(job.pe[0], on_quiet, &total), WH_OK);
    UNTIL(job.pe[0]->quiet.missing);
    // PE 1 does not progress, so that its answer does not come.
    wh_status st = WH_EBUSY;
    for (int i = 0; i < 100000 && st == WH_EBUSY; i++) {
        wh_pe_turn(job.pe[0]);
        st = wh_pe_arm(job.pe[0], &timeout_ms);
    }
    CHECK(job.pe[0]->quiet.missing && job.pe[0]->quiet.due);
    CHECK_EQ_INT(st, WH_OK);
    kit_end();
}

// ---- Losses.

static void on_echo(wh_pe *pe, wh_pe_msg *msg, void *arg) {
    (*(int *)arg)++;
    if (wh_pe_send(pe, msg->source, 1, NULL, 0, NULL, 0, 0) != WH_OK)
        CHECK(!job.pe[2]);
}

// A PE that dies is told of once, by those that had to do with it, and receives from it end.
TEST(a_lost_pe) {
    int echoes = 0;
    char to[8];
    wh_result result = {.status = WH_PENDING}, early = {.status = WH_PENDING};
    kit_begin(3, 1);
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(wh_pe_set_handler(job.pe[i], 1, on_echo, &echoes), WH_OK);
    CHECK_EQ_INT(
        wh_pe_recv_buffer(job.pe[0], 2, to, 8, 1, WH_OP_OPTS(.done = done, .arg = &early), NULL),
        WH_PENDING);
    CHECK_EQ_INT(wh_pe_send(job.pe[0], 2, 1, NULL, 0, NULL, 0, 0), WH_OK);
    UNTIL(echoes > 10);
    CHECK_EQ_INT(
        wh_pe_recv_buffer(job.pe[0], 2, to, 8, 2, WH_OP_OPTS(.done = done, .arg = &result), NULL),
        WH_PENDING);
    whi_pe_destroy(job.pe[2]);
    job.pe[2] = NULL;
    UNTIL(job.lost == 1 && result.status != WH_PENDING && early.status != WH_PENDING);
    CHECK(result.status < 0 && early.status < 0);
    CHECK(wh_pe_send(job.pe[0], 2, 1, NULL, 0, NULL, 0, 0) < 0);
    CHECK(wh_pe_recv_buffer(job.pe[0], 2, to, 8, 3, NULL, NULL) < 0);
    kit_turns(100);
    CHECK_EQ_INT(job.lost, 1);
    kit_end();
}

// ---- Strangers.

static void stranger(const void *data, size_t size, wh_status expected) {
    wh_worker *worker;
    wh_endpoint *ep;
    uint8_t blob[WH_ADDRESS_MAX];
    size_t blob_size = sizeof(blob);
    wh_result result = {.status = WH_PENDING};
    CHECK_EQ_INT(wh_worker_create(job.ctx, NULL, &worker), WH_OK);
    CHECK_EQ_INT(wh_worker_address(job.pe[0]->worker, blob, &blob_size), WH_OK);
    CHECK_EQ_INT(wh_endpoint_connect_blob(worker, blob, blob_size,
                                          WH_ENDPOINT_OPTS(.data = data, .data_size = size,
                                                           .done = done, .arg = &result),
                                          &ep),
                 WH_OK);
    for (int i = 0; i < 100000 && result.status == WH_PENDING; i++) {
        wh_worker_progress(worker);
        kit_turn();
    }
    CHECK_EQ_INT(result.status, expected);
    wh_endpoint_abort(ep);
    wh_worker_destroy(worker);
}

TEST(strangers_are_refused) {
    uint8_t data[WHI_GREETING_SIZE + 1] = "";
    whi_greeting greeting = {.use = WHI_USE_DATA, .pe = 1};
    memcpy(greeting.ticket, kit_ticket, sizeof(kit_ticket));
    kit_begin(2, 1);
    stranger(NULL, 0, WH_EREFUSED);
    stranger("garbage", 7, WH_EREFUSED);
    whi_greeting_write(&greeting, data);
    stranger(data, sizeof(data), WH_EREFUSED);  // too long
    stranger(data, WHI_GREETING_SIZE - 1, WH_EREFUSED);
    greeting.pe = 2;
    whi_greeting_write(&greeting, data);
    stranger(data, WHI_GREETING_SIZE, WH_EREFUSED);
    greeting.pe = 1;
    greeting.ticket[0] ^= 1;
    whi_greeting_write(&greeting, data);
    stranger(data, WHI_GREETING_SIZE, WH_EREFUSED);
    greeting.ticket[0] ^= 1;
    whi_greeting_write(&greeting, data);
    stranger(data, WHI_GREETING_SIZE, WH_OK);  // it is the job's
    kit_end();
}

// Who says to be a PE that has connected is not, and takes nothing away from that.
TEST(a_second_connection_is_refused) {
    int echoes = 0;
    uint8_t data[WHI_GREETING_SIZE];
    whi_greeting greeting = {.use = WHI_USE_DATA, .pe = 1};
    memcpy(greeting.ticket, kit_ticket, sizeof(kit_ticket));
    whi_greeting_write(&greeting, data);
    kit_begin(2, 1);
    for (int i = 0; i < 2; i++)
        CHECK_EQ_INT(wh_pe_set_handler(job.pe[i], 1, on_echo, &echoes), WH_OK);
    CHECK_EQ_INT(wh_pe_send(job.pe[1], 0, 1, NULL, 0, NULL, 0, 0), WH_OK);
    UNTIL(echoes > 3);
    stranger(data, WHI_GREETING_SIZE, WH_EREFUSED);
    int before = echoes;
    UNTIL(echoes > before + 3);
    CHECK_EQ_INT(job.lost, 0);
    kit_end();
}

TEST_MAIN()
