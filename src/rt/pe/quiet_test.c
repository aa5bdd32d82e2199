// SPDX-License-Identifier: BSD-3-Clause
//
// Quiescence: found when all has been handled and not before, and what happens when a PE is lost.
#include "rt/pe/pe_kit.h"

enum { BIG = 300 << 10 };

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

// ---- A PE is lost: there is an end of the waiting, and it is not that of quiescence.

static void never_quiet(wh_pe *pe, void *arg) {
    (void)pe;
    (void)arg;
    CHECK(!"quiescence was found");
}

// lose has PE `who` wait for quiescence while PE `lost` is gone, which nobody had to do with before `known`.
static void lose(int pes, int who, int lost, bool known) {
    int total = 0;
    quiet = 0;
    memset(left, 0, sizeof(left));
    kit_begin(pes, 1);
    if (known) {
        CHECK_EQ_INT(wh_pe_on_quiescence(job.pe[who], on_quiet, &total), WH_OK);
        UNTIL(quiet == 1);
        CHECK_EQ_INT(wh_pe_on_quiescence(job.pe[who], never_quiet, NULL), WH_OK);
        kit_kill(lost);
    } else {
        kit_kill(lost);
        CHECK_EQ_INT(wh_pe_on_quiescence(job.pe[who], never_quiet, NULL), WH_OK);
    }
    UNTIL(job.failures);
    char sentence[64];
    snprintf(sentence, sizeof(sentence), "PE %d is lost, so that quiescence", lost);
    CHECK(strstr(job.failure, sentence));
    kit_end();
}

TEST(who_waits_for_quiescence_when_a_pe_is_lost) {
    for (int known = 0; known < 2; known++) {
        lose(6, 0, 5, known);  // a leaf, not below PE 0
        lose(6, 3, 1, known);  // one in the middle
        lose(6, 3, 0, known);
        lose(2, 0, 1, known);
    }
}

TEST(who_asks_for_quiescence_after_a_loss) {
    int total = 0;
    quiet = 0;
    memset(left, 0, sizeof(left));
    kit_begin(3, 1);
    CHECK_EQ_INT(wh_pe_on_quiescence(job.pe[0], on_quiet, &total), WH_OK);
    UNTIL(quiet == 1);
    kit_kill(1);
    UNTIL(job.lost == 1);
    CHECK_EQ_INT(wh_pe_on_quiescence(job.pe[0], never_quiet, NULL), WH_EPEER);
    CHECK_EQ_INT(job.failures, 0);  // nobody has waited
    CHECK_EQ_INT(wh_pe_on_quiescence(job.pe[2], never_quiet, NULL), WH_OK);
    UNTIL(job.failures);
    kit_end();
}

static void exit_at_loss(wh_pe *pe, int lost, const char *sentence, void *arg) {
    (void)lost;
    (void)sentence;
    (void)arg;
    wh_pe_exit(pe, 3);
}

// A program that ends when it hears of a loss ends with its own status.
TEST(a_loss_that_ends_the_program) {
    kit_begin(2, 1);
    job.on_lost = exit_at_loss;
    CHECK_EQ_INT(wh_pe_on_quiescence(job.pe[0], never_quiet, NULL), WH_OK);
    UNTIL(job.pe[0]->quiet.missing);
    kit_kill(1);
    UNTIL(whi_pe_gone(job.pe[0]));
    CHECK_EQ_INT(job.failures, 0);
    CHECK_EQ_INT(job.pe[0]->exit.status, 3);
    kit_end();
}

TEST_MAIN()
