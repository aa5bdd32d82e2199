// SPDX-License-Identifier: BSD-3-Clause
//
// Measures how fast the processor's counter runs against CLOCK_MONOTONIC, once per process.
//
// Each end of the measured span is a pair of readings, nanoseconds and cycles, taken as close
// together as the best of a few tries, so that being descheduled between the two does not spoil the
// rate.
#include "base/clock.h"

#include <pthread.h>

enum { PAIR_TRIES = 8 };

#define SPAN_NS WHI_NS_PER_MS  // two readings 50 ns off make an error of a part in ten thousand

typedef struct reading {
    uint64_t ns, cycles;
} reading;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static double rate;

static reading read_both(void) {
    reading best = {0, 0};
    uint64_t narrowest = UINT64_MAX;
    for (int i = 0; i < PAIR_TRIES; i++) {
        uint64_t before = whi_clock_cycles();
        uint64_t ns = whi_clock_ns();
        uint64_t width = whi_clock_cycles() - before;
        if (width < narrowest) {
            narrowest = width;
            best = (reading){ns, before + width / 2};
        }
    }
    return best;
}

static void measure(void) {
    reading start = read_both(), end;
    do
        end = read_both();
    while (end.ns - start.ns < SPAN_NS);
    rate = (double)(end.cycles - start.cycles) / (double)(end.ns - start.ns);
}

double whi_clock_cycles_per_ns(void) {
    pthread_once(&once, measure);
    return rate;
}
