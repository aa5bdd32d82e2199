// SPDX-License-Identifier: BSD-3-Clause
//
// Ids find their pointers, stale and invented ones find nothing, and running out is an error.
#include "base/idmap.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "base/test.h"

static char things[5000];

TEST(put_get_remove) {
    whi_idmap map;
    whi_idmap_init(&map);
    uint32_t ids[5000];
    for (int i = 0; i < 5000; i++) {
        CHECK_EQ_INT(whi_idmap_put(&map, &things[i], &ids[i]), WH_OK);
        CHECK(ids[i] != 0);
    }
    CHECK_EQ_INT(map.count, 5000);
    for (int i = 0; i < 5000; i++)
        CHECK(whi_idmap_get(&map, ids[i]) == &things[i]);
    for (int i = 0; i < 5000; i += 2)
        CHECK(whi_idmap_remove(&map, ids[i]) == &things[i]);
    CHECK_EQ_INT(map.count, 2500);
    for (int i = 0; i < 5000; i++)
        CHECK(whi_idmap_get(&map, ids[i]) == (i % 2 ? &things[i] : NULL));
    whi_idmap_fini(&map);
    CHECK(!whi_idmap_get(&map, ids[1]));
}

TEST(replace) {
    whi_idmap map;
    whi_idmap_init(&map);
    int a, b;
    uint32_t id;
    CHECK_EQ_INT(whi_idmap_put(&map, &a, &id), WH_OK);
    whi_idmap_replace(&map, id, &b);
    CHECK(whi_idmap_get(&map, id) == &b);
    CHECK(whi_idmap_remove(&map, id) == &b);
    CHECK(!whi_idmap_get(&map, id));
    whi_idmap_fini(&map);
}

TEST(stale_and_invented_ids) {
    whi_idmap map;
    whi_idmap_init(&map);
    uint32_t id, again;
    CHECK(!whi_idmap_get(&map, 0));
    CHECK(!whi_idmap_get(&map, 77));
    CHECK(!whi_idmap_remove(&map, 77));
    CHECK_EQ_INT(whi_idmap_put(&map, things, &id), WH_OK);
    CHECK(!whi_idmap_get(&map, 0));
    CHECK(!whi_idmap_get(&map, id + 1));  // the id that a free slot will have
    CHECK(!whi_idmap_remove(&map, id + 1));
    CHECK(!whi_idmap_get(&map, UINT32_MAX));
    CHECK(whi_idmap_remove(&map, id) == things);
    CHECK(!whi_idmap_remove(&map, id));
    // Whatever the slot is used for next, for a long time, the old id stays stale.
    for (int use = 0; use < 10000; use++) {
        CHECK_EQ_INT(whi_idmap_put(&map, things, &again), WH_OK);
        CHECK(again != id && again != 0);
        CHECK(!whi_idmap_get(&map, id));
        whi_idmap_remove(&map, again);
    }
    whi_idmap_fini(&map);
}

TEST(no_id_is_zero_when_generations_come_round) {
    whi_idmap map;
    whi_idmap_init(&map);
    // 16 slots, used in turn: each passes all its generations twice.
    for (int use = 0; use < 16 * 2 * 1024; use++) {
        uint32_t id;
        CHECK_EQ_INT(whi_idmap_put(&map, things, &id), WH_OK);
        CHECK(id >> WHI_IDMAP_SLOT_BITS != 0);
        CHECK(whi_idmap_remove(&map, id) == things);
    }
    CHECK_EQ_INT(map.capacity, 16);
    whi_idmap_fini(&map);
}

TEST(null_is_refused) {
    whi_idmap map;
    whi_idmap_init(&map);
    uint32_t id = 5;
    CHECK_EQ_INT(whi_idmap_put(&map, NULL, &id), WH_EINVAL);
    CHECK_EQ_INT(id, 5);
    whi_idmap_fini(&map);
}

TEST(random_against_an_array) {
    enum { SLOTS = 300, STEPS = 100000 };
    uint32_t ids[SLOTS] = {0};
    whi_idmap map;
    whi_idmap_init(&map);
    whi_rng rng;
    whi_rng_init(&rng, 1);
    uint32_t count = 0;
    for (int step = 0; step < STEPS; step++) {
        size_t i = whi_rng_below(&rng, SLOTS);
        if (ids[i]) {
            CHECK(whi_idmap_remove(&map, ids[i]) == &things[i]);
            ids[i] = 0;
            count--;
        } else {
            CHECK_EQ_INT(whi_idmap_put(&map, &things[i], &ids[i]), WH_OK);
            count++;
        }
        CHECK_EQ_INT(map.count, count);
    }
    for (int i = 0; i < SLOTS; i++)
        if (ids[i])
            CHECK(whi_idmap_get(&map, ids[i]) == &things[i]);
    whi_idmap_fini(&map);
}

TEST(every_allocation_may_fail) {
    for (uint64_t n = 1; n <= 5; n++) {  // 16, 32, 64, 128 and 256 slots
        whi_idmap map;
        whi_idmap_init(&map);
        uint32_t ids[200];
        int refused = 0;
        whi_alloc_fail_at(n);
        for (int i = 0; i < 200; i++)
            while (whi_idmap_put(&map, &things[i], &ids[i]) == WH_ENOMEM)
                refused++;
        whi_alloc_fail_at(0);
        CHECK_EQ_INT(refused, 1);
        for (int i = 0; i < 200; i++)
            CHECK(whi_idmap_get(&map, ids[i]) == &things[i]);
        whi_idmap_fini(&map);
    }
}

TEST(full) {
    whi_idmap map;
    whi_idmap_init(&map);
    uint32_t id, first = 0;
    for (int i = 0; i < WHI_IDMAP_SLOTS_MAX; i++) {
        CHECK_EQ_INT(whi_idmap_put(&map, things, &id), WH_OK);
        if (!first)
            first = id;
    }
    uint32_t untouched = 7;
    CHECK_EQ_INT(whi_idmap_put(&map, things, &untouched), WH_ELIMIT);
    CHECK_EQ_INT(untouched, 7);
    CHECK(whi_idmap_remove(&map, first) == things);
    CHECK_EQ_INT(whi_idmap_put(&map, things, &id), WH_OK);
    CHECK(id != first);
    whi_idmap_fini(&map);
}

TEST_MAIN()
