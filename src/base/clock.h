// SPDX-License-Identifier: BSD-3-Clause
//
// Time: nanoseconds that can be compared and slept on, and raw cycles for what must be cheap.
//
// Nanoseconds come from CLOCK_MONOTONIC (about 20 ns a call).  Cycles come from the processor's
// constant-rate counter (about 7 ns) and serve deadlines of spin loops, where an error of a part in
// a thousand does not matter.  Any thread may call all functions.
#ifndef WHI_BASE_CLOCK_H
#define WHI_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define WHI_NS_PER_US UINT64_C(1000)
#define WHI_NS_PER_MS UINT64_C(1000000)
#define WHI_NS_PER_S UINT64_C(1000000000)

// whi_clock_ns returns the nanoseconds since some moment that is the same for all processes here.
static inline uint64_t whi_clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * WHI_NS_PER_S + (uint64_t)now.tv_nsec;
}

// The two things that only the processor can say.  whi_cpu_relax tells it that this is a spin loop,
// which frees the core's other thread and saves power.
#if defined(__x86_64__)
static inline uint64_t whi_clock_cycles(void) {
    return __builtin_ia32_rdtsc();
}

static inline void whi_cpu_relax(void) {
    __builtin_ia32_pause();
}
#elif defined(__aarch64__)
static inline uint64_t whi_clock_cycles(void) {
    uint64_t cycles;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(cycles));
    return cycles;
}

static inline void whi_cpu_relax(void) {
    __asm__ volatile("yield");
}
#else
static inline uint64_t whi_clock_cycles(void) {
    return whi_clock_ns();
}

static inline void whi_cpu_relax(void) {}
#endif

// whi_clock_cycles_per_ns returns the counter's rate.  The first call in the process measures it,
// which takes a millisecond.
double whi_clock_cycles_per_ns(void);

// whi_clock_cycles_of returns how many cycles `ns` nanoseconds are, to be added to
// whi_clock_cycles() for a deadline.
static inline uint64_t whi_clock_cycles_of(uint64_t ns) {
    return (uint64_t)((double)ns * whi_clock_cycles_per_ns());
}

#endif
