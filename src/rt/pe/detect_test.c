// SPDX-License-Identifier: BSD-3-Clause
//
// Completion detection: the end of a part of the work is found when it is there and not before, whatever else goes on, and a loss is
// told.
#include <wherry/detect.h>
#include <wherry/log.h>

#include "base/clock.h"
#include "base/rng.h"
#include "rt/pe/pe_kit.h"

enum { HOP, NOISE };

static wh_detector detector;
static struct {
    int made, done;  // hops, of all PEs
    int called;
    wh_status status;
    bool noisy;  // messages that no detector counts go round
} seen;

static void on_complete(wh_pe *pe, wh_status status, void *arg) {
    CHECK(pe == job.pe[detector.pe] && arg == &seen);
    if (status == WH_OK)
        CHECK_EQ_INT(seen.made, seen.done);
    seen.called++;
    seen.status = status;
}

static void send_hop(wh_pe *pe, int dest, int hops) {
    CHECK_EQ_INT(wh_detector_produce(pe, detector, 1), WH_OK);
    seen.made++;
    CHECK_EQ_INT(wh_pe_send(pe, dest, HOP, &hops, sizeof(hops), NULL, 0, 0), WH_OK);
}

// A hop makes others before it is consumed itself.
static void on_hop(wh_pe *pe, wh_pe_msg *msg, void *arg) {
    whi_rng *rng = arg;
    int hops;
    memcpy(&hops, msg->head, sizeof(hops));
    for (int i = 0; hops && i < 2; i++)
        send_hop(pe, (int)whi_rng_below(rng, (uint64_t)job.pes), hops - 1);
    seen.done++;
    CHECK_EQ_INT(wh_detector_consume(pe, detector, 1), WH_OK);
}

static void on_noise(wh_pe *pe, wh_pe_msg *msg, void *arg) {
    (void)msg;
    (void)arg;
    if (seen.noisy)
        CHECK_EQ_INT(wh_pe_send(pe, (pe->number + 1) % job.pes, NOISE, NULL, 0, NULL, 0, 0), WH_OK);
}

static void begin(int pes, int ppn, int where, uint32_t producers, whi_rng *rng) {
    memset(&seen, 0, sizeof(seen));
    kit_begin(pes, ppn);
    for (int i = 0; i < pes; i++) {
        CHECK_EQ_INT(wh_pe_set_handler(job.pe[i], HOP, on_hop, rng), WH_OK);
        CHECK_EQ_INT(wh_pe_set_handler(job.pe[i], NOISE, on_noise, NULL), WH_OK);
    }
    CHECK_EQ_INT(wh_detector_create(job.pe[where], producers, on_complete, &seen, &detector),
                 WH_OK);
}

static size_t known(void) {
    size_t count = 0;
    for (int i = 0; i < job.pes; i++)
        count += job.pe[i] ? whi_hash_count(&job.pe[i]->detectors) : 0;
    return count;
}

// Work that makes work, between random PEs, while other messages never end.
static void walk(int pes, int ppn, uint64_t seed) {
    whi_rng rng;
    whi_rng_init(&rng, seed);
    begin(pes, ppn, (int)whi_rng_below(&rng, (uint64_t)pes), (uint32_t)pes, &rng);
    seen.noisy = true;
    CHECK_EQ_INT(wh_pe_send(job.pe[0], 0, NOISE, NULL, 0, NULL, 0, 0), WH_OK);
    for (int i = 0; i < pes; i++) {
        kit_turns((int)whi_rng_below(&rng, 20));
        CHECK_EQ_INT(seen.called, 0);
        send_hop(job.pe[i], (int)whi_rng_below(&rng, (uint64_t)pes), 4);
        CHECK_EQ_INT(wh_detector_done(job.pe[i], detector), WH_OK);
    }
    UNTIL(seen.called);
    CHECK_EQ_INT(seen.status, WH_OK);
    CHECK_EQ_INT(seen.done, pes * 31);
    kit_turns(50);
    CHECK_EQ_INT(seen.called, 1);
    CHECK_EQ_INT((int)known(), 0);
    seen.noisy = false;
    kit_end();
}

TEST(the_end_of_work_that_makes_work) {
    for (uint64_t seed = 0; seed < 10; seed++) {
        walk(1, 1, seed);
        walk(2, 1, seed);
        walk(7, 1, seed);
        walk(16, 4, seed);
    }
}

// Nothing that is produced and consumed tells the end while a producer is not done.
TEST(producers_are_waited_for) {
    begin(3, 1, 1, 2, NULL);
    CHECK_EQ_INT(wh_detector_done(job.pe[0], detector), WH_OK);
    kit_turns(200);
    CHECK_EQ_INT(seen.called, 0);
    CHECK_EQ_INT(wh_detector_done(job.pe[0], detector), WH_OK);
    UNTIL(seen.called);
    kit_end();
}

static void turns_of(int pe, int turns) {
    for (int i = 0; i < turns; i++)
        wh_pe_turn(job.pe[pe]);
}

// PE 1 has answered before it produces two pieces, and PE 2 has produced and consumed one of its own when it answers: the sums are
// equal, though work is under way.
TEST(equal_sums_of_one_wave_are_not_enough) {
    begin(3, 1, 0, 1, NULL);
    CHECK_EQ_INT(wh_detector_done(job.pe[0], detector), WH_OK);
    UNTIL(seen.called);  // from now on all are connected
    seen.called = 0;
    CHECK_EQ_INT(wh_detector_create(job.pe[0], 1, on_complete, &seen, &detector), WH_OK);
    kit_turns(200);  // the first wave is over
    CHECK_EQ_INT(wh_detector_done(job.pe[0], detector), WH_OK);
    turns_of(0, 50);
    turns_of(1, 100);  // has answered
    CHECK_EQ_INT(wh_detector_produce(job.pe[1], detector, 2), WH_OK);
    CHECK_EQ_INT(wh_detector_produce(job.pe[2], detector, 1), WH_OK);
    CHECK_EQ_INT(wh_detector_consume(job.pe[2], detector, 1), WH_OK);
    turns_of(2, 50);
    turns_of(0, 50);
    kit_turns(200);
    CHECK_EQ_INT(seen.called, 0);
    CHECK_EQ_INT(wh_detector_consume(job.pe[2], detector, 2), WH_OK);
    UNTIL(seen.called);
    kit_end();
}

// The PE above the one that is lost tells those above, whenever that is, and none keeps anything.
static void lose(int pes, int where, int lost, bool early) {
    begin(pes, 1, where, 1, NULL);
    if (!early)
        UNTIL(known() == (size_t)pes);
    CHECK_EQ_INT(wh_detector_produce(job.pe[where], detector, 1), WH_OK);
    kit_kill(lost);
    UNTIL(seen.called);
    CHECK_EQ_INT(seen.status, WH_EPEER);
    kit_turns(50);
    CHECK_EQ_INT(seen.called, 1);
    UNTIL(known() == 0);
    kit_end();
}

TEST(a_loss_is_told) {
    for (int early = 0; early < 2; early++) {
        lose(2, 0, 1, early);
        lose(7, 0, 6, early);  // below PE 1
        lose(7, 0, 1, early);  // above others
        lose(7, 3, 2, early);
        lose(7, 3, 4, early);
    }
}

// With its root a detector goes.
TEST(a_lost_root_is_forgotten) {
    begin(3, 1, 1, 1, NULL);
    kit_turns(200);
    CHECK_EQ_INT((int)known(), 3);
    kit_kill(1);
    UNTIL(known() == 0);
    CHECK_EQ_INT(wh_detector_done(job.pe[0], detector) < 0, true);
    kit_end();
}

// What is counted at the root behind the end makes nothing that could be taken for its root.
TEST(counted_at_the_root_behind_the_end) {
    begin(2, 1, 0, 1, NULL);
    CHECK_EQ_INT(wh_detector_done(job.pe[0], detector), WH_OK);
    UNTIL(seen.called);
    CHECK_EQ_INT(wh_detector_consume(job.pe[0], detector, 1), WH_OK);
    CHECK_EQ_INT(wh_detector_done(job.pe[1], detector), WH_OK);
    kit_turns(50);
    CHECK_EQ_INT((int)known(), 0);
    kit_end();
}

TEST(many_at_a_time) {
    enum { MANY = 1001 };
    static wh_detector all[MANY];
    begin(4, 1, 0, 1, NULL);
    for (int i = 0; i < MANY; i++) {
        detector = (wh_detector){.pe = i % 4};
        CHECK_EQ_INT(wh_detector_create(job.pe[i % 4], 1, on_complete, &seen, &all[i]), WH_OK);
    }
    kit_turns(200);
    for (int i = 0; i < MANY; i++) {
        detector = all[i];
        CHECK_EQ_INT(wh_detector_done(job.pe[(i + 1) % 4], all[i]), WH_OK);
        UNTIL(seen.called == i + 1);
    }
    kit_end();
}

TEST(mistakes) {
    wh_detector d, none = {.pe = 9, .id = 1};
    begin(2, 1, 0, 1, NULL);
    CHECK_EQ_INT(wh_detector_create(job.pe[0], 1, NULL, NULL, &d), WH_EINVAL);
    CHECK_EQ_INT(wh_detector_create(job.pe[0], 0, on_complete, NULL, &d), WH_EINVAL);
    CHECK_EQ_INT(wh_detector_create(job.pe[0], 1, on_complete, NULL, NULL), WH_EINVAL);
    CHECK_EQ_INT(wh_detector_produce(job.pe[0], none, 1), WH_EINVAL);
    CHECK_EQ_INT(wh_detector_consume(job.pe[0], none, 1), WH_EINVAL);
    CHECK_EQ_INT(wh_detector_done(job.pe[0], none), WH_EINVAL);
    kit_end();  // with one that is not complete
}

// What is counted when a detector has ended is for nobody, on the PE that has made it too.
TEST(an_end_is_final) {
    begin(3, 1, 1, 1, NULL);
    CHECK_EQ_INT(wh_detector_done(job.pe[1], detector), WH_OK);
    UNTIL(seen.called && known() == 0);
    CHECK_EQ_INT(wh_detector_produce(job.pe[1], detector, 1), WH_OK);
    CHECK_EQ_INT(wh_detector_consume(job.pe[1], detector, 2), WH_OK);
    CHECK_EQ_INT((int)known(), 0);
    CHECK_EQ_INT(wh_detector_done(job.pe[0], detector), WH_OK);
    kit_turns(50);
    kit_kill(2);
    kit_turns(50);
    CHECK_EQ_INT(seen.called, 1);
    kit_end();
}

// One that was never made is none.
TEST(a_detector_of_zeros) {
    begin(2, 1, 0, 1, NULL);
    wh_detector zero = {0}, next = {.pe = 0, .id = detector.id + 1};
    CHECK_EQ_INT(wh_detector_produce(job.pe[0], zero, 1), WH_EINVAL);
    CHECK_EQ_INT(wh_detector_consume(job.pe[1], zero, 1), WH_EINVAL);
    CHECK_EQ_INT(wh_detector_done(job.pe[1], zero), WH_EINVAL);
    CHECK_EQ_INT(wh_detector_consume(job.pe[0], next, 1), WH_EINVAL);
    kit_end();
}

static void count_warning(const char *level, const char *id, const char *text, void *arg) {
    (void)level;
    (void)text;
    *(int *)arg += !strcmp(id, "W-RT-03");
}

TEST(more_consumed_than_produced_is_told_once) {
    int warnings = 0;
    wh_log_set_sink(count_warning, &warnings);
    begin(3, 1, 0, 1, NULL);
    CHECK_EQ_INT(wh_detector_produce(job.pe[0], detector, 1), WH_OK);
    CHECK_EQ_INT(wh_detector_consume(job.pe[2], detector, 2), WH_OK);
    kit_turns(200);
    CHECK_EQ_INT(warnings, 0);  // a producer may produce it yet
    CHECK_EQ_INT(wh_detector_done(job.pe[0], detector), WH_OK);
    UNTIL(warnings);
    uint64_t later = whi_clock_ns() + 100000000;  // several waves
    UNTIL(whi_clock_ns() > later);
    CHECK_EQ_INT(warnings, 1);
    CHECK_EQ_INT(wh_detector_produce(job.pe[1], detector, 1), WH_OK);
    UNTIL(seen.called);
    CHECK_EQ_INT(seen.status, WH_OK);
    kit_end();
    wh_log_set_sink(NULL, NULL);
}

// What a PE can make another one keep is bounded.
TEST(no_more_than_the_bound) {
    begin(2, 1, 0, 1, NULL);
    wh_status st = WH_OK;
    wh_detector d = {.pe = 1};
    for (int i = 1; i < WH_DETECTORS_MAX; i++) {
        d.id = 1000 + (uint32_t)i;
        st = wh_detector_produce(job.pe[0], d, 1);
        CHECK_EQ_INT(st, WH_OK);
    }
    d.id = 1;
    CHECK_EQ_INT(wh_detector_consume(job.pe[0], d, 1), WH_ELIMIT);
    CHECK_EQ_INT(wh_detector_create(job.pe[0], 1, on_complete, &seen, &d), WH_ELIMIT);
    kit_end();
}

// A PE that can keep no more has a detector end, and is no enemy of the PE that tells of it.
TEST(a_pe_that_keeps_no_more) {
    begin(3, 1, 0, 1, NULL);
    kit_turns(200);
    wh_detector d = {.pe = 0};
    for (int i = 1; i < WH_DETECTORS_MAX; i++) {
        d.id = 1000 + (uint32_t)i;
        CHECK_EQ_INT(wh_detector_produce(job.pe[1], d, 1), WH_OK);
    }
    CHECK_EQ_INT(wh_detector_create(job.pe[0], 1, on_complete, &seen, &detector), WH_OK);
    UNTIL(seen.called || job.lost);
    CHECK_EQ_INT(job.lost, 0);
    CHECK_EQ_INT(seen.called, 1);
    CHECK_EQ_INT(seen.status, WH_EPEER);
    kit_end();
}

TEST_MAIN()
