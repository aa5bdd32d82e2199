// SPDX-License-Identifier: BSD-3-Clause
//
// Strategies of load balancing on random loads: what each of them promises.
#include "base/rng.h"
#include "base/test.h"
#include "rt/balance/gossip.h"
#include "rt/balance/strategy.h"

enum { MOST = 600, PES = 40, SEEDS = 300 };

static struct {
    wh_balance_element e[MOST];
    int32_t to[MOST];
    size_t count;
    int pes;
    double mean, largest;  // load of a PE, of an element
} in;

static double larger(double a, double b) {
    return a > b ? a : b;
}

static void set(size_t i, double load, int pe, bool fixed) {
    in.e[i] = (wh_balance_element){.load = load, .pe = pe, .fixed = fixed};
    in.to[i] = pe;
}

static void sum_up(void) {
    in.mean = in.largest = 0;
    for (size_t i = 0; i < in.count; i++) {
        in.mean += in.e[i].load / in.pes;
        in.largest = larger(in.largest, in.e[i].load);
    }
}

// make draws elements; most of them lie on a few PEs.
static void make(whi_rng *rng, unsigned fixed_percent) {
    in.pes = 1 + (int)whi_rng_below(rng, PES);
    in.count = whi_rng_below(rng, MOST);
    for (size_t i = 0; i < in.count; i++) {
        double load = (double)whi_rng_below(rng, 1000) / 100;
        if (whi_rng_chance(rng, 10))
            load *= 20;
        int pe = (int)whi_rng_below(rng, whi_rng_chance(rng, 70) ? 1 + (unsigned)in.pes / 5
                                                                 : (unsigned)in.pes);
        set(i, load, pe, whi_rng_chance(rng, fixed_percent));
    }
    sum_up();
}

static double max_of(const int32_t *where) {
    double load[PES] = {0}, max = 0;
    for (size_t i = 0; i < in.count; i++)
        load[where ? where[i] : in.e[i].pe] += in.e[i].load;
    for (int i = 0; i < in.pes; i++)
        max = larger(max, load[i]);
    return max;
}

// valid checks that each element is somewhere, and the fixed ones where they were; it returns how many moved.
static size_t valid(void) {
    size_t moved = 0;
    for (size_t i = 0; i < in.count; i++) {
        CHECK(in.to[i] >= 0 && in.to[i] < in.pes);
        CHECK(!in.e[i].fixed || in.to[i] == in.e[i].pe);
        moved += in.to[i] != in.e[i].pe;
    }
    return moved;
}

TEST(greedy_is_one_element_above_the_mean_at_most) {
    whi_rng rng;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        whi_rng_init(&rng, seed);
        make(&rng, 0);
        CHECK_EQ_INT(whi_balance_greedy(in.e, in.count, in.pes, in.to, NULL), WH_OK);
        valid();
        CHECK(max_of(in.to) <= in.mean + in.largest * (1 - 1.0 / in.pes) + 1e-9);
    }
}

// The case in which placing the largest first is worst: 4/3 - 1/(3 m) of the best.
TEST(greedy_takes_the_largest_first) {
    const double loads[] = {3, 3, 2, 2, 2};
    in.pes = 2;
    in.count = 5;
    for (size_t i = 0; i < 5; i++)
        set(i, loads[4 - i], 0, false);
    CHECK_EQ_INT(whi_balance_greedy(in.e, in.count, in.pes, in.to, NULL), WH_OK);
    CHECK(max_of(in.to) == 7);  // 6 would be best
    in.count = 3;
    set(0, 1, 0, false);
    set(1, 1, 0, false);
    set(2, 2, 0, false);
    CHECK_EQ_INT(whi_balance_greedy(in.e, in.count, in.pes, in.to, NULL), WH_OK);
    CHECK(max_of(in.to) == 2);  // the smallest first: 3
}

TEST(greedy_works_around_what_is_fixed) {
    whi_rng rng;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        whi_rng_init(&rng, seed);
        make(&rng, 30);
        double load[PES] = {0}, bound = in.mean;
        for (size_t i = 0; i < in.count; i++)
            load[in.e[i].pe] += in.e[i].fixed ? in.e[i].load : 0;
        for (int i = 0; i < in.pes; i++)
            bound = larger(bound, load[i]);
        CHECK_EQ_INT(whi_balance_greedy(in.e, in.count, in.pes, in.to, NULL), WH_OK);
        valid();
        CHECK(max_of(in.to) <= bound + in.largest + 1e-9);
    }
}

// What is equal anywhere stays.
TEST(greedy_leaves_what_is_balanced) {
    in.pes = 8;
    in.count = 64;
    for (size_t i = 0; i < in.count; i++)
        set(i, 1, (int)(i % 8), false);
    CHECK_EQ_INT(whi_balance_greedy(in.e, in.count, in.pes, in.to, NULL), WH_OK);
    CHECK_EQ_INT(valid(), 0);
}

TEST(refine_never_makes_the_largest_load_larger) {
    whi_rng rng;
    size_t better = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        whi_rng_init(&rng, seed);
        make(&rng, seed % 3 ? 0 : 30);
        double before = max_of(NULL);
        CHECK_EQ_INT(whi_balance_refine(in.e, in.count, in.pes, in.to, NULL), WH_OK);
        size_t moved = valid();
        double after = max_of(in.to);
        CHECK(after <= before + 1e-9);
        CHECK(!moved || after < before);
        if (before <= in.mean * WHI_BALANCE_TOLERANCE)
            CHECK_EQ_INT(moved, 0);
        better += after < before;
    }
    CHECK(better > SEEDS / 2);
}

// One PE has 10 elements too many among 210: refining moves about those, greedy nearly all.
TEST(refine_moves_few) {
    in.pes = 20;
    in.count = 210;
    for (size_t i = 0; i < in.count; i++)
        set(i, 1 + (double)(i % 7) / 100, i < 200 ? (int)(i % 20) : 0, false);
    sum_up();
    CHECK_EQ_INT(whi_balance_refine(in.e, in.count, in.pes, in.to, NULL), WH_OK);
    size_t moved = valid();
    CHECK(moved >= 8 && moved <= 10);
    CHECK(max_of(in.to) <= in.mean + in.largest);
}

TEST(refine_chooses_the_element_that_fits) {
    const double loads[] = {1, 9, 5};
    in.pes = 2;
    in.count = 3;
    for (size_t i = 0; i < 3; i++)
        set(i, loads[i], 0, false);
    CHECK_EQ_INT(whi_balance_refine(in.e, in.count, in.pes, in.to, NULL), WH_OK);
    CHECK_EQ_INT(valid(), 1);
    CHECK(max_of(in.to) == 9);
}

// ---- Gossip: all PEs in one loop, with what each has heard.

static whi_gossip heard[PES];

static double own_load(int pe) {
    double own = 0;
    for (size_t i = 0; i < in.count; i++)
        own += in.e[i].pe == pe ? in.e[i].load : 0;
    return own;
}

static void tell(int from, int to) {
    for (size_t i = 0; i < heard[from].count; i++)
        CHECK_EQ_INT(whi_gossip_add(&heard[to], &heard[from].known[i]), WH_OK);
}

static void gossip(whi_rng *rng) {
    for (int i = 0; i < in.pes; i++) {
        const whi_gossip_entry self = {.pe = i, .load = own_load(i)};
        if (self.load < in.mean)
            CHECK_EQ_INT(whi_gossip_add(&heard[i], &self), WH_OK);
    }
    for (int round = 0; round < whi_gossip_rounds(in.pes) && in.pes > 1; round++)
        for (int from = 0; from < in.pes; from++)
            for (int i = 0; i < WHI_GOSSIP_FANOUT; i++) {
                int to = (int)whi_rng_below(rng, (unsigned)in.pes - 1);
                tell(from, to + (to >= from));
            }
}

// transfer has a PE choose, from its own elements only.
static void transfer(int pe, whi_rng *rng) {
    wh_balance_element own[MOST] = {{0}};
    size_t which[MOST], count = 0, moved, really = 0;
    int32_t to[MOST];
    for (size_t i = 0; i < in.count; i++) {
        if (in.e[i].pe != pe)
            continue;
        own[count] = in.e[i];
        to[count] = pe;
        which[count++] = i;
    }
    CHECK_EQ_INT(whi_gossip_transfer(&heard[pe], own, count, in.mean, rng, to, &moved), WH_OK);
    double before = own_load(pe), after = before;
    for (size_t i = 0; i < count; i++) {
        in.to[which[i]] = to[i];
        really += to[i] != pe;
        after -= to[i] != pe ? own[i].load : 0;
    }
    CHECK_EQ_INT(really, moved);
    CHECK(!moved || before > in.mean * WHI_BALANCE_TOLERANCE);  // who has not too much keeps it
    CHECK(after >= -1e-9);
    for (size_t i = 0; i < heard[pe].count; i++)  // nobody is given more than this PE had
        CHECK(heard[pe].known[i].load < larger(before, in.mean) + 1e-9);
}

// It is compared with the greedy strategy, which sees all loads, over the same elements.
TEST(distributed_loses_and_doubles_nothing) {
    whi_rng rng;
    double before = 0, after = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        whi_rng_init(&rng, seed);
        make(&rng, 0);
        gossip(&rng);
        for (int i = 0; i < in.pes; i++)
            transfer(i, &rng);
        for (int i = 0; i < in.pes; i++)
            whi_gossip_fini(&heard[i]);
        valid();
        if (in.mean <= 0)
            continue;
        double max = max_of(in.to);
        CHECK_EQ_INT(whi_balance_greedy(in.e, in.count, in.pes, in.to, NULL), WH_OK);
        before += max_of(NULL) / max_of(in.to) / SEEDS;
        after += max / max_of(in.to) / SEEDS;
    }
    CHECK(after - 1 < (before - 1) / 3);
}

TEST(gossip_is_known_once_and_ordered) {
    whi_rng rng;
    whi_gossip g = {.known = NULL};
    whi_rng_init(&rng, 7);
    for (int i = 0; i < 500; i++) {
        const whi_gossip_entry entry = {.pe = (int)whi_rng_below(&rng, 100), .load = i};
        CHECK_EQ_INT(whi_gossip_add(&g, &entry), WH_OK);
    }
    CHECK(g.count <= 100);
    for (size_t i = 1; i < g.count; i++)
        CHECK(g.known[i - 1].pe < g.known[i].pe);
    whi_gossip_fini(&g);
}

// Nothing, and one PE.
TEST(nothing_to_do) {
    whi_gossip g = {.known = NULL};
    whi_rng rng;
    whi_rng_init(&rng, 1);
    size_t moved = 1;
    CHECK_EQ_INT(whi_balance_greedy(in.e, 0, 5, in.to, NULL), WH_OK);
    CHECK_EQ_INT(whi_balance_refine(in.e, 0, 5, in.to, NULL), WH_OK);
    CHECK_EQ_INT(whi_gossip_transfer(&g, in.e, 0, 0, &rng, in.to, &moved), WH_OK);
    CHECK_EQ_INT(moved, 0);
    in.pes = 1;
    in.count = 3;
    for (size_t i = 0; i < 3; i++)
        set(i, 0, 0, false);
    CHECK_EQ_INT(whi_balance_greedy(in.e, 3, 1, in.to, NULL), WH_OK);
    CHECK_EQ_INT(whi_balance_refine(in.e, 3, 1, in.to, NULL), WH_OK);
    CHECK_EQ_INT(valid(), 0);
}

TEST_MAIN()
