// SPDX-License-Identifier: BSD-3-Clause
//
// Where messages wait: behind data that is arriving, for space in the inbox, with the program that keeps them; and losses
// in the middle of it.
#include "rt/pe/pe_kit.h"

enum { BIG = 300 << 10, MOST = 64 };

static char data[BIG];

// What a handler has seen, in its order.
static struct { int number[MOST], source[MOST], count; } seen;

static void note(wh_pe *pe, wh_pe_msg *msg, void *arg) {
    (void)pe;
    (void)arg;
    CHECK(seen.count < MOST);
    CHECK_EQ_INT(whi_msg_of(msg)->failed, WH_OK);
    seen.source[seen.count] = msg->source;
    memcpy(&seen.number[seen.count++], msg->head, sizeof(int));
}

static void begin(int pes, int ppn, size_t inbox_max) {
    job.inbox_max = inbox_max;
    kit_begin(pes, ppn);
    job.inbox_max = 1 << 20;
    seen.count = 0;
    for (int i = 0; i < pes; i++)
        CHECK_EQ_INT(wh_pe_set_handler(job.pe[i], 1, note, NULL), WH_OK);
}

static void send(int from, int to, int number, size_t size) {
    CHECK_EQ_INT(wh_pe_send(job.pe[from], to, 1, &number, sizeof(number), data, size, 0), WH_OK);
}

// turn_from gives PEs from `first` on turns.
static void turn_from(int first, int turns) {
    for (int i = 0; i < turns; i++)
        for (int pe = first; pe < job.pes; pe++)
            wh_pe_turn(job.pe[pe]);
}

// PE 0 rests, so that the data of its message stays with it: its later ones wait, those of PE 2 do not.
TEST(data_that_arrives_holds_back_its_source_only) {
    begin(3, 1, 1 << 20);
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(wh_pe_send(job.pe[i], 1, 1, &(int){-1}, sizeof(int), NULL, 0, 0), WH_OK);
    UNTIL(seen.count == 3);  // they are connected
    seen.count = 0;
    send(0, 1, 0, BIG);
    send(0, 1, 1, 0);
    send(0, 1, 2, BIG);
    send(0, 1, 3, 8);
    for (int i = 0; i < 5; i++)
        send(2, 1, i, 0);
    turn_from(1, 200);
    CHECK_EQ_INT(seen.count, 5);
    for (int i = 0; i < 5; i++)
        CHECK(seen.source[i] == 2 && seen.number[i] == i);
    UNTIL(seen.count == 9);
    for (int i = 0; i < 4; i++)
        CHECK(seen.source[5 + i] == 0 && seen.number[5 + i] == i);
    CHECK_EQ_INT(whi_hash_count(&job.pe[1]->gates), 0);
    kit_end();
}

static wh_pe_msg *kept[MOST];
static int kept_count;

static void keep(wh_pe *pe, wh_pe_msg *msg, void *arg) {
    (void)pe;
    (void)arg;
    kept[kept_count++] = msg;
    wh_pe_msg_keep(msg);
}

// What the program keeps is its own memory: it gets more than the inbox has space for.  Each message is larger than that.
TEST(kept_messages_do_not_fill_the_inbox) {
    kept_count = 0;
    begin(2, 1, BIG / 2);
    CHECK_EQ_INT(wh_pe_set_handler(job.pe[1], 2, keep, NULL), WH_OK);
    for (int i = 0; i < 20; i++)
        CHECK_EQ_INT(wh_pe_send(job.pe[0], 1, 2, NULL, 0, data, BIG, 0), WH_OK);
    UNTIL(kept_count == 20);
    CHECK_EQ_INT(job.wires[1]->inbox, 0);
    for (int i = 0; i < 20; i++)
        wh_pe_msg_free(job.pe[1], kept[i]);
    kit_end();
}

static int passed_on;

static void pass_on(wh_pe *pe, wh_pe_msg *msg, void *arg) {
    (void)arg;
    passed_on++;
    if (*(const int *)msg->data == 0)
        return;
    --*(int *)msg->data;
    CHECK_EQ_INT(wh_pe_msg_send(pe, 1 - pe->number, msg), WH_OK);
}

// Two PEs whose inboxes hold one message each throw 16 of them to each other.
TEST(messages_passed_on_leave_the_inbox) {
    enum { HOPS = 10 };
    passed_on = 0;
    begin(2, 1, BIG);
    memcpy(data, &(int){HOPS}, sizeof(int));
    for (int i = 0; i < 2; i++)
        CHECK_EQ_INT(wh_pe_set_handler(job.pe[i], 2, pass_on, NULL), WH_OK);
    for (int i = 0; i < 16; i++)
        CHECK_EQ_INT(wh_pe_send(job.pe[i % 2], 1 - i % 2, 2, NULL, 0, data, BIG, 0), WH_OK);
    UNTIL(passed_on == 16 * (HOPS + 1));
    kit_end();
}

static void resend(wh_pe *pe, wh_pe_msg *msg, void *arg) {
    (void)arg;
    wh_pe_msg_keep(msg);
    msg->handler = 1;
    CHECK_EQ_INT(wh_pe_msg_send(pe, pe->number, msg), WH_OK);
    for (int i = 1; i < 3; i++)
        CHECK_EQ_INT(wh_pe_send(pe, pe->number, 1, &i, sizeof(i), NULL, 0, 0), WH_OK);
}

// A message that lies in the engine's memory, sent to the PE itself, is handled before those that are sent later.
TEST(a_kept_message_to_itself_is_in_order) {
    for (int ppn = 1; ppn < 3; ppn++) {
        begin(2, ppn, 1 << 20);
        CHECK_EQ_INT(wh_pe_set_handler(job.pe[1], 2, resend, NULL), WH_OK);
        CHECK_EQ_INT(wh_pe_send(job.pe[0], 1, 2, &(int){0}, sizeof(int), "data", 4, 0), WH_OK);
        UNTIL(seen.count == 3);
        for (int i = 0; i < 3; i++)
            CHECK(seen.number[i] == i && seen.source[i] == 1);
        kit_end();
    }
}

// What a PE waits for can be printed at any time.
TEST(a_dump_says_what_waits) {
    static char text[16384];
    begin(3, 1, 1 << 20);
    send(0, 1, 0, 8);
    UNTIL(seen.count == 1);
    seen.count = 0;
    send(0, 1, 0, BIG);
    send(0, 1, 1, 8);
    for (int i = 0; i < 20; i++)
        turn_from(1, 10);
    send(1, 1, 5, 0);
    CHECK_EQ_INT(wh_pe_send(job.pe[1], 1, 1, &(int){6}, sizeof(int), NULL, 0, -3), WH_OK);
    CHECK(wh_pe_recv_buffer(job.pe[1], 2, data, 8, 1, NULL, NULL) == WH_PENDING);
    FILE *file = fmemopen(text, sizeof(text), "w");
    wh_worker_dump(job.pe[1]->worker, file);
    fclose(file);
    CHECK(strstr(text, "\nPE 1 of 3\n"));
    CHECK(strstr(text,
                 "messages to handle: 2 (1 for handler 1, 1 for others or of other priorities)"));
    CHECK(strstr(text, "arriving: 307200 bytes of PE 0 for handler 1, 1 messages behind them"));
    CHECK(strstr(text, "PE 0: data to it none, from it open; control to it none, from it none\n"));
    CHECK(strstr(
        text,
        "PE 2: data to it none, from it none; control to it none, from it none; 1 receives wait"));
    CHECK(strstr(text, "inbox: 307200 of 1048576 bytes, 0 messages wait"));
    kit_end();
}

// ---- Losses.

// The sender is lost while its data is arriving, waits for space, or waits behind such data: its messages are gone,
// those of others come, and the job goes on.
static void lose_sender(int turns) {
    begin(3, 1, 2 * BIG);
    send(0, 1, 0, 8);
    UNTIL(seen.count == 1);  // they are connected
    for (int i = 1; i < 10; i++)
        send(0, 1, i, i % 3 ? BIG : 8);
    kit_turns(turns / 4);
    turn_from(1, turns);
    kit_kill(0);
    UNTIL(job.lost >= 1);
    int before = seen.count;
    for (int i = 0; i < 10; i++)
        send(2, 1, i, BIG);
    UNTIL(seen.count >= before + 10);
    kit_turns(50);
    int next[3] = {0, 0, 0};
    for (int i = 0; i < seen.count; i++)
        CHECK_EQ_INT(seen.number[i], next[seen.source[i]]++);
    CHECK_EQ_INT(next[2], 10);
    CHECK_EQ_INT(job.failures, 0);
    CHECK_EQ_INT(job.wires[1]->inbox, 0);
    kit_end();
}

TEST(a_sender_is_lost_in_the_middle) {
    for (int turns = 0; turns < 16; turns++)
        lose_sender(turns);
}

TEST(sizes_that_no_memory_has) {
    wh_pe_msg *msg;
    begin(1, 1, 1 << 20);
    for (size_t less = 0; less < 2000; less += 8)
        CHECK_EQ_INT(wh_pe_msg_new(job.pe[0], 1, "head", 4, SIZE_MAX - less, &msg), WH_ENOMEM);
    kit_end();
}

// ---- Receives that came before their sender.

static void done(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    *(wh_result *)arg = *result;
}

TEST(a_receive_that_was_early_times_out_after_its_sender_has_come) {
    wh_result result = {.status = WH_PENDING};
    begin(2, 1, 1 << 20);
    CHECK_EQ_INT(wh_pe_recv_buffer(job.pe[1], 0, data, 8, 1,
                                   WH_OP_OPTS(.done = done, .arg = &result, .timeout_ms = 200),
                                   NULL),
                 WH_PENDING);
    send(0, 1, 0, 0);
    UNTIL(seen.count == 1);
    CHECK_EQ_INT(result.status, WH_PENDING);
    UNTIL(result.status != WH_PENDING);
    CHECK_EQ_INT(result.status, WH_ETIMEDOUT);
    kit_end();
}

TEST(a_buffer_to_oneself) {
    static char from[BIG], to[BIG];
    for (int ppn = 1; ppn < 3; ppn++) {
        wh_result sent = {.status = WH_PENDING}, received = {.status = WH_PENDING};
        begin(2, ppn, 1 << 20);
        memset(from, ppn, sizeof(from));
        CHECK_EQ_INT(wh_pe_recv_buffer(job.pe[1], 1, to, BIG, 5,
                                       WH_OP_OPTS(.done = done, .arg = &received), NULL),
                     WH_PENDING);
        CHECK_EQ_INT(wh_pe_send_buffer(job.pe[1], 1, from, BIG, 5,
                                       WH_OP_OPTS(.done = done, .arg = &sent), NULL),
                     WH_PENDING);
        UNTIL(sent.status != WH_PENDING && received.status != WH_PENDING);
        CHECK(sent.status == WH_OK && received.status == WH_OK);
        CHECK_MEM(from, to, BIG);
        kit_end();
    }
}

// ---- Waits.

static wh_status second;

static void wait_second(wh_pe *pe, void *arg) {
    second = wh_pe_wait(pe, arg);
}

// One thread waits for one wh_wait: the second one would never be woken.
TEST(a_wait_is_for_one_thread) {
    wh_wait wait = {.done = false};
    begin(1, 1, 1 << 20);
    second = WH_PENDING;
    CHECK_EQ_INT(wh_pe_spawn(job.pe[0], wait_second, &wait), WH_OK);
    CHECK_EQ_INT(second, WH_PENDING);
    CHECK_EQ_INT(wh_pe_spawn(job.pe[0], wait_second, &wait), WH_OK);
    CHECK_EQ_INT(second, WH_EBUSY);
    wh_pe_resume(job.pe[0], &wait);
    UNTIL(second == WH_OK);
    kit_end();
}

TEST_MAIN()
