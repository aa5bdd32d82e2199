// SPDX-License-Identifier: BSD-3-Clause
//
// What the tests of ucd need of a frame: they are programs as users write them, and see ucd.h only.
#ifndef UCD_CHECK_H
#define UCD_CHECK_H

#include <stdio.h>

static _Atomic int failures;

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #cond);                     \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)
#define OK(call) CHECK((call) == UCD_SUCCESS)

#endif
