// SPDX-License-Identifier: BSD-3-Clause
//
// Reductions over collections: values of all kinds, many under way, elements that are inserted and that end.
#include <wherry/reduce.h>

#include "base/rng.h"
#include "rt/chare/element_kit.h"

enum { CELLS = 37, MOST = 4096 };

// ---- What callbacks have got.

static struct {
    int fired;
    size_t size;
    _Alignas(16) char value[1 << 20];
    int64_t refs[MOST];
    int made, moved;
} seen;

static void on_result(wh_pe *pe, const wh_call *call, void *arg) {
    (void)pe;
    (void)arg;
    CHECK(call->size <= sizeof(seen.value) && seen.fired < MOST);
    if (call->size)
        memcpy(seen.value, call->args, call->size);
    seen.size = call->size;
    seen.refs[seen.fired++] = call->ref;
}

static wh_callback to_function(int pe, int64_t ref) {
    return (wh_callback){
        .kind = WH_CALLBACK_FUNCTION, .function = wh_function_id("result"), .pe = pe, .ref = ref};
}

// ---- Cells.

enum { SUM, BARRIER, CONCAT, SET, TUPLE, CUSTOM, LOC, TO_ALL, WRONG, WRONG_TYPE, WRONG_SIZE };

typedef struct cell {
    int rounds;
} cell;

static void construct(wh_chare *self, const wh_call *call) {
    (void)self;
    (void)call;
    seen.made++;
}

#define CELL_ENTRIES(ENTRY)                                                                        \
    ENTRY(cell, give, 0) ENTRY(cell, told, 0) ENTRY(cell, end, 0) ENTRY(cell, go, 0)
static wh_status unpack(wh_chare *self, const void *data, size_t size) {
    seen.moved++;
    return kit_unpack(self, data, size);
}

WH_CLASS(cell, CELL_ENTRIES, .state = sizeof(cell), .construct = construct, .pack = kit_pack,
         .unpack = unpack);

static int number_of(const wh_chare *self) {
    int number = 0;
    for (int i = 0; i < self->proxy.dims; i++)
        number = number * 10 + self->proxy.index[i];
    return number;
}

static wh_status contribute(wh_chare *self, const wh_contribution *parts, size_t count,
                            wh_callback callback) {
    return wh_contribute(self, parts, count, sizeof(*parts), &callback);
}

// give contributes once, of a kind.
static void cell_give(wh_chare *self, const wh_call *call) {
    int me = number_of(self), kind;
    memcpy(&kind, call->args, sizeof(kind));
    double d[3] = {me, 1, -me};
    struct {
        double value;
        int at;
    } loc = {me % 7, me};
    int32_t twice[2] = {me, me};
    char text[16];
    int length = snprintf(text, sizeof(text), "<%d>", me);
    wh_contribution sum = {.reducer = WH_REDUCER_OP,
                           .op = WH_REDUCE_SUM,
                           .type = WH_TYPE_DOUBLE,
                           .data = d,
                           .count = 3};
    wh_contribution max = {.reducer = WH_REDUCER_OP,
                           .op = WH_REDUCE_MAX,
                           .type = WH_TYPE_INT32,
                           .data = twice,
                           .count = 1};
    wh_contribution concat = {.reducer = WH_REDUCER_CONCAT, .data = text, .count = (size_t)length};
    wh_contribution set = {.reducer = WH_REDUCER_SET, .data = text, .count = (size_t)length};
    wh_contribution custom = {.reducer = WH_REDUCER_CUSTOM,
                              .function = wh_reducer_id("gcd"),
                              .data = twice,
                              .count = sizeof(twice)};
    wh_contribution maxloc = {.reducer = WH_REDUCER_OP,
                              .op = WH_REDUCE_MAXLOC,
                              .type = WH_TYPE_DOUBLE_INT,
                              .data = &loc,
                              .count = 1};
    wh_callback to = to_function(0, call->ref);
    wh_status st = WH_OK;
    switch (kind) {
    case SUM: st = contribute(self, &sum, 1, to); break;
    case BARRIER: st = contribute(self, NULL, 0, to); break;
    case CONCAT: st = contribute(self, &concat, 1, to); break;
    case SET: st = contribute(self, &set, 1, to); break;
    case TUPLE: st = contribute(self, (wh_contribution[]){sum, {0}, max, set}, 4, to); break;
    case CUSTOM: st = contribute(self, &custom, 1, to); break;
    case LOC: st = contribute(self, &maxloc, 1, to); break;
    case TO_ALL:
        st = contribute(self, &max, 1,
                        (wh_callback){.kind = WH_CALLBACK_SEND,
                                      .proxy = {.collection = self->proxy.collection},
                                      .entry = cell_told_entry});
        break;
    case WRONG_TYPE:
        max.type = me == 3 ? WH_TYPE_FLOAT : WH_TYPE_INT32;
        (void)contribute(self, &max, 1, to);
        break;
    case WRONG_SIZE:
        sum.count = me == 3 ? 2 : 3;
        (void)contribute(self, &sum, 1, to);
        break;
    case WRONG: (void)contribute(self, me == 3 ? &max : &sum, 1, to); break;
    default: CHECK(false);
    }
    CHECK_EQ_INT(st, WH_OK);
}

static void cell_told(wh_chare *self, const wh_call *call) {
    (void)self;
    int32_t max;
    CHECK_EQ_INT(call->size, sizeof(max));
    memcpy(&max, call->args, sizeof(max));
    CHECK_EQ_INT(max, CELLS - 1);
    seen.fired++;
}

static void cell_go(wh_chare *self, const wh_call *call) {
    CHECK_EQ_INT(wh_chare_move(self, (int)call->ref), WH_OK);
}

static void cell_end(wh_chare *self, const wh_call *call) {
    (void)call;
    CHECK_EQ_INT(wh_chare_destroy(self->pe, self->proxy), WH_OK);
}

static void gcd(void *inout, const void *in, size_t size, void *arg) {
    CHECK_EQ_INT(size, 8);
    CHECK_EQ_STR(arg, "arg");
    int32_t *a = inout;
    const int32_t *b = in;
    a[0] += b[0];
    a[1] = a[1] > b[1] ? a[1] : b[1];
}

// ---- The job.

static wh_proxy cells;

static void begin(int pes, int ppn) {
    kit_begin(pes, ppn);
    memset(&seen, 0, sizeof(seen));
    for (int i = 0; i < pes; i++) {
        CHECK_EQ_INT(wh_class_register(job.pe[i], &cell_class), WH_OK);
        CHECK_EQ_INT(wh_function_register(job.pe[i], "result", on_result, NULL), WH_OK);
        CHECK_EQ_INT(wh_reducer_register(job.pe[i], "gcd", gcd, (void *)"arg"), WH_OK);
    }
    kit_count_errors();
}

static void make(int maker, int32_t count, uint32_t flags) {
    CHECK_EQ_INT(wh_array_create(job.pe[maker], "cell",
                                 WH_ARRAY_OPTS(.dims = 1, .shape = {count}, .flags = flags), NULL,
                                 0, &cells),
                 WH_OK);
}

static wh_proxy at(int32_t index) {
    return wh_proxy_at(cells, 1, &index);
}

static void give(int pe, wh_proxy to, int kind, int64_t ref) {
    CHECK_EQ_INT(wh_chare_send(job.pe[pe], to, cell_give_entry, &kind, sizeof(kind),
                               WH_SEND_OPTS(.ref = ref)),
                 WH_OK);
}

static void finish(void) {
    CHECK_EQ_INT(kit_errors.count, 0);
    kit_finish();
}

static void check_sum(const void *value) {
    double d[3];
    memcpy(d, value, sizeof(d));
    CHECK(d[0] == CELLS * (CELLS - 1) / 2.0 && d[1] == CELLS && d[2] == -d[0]);
}

static void check_set(const void *value, size_t size) {
    wh_reduction_item item;
    size_t cursor = 0;
    char text[16];
    for (int i = 0; i < CELLS; i++) {
        CHECK(wh_reduction_next(value, size, &cursor, &item));
        CHECK_EQ_INT(item.element.index[0], i);
        CHECK_EQ_INT(item.element.collection, cells.collection);
        CHECK_EQ_INT(item.size, snprintf(text, sizeof(text), "<%d>", i));
        CHECK_MEM(item.data, text, item.size);
    }
    CHECK(!wh_reduction_next(value, size, &cursor, &item));
}

static void check_concat(void) {
    bool found[CELLS] = {false};
    seen.value[seen.size] = '\0';
    for (char *next = seen.value; *next; next = strchr(next, '>') + 1) {
        int i = atoi(next + 1);
        CHECK(i >= 0 && i < CELLS && !found[i]);
        found[i] = true;
    }
    for (int i = 0; i < CELLS; i++)
        CHECK(found[i]);
}

static void check_tuple(void) {
    wh_reduction_item items[4];
    size_t cursor = 0;
    int32_t max;
    for (int i = 0; i < 4; i++) {
        CHECK(wh_reduction_next(seen.value, seen.size, &cursor, &items[i]));
        CHECK((uintptr_t)items[i].data % 16 == 0);
    }
    check_sum(items[0].data);
    CHECK_EQ_INT(items[1].size, 0);
    memcpy(&max, items[2].data, sizeof(max));
    CHECK_EQ_INT(max, CELLS - 1);
    check_set(items[3].data, items[3].size);
}

static void all_kinds(int pes, int ppn, int maker) {
    int32_t pair[2];
    double best;
    begin(pes, ppn);
    make(maker, CELLS, 0);
    for (int kind = 0; kind < WRONG; kind++) {
        seen.fired = 0;
        give(pes - 1, cells, kind, kind);
        UNTIL(seen.fired == (kind == TO_ALL ? CELLS : 1));
        switch (kind) {
        case SUM: check_sum(seen.value); break;
        case BARRIER: CHECK_EQ_INT(seen.size, 0); break;
        case CONCAT: check_concat(); break;
        case SET: check_set(seen.value, seen.size); break;
        case TUPLE: check_tuple(); break;
        case CUSTOM:
            memcpy(pair, seen.value, sizeof(pair));
            CHECK_EQ_INT(pair[0], CELLS * (CELLS - 1) / 2);
            CHECK_EQ_INT(pair[1], CELLS - 1);
            break;
        case LOC:
            CHECK_EQ_INT(seen.size, sizeof(double) + sizeof(int));
            memcpy(&best, seen.value, sizeof(best));
            memcpy(pair, seen.value + sizeof(best), sizeof(int));
            CHECK(best == 6);
            CHECK_EQ_INT(pair[0], 6);
            break;
        default: break;
        }
    }
    finish();
}

TEST(values_of_all_kinds) {
    all_kinds(1, 1, 0);
    all_kinds(2, 1, 1);
    all_kinds(7, 1, 3);
    all_kinds(8, 4, 5);
}

// Elements contribute at their own pace: the k-th contributions belong together, and results come in order.
TEST(many_under_way) {
    enum { ROUNDS = 50 };
    begin(5, 1);
    make(2, CELLS, 0);
    for (int i = 0; i < CELLS; i++)
        for (int round = 0; round < ROUNDS; round++)
            give(i % 5, at(i), round % 2 ? BARRIER : SUM, round);
    UNTIL(seen.fired == ROUNDS);
    kit_turns(50);
    CHECK_EQ_INT(seen.fired, ROUNDS);
    for (int round = 0; round < ROUNDS; round++)
        CHECK_EQ_INT(seen.refs[round], round);
    finish();
}

static void when_quiet(wh_pe *pe, void *arg) {
    (void)pe;
    CHECK_EQ_INT(seen.fired, 1);
    *(bool *)arg = true;
}

// What a PE still has of a reduction is not quiet: most PEs here have no elements, and send nothing.
TEST(quiescence_waits_for_reductions) {
    for (int count = 1; count < 6; count++) {
        bool quiet = false;
        begin(9, 1);
        make(4, count, 0);
        give(0, cells, BARRIER, 0);
        CHECK_EQ_INT(wh_pe_on_quiescence(job.pe[0], when_quiet, &quiet), WH_OK);
        UNTIL(quiet);
        finish();
    }
}

static void group(int pes, int ppn, bool node) {
    begin(pes, ppn);
    CHECK_EQ_INT(node ? wh_node_group_create(job.pe[1], "cell", NULL, 0, &cells)
                      : wh_group_create(job.pe[1], "cell", NULL, 0, &cells),
                 WH_OK);
    give(0, cells, SUM, 0);
    UNTIL(seen.fired == 1);
    int count = node ? pes / ppn : pes;
    double d[3];
    memcpy(d, seen.value, sizeof(d));
    CHECK(d[0] == count * (count - 1) / 2.0 && d[1] == count);
    finish();
}

TEST(groups) {
    group(6, 2, false);
    group(6, 2, true);
}

// Those of an element that ends are counted, and it is not waited for any more.
TEST(elements_that_end) {
    begin(4, 1);
    make(0, CELLS, 0);
    UNTIL(seen.made == CELLS);
    for (int i = 0; i < CELLS; i++)
        give(0, at(i), BARRIER, 0);
    for (int i = 0; i < 10; i++)
        CHECK_EQ_INT(wh_chare_send(job.pe[0], at(i * 3), cell_end_entry, NULL, 0, NULL), WH_OK);
    for (int i = 0; i < CELLS; i++)
        if (i % 3 || i / 3 >= 10)
            give(0, at(i), SUM, 1);
    UNTIL(seen.fired == 2);
    CHECK_EQ_INT(seen.refs[1], 1);
    double d[3];
    memcpy(d, seen.value, sizeof(d));
    CHECK(d[1] == CELLS - 10);
    // One that all others have contributed to ends with the element that is missing.
    for (int i = 0; i < CELLS; i++)
        if ((i % 3 || i / 3 >= 10) && i != 1)
            give(0, at(i), SUM, 2);
    kit_turns(100);
    CHECK_EQ_INT(seen.fired, 2);
    CHECK_EQ_INT(wh_chare_destroy(job.pe[0], at(1)), WH_OK);
    UNTIL(seen.fired == 3);
    memcpy(d, seen.value, sizeof(d));
    CHECK(d[1] == CELLS - 11);
    finish();
}

// An element counts once for each reduction, wherever it contributes.
static void moving(uint64_t seed) {
    enum { ROUNDS = 30, PES = 6 };
    whi_rng rng;
    int given[CELLS] = {0}, left = CELLS * ROUNDS;
    begin(PES, 1 + seed % 2);
    whi_rng_init(&rng, seed);
    make(1, CELLS, 0);
    while (left) {
        int i = (int)whi_rng_below(&rng, CELLS);
        if (whi_rng_chance(&rng, 20))
            CHECK_EQ_INT(wh_chare_send(job.pe[0], at(i), cell_go_entry, NULL, 0,
                                       WH_SEND_OPTS(.ref = (int)whi_rng_below(&rng, PES))),
                         WH_OK);
        else if (given[i] < ROUNDS && left--)
            give(0, at(i), SUM, given[i]++);
        if (whi_rng_chance(&rng, 30))
            kit_turn();
    }
    UNTIL(seen.fired == ROUNDS);
    for (int round = 0; round < ROUNDS; round++)
        CHECK_EQ_INT(seen.refs[round], round);
    check_sum(seen.value);
    CHECK(seen.moved > CELLS);
    // What ends elsewhere is missing, too.
    CHECK_EQ_INT(wh_chare_destroy(job.pe[0], at(5)), WH_OK);
    for (int i = 0; i < CELLS; i++)
        if (i != 5)
            give(0, at(i), BARRIER, ROUNDS);
    UNTIL(seen.fired == ROUNDS + 1);
    finish();
}

TEST(elements_that_move) {
    for (uint64_t seed = 1; seed <= 10; seed++)
        moving(seed);
}

// Nothing ends while elements are inserted: those that come take part from the first on.
TEST(elements_that_are_inserted) {
    begin(4, 1);
    make(1, 5, WH_ARRAY_INSERTING);
    for (int i = 0; i < 5; i++)
        give(0, at(i), SUM, 0);
    kit_turns(100);
    for (int i = 5; i < CELLS; i++) {
        CHECK_EQ_INT(wh_array_insert(job.pe[1], at(i), NULL, 0), WH_OK);
        give(0, at(i), SUM, 0);
    }
    kit_turns(100);
    UNTIL(seen.made == CELLS);
    CHECK_EQ_INT(seen.fired, 0);
    CHECK_EQ_INT(wh_array_done(job.pe[0], cells), WH_OK);
    UNTIL(seen.fired == 1);
    check_sum(seen.value);
    give(3, cells, SUM, 1);
    UNTIL(seen.fired == 2);
    CHECK_EQ_INT(wh_array_done(job.pe[0], cells), WH_OK);
    give(3, cells, SUM, 2);
    UNTIL(seen.fired == 3);
    check_sum(seen.value);
    finish();
}

// Contributions that do not go together are said.
static void differ(int kind, const char *why) {
    begin(2, 1);
    make(0, 5, 0);
    give(0, cells, kind, 0);
    UNTIL(kit_errors.count);
    CHECK(strstr(kit_errors.last, why));
    CHECK_EQ_INT(seen.fired, 0);
    kit_errors.count = 0;
    finish();
}

TEST(contributions_that_differ) {
    differ(WRONG, "different reductions");
    differ(WRONG_TYPE, "different reductions");
    differ(WRONG_SIZE, "different sizes");
}

static void refuse(wh_chare *self, const wh_call *call) {
    int one = 1;
    wh_callback to = to_function(0, 0);
    wh_contribution bad[] = {
        {.reducer = WH_REDUCER_OP,
         .op = WH_REDUCE_BAND,
         .type = WH_TYPE_DOUBLE,
         .data = &one,
         .count = 0},
        {.reducer = WH_REDUCER_OP,
         .op = WH_REDUCE_REPLACE,
         .type = WH_TYPE_INT32,
         .data = &one,
         .count = 1},
        {.reducer = WH_REDUCER_NOTHING, .data = &one, .count = 1},
        {.reducer = WH_REDUCER_CONCAT, .count = 1},
        {.reducer = WH_REDUCER_CUSTOM, .data = &one, .count = 1},
        {.reducer = (wh_reducer)9},
        {.reducer = WH_REDUCER_CONCAT, .op = WH_REDUCE_MIN},
    };
    (void)call;
    if (self->proxy.dims == 3) {
        CHECK_EQ_INT(wh_contribute(self, NULL, 0, 0, &to), WH_ENOTSUP);
        seen.made++;
        return;
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_EQ_INT(wh_contribute(self, &bad[i], 1, sizeof(bad[0]), &to),
                     i < 2 ? WH_ENOTSUP : WH_EINVAL);
    CHECK_EQ_INT(wh_contribute(self, NULL, 0, 0, NULL), WH_EINVAL);
    CHECK_EQ_INT(wh_contribute(self, NULL, 0, 0, &(wh_callback){.kind = WH_CALLBACK_NONE}),
                 WH_EINVAL);
    seen.made++;
}

TEST(contributions_that_are_none) {
    static const wh_class picky = {.size = sizeof(picky), .name = "picky", .construct = refuse};
    wh_proxy proxy;
    begin(1, 1);
    CHECK_EQ_INT(wh_class_register(job.pe[0], &picky), WH_OK);
    CHECK_EQ_INT(wh_group_create(job.pe[0], "picky", NULL, 0, &proxy), WH_OK);
    CHECK_EQ_INT(wh_chare_create(job.pe[0], "picky", 0, NULL, 0, &proxy), WH_OK);
    UNTIL(seen.made == 2);
    finish();
}

TEST_MAIN()
