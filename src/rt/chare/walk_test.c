// SPDX-License-Identifier: BSD-3-Clause
//
// Random programs of chares: up to 16 PEs in one thread over a network that delays as its seed says, and up to 1,000 elements
// that call each other, move, end, are inserted again, are called by broadcasts and sections, reduce, and talk over channels.
//
//     rt-chare-walk-test [--channels] [--seeds N] [--first S | --seed S]
//
// What must come of it: each call runs once, in the order of its sender's PE, or is rejected once, which only one to an element
// that was away can be.  Those that were never away have all broadcasts, in one order.  Each reduction is of those that
// contributed, once and in order, those of sections, too.  Quiescence is found, and not before all this is so.  When nothing is under way no PE
// knows of a move any more.  One seed in 50 runs twice, and must do the same, without channels, whose data real endpoints carry.
#include "rt/chare/walk_world.h"

// ---- What a program does, from outside.

static void step_insert(int number) {
    if (walk.life[number] != AWAY || walk.sectioned[number])
        return;
    walk.life[number] = COMING;
    walk.inserts++;
    CHECK_EQ_INT(wh_array_insert(net_pe(any_pe()), proxy_of(number), NULL, 0), WH_OK);
}

static void step_reduce(void) {
    if (walk.rounds == ROUNDS_MAX)
        return;
    for (int i = walk.walkers; i < walk.walkers + walk.members; i++)
        say(0, i, walker_give_entry, 0, walk.rounds);
    walk.rounds++;
}

static void step_broadcast(void) {
    int from = any_pe();
    CHECK_EQ_INT(wh_chare_send(net_pe(from), walk.array, walker_all_entry, "all", 3,
                               WH_SEND_OPTS(.ref = ++walk.all[from])),
                 WH_OK);
    walk.broadcasts++;
}

static void step_when(void) {
    int to = (int)draw((uint64_t)walk.immortals);
    int64_t *ref = chance(50) ? &walk.told[to] : &walk.wanted[to];
    unsigned entry = ref == &walk.told[to] ? walker_asked_entry : walker_ask_entry;
    CHECK_EQ_INT(
        wh_chare_send(net_pe(0), proxy_of(to), entry, NULL, 0, WH_SEND_OPTS(.ref = ++*ref)), WH_OK);
}

static void step_any(int moves, int deaths) {
    int kind = (int)draw(1000), to = any_number();
    if (walk.channels && chance(25))
        step_channel();
    else if (kind < 300)
        say(any_pe(), to, chance(80) ? walker_step_entry : walker_at_once_entry,
            PICK(0, 0, 1, 5, 20), 0);
    else if (kind < 300 + moves)
        say(any_pe(), to, walker_go_entry, 0, 0);
    else if (kind < 400 && chance((unsigned)deaths) && to >= walk.immortals && to < walk.walkers)
        say(any_pe(), to, walker_die_entry, 0, 0);
    else if (kind < 420)
        step_insert((int)draw((uint64_t)walk.walkers));
    else if (kind < 423)
        step_broadcast();
    else if (kind < 440)
        step_when();
    else if (kind < 442)
        step_reduce();
    else if (kind < 450)
        step_channel();
    else if (kind < 454)
        step_section();
    else if (kind < 700)
        net_step();
    else
        (void)net_turn(any_pe());
}

// ---- Becoming quiet.

static void on_quiet(wh_pe *pe, void *arg) {
    (void)pe;
    for (int i = 0; i < walk.walkers + walk.members; i++)
        CHECK_EQ_INT(walk.sent_to[i], walk.taken_by[i] + walk.rejected[i]);
    for (int i = 0; i < walk.immortals; i++)
        CHECK_EQ_INT(walk.asked[i], walk.told[i]);
    CHECK_EQ_INT(walk.inserts, walk.inserted + walk.refused);
    CHECK_EQ_INT(walk.fired, walk.rounds);
    check_sections();
    (*(int *)arg)++;
}

static void become_quiet(void) {
    int quiet = 0, asks = PICK(1, 1, 2, 5);
    for (int i = 0; i < walk.immortals; i++)
        while (walk.wanted[i] < walk.told[i])
            CHECK_EQ_INT(wh_chare_send(net_pe(0), proxy_of(i), walker_ask_entry, NULL, 0,
                                       WH_SEND_OPTS(.ref = ++walk.wanted[i])),
                         WH_OK);
    for (int i = 0; i < asks; i++)
        CHECK_EQ_INT(wh_pe_on_quiescence(net_pe(any_pe()), on_quiet, &quiet), WH_OK);
    int turns = 0;
    while (quiet < asks) {
        CHECK(turns++ < STUCK);
        net_step();
        (void)net_turn(any_pe());
    }
    CHECK_EQ_INT(quiet, asks);
}

// drain lets all come that is under way, also what quiescence does not wait for.
static void drain(void) {
    pull_all();
    for (int still = 0, i = 0; still < 3; i++) {
        CHECK(i < STUCK);
        net_step();
        unsigned done = 0;
        for (int pe = 0; pe < job.pes; pe++)
            done += net_turn(pe);
        still = done || !net_idle() || walk.pushed != walk.piped || walk.pulled != walk.piped
                    ? 0
                    : still + 1;
    }
}

// ---- What must be so then.

static void check_broadcasts(void) {
    uint64_t order = 0;
    CHECK_EQ_INT(wh_chare_send(net_pe(any_pe()), walk.array, walker_tell_entry, NULL, 0, NULL),
                 WH_OK);
    become_quiet();
    for (int i = 0; i < walk.immortals; i++) {
        CHECK_EQ_INT(walk.had[i], walk.broadcasts);
        order = i ? order : walk.order[i];
        CHECK(walk.order[i] == order);
    }
}

static whi_chares *chares(int pe) {
    return job.pe[pe]->floors[WHI_FLOOR_CHARE].state;
}

static void check_nothing_is_left(size_t expected) {
    size_t elements = 0;
    for (int i = 0; i < job.pes; i++) {
        whi_places_stats stats;
        whi_places_stats_get(chares(i)->places, &stats);
        CHECK_EQ_INT(stats.held, 0);
        CHECK_EQ_INT(stats.left, 0);
        CHECK_EQ_INT(whi_hash_count(&chares(i)->gates), 0);
        CHECK_EQ_INT(whi_hash_count(&chares(i)->states), 0);
        CHECK(whi_list_empty(&whi_collection_find(chares(i), walk.array.collection)->departed));
        elements += stats.elements;
    }
    CHECK_EQ_INT(elements, expected);
}

static void check_all(void) {
    size_t alive = (size_t)walk.pipes;
    check_broadcasts();
    drain();
    for (int i = 0; i < walk.walkers + walk.members; i++) {
        alive += walk.life[i] == HERE;
        CHECK(i >= walk.immortals || !walk.rejected[i]);
    }
    check_nothing_is_left(alive);
    wh_proxy all[] = {walk.array, walk.member, walk.pipe};
    for (int i = 0; i < (walk.pipes ? 3 : 2); i++)
        CHECK_EQ_INT(wh_chare_destroy(net_pe(any_pe()), all[i]), WH_OK);
    become_quiet();
    drain();
    CHECK_EQ_INT(walk.made + walk.unpacked, walk.destructed);
    check_nothing_is_left(0);
}

// ---- Seeds.

static bool channels;  // what the walk is about

static void run(uint64_t seed) {
    walk_begin(seed, channels);
    int moves = PICK(0, 20, 100), deaths = PICK(0, 5, 60);
    for (int phase = PICK(1, 2, 3); phase > 0; phase--) {
        for (int steps = channels ? PICK(300, 1500) : PICK(300, 1500, 4000); steps > 0; steps--)
            step_any(moves, deaths);
        become_quiet();
    }
    check_all();
    CHECK_EQ_INT(job.failures, 0);
    net_end();
}

static uint64_t current;

static void run_current(void) {
    run(current);
    uint64_t history = net.history;
    if (current % 50 == 0 && !walk.pipes) {
        run(current);
        if (net.history != history)
            whi_test_end(WHI_TEST_FAILED, __FILE__, __LINE__, "the seed does not repeat");
    }
}

int main(int argc, char **argv) {
    uint64_t seeds = 200, first = 1;
    const char *again = getenv("WHERRY_SEED");
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (!strcmp(argv[i], "--seeds") && more)
            seeds = strtoull(argv[++i], NULL, 0);
        else if (!strcmp(argv[i], "--first") && more)
            first = strtoull(argv[++i], NULL, 0);
        else if (!strcmp(argv[i], "--seed") && more)
            again = argv[++i];
        else if (!strcmp(argv[i], "--channels"))
            channels = true;
        else {
            fprintf(stderr,
                    "usage: rt-chare-walk-test [--channels] [--seeds N] [--first S | --seed S]\n");
            return 2;
        }
    }
    if (again) {
        first = strtoull(again, NULL, 0);
        seeds = 1;
    }
    whi_tests.pid = getpid();
    whi_tests.thread = pthread_self();
    const whi_test test = {"walk", run_current, NULL};
    for (current = first; current < first + seeds; current++)
        if (whi_test_run(&test) != WHI_TEST_PASSED) {
            fprintf(stderr, "seed %llu failed; alone: %s%s --seed %llu\n",
                    (unsigned long long)current, argv[0], channels ? " --channels" : "",
                    (unsigned long long)current);
            return 1;
        }
    printf("%llu seeds passed\n", (unsigned long long)seeds);
    return 0;
}
