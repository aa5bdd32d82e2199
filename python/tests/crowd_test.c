// SPDX-License-Identifier: BSD-3-Clause
//
// A wait that may spin sees that others want the processor: threads of its process, and those of others.
#include "../wherry/_crowd.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "base/test.h"

static uint64_t now(void) {
    return crowd_clock_ns(CLOCK_MONOTONIC);
}

static void look_after_ms(crowd *c, int ms) {
    usleep((useconds_t)ms * 1000);
    (void)crowd_wants(c, now());
}

// comes_to_want looks for as long as it takes, 20 s at most.
static bool comes_to_want(crowd *c) {
    uint64_t start = now();
    while (!c->wanted && now() - start < 20000000000u)
        look_after_ms(c, 2);
    return c->wanted;
}

static _Atomic bool enough;

static void *compute(void *arg) {
    while (!atomic_load(&enough)) {
    }
    return arg;
}

TEST(threads_of_the_process) {
    crowd c = {.processors = 1000000};  // whatever runs beside the test
    look_after_ms(&c, 0);
    look_after_ms(&c, 20);
    CHECK(!c.wanted);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, compute, NULL) == 0);
    CHECK(comes_to_want(&c));
    atomic_store(&enough, true);
    pthread_join(thread, NULL);
    look_after_ms(&c, 20);
    look_after_ms(&c, 20);
    CHECK(!c.wanted);
}

TEST(other_processes) {
    enum { MORE = 2, MAX = 1024 };
    static pid_t pids[MAX];
    long count = sysconf(_SC_NPROCESSORS_ONLN) + MORE;
    count = count < MAX ? count : MAX;
    for (long i = 0; i < count; i++) {
        pids[i] = fork();
        CHECK(pids[i] >= 0);
        if (pids[i] == 0) {
            alarm(30);
            for (;;) {
            }
        }
    }
    crowd c = {0};
    CHECK(comes_to_want(&c));
    for (long i = 0; i < count; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
}

TEST(asked_once_in_a_while) {
    crowd c = {.processors = 1000000};
    uint64_t start = now();
    (void)crowd_wants(&c, start);
    uint64_t looked = c.looked_ns;
    CHECK(looked == start);
    c.wanted = false;
    CHECK(!crowd_wants(&c, start + CROWD_LOOK_NS - 1) && c.looked_ns == looked);
    (void)crowd_wants(&c, start + CROWD_LOOK_NS);
    CHECK(c.looked_ns == start + CROWD_LOOK_NS);
    start = c.looked_ns;
    c.wanted = true;
    CHECK(crowd_wants(&c, start + CROWD_REST_NS - 1) && c.looked_ns == start);
    (void)crowd_wants(&c, start + CROWD_REST_NS);
    CHECK(c.looked_ns == start + CROWD_REST_NS);
}

TEST_MAIN()
