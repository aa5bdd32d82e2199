// SPDX-License-Identifier: BSD-3-Clause
//
// Whether others want the processor: a wait that spins then takes time from whom it waits for.
//
// Looked at by one thread, at most once a millisecond: how much other threads of this process have computed since the
// last time, and how many threads of the machine are running or want to.
#ifndef WHERRY_PYTHON_CROWD_H
#define WHERRY_PYTHON_CROWD_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum {
    CROWD_LOOK_NS = 1000000,             // a look costs some microseconds
    CROWD_REST_NS = 10 * CROWD_LOOK_NS,  // to the next one where they do: it is they who pay for it
    CROWD_SHARE = 8,  // other threads of the process compute if they had 1/8 of the time
};

typedef struct crowd {
    long processors;
    uint64_t looked_ns;
    int64_t others_ns;
    bool full;  // more threads than processors, at the last look
    bool wanted;
} crowd;

static inline uint64_t crowd_clock_ns(clockid_t clock) {
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

// crowd_runnable returns how many threads run or wait for a processor, with the caller; 0: unknown.
static inline long crowd_runnable(void) {
    char text[64];
    int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t size = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[size > 0 ? size : 0] = 0;
    long runnable = 0;
    return sscanf(text, "%*s %*s %*s %ld/", &runnable) == 1 ? runnable : 0;
}

// crowd_computes says whether other threads of the process have computed in the `passed` nanoseconds since it was asked.
static inline bool crowd_computes(crowd *c, uint64_t passed) {
    // The two clocks are not read at once: what others had may seem to shrink.
    int64_t others = (int64_t)(crowd_clock_ns(CLOCK_PROCESS_CPUTIME_ID) -
                               crowd_clock_ns(CLOCK_THREAD_CPUTIME_ID));
    int64_t had = others - c->others_ns;
    c->others_ns = others;
    return had * CROWD_SHARE > (int64_t)passed;
}

// crowd_wants says it as of the last look before `now_ns`.
static inline bool crowd_wants(crowd *c, uint64_t now_ns) {
    uint64_t passed = now_ns - c->looked_ns;
    if (passed < (c->wanted ? CROWD_REST_NS : CROWD_LOOK_NS))
        return c->wanted;
    c->looked_ns = now_ns;
    if (!c->processors)
        c->processors = sysconf(_SC_NPROCESSORS_ONLN);
    bool full = crowd_runnable() > c->processors;
    // One look in a row may have met what runs for a moment only.
    c->wanted = crowd_computes(c, passed) || (full && c->full);
    c->full = full;
    return c->wanted;
}

#endif
