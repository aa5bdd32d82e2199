// SPDX-License-Identifier: BSD-3-Clause
//
// The hash map against a plain array, under growth, removal and failing allocation; and the hash of
// bytes.
#include "base/hash.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "base/test.h"

static char things[4096];

TEST(put_get_replace_remove) {
    whi_hash map;
    whi_hash_init(&map);
    CHECK(!whi_hash_get(&map, 0));
    CHECK(!whi_hash_remove(&map, 0));
    CHECK_EQ_INT(whi_hash_put(&map, 0, &things[0]), WH_OK);
    CHECK_EQ_INT(whi_hash_put(&map, UINT64_MAX, &things[1]), WH_OK);
    CHECK(whi_hash_get(&map, 0) == &things[0]);
    CHECK(whi_hash_get(&map, UINT64_MAX) == &things[1]);
    CHECK(!whi_hash_get(&map, 1));
    CHECK_EQ_INT(whi_hash_put(&map, 0, &things[2]), WH_OK);
    CHECK_EQ_INT(whi_hash_count(&map), 2);
    CHECK(whi_hash_remove(&map, 0) == &things[2]);
    CHECK(!whi_hash_remove(&map, 0));
    CHECK_EQ_INT(whi_hash_count(&map), 1);
    CHECK_EQ_INT(whi_hash_put(&map, 9, NULL), WH_EINVAL);
    whi_hash_fini(&map);
    CHECK(!whi_hash_get(&map, UINT64_MAX));
}

// Keys are spread thin or dense, so that runs of all lengths are removed from.
static void random_against_array(uint64_t seed, uint64_t step) {
    enum { KEYS = 512, STEPS = 50000 };
    void *expected[KEYS] = {NULL};
    size_t count = 0;
    whi_hash map;
    whi_hash_init(&map);
    whi_rng rng;
    whi_rng_init(&rng, seed);
    for (int i = 0; i < STEPS; i++) {
        // The share of removals rises and falls, so that the map fills and empties again.
        size_t at = whi_rng_below(&rng, KEYS);
        uint64_t key = at * step;
        if (whi_rng_chance(&rng, i / 5000 % 2 ? 70 : 30)) {
            count -= expected[at] != NULL;
            CHECK(whi_hash_remove(&map, key) == expected[at]);
            expected[at] = NULL;
        } else {
            count += expected[at] == NULL;
            expected[at] = &things[whi_rng_below(&rng, sizeof(things))];
            CHECK_EQ_INT(whi_hash_put(&map, key, expected[at]), WH_OK);
        }
        CHECK_EQ_INT(whi_hash_count(&map), count);
        if (i % 1000 == 0)
            for (size_t k = 0; k < KEYS; k++)
                CHECK(whi_hash_get(&map, k * step) == expected[k]);
    }
    whi_hash_fini(&map);
}

TEST(random_against_an_array) {
    for (uint64_t seed = 1; seed <= 4; seed++) {
        random_against_array(seed, 1);
        random_against_array(seed, UINT64_C(1) << 32);
        random_against_array(seed, 0x9e3779b97f4a7c15u);
    }
}

TEST(visiting) {
    whi_hash map;
    whi_hash_init(&map);
    size_t cursor = 0;
    uint64_t key;
    CHECK(!whi_hash_next(&map, &cursor, &key));
    for (uint64_t k = 0; k < 1000; k++)
        CHECK_EQ_INT(whi_hash_put(&map, k * 7, &things[k]), WH_OK);
    int seen[1000] = {0};
    char *ptr;
    for (cursor = 0; (ptr = whi_hash_next(&map, &cursor, &key));) {
        CHECK(ptr == &things[key / 7]);
        seen[key / 7]++;
    }
    for (int k = 0; k < 1000; k++)
        CHECK_EQ_INT(seen[k], 1);
    whi_hash_fini(&map);
}

TEST(every_allocation_may_fail) {
    for (uint64_t n = 1; n <= 5; n++) {  // 16 to 256 places
        whi_hash map;
        whi_hash_init(&map);
        int refused = 0;
        whi_alloc_fail_at(n);
        for (uint64_t k = 0; k < 190; k++)
            while (whi_hash_put(&map, k, &things[k]) == WH_ENOMEM)
                refused++;
        whi_alloc_fail_at(0);
        CHECK_EQ_INT(refused, 1);
        CHECK_EQ_INT(whi_hash_count(&map), 190);
        for (uint64_t k = 0; k < 190; k++)
            CHECK(whi_hash_get(&map, k) == &things[k]);
        whi_hash_fini(&map);
    }
}

TEST(replacing_needs_no_memory) {
    whi_hash map;
    whi_hash_init(&map);
    for (uint64_t k = 0; k < 12; k++)  // as full as 16 places may be
        CHECK_EQ_INT(whi_hash_put(&map, k, &things[k]), WH_OK);
    whi_alloc_fail_at(1);
    wh_status replaced = whi_hash_put(&map, 5, &things[99]);
    wh_status added = whi_hash_put(&map, 50, &things[99]);
    whi_alloc_fail_at(0);
    CHECK_EQ_INT(replaced, WH_OK);
    CHECK_EQ_INT(added, WH_ENOMEM);
    CHECK(whi_hash_get(&map, 5) == &things[99]);
    CHECK(!whi_hash_get(&map, 50));
    whi_hash_fini(&map);
}

TEST(bytes_of_every_length_differ) {
    // All prefixes of a zero buffer, and all single bits set in one: none may collide.
    enum { LENGTHS = 65, BITS = 64 * 8 };
    unsigned char buffer[64] = {0};
    uint64_t seen[LENGTHS + BITS];
    int count = 0;
    for (size_t n = 0; n < LENGTHS; n++)
        seen[count++] = whi_hash_bytes(buffer, n);
    for (int bit = 0; bit < BITS; bit++) {
        buffer[bit / 8] = (unsigned char)(1 << bit % 8);
        seen[count++] = whi_hash_bytes(buffer, sizeof(buffer));
        buffer[bit / 8] = 0;
    }
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            CHECK(seen[i] != seen[j]);
    CHECK(whi_hash_bytes("abc", 3) == whi_hash_bytes("abcd", 3));
    CHECK(whi_hash_bytes(NULL, 0) == whi_hash_bytes("abcd", 0));
}

TEST(one_input_bit_moves_half_of_the_hash) {
    whi_rng rng;
    whi_rng_init(&rng, 3);
    long moved = 0, pairs = 0;
    for (int round = 0; round < 200; round++) {
        uint64_t uuid[2] = {whi_rng_u64(&rng), whi_rng_u64(&rng)};
        uint64_t before = whi_hash_bytes(uuid, sizeof(uuid));
        for (int bit = 0; bit < 128; bit++) {
            uuid[bit / 64] ^= UINT64_C(1) << bit % 64;
            moved += __builtin_popcountll(before ^ whi_hash_bytes(uuid, sizeof(uuid)));
            uuid[bit / 64] ^= UINT64_C(1) << bit % 64;
            pairs++;
        }
    }
    double mean = (double)moved / (double)pairs;
    CHECK(mean > 31.5 && mean < 32.5);
}

TEST_MAIN()
