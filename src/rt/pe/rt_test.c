// SPDX-License-Identifier: BSD-3-Clause
//
// A process of a job, alone: its PEs in threads of their own, joining and leaving, in any order and out of memory.
#include <stdatomic.h>
#include <sys/wait.h>

#include <wherry/log.h>
#include <wherry/rt.h>
#include <wherry/worker.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/test.h"

enum { PES = 4, ROUNDS = 50, BIG = 200 << 10, TALK = 1, DONE };

typedef struct talk {
    int received, done, called, quiet;
    char *data;
} talk;

static talk talks[PES];

static talk *mine(const wh_pe *pe) {
    return &talks[wh_pe_number(pe)];
}

static void on_quiet(wh_pe *pe, void *arg) {
    (void)arg;
    int all = 0;
    mine(pe)->quiet++;
    for (int i = 0; i < PES; i++)
        all += talks[i].received;  // nobody does anything: what they have written is there
    if (wh_pe_number(pe) == 1 && all == PES * PES * ROUNDS)
        wh_pe_exit(pe, 4);
}

static void on_talk(wh_pe *pe, wh_pe_msg *msg, void *arg) {
    (void)arg;
    talk *t = mine(pe);
    int round;
    memcpy(&round, msg->head, sizeof(round));
    for (size_t i = 0; i < msg->size; i += 4096)
        CHECK(((char *)msg->data)[i] == (char)(msg->source + round));
    t->received++;
}

static void on_call(wh_pe *pe, void *arg) {
    (void)arg;
    CHECK(wh_pe_here() == pe);
    mine(pe)->called++;
}

static void talk_to_all(wh_pe *pe, void *arg) {
    (void)arg;
    talk *t = mine(pe);
    CHECK_EQ_INT(wh_pe_set_handler(pe, TALK, on_talk, NULL), WH_OK);
    for (int round = 0; round < ROUNDS; round++) {
        memset(t->data, wh_pe_number(pe) + round, BIG);
        for (int to = 0; to < PES; to++)
            CHECK_EQ_INT(
                wh_pe_send(pe, to, TALK, &round, sizeof(round), t->data, round % 5 ? 8 : BIG, 0),
                WH_OK);
        wh_pe_yield(pe);
    }
    CHECK_EQ_INT(wh_pe_on_quiescence(pe, on_quiet, NULL), WH_OK);
}

static _Atomic bool over;

static void *call_all(void *arg) {
    wh_pe **pe = arg;
    while (!atomic_load(&over)) {
        for (int i = 0; i < PES; i++)
            CHECK_EQ_INT(wh_pe_call(pe[i], on_call, NULL), WH_OK);
        usleep(200);
    }
    return NULL;
}

static wh_pe *pes[PES];
static _Atomic int known;

static void begin(wh_pe *pe, void *arg) {
    pes[wh_pe_number(pe)] = pe;
    // Handlers of all, before the first message: a PE that waits lets others begin.
    CHECK_EQ_INT(wh_pe_set_handler(pe, TALK, on_talk, NULL), WH_OK);
    atomic_fetch_add(&known, 1);
    while (atomic_load(&known) < PES)
        wh_pe_yield(pe);
    talk_to_all(pe, arg);
}

static void *start_caller(void *arg) {
    while (atomic_load(&known) < PES)
        usleep(100);
    return call_all(arg);
}

TEST(pes_in_threads) {
    wh_rt *rt;
    int status = -1;
    pthread_t thread;
    memset(talks, 0, sizeof(talks));
    for (int i = 0; i < PES; i++)
        talks[i].data = malloc(BIG);
    atomic_store(&known, 0);
    atomic_store(&over, false);
    CHECK_EQ_INT(wh_rt_init(WH_RT_OPTS(.pes = PES), &rt), WH_OK);
    CHECK_EQ_INT(wh_rt_pes(rt), PES);
    CHECK_EQ_STR(wh_rt_launcher(rt), "none");
    CHECK_EQ_INT(pthread_create(&thread, NULL, start_caller, pes), 0);
    CHECK_EQ_INT(wh_rt_run(rt, begin, NULL, &status), WH_OK);
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    CHECK_EQ_INT(status, 4);
    CHECK_EQ_INT(wh_rt_run(rt, begin, NULL, &status), WH_EINVAL);
    wh_rt_finish(rt);
    for (int i = 0; i < PES; i++) {
        CHECK_EQ_INT(talks[i].received, PES * ROUNDS);
        CHECK(talks[i].called > 0);
        free(talks[i].data);
    }
}

// ---- Alone: nobody wakes it for the next wave.

static void on_quiet_alone(wh_pe *pe, void *arg) {
    if (++*(int *)arg < 3)
        CHECK_EQ_INT(wh_pe_on_quiescence(pe, on_quiet_alone, arg), WH_OK);
    else
        wh_pe_exit(pe, 7);
}

static void ask_alone(wh_pe *pe, void *arg) {
    CHECK_EQ_INT(wh_pe_on_quiescence(pe, on_quiet_alone, arg), WH_OK);
}

TEST(quiescence_of_one_pe) {
    wh_rt *rt;
    int status = -1, asked = 0;
    CHECK_EQ_INT(wh_rt_init(WH_RT_OPTS(.pes = 1), &rt), WH_OK);
    CHECK_EQ_INT(wh_rt_run(rt, ask_alone, &asked, &status), WH_OK);
    CHECK(status == 7 && asked == 3);
    wh_rt_finish(rt);
}

// ---- A thread that yields for ever does not hold the end.

static void yield_for_ever(wh_pe *pe, void *arg) {
    (void)arg;
    wh_pe_exit(pe, 6);
    for (;;)
        wh_pe_yield(pe);
}

TEST(a_thread_yields_for_ever) {
    for (unsigned count = 1; count <= 2; count++) {
        wh_rt *rt;
        int status = -1;
        CHECK_EQ_INT(wh_rt_init(WH_RT_OPTS(.pes = count), &rt), WH_OK);
        CHECK_EQ_INT(wh_rt_run(rt, yield_for_ever, NULL, &status), WH_OK);
        CHECK_EQ_INT(status, 6);
        wh_rt_finish(rt);
    }
}

// ---- Main is a thread that may wait.

static void wake(wh_pe *pe, void *arg) {
    wh_pe_resume(pe, arg);
}

static void wait_and_exit(wh_pe *pe, void *arg) {
    (void)arg;
    wh_wait wait = {.done = false};
    wh_status st = wh_pe_after(pe, 1000, wake, &wait, NULL);
    CHECK(st == WH_OK || st == WH_ENOMEM);
    CHECK(st != WH_OK || wh_pe_wait(pe, &wait) == WH_OK);
    wh_pe_exit(pe, 5);
}

TEST(main_may_wait) {
    wh_rt *rt;
    int status = -1;
    CHECK_EQ_INT(wh_rt_init(WH_RT_OPTS(.pes = 1), &rt), WH_OK);
    CHECK_EQ_INT(wh_rt_run(rt, wait_and_exit, NULL, &status), WH_OK);
    CHECK_EQ_INT(status, 5);
    wh_rt_finish(rt);
}

// ---- Orders.

TEST(a_job_that_never_runs) {
    wh_rt *rt;
    CHECK_EQ_INT(wh_rt_init(WH_RT_OPTS(.pes = 3), &rt), WH_OK);
    wh_rt_finish(rt);
}

TEST(numbers_of_pes_that_cannot_be) {
    wh_rt *rt;
    CHECK_EQ_INT(wh_rt_init(WH_RT_OPTS(.pes = -1), &rt), WH_EINVAL);
    CHECK_EQ_INT(wh_rt_init(WH_RT_OPTS(.pes = (1 << 20) + 1), &rt), WH_EINVAL);
    CHECK_EQ_INT(wh_rt_init(&(wh_rt_opts){.size = 3}, &rt), WH_EINVAL);
}

TEST(a_context_of_ones_own) {
    wh_rt *rt;
    wh_context *ctx;
    int status = -1;
    CHECK_EQ_INT(wh_context_create(NULL, &ctx), WH_OK);
    CHECK_EQ_INT(wh_rt_init(WH_RT_OPTS(.pes = 2, .context = ctx), &rt), WH_OK);
    CHECK(wh_rt_context(rt) == ctx);
    wh_context_destroy(ctx);  // what is in it keeps it
    CHECK_EQ_INT(wh_rt_run(rt, wait_and_exit, NULL, &status), WH_OK);
    wh_rt_finish(rt);
    CHECK_EQ_INT(status, 5);
}

static void take_announce_max(const wh_config_item *item, void *arg) {
    if (!strcmp(item->key, "announce_max"))
        snprintf(arg, 16, "%s", item->value);
}

TEST(settings_of_its_context) {
    char value[16] = "";
    wh_rt *rt;
    const char *settings[] = {"credit=64K", "announce_max=1000", NULL},
               *wrong[] = {"wrong=1", NULL};
    CHECK_EQ_INT(wh_rt_init(WH_RT_OPTS(.settings = settings), &rt), WH_OK);
    wh_context_config(wh_rt_context(rt), take_announce_max, value);
    CHECK_EQ_STR(value, "1000");
    wh_rt_finish(rt);
    CHECK_EQ_INT(wh_rt_init(WH_RT_OPTS(.settings = wrong), &rt), WH_EINVAL);
}

static void do_nothing(wh_pe *pe, void *arg) {
    (void)pe;
    (void)arg;
}

static void take_timeout(const wh_config_item *item, void *arg) {
    if (!strcmp(item->key, "handshake_timeout"))
        snprintf(arg, 16, "%s", item->value);
}

static void check_timeout(const char *expected) {
    char value[16] = "";
    wh_rt *rt;
    CHECK_EQ_INT(wh_rt_init(NULL, &rt), WH_OK);
    wh_context_config(wh_rt_context(rt), take_timeout, value);
    CHECK_EQ_STR(value, expected);
    wh_rt_finish(rt);
}

// A PE that computes for long in the middle of a handshake is waited for, unless somebody has said how long.
TEST(handshakes_have_time) {
    check_timeout("10m");
    setenv("WHERRY_HANDSHAKE_TIMEOUT", "7s", 1);
    check_timeout("7s");
    unsetenv("WHERRY_HANDSHAKE_TIMEOUT");
}

TEST(a_job_in_pieces) {
    wh_rt *rt;
    wh_pe *pe;
    int status = -1;
    CHECK_EQ_INT(wh_rt_init(WH_RT_OPTS(.pes = 2), &rt), WH_OK);
    CHECK_EQ_INT(wh_rt_end(rt, &status), WH_EBUSY);
    CHECK(strstr(wh_log_take_error(), "wh_rt_end: wh_rt_begin has not been called"));
    CHECK_EQ_INT(wh_rt_begin(rt, NULL, NULL, &pe), WH_EINVAL);
    CHECK(strstr(wh_log_take_error(), "wh_rt_begin: the function is NULL"));
    CHECK_EQ_INT(wh_rt_begin(rt, wait_and_exit, NULL, &pe), WH_OK);
    CHECK_EQ_INT(wh_rt_begin(rt, wait_and_exit, NULL, &pe), WH_EINVAL);
    CHECK(strstr(wh_log_take_error(), "wh_rt_begin: this wh_rt runs already, or has run"));
    CHECK_EQ_INT(wh_rt_end(rt, &status), WH_EBUSY);
    CHECK(strstr(wh_log_take_error(), "wh_rt_end: the job has not ended"));
    while (!wh_pe_ended(pe))
        wh_pe_turn(pe);
    CHECK_EQ_INT(wh_rt_end(rt, &status), WH_OK);
    CHECK_EQ_INT(wh_rt_end(rt, &status), WH_EBUSY);
    CHECK(strstr(wh_log_take_error(), "wh_rt_end: it has been called already"));
    CHECK_EQ_INT(status, 5);
    wh_rt_finish(rt);
}

// Its other PEs are told to go.
TEST(a_job_that_was_begun_and_is_left) {
    wh_rt *rt;
    wh_pe *pe;
    CHECK_EQ_INT(wh_rt_init(WH_RT_OPTS(.pes = 3), &rt), WH_OK);
    CHECK_EQ_INT(wh_rt_begin(rt, do_nothing, NULL, &pe), WH_OK);
    wh_pe_turn(pe);
    wh_rt_finish(rt);
}

// A child of fork() can neither run its parent's job nor end it.
TEST(a_forked_child) {
    wh_rt *rt;
    int status = -1, ended = -1;
    CHECK_EQ_INT(wh_rt_init(WH_RT_OPTS(.pes = 2), &rt), WH_OK);
    pid_t child = fork();
    if (child == 0) {
        wh_status st = wh_rt_run(rt, wait_and_exit, NULL, &status);
        wh_rt_finish(rt);
        _exit(st == WH_EFORKED ? 0 : 1);
    }
    CHECK(waitpid(child, &ended, 0) == child && ended == 0);
    CHECK_EQ_INT(wh_rt_run(rt, wait_and_exit, NULL, &status), WH_OK);
    CHECK_EQ_INT(status, 5);
    wh_rt_finish(rt);
}

// ---- Out of memory.

TEST(joining_and_running_without_memory) {
    uint64_t n = 1;
    int failures = 0;
    for (bool reached = true; reached; n++) {
        wh_rt *rt = NULL;
        int status = -1;
        whi_alloc_fail_at(n);
        wh_status st = wh_rt_init(WH_RT_OPTS(.pes = 2), &rt);
        wh_status ran = st == WH_OK ? wh_rt_run(rt, wait_and_exit, NULL, &status) : st;
        reached = whi_alloc_count() >= n;
        whi_alloc_fail_at(0);
        failures += ran != WH_OK || status != 5;
        CHECK(st == WH_OK || st == WH_ENOMEM || st == WH_ESYSTEM);
        CHECK(ran != WH_OK || status == 5 || status == 1);
        if (st == WH_OK)
            wh_rt_finish(rt);
    }
    CHECK(n > 30 && failures > 10);
}

TEST_MAIN()
