// SPDX-License-Identifier: BSD-3-Clause
//
// Time for measurements: nanoseconds for what is long, ticks for what is stamped once per message.
//
// A tick stamp must cost little compared with a message of 70 ns, so it reads the processor's constant-rate
// counter (about 7 ns) where there is one.  Any thread may call these functions.
#ifndef BENCH_CLOCK_H
#define BENCH_CLOCK_H

#include <stdint.h>
#include <time.h>

#define BENCH_NS_PER_S UINT64_C(1000000000)

static inline uint64_t bench_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * BENCH_NS_PER_S + (uint64_t)now.tv_nsec;
}

#if defined(__x86_64__)
static inline uint64_t bench_ticks(void) {
    return __builtin_ia32_rdtsc();
}

static inline void bench_relax(void) {
    __builtin_ia32_pause();
}
#elif defined(__aarch64__)
static inline uint64_t bench_ticks(void) {
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
}

static inline void bench_relax(void) {
    __asm__ volatile("yield");
}
#else
static inline uint64_t bench_ticks(void) {
    return bench_ns();
}

static inline void bench_relax(void) {}
#endif

// bench_ns_per_tick returns the length of a tick.  The first call measures it for 20 ms.
double bench_ns_per_tick(void);

#endif
