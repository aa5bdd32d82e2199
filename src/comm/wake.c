// SPDX-License-Identifier: BSD-3-Clause
//
// What waking a sleeping thread costs on this machine: from tens of nanoseconds of a system call to 50 us where an
// idle virtual core halts.  Measured once, when a worker first has to decide how long to spin.
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/worker.h"

enum { ROUNDS = 9 };
#define WAKE_GUESS_NS (20 * WHI_NS_PER_US)  // where it cannot be measured

typedef struct pair {
    int there, back;
} pair;

static bool pass(int out, int in) {
    uint64_t one = 1;
    return write(out, &one, sizeof(one)) == sizeof(one) &&
           read(in, &one, sizeof(one)) == sizeof(one);
}

static void *echo(void *arg) {
    pair *p = arg;
    uint64_t one;
    for (int i = 0; i < ROUNDS; i++)
        if (read(p->there, &one, sizeof(one)) != sizeof(one) ||
            write(p->back, &one, sizeof(one)) != sizeof(one))
            break;
    return NULL;
}

static uint64_t cost_ns;

static void measure(void) {
    cost_ns = WAKE_GUESS_NS;
    pair p = {eventfd(0, EFD_CLOEXEC), eventfd(0, EFD_CLOEXEC)};
    pthread_t thread;
    if (p.there >= 0 && p.back >= 0 && pthread_create(&thread, NULL, echo, &p) == 0) {
        uint64_t best = UINT64_MAX;
        for (int i = 0; i < ROUNDS; i++) {
            uint64_t start = whi_clock_ns();
            if (!pass(p.there, p.back))
                break;
            uint64_t half = (whi_clock_ns() - start) / 2;
            best = half < best ? half : best;
        }
        pthread_join(thread, NULL);
        if (best != UINT64_MAX)
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
