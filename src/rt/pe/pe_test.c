// SPDX-License-Identifier: BSD-3-Clause
//
// Messages between PEs in one thread, within a process and between processes.
#include "rt/pe/pe_kit.h"

enum { NUMBERS = 7, BIG = 300 << 10 };

typedef struct seen {
    int next[PES_MAX];  // number of the next message, by source
    int total;
} seen;

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
    CHECK(kit_is_filled(msg->data, msg->size, (unsigned)number));
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
        kit_fill(data, size_of(number), (unsigned)number);
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
    kit_fill(data, size, 3);
    CHECK_EQ_INT(wh_pe_send(job.pe[0], 1, 1, "head", 4, data, size, 9), WH_OK);
    UNTIL(first);
    CHECK(kit_is_filled(first->data, size, 3));
    CHECK_EQ_INT(wh_pe_msg_send(job.pe[1], 0, first), WH_OK);
    UNTIL(second);
    CHECK_EQ_INT(second->source, 1);
    CHECK_EQ_INT(second->priority, 9);
    CHECK_EQ_INT(second->size, size);
    CHECK_MEM(second->head, "head", 4);
    CHECK(kit_is_filled(second->data, size, 3));
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
    CHECK(kit_is_filled(msg->data, msg->size, (unsigned)big_ones));
    big_ones++;
    CHECK(pe->wire->inbox <= 1 << 20);
}

// What a PE takes in is bounded: 100 messages of 300 KiB to one whose inbox has 1 MiB, and one that is larger.
typedef struct headed {
    int count;
    int32_t priority;
} headed;

static void on_headed(wh_pe *pe, wh_pe_msg *msg, void *arg) {
    headed *h = arg;
    (void)pe;
    CHECK_EQ_INT(msg->priority, h->priority);
    CHECK(kit_is_filled(msg->head, msg->head_size, (unsigned)msg->head_size));
    CHECK(kit_is_filled(msg->data, msg->size, (unsigned)msg->head_size + 1));
    CHECK_EQ_INT(msg->size, h->count % 3 * 20);
    CHECK_EQ_INT(msg->head_size, h->count % 41);
    h->count++;
}

// Head, envelope and data lie in one piece, or do not, as sizes and priority have it.
TEST(heads_of_all_sizes_with_and_without_priority) {
    const int32_t priorities[] = {0, 5};
    for (int p = 0; p < 2; p++) {
        headed h = {.priority = priorities[p]};
        char head[41], data[40];
        kit_begin(2, 1);
        CHECK_EQ_INT(wh_pe_set_handler(job.pe[1], NUMBERS, on_headed, &h), WH_OK);
        for (int i = 0; i < 2 * 41 * 3; i++) {
            size_t head_size = (size_t)i % 41, size = (size_t)i % 3 * 20;
            kit_fill(head, head_size, (unsigned)head_size);
            kit_fill(data, size, (unsigned)head_size + 1);
            CHECK_EQ_INT(wh_pe_send(job.pe[0], 1, NUMBERS, head, head_size, data, size, h.priority),
                         WH_OK);
        }
        UNTIL(h.count == 2 * 41 * 3);
        kit_finish();
    }
}

TEST(large_messages_wait_for_the_inbox) {
    enum { COUNT = 100 };
    static char data[2 << 20];
    big_ones = 0;
    kit_begin(2, 1);
    CHECK_EQ_INT(wh_pe_set_handler(job.pe[1], 1, on_big, NULL), WH_OK);
    for (int i = 0; i < COUNT; i++) {
        kit_fill(data, BIG, (unsigned)i);
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

// The runtime's own handlers are no program's, which would take what chares say to each other.
TEST(handlers_of_the_runtime_are_refused) {
    wh_pe_msg *msg;
    kit_begin(1, 1);
    CHECK_EQ_INT(wh_pe_set_handler(job.pe[0], WH_PE_HANDLERS_MAX - 1, on_ordered, NULL), WH_OK);
    for (unsigned id = WH_PE_HANDLERS_MAX; id <= UINT16_MAX; id++) {
        CHECK_EQ_INT(wh_pe_set_handler(job.pe[0], (uint16_t)id, on_ordered, NULL), WH_EINVAL);
        CHECK_EQ_INT(wh_pe_send(job.pe[0], 0, (uint16_t)id, NULL, 0, NULL, 0, 0), WH_EINVAL);
        CHECK_EQ_INT(wh_pe_msg_new(job.pe[0], (uint16_t)id, NULL, 0, 0, &msg), WH_EINVAL);
    }
    kit_end();
}

TEST_MAIN()
