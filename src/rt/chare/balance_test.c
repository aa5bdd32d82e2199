// SPDX-License-Identifier: BSD-3-Clause
//
// Steps of load balancing: each element goes on once per step, wherever it is by then, and the figures are those of the elements.
#include "rt/chare/balance_kit.h"

static bool is_close(double a, double b) {
    return a - b < 1e-9 && b - a < 1e-9;
}

static double load_for(int i) {
    return i < SITTERS / 4 ? 10 : 1;
}

// The largest load of a PE and the mean, of where elements were when they went on.
static void loads_of(int array, int pes, double *max, double *mean) {
    double load[PES_MAX] = {0};
    *max = *mean = 0;
    for (int i = 0; i < SITTERS; i++)
        load[seen.pe[array][i]] += seen.load[array][i];
    for (int i = 0; i < pes; i++) {
        *max = load[i] > *max ? load[i] : *max;
        *mean += load[i] / pes;
    }
}

static void same_everywhere(int pes, wh_proxy array) {
    wh_balance_step first = last_of(0, array);
    for (int i = 1; i < pes; i++) {
        wh_balance_step other = last_of(i, array);
        CHECK(memcmp(&first, &other, sizeof(first)) == 0);
    }
}

// reach_all has all elements reach their sync points, told by PEs at random, with calls in between.
static void reach_all(whi_rng *rng, int pes, wh_proxy array, int64_t *refs) {
    for (int i = 0; i < SITTERS; i++) {
        int which = (i * 7 + 3) % SITTERS;
        reach((int)whi_rng_below(rng, (unsigned)pes), at(array, which), load_for(which),
              (int64_t)whi_rng_below(rng, 100));
        int to = (int)whi_rng_below(rng, SITTERS);
        call(0, at(array, to), sitter_call_entry, refs[to]++);
        if (whi_rng_chance(rng, 30))
            kit_turns(1);
    }
}

enum { STEPS = 5 };

static void balance(const char *strategy, uint64_t seed, int pes, int ppn, bool leaves) {
    whi_rng rng;
    whi_rng_init(&rng, seed);
    begin(pes, ppn);
    seen.leaves = leaves;
    wh_proxy array = sitters(0, (int)(seed % (unsigned)pes), strategy);
    int64_t refs[SITTERS] = {0};
    for (int step = 1; step <= STEPS; step++) {
        reach_all(&rng, pes, array, refs);
        UNTIL(seen.resumed[0] == SITTERS * step);
        settle();
        wh_balance_step last = last_of(0, array);
        double max, mean;
        loads_of(0, pes, &max, &mean);
        CHECK_EQ_INT(last.number, step);
        if (!leaves) {  // else some may be under way while loads are gathered
            CHECK_EQ_INT(last.elements, SITTERS);
            CHECK_EQ_INT(last.fixed, 0);
            CHECK(is_close(last.mean_before, mean) && is_close(last.mean_after, mean));
            CHECK(is_close(last.max_after, max));
            CHECK(last.moved || is_close(last.max_before, max));
        }
        CHECK(last.seconds > 0);
        same_everywhere(pes, array);
        if (!strcmp(strategy, "none"))
            CHECK_EQ_INT(last.moved, 0);
        else if (!strcmp(strategy, "greedy") && !leaves)
            CHECK(max <= mean + 10);
        else if (!strcmp(strategy, "refine"))
            CHECK(last.max_after <= last.max_before + 1e-9);
        if (!strcmp(strategy, "refine") && step > 1 && !leaves)
            CHECK(max <= mean * 1.05 + 1e-9 || last.moved == 0);
    }
    CHECK_EQ_INT(seen.resumed[0], SITTERS * STEPS);
    int64_t calls = 0;
    for (int i = 0; i < SITTERS; i++)
        calls += refs[i];
    CHECK_EQ_INT(seen.calls, calls);
    end();
}

static const char *const strategies[] = {"none", "greedy", "refine", "distributed"};

TEST(steps_between_processes) {
    for (uint64_t seed = 0; seed < 12; seed++)
        balance(strategies[seed % 4], seed, 2 + (int)(seed % 5), 1, false);
}

TEST(steps_in_one_process) {
    for (uint64_t seed = 0; seed < 24; seed++)
        balance(strategies[seed % 4], seed, 4 + (int)(seed % 2) * 5, 4 + (int)(seed % 2) * 5,
                false);
}

TEST(steps_in_both) {
    for (uint64_t seed = 0; seed < 8; seed++)
        balance(strategies[seed % 4], seed, 8, 2, false);
}

TEST(steps_alone) {
    for (uint64_t seed = 0; seed < 4; seed++)
        balance(strategies[seed], seed, 1, 1, false);
}

// Elements that leave for another PE while the step begins go on once, too.
TEST(elements_that_move_by_themselves) {
    for (uint64_t seed = 0; seed < 60; seed++)
        balance(strategies[seed % 4], seed, 4, seed % 2 ? 4 : 2, true);
    for (uint64_t seed = 0; seed < 8; seed++)
        balance(strategies[seed % 4], seed, 4, 1, true);
}

// Elements of which the state takes long are told to go on where they arrive, after that PE was.
TEST(elements_that_arrive_after_the_step) {
    for (uint64_t seed = 0; seed < 12; seed++) {
        begin(4, seed % 2 ? 1 : 2);
        wh_proxy array = sitters(0, 1, strategies[seed % 4]);
        settle();
        seen.bulk = 1 << 20;
        seen.leaves = true;
        for (int i = 0; i < SITTERS; i++)
            reach(1, at(array, i), 1, i % 8 ? i * 4 / SITTERS : 1);
        UNTIL(seen.resumed[0] == SITTERS);
        settle();
        end();
    }
}

// With all on one PE most have to leave, by whatever strategy.
TEST(a_pe_without_elements_gets_some) {
    for (int s = 1; s < 4; s++) {
        begin(6, 3);
        wh_proxy array =
            make_array(0, 4, "sitter", sitter_resume_entry, strategies[s], SITTERS, "all-on-0", 0);
        for (int i = 0; i < SITTERS; i++)
            reach(i % 6, at(array, i), 1, 0);
        UNTIL(seen.resumed[0] == SITTERS);
        wh_balance_step last = last_of(5, array);
        CHECK(is_close(last.max_before, SITTERS));
        CHECK(last.moved >= SITTERS / 2);
        CHECK(last.max_after < last.max_before / 2);
        settle();
        end();
    }
}

// ---- Who has not reached it.

static char *dumped(int pe) {
    static char text[1 << 16];
    FILE *file = fmemopen(text, sizeof(text), "w");
    CHECK(file);
    wh_pe_dump(job.pe[pe], file);
    fclose(file);
    return text;
}

// One element is missing: the job is quiet, the dump says so, and all go on when it is there.
TEST(one_that_is_missing) {
    begin(4, 2);
    wh_proxy array = sitters(0, 1, "greedy");
    for (int i = 0; i < SITTERS - 1; i++)
        reach(0, at(array, i), 1, 0);
    settle();
    CHECK_EQ_INT(seen.resumed[0], 0);
    char expect[100];
    snprintf(expect, sizeof(expect),
             "  47 of 48 elements are at sync point 1, 1 have not reached it: sitter (array %u)\n",
             array.collection);
    CHECK(strstr(dumped(1), expect));
    CHECK(strstr(dumped(3), "11 of 12 elements here wait at their sync point"));
    reach(0, at(array, SITTERS - 1), 1, 0);
    UNTIL(seen.resumed[0] == SITTERS);
    settle();
    CHECK(!strstr(dumped(1), "sync point"));
    end();
}

TEST(one_that_ends_is_not_waited_for) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        whi_rng rng;
        whi_rng_init(&rng, seed);
        begin(4, seed % 2 ? 2 : 4);
        wh_proxy array = sitters(0, 0, strategies[seed % 4]);
        int dead[] = {3, 17, 40};
        for (int i = 0; i < SITTERS; i++)
            if (i != dead[0] && i != dead[1])
                reach(i == dead[2] ? 1 : (int)whi_rng_below(&rng, 4), at(array, i), 1, 0);
        kit_turns((int)whi_rng_below(&rng, 5));
        for (int i = 0; i < 3; i++)  // the last one has reached it already
            call(1, at(array, dead[i]), sitter_die_entry, 0);
        settle();
        CHECK(seen.resumed[0] == SITTERS - 3 || seen.resumed[0] == SITTERS - 2);
        int before = seen.resumed[0];
        for (int i = 0; i < SITTERS; i++)
            if (i != dead[0] && i != dead[1] && i != dead[2])
                reach((int)whi_rng_below(&rng, 4), at(array, i), 1, 0);
        settle();
        CHECK_EQ_INT(seen.resumed[0] - before, SITTERS - 3);
        end();
    }
}

// The array is destroyed at any moment of its second step: nothing is left that waits.
TEST(an_array_that_ends_in_a_step) {
    int resumed = 0, moments = 80;
    for (int turns = 0; turns < moments; turns++) {
        begin(4, turns % 2 ? 1 : 2);
        wh_proxy array = sitters(0, turns % 4, strategies[1 + turns % 3]);
        for (int step = 1; step <= 2; step++) {
            for (int i = 0; i < SITTERS; i++)
                reach(0, at(array, i), load_for(step == 1 ? i : SITTERS - i), 0);
            if (step == 1)
                UNTIL(seen.resumed[0] == SITTERS);
        }
        kit_turns(turns / 4);
        CHECK_EQ_INT(wh_chare_destroy(job.pe[turns % 4], array), WH_OK);
        settle();
        CHECK(seen.ended >= SITTERS && seen.resumed[0] <= 2 * SITTERS);
        CHECK(seen.errors <= SITTERS);  // calls that came too late
        seen.errors = 0;
        resumed += seen.resumed[0] - SITTERS;
        end();
    }
    CHECK(resumed > 0 && resumed < moments * SITTERS);  // the moments differ
}

// Elements that are inserted meanwhile are waited for, and the step waits until no more are.
TEST(elements_that_are_inserted) {
    begin(4, 2);
    wh_proxy array = make_array(0, 2, "sitter", sitter_resume_entry, "refine", SITTERS / 2, NULL,
                                WH_ARRAY_INSERTING);
    for (int i = 0; i < SITTERS / 2; i++)
        reach(0, at(array, i), 1, 0);
    settle();
    CHECK(strstr(dumped(2), "and elements are still inserted"));
    for (int i = SITTERS / 2; i < SITTERS; i++)
        CHECK_EQ_INT(wh_array_insert(job.pe[i % 4], at(array, i), NULL, 0), WH_OK);
    settle();
    CHECK_EQ_INT(wh_array_done(job.pe[0], array), WH_OK);
    settle();
    CHECK_EQ_INT(seen.resumed[0], 0);
    for (int i = SITTERS / 2; i < SITTERS; i++)
        reach(1, at(array, i), 1, 0);
    UNTIL(seen.resumed[0] == SITTERS);
    CHECK_EQ_INT(last_of(0, array).elements, SITTERS);
    settle();
    end();
}

TEST(an_array_of_nothing) {
    begin(3, 1);
    wh_proxy array = make_array(0, 1, "sitter", sitter_resume_entry, "distributed", 0, NULL, 0);
    settle();
    wh_balance_step last = {.size = sizeof(last)};
    CHECK_EQ_INT(wh_balance_last(job.pe[1], array, &last), WH_ENOTFOUND);
    end();
}

TEST(arrays_that_balance_at_once) {
    for (uint64_t seed = 0; seed < 10; seed++) {
        whi_rng rng;
        whi_rng_init(&rng, seed);
        begin(5, seed % 2 ? 5 : 1);
        wh_proxy array[ARRAYS];
        for (int i = 0; i < ARRAYS; i++)
            array[i] = sitters(i, i, strategies[i]);
        for (int step = 1; step <= 3; step++) {
            for (int i = 0; i < SITTERS * ARRAYS; i++) {
                int which = i / ARRAYS;
                reach((int)whi_rng_below(&rng, 5), at(array[i % ARRAYS], which), load_for(which),
                      0);
                if (whi_rng_chance(&rng, 5))
                    kit_turns(1);
            }
            for (int i = 0; i < ARRAYS; i++)
                UNTIL(seen.resumed[i] == SITTERS * step);
        }
        settle();
        end();
    }
}

// ---- Who stays.

TEST(stones_stay) {
    begin(3, 1);
    wh_proxy array =
        make_array(0, 0, "stone", stone_resume_entry, "greedy", SITTERS, "all-on-0", 0);
    for (int i = 0; i < SITTERS; i++)
        CHECK_EQ_INT(wh_chare_send(job.pe[0], at(array, i), stone_reach_entry, "", 0, NULL), WH_OK);
    UNTIL(seen.resumed[0] == SITTERS);
    wh_balance_step last = last_of(2, array);
    CHECK_EQ_INT(last.fixed, SITTERS);
    CHECK_EQ_INT(last.moved, 0);
    settle();
    end();
}

// One in which a thread waits is counted and stays; the others go, those of a section, too.
TEST(what_cannot_move_is_counted) {
    for (int s = 1; s < 4; s++) {
        begin(4, 2);
        wh_proxy array =
            make_array(0, 0, "sitter", sitter_resume_entry, strategies[s], SITTERS, "all-on-0", 0);
        wh_section section;
        int32_t members[SITTERS];
        for (int32_t i = 0; i < SITTERS; i++)
            members[i] = i;
        CHECK_EQ_INT(wh_section_create(job.pe[0], array, 1, members, SITTERS, &section), WH_OK);
        call(0, at(array, 1), sitter_sleep_entry, 9);
        settle();
        for (int i = 0; i < SITTERS; i++)
            reach(1, at(array, i), 1, 0);
        UNTIL(seen.resumed[0] == SITTERS);
        wh_balance_step last = last_of(3, array);
        CHECK_EQ_INT(last.fixed, 1);
        CHECK(last.moved > SITTERS / 3 && last.moved <= SITTERS - 1);
        CHECK_EQ_INT(seen.pe[0][1], 0);
        bool gone = false;
        for (int i = 2; i < SITTERS; i++)
            gone = gone || seen.pe[0][i] != 0;
        CHECK(gone);
        call(0, at(array, 1), sitter_asked_entry, 9);
        settle();
        end();
    }
}

// ---- What is measured.

static double seconds(void) {
    return (double)whi_clock_ns() * 1e-9;
}

// What is measured is at least what the entries have taken, and nothing of the time in which none of them ran.
TEST(time_in_entries_is_measured) {
    begin(2, 2);
    wh_proxy array =
        make_array(0, 0, "sitter", sitter_resume_entry, "none", SITTERS, "all-on-0", 0);
    seen.spins = 20 * 1000000;
    double began = seconds();
    for (int i = 0; i < 3; i++)
        call(1, at(array, i), sitter_spin_entry, 0);
    call(1, at(array, 3), sitter_spin_asleep_entry, 5);
    settle();
    double waits = seconds();
    spin(100 * 1000000);
    waits = seconds() - waits;
    call(1, at(array, 3), sitter_asked_entry, 5);
    settle();
    call(0, array, sitter_reach_entry, 0);
    UNTIL(seen.resumed[0] == SITTERS);
    wh_balance_step last = last_of(1, array);
    CHECK(last.max_before >= 0.08 && last.max_before < seconds() - began - waits);
    CHECK(is_close(last.mean_before * 2, last.max_before));
    // The next step begins at zero.
    began = seconds();
    call(1, at(array, 7), sitter_spin_entry, 0);
    settle();
    call(0, array, sitter_reach_entry, 0);
    UNTIL(seen.resumed[0] == 2 * SITTERS);
    last = last_of(1, array);
    CHECK(last.max_before >= 0.02 && last.max_before < seconds() - began);
    settle();
    end();
}

TEST(nothing_is_measured_unless_asked_for) {
    begin(2, 2);
    wh_proxy array = make_array(0, 0, "sitter", 0, NULL, SITTERS, NULL, 0);
    call(0, array, sitter_spin_entry, 0);
    call(0, at(array, 3), sitter_spin_asleep_entry, 5);
    call(0, at(array, 3), sitter_asked_entry, 5);
    settle();
    for (int i = 0; i < 2; i++)
        CHECK(!job.pe[i]->charged && !job.pe[i]->charged_since);
    end();
}

// ---- Strategies of the program.

static wh_status to_the_last(const wh_balance_element *elements, size_t count, int pes, int32_t *to,
                             void *arg) {
    CHECK_EQ_INT(count, SITTERS);
    for (size_t i = 0; i < count; i++) {
        CHECK(to[i] == elements[i].pe && (!i || to[i] >= elements[i - 1].pe));
        to[i] = pes - 1;
    }
    if (*(int *)arg == 1)
        to[7] = pes;
    if (*(int *)arg == 2)
        to[7] = -1;
    return *(int *)arg == 3 ? WH_ENOMEM : WH_OK;
}

TEST(a_strategy_of_the_program) {
    for (int how = 0; how < 4; how++) {
        begin(4, 2);
        for (int i = 0; i < 4; i++) {
            CHECK_EQ_INT(wh_balancer_register(job.pe[i], "greedy", to_the_last, &how), WH_EINVAL);
            CHECK_EQ_INT(wh_balancer_register(job.pe[i], "to-the-last", NULL, &how), WH_EINVAL);
            CHECK_EQ_INT(wh_balancer_register(job.pe[i], "to-the-last", to_the_last, &how), WH_OK);
            CHECK_EQ_INT(wh_balancer_register(job.pe[i], "to-the-last", to_the_last, &how),
                         WH_EINVAL);
        }
        wh_proxy array = sitters(0, 1, "to-the-last");
        for (int i = 0; i < SITTERS; i++)
            reach(i % 4, at(array, i), 1, 0);
        UNTIL(seen.resumed[0] == SITTERS);
        CHECK_EQ_INT(last_of(0, array).moved, how == 3 ? 0 : how ? 35 : 36);
        CHECK_EQ_INT(seen.errors, how != 0);
        CHECK(!how || strstr(seen.error, how == 3 ? "out of memory" : "puts 1 elements"));
        seen.errors = 0;
        settle();
        end();
    }
}

static void wrong(const char *balance, unsigned resume, uint32_t flags, wh_status status) {
    wh_proxy array;
    CHECK_EQ_INT(wh_array_create(
                     job.pe[0], "sitter",
                     WH_ARRAY_OPTS(.dims = 1, .balance = balance, .resume = resume, .flags = flags),
                     NULL, 0, &array),
                 status);
}

static wh_status said[4];

#define ASKER_ENTRIES(ENTRY) ENTRY(asker, ask, 0) ENTRY(asker, resume, 0)
WH_CLASS(asker, ASKER_ENTRIES, .state = 8);

static void asker_resume(wh_chare *self, const wh_call *call) {
    (void)self;
    (void)call;
}

static void asker_ask(wh_chare *self, const wh_call *call) {
    (void)call;
    said[0] = wh_chare_set_load(self, -1);
    said[1] = wh_chare_set_load(self, 1.0 / 0.0);
    said[2] = wh_chare_set_load(self, 1);
    said[3] = wh_chare_sync(self);
}

TEST(what_cannot_be) {
    begin(2, 1);
    wrong("best", sitter_resume_entry, 0, WH_ENOTFOUND);
    wrong("greedy", sitter_entry_count, 0, WH_EINVAL);
    wrong("greedy", sitter_resume_entry, WH_ARRAY_ON_DEMAND, WH_EINVAL);
    wrong(NULL, sitter_resume_entry, 0, WH_EINVAL);
    for (int i = 0; i < 2; i++)
        CHECK_EQ_INT(wh_class_register(job.pe[i], &asker_class), WH_OK);
    wh_proxy plain = make_array(0, 0, "asker", 0, NULL, 2, NULL, 0);
    wh_proxy balanced = make_array(1, 0, "asker", asker_resume_entry, "greedy", 2, NULL, 0);
    call(0, at(plain, 1), asker_ask_entry, 0);
    settle();
    CHECK(said[0] == WH_EINVAL && said[1] == WH_EINVAL);
    CHECK(said[2] == WH_ENOTSUP && said[3] == WH_ENOTSUP);
    CHECK_EQ_INT(wh_array_insert(job.pe[0], at(balanced, 7), NULL, 0), WH_OK);
    settle();
    call(0, at(balanced, 7), asker_ask_entry, 0);  // inserted when no more were
    settle();
    CHECK(said[2] == WH_OK && said[3] == WH_ENOTSUP);
    wh_balance_step last = {.size = sizeof(last)};
    CHECK_EQ_INT(wh_balance_last(job.pe[0], plain, &last), WH_ENOTFOUND);
    CHECK_EQ_INT(wh_balance_last(job.pe[0], balanced, NULL), WH_EINVAL);
    end();
}

// A PE that is no root is not asked by anybody else, nor told what it did not wait for.
TEST(strangers_are_not_believed) {
    for (int what = WHI_BALANCE_START; what < WHI_BALANCE_WHATS; what++) {
        begin(4, 2);
        wh_proxy array = sitters(0, 1, "greedy");
        settle();
        whi_head head = {
            .kind = WHI_HEAD_BALANCE,
            .balance = {.what = (uint8_t)what, .collection = array.collection, .step = 1}};
        whi_chares *c = whi_chares_get(job.pe[3]);
        CHECK_EQ_INT(whi_chares_tell(c, 2, &head, "some bytes", 10), WH_OK);
        UNTIL(job.failures);
        CHECK(strstr(job.failure, "that PE 3 has sent cannot be taken"));
        kit_end();
    }
}

TEST_MAIN()
