// SPDX-License-Identifier: BSD-3-Clause
//
// The end of a job: whoever asks for it, whatever is under way, whoever is lost or hangs meanwhile, and whoever lies.
#include "base/bytes.h"
#include "rt/pe/pe_kit.h"

enum { BIG = 300 << 10 };

static void exit_job(int pes, int ppn, int who) {
    kit_begin(pes, ppn);
    wh_pe_exit(job.pe[who], 7);
    UNTIL(kit_all_gone());
    for (int i = 0; i < pes; i++)
        CHECK_EQ_INT(job.pe[i]->exit.status, 7);
    kit_close();
    CHECK_EQ_INT(job.lost, 0);
    CHECK_EQ_INT(job.failures, 0);
    kit_end();
}

TEST(one_exit_ends_all) {
    exit_job(1, 1, 0);
    exit_job(2, 1, 1);
    exit_job(23, 1, 22);
    exit_job(16, 4, 5);
}

TEST(two_exits_at_once) {
    kit_begin(8, 1);
    wh_pe_exit(job.pe[7], 1);
    wh_pe_exit(job.pe[3], 1);
    wh_pe_exit(job.pe[3], 2);
    UNTIL(kit_all_gone());
    CHECK_EQ_INT(job.pe[5]->exit.status, 1);
    kit_end();
}

static void call_exit(wh_pe *pe, void *arg) {
    wh_pe_exit(pe, *(int *)arg);
}

TEST(an_exit_by_a_call_and_one_in_a_thread) {
    int seven = 7;
    kit_begin(3, 1);
    CHECK_EQ_INT(wh_pe_call(job.pe[2], call_exit, &seven), WH_OK);
    CHECK_EQ_INT(wh_pe_call(job.pe[2], NULL, &seven), WH_EINVAL);
    UNTIL(kit_all_gone());
    CHECK_EQ_INT(job.pe[0]->exit.status, 7);
    CHECK_EQ_INT(wh_pe_call(job.pe[2], call_exit, &seven),
                 WH_OK);  // nobody calls it, and it is freed
    kit_end();
    kit_begin(3, 1);
    CHECK_EQ_INT(wh_pe_spawn(job.pe[1], call_exit, &seven), WH_OK);
    UNTIL(kit_all_gone());
    CHECK_EQ_INT(job.pe[2]->exit.status, 7);
    kit_end();
}

// ---- With much under way.

static int handled;

static void count(wh_pe *pe, wh_pe_msg *msg, void *arg) {
    (void)pe;
    (void)msg;
    (void)arg;
    handled++;
}

static void on_done(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    CHECK(result->status <= WH_OK);
    ++*(int *)arg;
}

static void wait_for_ever(wh_pe *pe, void *arg) {
    (void)arg;
    wh_wait wait = {.done = false};
    CHECK(wh_pe_wait(pe, &wait) == WH_OK);
    CHECK(false);
}

// The end after `turns` turns of a job in which all send large messages and buffers to PE 1, whose inbox is small.
static void exit_with_much(int turns, int ppn, int who) {
    enum { PES = 4, COUNT = 20 };
    static char data[BIG], to[BIG];
    int ends = 0, begun = 0;
    kit_begin(PES, ppn);
    for (int i = 0; i < PES; i++)
        CHECK_EQ_INT(wh_pe_set_handler(job.pe[i], 1, count, NULL), WH_OK);
    CHECK_EQ_INT(wh_pe_spawn(job.pe[1], wait_for_ever, NULL), WH_OK);
    for (int i = 0; i < PES * COUNT; i++) {
        CHECK_EQ_INT(wh_pe_send(job.pe[i % PES], 1, 1, NULL, 0, data, BIG, 0), WH_OK);
        // The first ones have a receive, the others never.
        begun += wh_pe_send_buffer(job.pe[i % PES], 1, data, BIG, WH_PE_TAG(1, i % PES, i),
                                   WH_OP_OPTS(.done = on_done, .arg = &ends), NULL) == WH_PENDING;
        if (i < PES)
            begun +=
                wh_pe_recv_buffer(job.pe[1], i, to, BIG, WH_PE_TAG(1, i % PES, i),
                                  WH_OP_OPTS(.done = on_done, .arg = &ends), NULL) == WH_PENDING;
    }
    kit_turns(turns);
    wh_pe_exit(job.pe[who], 3);
    UNTIL(kit_all_gone());
    kit_close();
    CHECK_EQ_INT(job.failures, 0);
    CHECK_EQ_INT(job.lost, 0);
    kit_end();
    CHECK_EQ_INT(ends, begun);
}

TEST(an_exit_with_much_under_way) {
    for (int turns = 0; turns < 12; turns++)
        exit_with_much(turns, 1 + turns % 2, turns % 4);
}

// ---- Losses, and PEs that hang.

// `victim` is killed after `turns` turns of single PEs of an end that `who` has asked for.
static void lose_one(int turns, int who, int victim) {
    kit_begin(23, 1);
    wh_pe_exit(job.pe[who], 2);
    for (int i = 0; i < turns; i++)
        if (job.pe[i % job.pes])
            wh_pe_turn(job.pe[i % job.pes]);
    kit_kill(victim);
    UNTIL(kit_all_gone());
    for (int i = 0; i < job.pes; i++)
        CHECK(!job.pe[i] || job.pe[i]->exit.status == 2);
    CHECK_EQ_INT(job.failures, 0);
    kit_end();
}

TEST(one_is_lost_on_the_way) {
    static const int victims[] = {1, 4, 7, 22};
    for (int turns = 0; turns < 23 * 12; turns += 13)
        for (int i = 0; i < 4; i++)
            lose_one(turns, 3, victims[i]);
}

// A PE that has said that it has stopped, and is lost, does not count for one that has not.
TEST(one_that_has_stopped_is_lost) {
    kit_begin(3, 1);
    wh_pe_exit(job.pe[0], 0);
    UNTIL(job.pe[0]->exit.state == WHI_END_STOPPED);
    for (uint64_t end = whi_clock_ns() + KIT_PATIENCE_S * WHI_NS_PER_S;
         job.pe[0]->exit.missing == 3;) {
        wh_pe_turn(job.pe[1]);
        wh_pe_turn(job.pe[0]);
        CHECK(whi_clock_ns() < end);
    }
    kit_kill(1);
    for (int i = 0; i < 2000; i++)
        wh_pe_turn(job.pe[0]);
    CHECK_EQ_INT(job.pe[0]->exit.state, WHI_END_STOPPED);
    UNTIL(kit_all_gone());
    kit_end();
}

TEST(pe_0_is_lost) {
    kit_begin(6, 1);
    wh_pe_exit(job.pe[5], 9);
    kit_kill(0);
    UNTIL(job.failures == 1);
    CHECK(strstr(job.failure, "PE 0, which was asked to end the job, is lost"));
    CHECK_EQ_INT(job.pe[5]->exit.status, 9);
    kit_end();
}

static void exit_too(wh_pe *pe, int lost, const char *sentence, void *arg) {
    (void)sentence;
    (void)arg;
    CHECK(wh_pe_send(pe, lost, 1, NULL, 0, NULL, 0, 0) < 0);
    CHECK_EQ_INT(wh_pe_send(pe, pe->number, 1, NULL, 0, NULL, 0, 0), WH_OK);
    CHECK_EQ_INT(wh_pe_send(pe, 2, 1, NULL, 0, NULL, 0, 0), WH_OK);
    if (!lost)
        wh_pe_exit(pe, 8);
}

// What a program may do when it is told of a loss: send, also to whom it has not sent yet, and end the job, even without PE 0.
TEST(sends_and_exit_when_a_loss_is_told) {
    for (int victim = 0; victim < 2; victim++) {
        handled = 0;
        kit_begin(3, 1);
        job.on_lost = exit_too;
        int who = 1 - victim;
        for (int i = 0; i < 3; i++)
            CHECK_EQ_INT(wh_pe_set_handler(job.pe[i], 1, count, NULL), WH_OK);
        CHECK_EQ_INT(wh_pe_send(job.pe[who], victim, 1, NULL, 0, NULL, 0, 0), WH_OK);
        UNTIL(handled == 1);
        kit_kill(victim);
        UNTIL(job.lost == 1);
        UNTIL(handled >= (victim ? 3 : 2));
        CHECK_EQ_INT(job.failures, !victim);
        kit_end();
    }
}

// One that never has a turn hangs, as far as others can tell.
static void hang(int who, int hangs, const char *name) {
    uint64_t timeout_ms = job.exit_timeout_ms;
    job.exit_timeout_ms = 300;
    kit_begin(8, 1);
    uint64_t begin = whi_clock_ns();
    wh_pe_exit(job.pe[who], 0);
    wh_pe *hung = job.pe[hangs];
    job.pe[hangs] = NULL;
    uint64_t end = begin + KIT_PATIENCE_S * WHI_NS_PER_S;
    while (!job.failures && whi_clock_ns() < end)
        kit_turn();
    CHECK_EQ_INT(job.failures, 1);
    CHECK(whi_clock_ns() - begin >= 300000000);
    CHECK(strstr(job.failure, name) && strstr(job.failure, "300 ms"));
    job.pe[hangs] = hung;
    kit_end();
    job.exit_timeout_ms = timeout_ms;
}

TEST(one_that_hangs_is_named_when_the_time_is_over) {
    hang(3, 0, "PE 0 has not ended");
    hang(3, 1, "PE 1, or one below it");
    hang(0, 2, "PE 2, or one below it");
}

// ---- Liars.

enum { ASK, STOP, STOPPED, GO };

static void say(int from, int to, int what, size_t size) {
    uint8_t record[16] = {WHI_CONTROL_EXIT, (uint8_t)what};
    CHECK_EQ_INT(whi_wire_control(job.wires[from], to, record, size), WH_OK);
}

// Who says what it may not is cut off, and changes nothing.
static void lie(int from, int to, int what, size_t size) {
    kit_begin(8, 1);
    say(from, to, what, size);
    UNTIL(job.lost >= 1);
    kit_turns(50);
    CHECK_EQ_INT(job.pe[to]->exit.state, WHI_END_NONE);
    CHECK(wh_pe_send(job.pe[to], from, 1, NULL, 0, NULL, 0, 0) < 0);
    kit_end();
}

TEST(liars_are_cut_off) {
    lie(2, 1, STOP, 8);     // not above
    lie(5, 1, STOP, 8);     // below
    lie(0, 1, GO, 8);       // before the stop
    lie(2, 1, ASK, 8);      // not PE 0
    lie(5, 1, STOPPED, 8);  // nobody has told it to
    lie(0, 1, STOP, 7);
    lie(0, 1, STOP, 9);
    lie(0, 1, 4, 8);
    lie(0, 1, 255, 8);
}

TEST(an_answer_counts_once) {
    kit_begin(3, 1);
    wh_pe_exit(job.pe[0], 0);
    UNTIL(job.pe[0]->exit.state == WHI_END_STOPPED);
    wh_pe *second = job.pe[2];
    job.pe[2] = NULL;
    say(1, 0, STOPPED, 8);
    say(1, 0, STOPPED, 8);
    kit_turns(100);
    CHECK_EQ_INT(job.pe[0]->exit.state, WHI_END_STOPPED);
    job.pe[2] = second;
    UNTIL(kit_all_gone());
    kit_end();
}

static void unknown(uint8_t kind, size_t size) {
    kit_begin(2, 1);
    CHECK_EQ_INT(whi_wire_control(job.wires[1], 0, &kind, size), WH_OK);
    UNTIL(job.lost >= 1);
    CHECK_EQ_INT(job.failures, 0);
    kit_end();
}

TEST(control_that_is_unknown) {
    unknown(WHI_CONTROLS - 1, 1);
    unknown(255, 1);
    unknown(0, 0);
}

TEST_MAIN()
