// SPDX-License-Identifier: BSD-3-Clause
//
// Copying: all alignments and odd sizes, and not a byte outside.
#include "net/copy.h"

#include "base/test.h"

enum { LARGEST = 5000, MARGIN = 64 };

static unsigned char from[LARGEST + 2 * MARGIN], to[LARGEST + 2 * MARGIN];

static void check(void (*copy)(void *, const void *, size_t), size_t to_at, size_t from_at,
                  size_t size) {
    memset(to, 0xee, sizeof(to));
    copy(to + to_at, from + from_at, size);
    for (size_t i = 0; i < to_at; i++)
        CHECK_EQ_INT(to[i], 0xee);
    CHECK_MEM(to + to_at, from + from_at, size);
    for (size_t i = to_at + size; i < sizeof(to); i++)
        CHECK_EQ_INT(to[i], 0xee);
}

static void check_all(void (*copy)(void *, const void *, size_t)) {
    static const size_t sizes[] = {0,   1,   31,  32,  33,   63,   64,   127,    128,
                                   129, 159, 160, 161, 1000, 2047, 2048, LARGEST};
    for (size_t i = 0; i < sizeof(from); i++)
        from[i] = (unsigned char)(i * 7 + i / 256);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        for (size_t to_at = 0; to_at < MARGIN; to_at += 1 + to_at / 8)
            for (size_t from_at = 0; from_at < 33; from_at += 11)
                check(copy, to_at, from_at, sizes[i]);
}

TEST(copy) {
    check_all(whi_copy);
}

TEST(copy_large) {
    check_all(whi_copy_large);
}

TEST(copy_nontemporal) {
    check_all(whi_copy_nontemporal);
}

TEST_MAIN()
