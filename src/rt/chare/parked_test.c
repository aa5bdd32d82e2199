// SPDX-License-Identifier: BSD-3-Clause
//
// Parked calls: which one comes out, in which order, and how much is looked at for it.
#include "rt/chare/parked.h"

#include "base/rng.h"
#include "base/test.h"
#include "rt/chare/chares.h"

enum { CALLS = 1001, ENTRIES = 3, REFS = 5 };

static whi_call calls[CALLS];

static whi_call *put(whi_parked *parked, int i, unsigned entry, int64_t ref) {
    calls[i] = (whi_call){.entry = (uint16_t)entry, .ref = ref};
    CHECK_EQ_INT(whi_parked_put(parked, &calls[i]), WH_OK);
    return &calls[i];
}

// A thousand calls of other references lie there: none of them is looked at, whichever is asked for.
TEST(others_are_not_looked_at) {
    whi_parked parked;
    whi_parked_init(&parked);
    for (int i = 0; i < CALLS; i++)
        put(&parked, i, 1, i);
    parked.looked = 0;
    CHECK(whi_parked_take(&parked, 1, CALLS - 1) == &calls[CALLS - 1]);
    CHECK(whi_parked_take(&parked, 1, CALLS) == NULL);
    CHECK(whi_parked_take(&parked, 2, WH_REF_ANY) == NULL);
    CHECK(whi_parked_take(&parked, 1, WH_REF_ANY) == &calls[0]);
    CHECK(parked.looked <= 4);
    for (int i = 1; i < CALLS - 1; i++)
        CHECK(whi_parked_take(&parked, 1, CALLS - 1 - i) == &calls[CALLS - 1 - i]);
    CHECK(parked.looked <= 2 * CALLS);
    CHECK(whi_parked_empty(&parked));
    whi_parked_fini(&parked);
}

// The oldest that matches, whatever else comes and goes.
TEST(the_oldest_comes_first) {
    for (uint64_t seed = 1; seed <= 50; seed++) {
        whi_rng rng;
        whi_parked parked;
        bool there[CALLS] = {false};
        int made = 0;
        whi_rng_init(&rng, seed);
        whi_parked_init(&parked);
        while (made < CALLS) {
            if (whi_rng_chance(&rng, 2)) {
                there[made] = true;
                int64_t ref =
                    whi_rng_chance(&rng, 9) ? WH_REF_ANY : (int64_t)whi_rng_below(&rng, REFS);
                put(&parked, made++, (unsigned)whi_rng_below(&rng, ENTRIES), ref);
                continue;
            }
            unsigned entry = (unsigned)whi_rng_below(&rng, ENTRIES);
            int64_t ref = whi_rng_chance(&rng, 3) ? WH_REF_ANY : (int64_t)whi_rng_below(&rng, REFS);
            bool all = whi_rng_chance(&rng, 5);
            int first = 0;
            while (first < made &&
                   !(there[first] && (all || (calls[first].entry == entry &&
                                              (ref == WH_REF_ANY || calls[first].ref == ref)))))
                first++;
            const whi_call *got =
                all ? whi_parked_pop(&parked) : whi_parked_take(&parked, entry, ref);
            CHECK(got == (first < made ? &calls[first] : NULL));
            if (got)
                there[first] = false;
        }
        while (whi_parked_pop(&parked))
            continue;
        whi_parked_fini(&parked);
    }
}

TEST(groups_are_told_once) {
    whi_parked parked;
    whi_parked_group group;
    const whi_list *cursor = NULL;
    whi_parked_init(&parked);
    CHECK(!whi_parked_next(&parked, &cursor, &group));
    put(&parked, 0, 2, 7);
    put(&parked, 1, 1, 7);
    put(&parked, 2, 2, 7);
    put(&parked, 3, 2, 8);
    const struct {
        unsigned entry;
        int ref;
        size_t count;
    } expect[] = {{2, 7, 2}, {1, 7, 1}, {2, 8, 1}};
    for (int i = 0; i < 3; i++) {
        CHECK(whi_parked_next(&parked, &cursor, &group));
        CHECK(group.entry == expect[i].entry && group.ref == expect[i].ref &&
              group.count == expect[i].count);
    }
    CHECK(!whi_parked_next(&parked, &cursor, &group));
    while (whi_parked_pop(&parked))
        continue;
    whi_parked_fini(&parked);
}

TEST_MAIN()
