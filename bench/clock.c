// SPDX-License-Identifier: BSD-3-Clause
//
// The length of a tick, measured once against the system's clock.
#include "bench/clock.h"

// Long enough that two clock reads of 20 ns are an error of a millionth.
#define CALIBRATION_NS (20 * UINT64_C(1000000))

double bench_ns_per_tick(void) {
    static double known;  // a race between two threads would only measure it twice
    if (known > 0)
        return known;

    uint64_t ns = bench_ns();
    uint64_t ticks = bench_ticks();
    uint64_t end = ns;
    while (end - ns < CALIBRATION_NS)
        end = bench_ns();
    known = (double)(end - ns) / (double)(bench_ticks() - ticks);
    return known;
}
