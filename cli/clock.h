// SPDX-License-Identifier: BSD-3-Clause
//
// The time, for bars, limits and summaries.
#ifndef CLI_CLOCK_H
#define CLI_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CLI_NS_PER_S UINT64_C(1000000000)

// cli_ns returns nanoseconds since some moment; they never go back.
static inline uint64_t cli_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * CLI_NS_PER_S + (uint64_t)now.tv_nsec;
}

// The same in milliseconds, for deadlines.
static inline int64_t cli_ms(void) {
    return (int64_t)(cli_ns() / 1000000);
}

#endif
