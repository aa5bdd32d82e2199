// SPDX-License-Identifier: BSD-3-Clause
//
// Which of two ways transfers take, given what each has cost.
#include "net/shm/pick.h"

#include <string.h>

#include "base/test.h"

enum { KIB = 1024 };

static whi_pick pick;

// transfers notes `count` of a KiB that would cost this much, and returns how many went the second way.
static int transfers(int count, unsigned first, unsigned second) {
    int taken = 0;
    for (int i = 0; i < count; i++) {
        bool way = whi_pick_choose(&pick);
        whi_pick_note(&pick, way, way ? second : first, KIB);
        taken += way;
    }
    return taken;
}

TEST(the_first_stays_when_it_costs_less_than_half) {
    whi_pick_init(&pick);
    CHECK_EQ_INT(transfers(8, 100, 250), 1);  // the first trial begins
    CHECK(transfers(10000, 100, 250) < 100);
    CHECK(!pick.second);
}

TEST(the_second_is_taken_otherwise) {
    whi_pick_init(&pick);
    CHECK(transfers(10000, 100, 180) > 9900);
    CHECK(pick.second);
}

TEST(a_change_is_seen) {
    whi_pick_init(&pick);
    (void)transfers(20000, 110, 100);
    CHECK(transfers(20000, 100, 250) < 10000);
    CHECK(!pick.second);
    (void)transfers(20000, 110, 100);
    CHECK(pick.second);
}

// The first transfers of a trial run beside the last ones before it, and look cheap or dear for that.
TEST(how_a_trial_begins_does_not_count) {
    whi_pick_init(&pick);
    int in_trial = 0;
    for (int i = 0; i < 10000; i++) {
        bool way = whi_pick_choose(&pick);
        in_trial = way ? in_trial + 1 : 0;
        whi_pick_note(&pick, way, way ? (in_trial <= 2 ? 100000 : 120) : 100, KIB);
        if (pick.second)
            return;
    }
    CHECK(pick.second);
}

TEST(one_lost_time_slice_changes_nothing) {
    whi_pick_init(&pick);
    (void)transfers(1000, 150, 100);
    for (int i = 0; i < 50; i++) {
        (void)transfers(1, 10000000, 10000000);
        (void)transfers(100, 150, 100);
        CHECK(pick.second);
    }
}

// Some never end, or went the other way after all.
TEST(a_trial_that_is_never_over) {
    whi_pick_init(&pick);
    int tried = 0;
    for (int i = 0; i < 20000; i++) {
        tried += whi_pick_choose(&pick);
        whi_pick_note(&pick, false, 100, KIB);
    }
    CHECK(tried > 16 && tried < 500);
    CHECK(!pick.second);
    CHECK(transfers(20000, 110, 100) > 5000);
}

TEST(figures_of_any_size) {
    whi_pick_init(&pick);
    for (int i = 0; i < 10000; i++) {
        bool way = whi_pick_choose(&pick);
        whi_pick_note(&pick, way, i % 3 ? 0 : UINT64_MAX, i % 5 ? KIB : (uint64_t)(i % 7) << 60);
    }
    whi_pick_init(&pick);
    CHECK(transfers(1000, 0, 0) > 900);
}

TEST_MAIN()
