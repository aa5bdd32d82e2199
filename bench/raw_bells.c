// SPDX-License-Identifier: BSD-3-Clause
//
// The floor of every wake-up between two processes: write an eventfd, sleep in epoll_wait, read.
#include "bench/clock.h"
#include "bench/raw.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { SILENCE_MS = 20000 };

static bool ring(int fd) {
    uint64_t one = 1;
    return write(fd, &one, sizeof one) == sizeof one;
}

static bool sleep_until_rung(int poller, int fd) {
    struct epoll_event event;
    uint64_t times;
    int ready = epoll_wait(poller, &event, 1, SILENCE_MS);
    while (ready < 0 && errno == EINTR)
        ready = epoll_wait(poller, &event, 1, SILENCE_MS);
    return ready == 1 && read(fd, &times, sizeof times) == sizeof times;
}

static bool ping(int poller, int theirs, int ours, uint64_t count, bench_hist *hist) {
    uint64_t before = bench_ticks();
    for (uint64_t i = 0; i < count; i++) {
        if (!ring(theirs) || !sleep_until_rung(poller, ours))
            return false;
        uint64_t now = bench_ticks();
        bench_hist_add(hist, now - before);
        before = now;
    }
    return true;
}

static bool pong(int poller, int theirs, int ours, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        if (!sleep_until_rung(poller, ours) || !ring(theirs))
            return false;
    }
    return true;
}

bool bench_bells_ping(const bench_bells *bells, uint64_t count, bench_hist *hist) {
    int ours = bells->fd[hist ? 1 : 0], theirs = bells->fd[hist ? 0 : 1];
    struct epoll_event event = {.events = EPOLLIN};
    int poller = epoll_create1(EPOLL_CLOEXEC);
    if (poller < 0)
        return false;
    bool good =
        epoll_ctl(poller, EPOLL_CTL_ADD, ours, &event) == 0 &&
        (hist ? ping(poller, theirs, ours, count, hist) : pong(poller, theirs, ours, count));
    close(poller);
    return good;
}
