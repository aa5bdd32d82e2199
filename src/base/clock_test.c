// SPDX-License-Identifier: BSD-3-Clause
//
// The clocks go forward, agree with each other, and have the rate they claim.
#include "base/clock.h"

#include "base/test.h"

TEST(forward) {
    uint64_t ns = whi_clock_ns(), cycles = whi_clock_cycles();
    for (int i = 0; i < 100000; i++) {
        uint64_t later = whi_clock_ns();
        CHECK(later >= ns);
        ns = later;
    }
    CHECK(whi_clock_cycles() > cycles);
}

TEST(sleeping_takes_its_time) {
    uint64_t start = whi_clock_ns();
    usleep(20 * 1000);
    uint64_t spent = whi_clock_ns() - start;
    CHECK(spent >= 20 * WHI_NS_PER_MS);
    CHECK(spent < 2 * WHI_NS_PER_S);
}

// Reads both clocks as close together as a few tries allow.
static void read_both(uint64_t *ns, uint64_t *cycles) {
    uint64_t narrowest = UINT64_MAX;
    for (int i = 0; i < 20; i++) {
        uint64_t before = whi_clock_cycles(), at = whi_clock_ns();
        uint64_t width = whi_clock_cycles() - before;
        if (width < narrowest) {
            narrowest = width;
            *ns = at;
            *cycles = before;
        }
    }
}

TEST(cycles_have_the_measured_rate) {
    double rate = whi_clock_cycles_per_ns();
    CHECK(rate > 0.0001 && rate < 20);
    CHECK(whi_clock_cycles_per_ns() == rate);
    uint64_t ns[2] = {0}, cycles[2] = {0};
    read_both(&ns[0], &cycles[0]);
    usleep(50 * 1000);
    read_both(&ns[1], &cycles[1]);
    double seen = (double)(cycles[1] - cycles[0]) / (double)(ns[1] - ns[0]);
    CHECK(seen > rate * 0.98 && seen < rate * 1.02);
}

TEST(deadline_in_cycles) {
    uint64_t start = whi_clock_ns();
    uint64_t deadline = whi_clock_cycles() + whi_clock_cycles_of(5 * WHI_NS_PER_MS);
    while (whi_clock_cycles() < deadline)
        whi_cpu_relax();
    uint64_t spent = whi_clock_ns() - start;
    CHECK(spent > 45 * WHI_NS_PER_MS / 10);
}

TEST_MAIN()
