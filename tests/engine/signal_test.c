// SPDX-License-Identifier: BSD-3-Clause
//
// Signals: a handler that runs at any moment, without SA_RESTART, interrupts calls but breaks nothing.
//
// A timer fires once, each time at another moment, or all the time, while a process does what a program does: measures the
// machine, makes workers, connects, exchanges, sleeps and closes.  Every process is a fresh one, because some things are
// done once in each.
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "engine/test_kit.h"

enum { PROCESSES = 200, INTERVAL_US = 40, LARGE = 1 << 20, MESSAGES = 50, LIMIT_S = 60 };

static volatile sig_atomic_t fired;

static void on_alarm(int number) {
    fired += number != 0;
}

static void fire(unsigned first_us, unsigned interval_us) {
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval every = {{0, interval_us}, {0, first_us}};
    CHECK_EQ_INT(sigaction(SIGALRM, &action, NULL), 0);
    CHECK_EQ_INT(setitimer(ITIMER_REAL, &every, NULL), 0);
}

static void live(bool local) {
    static const char *const shm[] = {"lanes=auto", NULL}, *const stream[] = {"lanes=stream", NULL};
    static uint8_t source[LARGE], into[LARGE];
    duo d;
    duo_begin(&d, local ? shm : stream, local ? shm : stream);
    duo_connect(&d);
    for (int i = 0; i < MESSAGES; i++) {
        size_t size = i % 10 ? 8 : LARGE;
        wh_request *recv = NULL, *send = NULL;
        CHECK_EQ_INT(wh_tag_recv(d.from, into, size, 1, WH_TAG_MASK_ALL, NULL, &recv), WH_PENDING);
        wh_status st = wh_tag_send(d.to, source, size, 1, NULL, &send);
        CHECK(st == WH_OK || st == WH_PENDING);
        (void)!wh_worker_wait(d.server, 1);
        CHECK_EQ_INT(done_as(&d, recv), WH_OK);
        CHECK(!send || done_as(&d, send) == WH_OK);
    }
    duo_end(&d);
}

// survive runs a process under fire and requires that it comes to its end.
static void survive(void (*fn)(void), unsigned first_us, unsigned interval_us) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        fire(first_us, interval_us);
        fn();
        while (!fired)
            usleep(100);
        _exit(0);
    }
    int status = -1;
    uint64_t end_ns = whi_clock_ns() + LIMIT_S * WHI_NS_PER_S;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        usleep(1000);
        if (whi_clock_ns() > end_ns)
            kill(pid, SIGKILL);
    }
    CHECK_EQ_INT(status, 0);
}

static void measure(void) {
    CHECK(whi_wake_cost_ns() > 0);
}

static void live_local(void) {
    live(true);
}

static void live_remote(void) {
    live(false);
}

TEST(measuring_the_machine) {
    for (unsigned i = 1; i <= PROCESSES; i++)
        survive(measure, i, 0);
}

TEST(a_whole_life) {
    survive(live_local, INTERVAL_US, INTERVAL_US);
    survive(live_remote, INTERVAL_US, INTERVAL_US);
}

// The program's first: once the library has the signal, it keeps it.
TEST(a_handler_of_the_program_stays) {
    static const char *const dumps[] = {"sigusr1_dump=yes", NULL};
    struct sigaction mine = {.sa_handler = on_alarm};
    for (int has = 1; has >= 0; has--) {
        wh_context *ctx;
        wh_worker *worker;
        mine.sa_handler = has ? on_alarm : SIG_DFL;
        CHECK_EQ_INT(sigaction(SIGUSR1, &mine, NULL), 0);
        CHECK_EQ_INT(wh_context_create(dumps, &ctx), WH_OK);
        CHECK_EQ_INT(wh_worker_create(ctx, NULL, &worker), WH_OK);
        fired = 0;
        CHECK_EQ_INT(raise(SIGUSR1), 0);
        CHECK_EQ_INT(fired, has);
        wh_worker_destroy(worker);
        wh_context_destroy(ctx);
    }
}

TEST_MAIN()
