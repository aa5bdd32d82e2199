// SPDX-License-Identifier: BSD-3-Clause
//
// Which of two ways transfers take, given what each has cost.
#include "net/shm/pick.h"

#include <string.h>

#include "base/rng.h"
#include "base/test.h"

enum { KIB = 1024 };

static whi_pick pick;

// transfers notes `count` of a KiB that would cost this much, and returns how many went the second way.
static int transfers(int count, unsigned first, unsigned second) {
    int taken = 0;
    for (int i = 0; i < count; i++) {
        bool way = whi_pick_choose(&pick);
        whi_pick_note(&pick, way, way ? second : first, KIB, KIB);
        taken += way;
    }
    return taken;
}

TEST(the_first_is_taken_when_it_costs_less_than_three_quarters) {
    whi_pick_init(&pick, false);
    CHECK_EQ_INT(transfers(8, 100, 140), 1);  // the first trial begins
    CHECK(transfers(20000, 100, 140) < 500);
    CHECK(!pick.second);
}

TEST(the_second_is_taken_otherwise) {
    whi_pick_init(&pick, false);
    CHECK(transfers(20000, 100, 130) > 19700);
    CHECK(pick.second);
}

TEST(a_change_is_seen) {
    whi_pick_init(&pick, false);
    (void)transfers(40000, 110, 100);
    CHECK(transfers(40000, 100, 250) < 20000);
    CHECK(!pick.second);
    (void)transfers(40000, 110, 100);
    CHECK(pick.second);
}

// The first transfers of a trial run beside the last ones before it, and look cheap or dear for that.
TEST(how_a_trial_begins_does_not_count) {
    whi_pick_init(&pick, false);
    (void)transfers(80, 100, 100);  // the second, and before the trial of the first
    CHECK(pick.second && !pick.trial);
    for (int i = 0; i < 10; i++) {
        bool way = whi_pick_choose(&pick);
        CHECK(pick.trial && !way);
        whi_pick_note(&pick, way, i < 2 ? 100000 : 50, KIB, KIB);
    }
    CHECK(!pick.trial && !pick.second);
}

// Nor do the last ones of a trial, which end after it.
TEST(what_ends_after_a_trial_does_not_count) {
    whi_pick_init(&pick, false);
    (void)transfers(80, 150, 100);
    CHECK(pick.second && !pick.trial);
    (void)transfers(10, 150, 100);
    CHECK(pick.second && !pick.trial);
    for (int i = 0; i < 32; i++) {
        (void)whi_pick_choose(&pick);
        whi_pick_note(&pick, true, 10000, KIB, KIB);
    }
    CHECK(pick.cost[1] < 0.1);
}

// Transfers that move in turn, a piece of each, end together, and their last pieces may be there already: it is the bytes
// that count.
TEST(many_that_end_together) {
    enum { BATCH = 32, PIECES = 8 };
    whi_pick_init(&pick, false);
    int first = 0, all = 0;
    for (int batch = 0; batch < 2000; batch++) {
        int moving = 0;
        for (int i = 0; i < BATCH; i++) {
            all++;
            if (whi_pick_choose(&pick))
                whi_pick_note(&pick, true, 100, KIB, KIB);
            else
                moving++;
        }
        first += moving;
        for (int piece = 1; piece <= PIECES; piece++)
            for (int i = 0; i < moving; i++)
                whi_pick_note(&pick, false, piece < PIECES ? 21 : 2, KIB / PIECES,
                              piece < PIECES ? 0 : KIB);
    }
    CHECK(pick.second);
    CHECK(first < all / 20);
}

TEST(one_lost_time_slice_changes_nothing) {
    whi_pick_init(&pick, false);
    (void)transfers(1000, 150, 100);
    for (int i = 0; i < 50; i++) {
        (void)transfers(1, 10000000, 10000000);
        (void)transfers(100, 150, 100);
        CHECK(pick.second);
    }
}

// One that begins where a like one knows the better way takes it at once, and tries the other later.
TEST(it_begins_as_a_like_one_does) {
    whi_pick like, other;
    whi_pick_init(&like, false);
    pick = like;
    CHECK(!whi_pick_like(&like, &pick));  // which knows nothing
    (void)transfers(40, 150, 100);
    CHECK(pick.second);
    other = pick;
    CHECK(whi_pick_like(&like, &other));
    pick = like;
    CHECK_EQ_INT(transfers(63, 150, 100), 63);
    CHECK(transfers(20000, 100, 140) < 1000);  // here it is not so
    CHECK(!pick.second);
    CHECK(!whi_pick_like(&pick, &other));  // it has begun
}

// What has become slow is not done until the next trial is due.
TEST(what_becomes_slow_calls_for_a_trial) {
    whi_pick_init(&pick, false);
    (void)transfers(100000, 150, 100);
    CHECK(pick.second && pick.left > 1000);
    CHECK(transfers(200, 150, 400) < 150);
    CHECK(!pick.second);
    CHECK(transfers(20000, 150, 400) < 500);
}

// Then the costs are believed that called for it.
TEST(what_has_become_slow_is_compared_as_it_is) {
    whi_pick_init(&pick, false);
    (void)transfers(100000, 150, 100);
    CHECK(pick.second);
    CHECK(transfers(200, 190, 300) < 150);
    CHECK(!pick.second);
}

// Lost time slices are no reason for more trials.
TEST(many_lost_time_slices) {
    whi_pick_init(&pick, false);
    whi_rng rng;
    whi_rng_init(&rng, 1);
    int worse = 0, all = 100000;
    for (int i = 0; i < all; i++)
        worse += !transfers(1, whi_rng_chance(&rng, 3) ? 19000 : 190,
                            whi_rng_chance(&rng, 3) ? 10000 : 100);
    CHECK(worse < all / 50);
}

// The first way costs less once its memory is in the caches, which the second way's transfers drive it out of.
static int slowly(int count, unsigned cold, unsigned warm, unsigned second) {
    enum { LAP = 200 };
    int taken = 0;
    for (int i = 0, moved = 0; i < count; i++) {
        bool way = whi_pick_choose(&pick);
        whi_pick_note(&pick, way, way ? second : moved > LAP ? warm : cold, KIB, KIB);
        moved = !way ? moved + (moved < 2 * LAP) : moved > 4 ? moved - 4 : 0;
        taken += way;
    }
    return taken;
}

TEST(a_thorough_trial_sees_what_comes_late) {
    whi_pick_init(&pick, false);
    CHECK(slowly(20000, 110, 50, 100) > 19000);
    CHECK(pick.second);
    whi_pick_init(&pick, false);
    pick.thorough = 400 * KIB;
    CHECK(slowly(40000, 110, 50, 100) < 10000);
    CHECK(!pick.second);
    // None where the first way is hopeless, and few where they change nothing.
    whi_pick_init(&pick, false);
    pick.thorough = 400 * KIB;
    CHECK(slowly(100000, 210, 50, 100) > 99000);
    whi_pick_init(&pick, false);
    pick.thorough = 400 * KIB;
    CHECK(slowly(1000000, 110, 110, 100) > 990000);
    CHECK(pick.second && pick.thorough_interval >= 16);
    // None that would be given up before its end.
    whi_pick_init(&pick, false);
    pick.thorough = 1025 * KIB;
    CHECK(slowly(100000, 110, 50, 100) > 99000);
}

// It is as long as it should be, however large the transfers are.
TEST(a_thorough_trial_has_its_length) {
    uint64_t sizes[] = {16 * KIB, 100 * KIB, 4096 * KIB};
    for (int s = 0; s < 3; s++) {
        whi_pick_init(&pick, false);
        pick.thorough = 12288 * KIB;
        while (!pick.goes_on) {
            bool way = whi_pick_choose(&pick);
            whi_pick_note(&pick, way, (way ? 100 : 110) * sizes[s], sizes[s], sizes[s]);
        }
        uint64_t bytes = 0;
        for (; pick.goes_on; bytes += sizes[s])
            whi_pick_note(&pick, whi_pick_choose(&pick), 110 * sizes[s], sizes[s], sizes[s]);
        CHECK(bytes >= pick.thorough && bytes < pick.thorough + 2 * sizes[s]);
        CHECK(!pick.trial && pick.second && pick.thorough_left == 1);
    }
}

// Some never end, or went the other way after all.
TEST(a_trial_that_is_never_over) {
    whi_pick_init(&pick, false);
    int tried = 0;
    for (int i = 0; i < 20000; i++) {
        tried += whi_pick_choose(&pick);
        whi_pick_note(&pick, false, 100, KIB, KIB);
    }
    CHECK(!pick.second);
    CHECK(tried >= 2048 && tried < 10 * 1024);
    CHECK(transfers(40000, 110, 100) > 5000);
}

// Where many begin before the first of them have ended, a trial takes many: then they are rarer, so that few go the worse way.
TEST(trials_of_bursts_are_rare) {
    enum { BURST = 64, BURSTS = 12 };
    whi_pick_init(&pick, false);
    int worse = 0;
    for (int i = 0; i < BURSTS; i++) {
        int way[BURST];
        for (int k = 0; k < BURST; k++) {
            way[k] = whi_pick_choose(&pick);
            worse += !way[k];
        }
        for (int k = 0; k < BURST; k++)
            whi_pick_note(&pick, way[k], way[k] ? 100 : 200, KIB, KIB);
    }
    CHECK(pick.second);
    CHECK(worse > BURST && worse < BURST * 2);  // one trial of it, not three
}

// Or only the first so many of a burst go the other way, and the trial ends with them.
TEST(a_trial_of_a_few) {
    enum { BURST = 64, FEW = 16 };
    whi_pick_init(&pick, false);
    pick.most = FEW;
    (void)transfers(40, 200, 100);
    CHECK(pick.second);
    int worst = 0;
    for (int i = 0; i < 100; i++) {
        int way[BURST], worse = 0;
        for (int k = 0; k < BURST; k++) {
            way[k] = whi_pick_choose(&pick);
            worse += !way[k];
        }
        worst = worse > worst ? worse : worst;
        for (int k = 0; k < BURST; k++)
            whi_pick_note(&pick, way[k], way[k] ? 100 : 200, KIB, KIB);
    }
    CHECK(pick.second);
    CHECK_EQ_INT(worst, FEW);
    CHECK(pick.cost[0] > pick.cost[1]);
}

TEST(figures_of_any_size) {
    whi_pick_init(&pick, false);
    for (int i = 0; i < 10000; i++) {
        bool way = whi_pick_choose(&pick);
        whi_pick_note(&pick, way, i % 3 ? 0 : UINT64_MAX, i % 5 ? KIB : (uint64_t)(i % 7) << 60,
                      i % 2 ? KIB : UINT64_MAX);
    }
    whi_pick_init(&pick, false);
    CHECK(transfers(1000, 0, 0) > 900);
}

// A trial that is given up counts for no more than went the other way in it.
TEST(a_trial_without_ends) {
    whi_pick_init(&pick, false);
    pick.most = 16;
    while (!pick.trial)
        (void)whi_pick_choose(&pick);
    while (pick.trial)
        (void)whi_pick_choose(&pick);
    CHECK(pick.left < 200);
}

TEST(a_row_of_sizes) {
    whi_pick row[WHI_PICK_SIZES];
    CHECK(whi_pick_of(row, 0) == row && whi_pick_of(row, 16383) == row);
    CHECK(whi_pick_of(row, 16384) == row + 1 && whi_pick_of(row, 32767) == row + 1);
    CHECK(whi_pick_of(row, 65536) == row + 3);
    CHECK(whi_pick_of(row, UINT64_MAX) == row + WHI_PICK_SIZES - 1);
}

TEST_MAIN()
