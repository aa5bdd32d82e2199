// SPDX-License-Identifier: BSD-3-Clause
//
// What the tests of bench and of cli need of a frame: they see nothing of the library's inside.
#ifndef BENCH_EXPECT_H
#define BENCH_EXPECT_H

#include <stdio.h>

static int failures;

#define EXPECT(cond)                                                                               \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);                             \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

#endif
