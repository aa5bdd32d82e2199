// SPDX-License-Identifier: BSD-3-Clause
#include "rt/section/destroyed.h"

#include "base/test.h"

static uint64_t id_of(uint32_t maker, uint32_t number) {
    return (uint64_t)maker << 32 | number;
}

// What a maker and another PE know after the destructions that both have heard of.
TEST(bounds_take_the_place_of_numbers) {
    static const uint32_t order[] = {2, 4, 3, 1, 6, 5};
    static const uint64_t below[] = {1, 1, 1, 5, 5, 7};
    whi_destroyed own, other;
    whi_destroyed_init(&own);
    whi_destroyed_init(&other);
    whi_destroyed_add(&other, id_of(1, 9), 0);
    for (int i = 0; i < 6; i++) {
        uint64_t id = id_of(0, order[i]);
        CHECK(!whi_destroyed_has(&own, id) && !whi_destroyed_has(&other, id));
        whi_destroyed_add(&own, id, 0);
        CHECK(whi_destroyed_below(&own, 0) == below[i]);
        if (i % 2)  // it is not told of all
            whi_destroyed_add(&other, id, below[i]);
        CHECK(whi_destroyed_has(&own, id));
    }
    for (uint32_t number = 1; number <= 6; number++)
        CHECK(whi_destroyed_has(&own, id_of(0, number)) &&
              whi_destroyed_has(&other, id_of(0, number)));
    CHECK(!whi_destroyed_has(&own, id_of(0, 7)) && !whi_destroyed_has(&other, id_of(0, 7)));
    CHECK(!whi_destroyed_has(&other, id_of(1, 1)) && whi_destroyed_has(&other, id_of(1, 9)));
    CHECK_EQ_INT(whi_hash_count(&own.ids), 0);
    CHECK_EQ_INT(whi_hash_count(&other.ids), 1);
    whi_destroyed_fini(&own);
    whi_destroyed_fini(&other);
}

// One that stays has those behind it kept one by one.
TEST(one_that_stays) {
    whi_destroyed d;
    whi_destroyed_init(&d);
    for (uint32_t number = 2; number < 100; number++) {
        whi_destroyed_add(&d, id_of(3, number), 0);
        CHECK(whi_destroyed_below(&d, 3) == 1);
    }
    CHECK(!whi_destroyed_has(&d, id_of(3, 1)));
    CHECK_EQ_INT(whi_hash_count(&d.ids), 98);
    whi_destroyed_add(&d, id_of(3, 1), 0);
    CHECK(whi_destroyed_below(&d, 3) == 100);
    CHECK_EQ_INT(whi_hash_count(&d.ids), 0);
    whi_destroyed_fini(&d);
}

// A bound that goes up by a few or by many has what it says forgotten, and nothing of others.
TEST(bounds_go_up) {
    enum { OTHERS = 50 };
    whi_destroyed d;
    whi_destroyed_init(&d);
    for (uint32_t number = 2; number < 2 + OTHERS; number++)
        whi_destroyed_add(&d, id_of(0, number), 1);
    for (uint32_t number = 4; number > 1; number--)
        whi_destroyed_add(&d, id_of(1, number), 1);
    CHECK_EQ_INT(whi_hash_count(&d.ids), OTHERS + 3);
    whi_destroyed_add(&d, id_of(1, 1), 4);
    CHECK_EQ_INT(whi_hash_count(&d.ids), OTHERS + 1);
    CHECK(whi_destroyed_has(&d, id_of(1, 3)) && whi_destroyed_has(&d, id_of(1, 4)));
    whi_destroyed_add(&d, id_of(1, 999), 1000);
    CHECK_EQ_INT(whi_hash_count(&d.ids), OTHERS);
    CHECK(whi_destroyed_has(&d, id_of(1, 998)) && !whi_destroyed_has(&d, id_of(1, 1000)));
    CHECK(!whi_destroyed_has(&d, id_of(0, 1)) && whi_destroyed_has(&d, id_of(0, 2)));
    whi_destroyed_fini(&d);
}

TEST_MAIN()
