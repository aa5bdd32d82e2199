// SPDX-License-Identifier: BSD-3-Clause
//
// Chares that move while they are called, over the engine: each call once and in order, wherever the element is by then.
// Walks over a network that a seed decides: walk_test.c.
#include <wherry/chare.h>

#include "base/rng.h"
#include "rt/chare/element_kit.h"

enum { WALKERS = 24, PES = 8 };

// What a walker has seen travels with it.
typedef struct walker {
    int64_t next[PES];      // reference number of the next call, by source
    int64_t next_all[PES];  // of the next broadcast
    uint64_t order;         // a hash of the broadcasts in their order
    int64_t asked;
    char *heap;  // what a class has to pack
} walker;

static struct {
    int calls, broadcasts, asked, moved, ended;
    uint64_t order[WALKERS];
    int64_t all[WALKERS];
} seen;

static void walker_construct(wh_chare *self, const wh_call *call) {
    walker *w = self->state;
    (void)call;
    w->heap = strdup("walker");
    CHECK(w->heap);
}

static void walker_destruct(wh_chare *self) {
    walker *w = self->state;
    CHECK_EQ_STR(w->heap, "walker");
    free(w->heap);
    seen.ended++;
}

static size_t walker_pack(wh_chare *self, void *to) {
    const walker *w = self->state;
    if (to) {
        memcpy(to, w, sizeof(*w));
        memcpy((char *)to + sizeof(*w), w->heap, 7);
    }
    return sizeof(*w) + 7;
}

static wh_status walker_unpack(wh_chare *self, const void *data, size_t size) {
    walker *w = self->state;
    CHECK_EQ_INT(size, sizeof(*w) + 7);
    memcpy(w, data, sizeof(*w));
    w->heap = strdup((const char *)data + sizeof(*w));
    seen.moved++;
    return w->heap ? WH_OK : WH_ENOMEM;
}

#define WALKER_ENTRIES(ENTRY)                                                                      \
    ENTRY(walker, step, 0)                                                                         \
    ENTRY(walker, all, 0)                                                                          \
    ENTRY(walker, go, 0)                                                                           \
    ENTRY(walker, asked, WH_ENTRY_WHEN)                                                            \
    ENTRY(walker, ask, 0)                                                                          \
    ENTRY(walker, tell, 0)                                                                         \
    ENTRY(walker, sleep, WH_ENTRY_THREADED)                                                        \
    ENTRY(walker, die, 0)
WH_CLASS(walker, WALKER_ENTRIES, .state = sizeof(walker), .construct = walker_construct,
         .destruct = walker_destruct, .pack = walker_pack, .unpack = walker_unpack);

static void walker_step(wh_chare *self, const wh_call *call) {
    walker *w = self->state;
    CHECK_EQ_INT(call->ref, w->next[call->source]++);
    seen.calls++;
}

static void walker_all(wh_chare *self, const wh_call *call) {
    walker *w = self->state;
    CHECK_EQ_INT(call->ref, w->next_all[call->source]++);
    w->order = w->order * 31 + (uint64_t)call->source + 1;
    seen.broadcasts++;
}

static void walker_go(wh_chare *self, const wh_call *call) {
    CHECK_EQ_INT(wh_chare_move(self, (int)call->ref), WH_OK);
}

static void walker_asked(wh_chare *self, const wh_call *call) {
    walker *w = self->state;
    CHECK_EQ_INT(call->ref, w->asked++);
    seen.asked++;
}

static void walker_ask(wh_chare *self, const wh_call *call) {
    CHECK_EQ_INT(wh_chare_when(self, walker_asked_entry, call->ref), WH_OK);
}

static void walker_tell(wh_chare *self, const wh_call *call) {
    const walker *w = self->state;
    (void)call;
    seen.order[self->proxy.index[0]] = w->order;
    for (int i = 0; i < PES; i++)
        seen.all[self->proxy.index[0]] += w->next_all[i];
}

static void walker_sleep(wh_chare *self, const wh_call *call) {
    (void)call;
    CHECK_EQ_INT(wh_chare_move(self, 0), WH_EBUSY);
    const wh_call *got;
    CHECK_EQ_INT(wh_chare_wait(self, walker_asked_entry, 77, &got), WH_OK);
}

static void walker_die(wh_chare *self, const wh_call *call) {
    (void)call;
    CHECK_EQ_INT(wh_chare_destroy(self->pe, self->proxy), WH_OK);
}

#define STAYER_ENTRIES(ENTRY) ENTRY(stayer, go, 0)
WH_CLASS(stayer, STAYER_ENTRIES, .state = 8);

static void stayer_go(wh_chare *self, const wh_call *call) {
    (void)call;
    CHECK_EQ_INT(wh_chare_move(self, 0), WH_ENOTSUP);
    seen.calls++;
}

static wh_proxy begin(int pes, int ppn) {
    memset(&seen, 0, sizeof(seen));
    kit_begin(pes, ppn);
    for (int i = 0; i < pes; i++) {
        CHECK_EQ_INT(wh_class_register(job.pe[i], &walker_class), WH_OK);
        CHECK_EQ_INT(wh_class_register(job.pe[i], &stayer_class), WH_OK);
    }
    kit_count_errors();
    wh_proxy array;
    CHECK_EQ_INT(wh_array_create(job.pe[0], "walker", WH_ARRAY_OPTS(.dims = 1, .shape = {WALKERS}),
                                 NULL, 0, &array),
                 WH_OK);
    return array;
}

static wh_proxy at(wh_proxy array, int number) {
    return wh_proxy_at(array, 1, &number);
}

static void call(int from, wh_proxy to, unsigned entry, int64_t ref) {
    CHECK_EQ_INT(wh_chare_send(job.pe[from], to, entry, "bytes", 5, WH_SEND_OPTS(.ref = ref)),
                 WH_OK);
}

// ended destroys what has memory of its own: the end of a job calls no destructors.
static void ended(wh_proxy collection) {
    CHECK_EQ_INT(wh_chare_destroy(job.pe[0], collection), WH_OK);
    kit_settle();
}

static whi_chares *chares(int pe) {
    return job.pe[pe]->floors[WHI_FLOOR_CHARE].state;
}

static bool is_forgotten(int pe, uint32_t collection) {
    whi_places_stats stats;
    whi_places_stats_get(chares(pe)->places, &stats);
    return stats.held == 0 &&
           whi_list_empty(&whi_collection_find(chares(pe), collection)->departed) &&
           whi_hash_count(&chares(pe)->gates) == 0 && whi_hash_count(&chares(pe)->states) == 0;
}

// What moves leave behind is forgotten, as soon as the last markers have come, which quiescence does not wait for.
static void nothing_is_left(int pes, uint32_t collection) {
    size_t elements = 0;
    for (int i = 0; i < pes; i++) {
        UNTIL(is_forgotten(i, collection));
        whi_places_stats stats;
        whi_places_stats_get(chares(i)->places, &stats);
        elements += stats.elements;
    }
    CHECK_EQ_INT(elements, WALKERS);
}

// Calls, broadcasts and moves as the seed says, in between turns of PEs that it chooses.
static void walk(uint64_t seed, int pes, int ppn, int steps) {
    whi_rng rng;
    whi_rng_init(&rng, seed);
    wh_proxy array = begin(pes, ppn);
    int64_t refs[PES][WALKERS] = {{0}}, all[PES] = {0}, asks[WALKERS] = {0}, told[WALKERS] = {0};
    int calls = 0, broadcasts = 0, asked = 0;
    for (int i = 0; i < steps; i++) {
        int from = (int)whi_rng_below(&rng, (unsigned)pes), to = (int)whi_rng_below(&rng, WALKERS);
        unsigned kind = (unsigned)whi_rng_below(&rng, 100);
        if (kind < 40) {
            call(from, at(array, to), walker_step_entry, refs[from][to]++);
            calls++;
        } else if (kind < 55) {
            call(from, at(array, to), walker_go_entry, (int64_t)whi_rng_below(&rng, (unsigned)pes));
        } else if (kind < 60) {
            call(from, array, walker_all_entry, all[from]++);
            broadcasts += WALKERS;
        } else if (kind < 65) {  // from one PE, so that it is in order
            call(0, at(array, to), walker_asked_entry, told[to]++);
            asked++;
        } else if (kind < 70) {
            call(0, at(array, to), walker_ask_entry, asks[to]++);
        } else {
            (void)wh_pe_turn(job.pe[from]);
        }
    }
    for (int to = 0; to < WALKERS; to++)
        while (asks[to] < told[to])
            call(0, at(array, to), walker_ask_entry, asks[to]++);
    kit_settle();
    CHECK_EQ_INT(seen.calls, calls);
    CHECK_EQ_INT(seen.broadcasts, broadcasts);
    CHECK_EQ_INT(seen.asked, asked);
    CHECK_EQ_INT(kit_errors.count, 0);
    CHECK_EQ_INT(seen.ended, seen.moved);
    call(0, array, walker_tell_entry, 0);
    kit_settle();
    for (int i = 0; i < WALKERS; i++) {
        CHECK_EQ_INT(seen.all[i] * WALKERS, broadcasts);
        CHECK(seen.order[i] == seen.order[0]);
    }
    nothing_is_left(pes, array.collection);
    CHECK_EQ_INT(wh_chare_destroy(job.pe[pes - 1], array), WH_OK);
    kit_settle();
    CHECK_EQ_INT(seen.ended, seen.moved + WALKERS);
    kit_finish();
}

TEST(walks_between_processes) {
    for (uint64_t seed = 1; seed <= 12; seed++)
        walk(seed, 2 + (int)(seed % 5), 1, 1500);
}

TEST(walks_in_both) {
    for (uint64_t seed = 200; seed <= 210; seed++)
        walk(seed, 8, 2, 2000);
}

TEST(what_cannot_move_says_so) {
    wh_proxy array = begin(2, 1), group, one;
    CHECK_EQ_INT(wh_group_create(job.pe[0], "walker", NULL, 0, &group), WH_OK);
    CHECK_EQ_INT(wh_chare_create(job.pe[0], "stayer", 1, NULL, 0, &one), WH_OK);
    call(0, one, stayer_go_entry, 0);
    UNTIL(seen.calls == 1);
    call(0, at(array, 20), walker_sleep_entry, 0);
    kit_settle();
    call(0, at(array, 20), walker_asked_entry, 77);
    kit_settle();
    ended(array);
    ended(group);
    kit_finish();
}

// A single chare moves too, and ends wherever it is.
TEST(single_chares_move_and_end) {
    wh_proxy array = begin(4, 1), one;
    ended(array);
    seen.ended = 0;
    CHECK_EQ_INT(wh_chare_create(job.pe[0], "walker", 1, NULL, 0, &one), WH_OK);
    for (int i = 0; i < 20; i++) {
        call(i % 4, one, walker_go_entry, i * 7 % 4);
        call(0, one, walker_step_entry, i);
        kit_turns(i % 3);
    }
    kit_settle();
    CHECK_EQ_INT(seen.calls, 20);
    call(3, one, walker_go_entry, 2);
    kit_settle();
    call(3, one, walker_die_entry, 0);
    kit_settle();
    CHECK_EQ_INT(seen.ended, seen.moved + 1);
    CHECK_EQ_INT(kit_errors.count, 0);
    call(0, one, walker_step_entry, 20);
    UNTIL(kit_errors.count == 1);
    kit_finish();
}

// The state of an element that is large is announced; what comes behind it waits.
typedef struct whale {
    char bytes[300 << 10];
    int64_t next;
} whale;

#define WHALE_ENTRIES(ENTRY) ENTRY(whale, step, 0) ENTRY(whale, go, 0)
WH_CLASS(whale, WHALE_ENTRIES, .state = sizeof(whale), .pack = kit_pack, .unpack = kit_unpack);

static void whale_step(wh_chare *self, const wh_call *call) {
    whale *w = self->state;
    CHECK_EQ_INT(call->ref, w->next);
    for (size_t i = 0; i < call->size; i++)
        CHECK(((const char *)call->args)[i] == (char)(i + (size_t)call->ref));
    for (size_t i = 0; i < sizeof(w->bytes); i += 999)
        CHECK(w->bytes[i] == (char)w->next);
    memset(w->bytes, (char)++w->next, sizeof(w->bytes));
    seen.calls++;
}

static void whale_go(wh_chare *self, const wh_call *call) {
    CHECK_EQ_INT(wh_chare_move(self, (int)call->ref), WH_OK);
}

TEST(large_elements_and_large_calls) {
    enum { COUNT = 60, BIG = 100 << 10 };
    static char data[BIG];
    for (uint64_t seed = 1; seed <= 6; seed++) {
        whi_rng rng;
        whi_rng_init(&rng, seed);
        ended(begin(4, 1 + (int)(seed % 2)));
        for (int i = 0; i < 4; i++)
            CHECK_EQ_INT(wh_class_register(job.pe[i], &whale_class), WH_OK);
        wh_proxy one;
        CHECK_EQ_INT(wh_chare_create(job.pe[0], "whale", 1, NULL, 0, &one), WH_OK);
        for (int64_t i = 0; i < COUNT; i++) {
            size_t size = whi_rng_below(&rng, 2) ? BIG : 100;
            for (size_t b = 0; b < size; b++)
                data[b] = (char)(b + (size_t)i);
            CHECK_EQ_INT(
                wh_chare_send(job.pe[0], one, whale_step_entry, data, size, WH_SEND_OPTS(.ref = i)),
                WH_OK);
            if (whi_rng_below(&rng, 3) == 0)
                call((int)whi_rng_below(&rng, 4), one, whale_go_entry,
                     (int64_t)whi_rng_below(&rng, 4));
            kit_turns((int)whi_rng_below(&rng, 3));
        }
        UNTIL(seen.calls == COUNT);
        kit_settle();
        kit_finish();
    }
}

TEST_MAIN()
