// SPDX-License-Identifier: BSD-3-Clause
//
// Generators give the published sequences, bounds are kept and reached, and kernel bytes differ.
#include "base/rng.h"

#include "base/test.h"

TEST(splitmix64_sequence) {
    uint64_t state = 1234567;  // the reference implementation's well-known first numbers
    CHECK(whi_splitmix64(&state) == 6457827717110365317u);
    CHECK(whi_splitmix64(&state) == 3203168211198807973u);
    CHECK(whi_splitmix64(&state) == 9817491932198370423u);
}

TEST(xoshiro256_sequence) {
    whi_rng rng = {{1, 2, 3, 4}};
    CHECK(whi_rng_u64(&rng) == 11520u);
    CHECK(whi_rng_u64(&rng) == 0u);
    CHECK(whi_rng_u64(&rng) == 1509978240u);
    CHECK(whi_rng_u64(&rng) == 1215971899390074240u);
}

TEST(same_seed_same_numbers) {
    whi_rng a, b, c;
    whi_rng_init(&a, 42);
    whi_rng_init(&b, 42);
    whi_rng_init(&c, 43);
    int differ = 0;
    for (int i = 0; i < 100; i++) {
        uint64_t x = whi_rng_u64(&a);
        CHECK(x == whi_rng_u64(&b));
        differ += x != whi_rng_u64(&c);
    }
    CHECK_EQ_INT(differ, 100);
}

TEST(bounded_numbers) {
    whi_rng rng;
    whi_rng_init(&rng, 7);
    int seen[10] = {0};
    for (int i = 0; i < 100000; i++)
        seen[whi_rng_below(&rng, 10)]++;
    for (int i = 0; i < 10; i++)
        CHECK(seen[i] > 9500 && seen[i] < 10500);
    for (int i = 0; i < 100; i++)
        CHECK_EQ_INT(whi_rng_below(&rng, 1), 0);
}

TEST(large_bounds_are_even) {
    // A modulo without redrawing would put two thirds of the numbers into the lower half.
    whi_rng rng;
    whi_rng_init(&rng, 8);
    uint64_t bound = UINT64_C(3) << 62;
    int low = 0;
    for (int i = 0; i < 10000; i++)
        low += whi_rng_below(&rng, bound) < bound / 2;
    CHECK(low > 4800 && low < 5200);
}

TEST(ranges) {
    whi_rng rng;
    whi_rng_init(&rng, 9);
    int seen[3] = {0};
    for (int i = 0; i < 1000; i++) {
        uint64_t x = whi_rng_between(&rng, 5, 7);
        CHECK(x >= 5 && x <= 7);
        seen[x - 5]++;
    }
    CHECK(seen[0] && seen[1] && seen[2]);
    CHECK(whi_rng_between(&rng, 0, UINT64_MAX) != whi_rng_between(&rng, 0, UINT64_MAX));
    int yes = 0;
    for (int i = 0; i < 10000; i++) {
        yes += whi_rng_chance(&rng, 25);
        CHECK(!whi_rng_chance(&rng, 0));
        CHECK(whi_rng_chance(&rng, 100));
    }
    CHECK(yes > 2300 && yes < 2700);
}

TEST(kernel_bytes) {
    unsigned char a[300] = {0}, b[300] = {0};
    CHECK_EQ_INT(whi_random_bytes(a, sizeof(a)), WH_OK);
    CHECK_EQ_INT(whi_random_bytes(b, sizeof(b) - 1), WH_OK);
    CHECK(memcmp(a, b, 16) != 0);
    CHECK(memcmp(a + 280, b + 280, 16) != 0);
    CHECK_EQ_INT(b[299], 0);
    CHECK_EQ_INT(whi_random_bytes(NULL, 0), WH_OK);
}

TEST_MAIN()
