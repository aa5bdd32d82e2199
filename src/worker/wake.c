// SPDX-License-Identifier: BSD-3-Clause
//
// What waking a sleeping thread costs on this machine: from tens of nanoseconds of a system call to 50 us where an
// idle virtual core halts.  Measured once, when a worker first has to decide how long to spin.
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "worker/worker.h"

enum { ROUNDS = 9 };
#define WAKE_GUESS_NS (20 * WHI_NS_PER_US)  // where it cannot be measured

typedef struct pair {
    int there, back;
} pair;

// ring and await cannot fail on an eventfd, but a signal may interrupt them; whoever gave up would leave the other asleep.
static void ring(int fd) {
    uint64_t one = 1;
    while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
}

static void await(int fd) {
    uint64_t count;
    while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR) {
    }
}

static void *echo(void *arg) {
    pair *p = arg;
    for (int i = 0; i < ROUNDS; i++) {
        await(p->there);
        ring(p->back);
    }
    return NULL;
}

static uint64_t cost_ns;

static void measure(void) {
    cost_ns = WAKE_GUESS_NS;
    pair p = {eventfd(0, EFD_CLOEXEC), eventfd(0, EFD_CLOEXEC)};
    pthread_t thread;
    if (p.there >= 0 && p.back >= 0 && whi_thread_start(&thread, echo, &p) == WH_OK) {
        uint64_t best = UINT64_MAX;
        for (int i = 0; i < ROUNDS; i++) {
            uint64_t start = whi_clock_ns();
            ring(p.there);
            await(p.back);
            uint64_t half = (whi_clock_ns() - start) / 2;
            best = half < best ? half : best;
        }
        pthread_join(thread, NULL);
        cost_ns = best;
    }
    if (p.there >= 0)
        close(p.there);
    if (p.back >= 0)
        close(p.back);
}

uint64_t whi_wake_cost_ns(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, measure);
    return cost_ns;
}
