// SPDX-License-Identifier: BSD-3-Clause
//
// Sections: calls of some elements, in order, and reductions over them.
#include <wherry/log.h>
#include <wherry/section.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "rt/chare/element_kit.h"
#include "rt/section/members.h"

enum { SIDE = 9, MOST = 4096 };

static struct {
    int calls[SIDE][SIDE];
    int64_t last[SIDE][SIDE];
    int made, total, fired, sums;
    int64_t ref;
    size_t size;
    _Alignas(16) char value[4096];
} seen;

#define CELL_ENTRIES(ENTRY)                                                                        \
    ENTRY(cell, told, 0)                                                                           \
    ENTRY(cell, give, 0)                                                                           \
    ENTRY(cell, early, 0) ENTRY(cell, end, 0) ENTRY(cell, go, 0)
static void construct(wh_chare *self, const wh_call *call) {
    (void)self;
    (void)call;
    seen.made++;
}
WH_CLASS(cell, CELL_ENTRIES, .construct = construct, .pack = kit_pack, .unpack = kit_unpack);

// told counts, and checks the order of what one PE has sent.
static void cell_told(wh_chare *self, const wh_call *call) {
    int x = self->proxy.index[0], y = self->proxy.index[1];
    CHECK_EQ_INT(call->size, 5);
    CHECK_MEM(call->args, "hello", 5);
    CHECK(call->ref == seen.last[x][y] + 1);
    seen.last[x][y] = call->ref;
    seen.calls[x][y]++;
    seen.total++;
}

static wh_status contribute(wh_chare *self, const void *section, size_t size, int64_t ref) {
    wh_section in;
    int32_t one[2] = {1, self->proxy.index[0] * SIDE + self->proxy.index[1]};
    wh_callback to = {
        .kind = WH_CALLBACK_FUNCTION, .function = wh_function_id("result"), .pe = 0, .ref = ref};
    wh_contribution sum = {.reducer = WH_REDUCER_OP,
                           .op = WH_REDUCE_SUM,
                           .type = WH_TYPE_INT32,
                           .data = one,
                           .count = 2};
    CHECK_EQ_INT(wh_section_decode(section, size, &in), WH_OK);
    return wh_section_contribute(self, in, &sum, 1, sizeof(sum), &to);
}

static void cell_give(wh_chare *self, const wh_call *call) {
    CHECK_EQ_INT(contribute(self, call->args, call->size, call->ref), WH_OK);
}

static void cell_early(wh_chare *self, const wh_call *call) {
    CHECK_EQ_INT(contribute(self, call->args, call->size, call->ref), WH_OK);
}

static void cell_go(wh_chare *self, const wh_call *call) {
    CHECK_EQ_INT(wh_chare_move(self, (int)call->ref), WH_OK);
}

static void cell_end(wh_chare *self, const wh_call *call) {
    (void)call;
    CHECK_EQ_INT(wh_chare_destroy(self->pe, self->proxy), WH_OK);
}

static void on_result(wh_pe *pe, const wh_call *call, void *arg) {
    (void)pe;
    (void)arg;
    CHECK(call->size <= sizeof(seen.value));
    memcpy(seen.value, call->args, call->size);
    seen.size = call->size;
    seen.ref = call->ref;
    seen.fired++;
    seen.sums++;
}

static wh_proxy cells;

static void begin(int pes, int ppn, int maker) {
    kit_begin(pes, ppn);
    memset(&seen, 0, sizeof(seen));
    for (int i = 0; i < pes; i++) {
        CHECK_EQ_INT(wh_class_register(job.pe[i], &cell_class), WH_OK);
        CHECK_EQ_INT(wh_function_register(job.pe[i], "result", on_result, NULL), WH_OK);
    }
    kit_count_errors();
    CHECK_EQ_INT(wh_array_create(job.pe[maker], "cell",
                                 WH_ARRAY_OPTS(.dims = 2, .shape = {SIDE, SIDE}), NULL, 0, &cells),
                 WH_OK);
}

static void finish(void) {
    CHECK_EQ_INT(kit_errors.count, 0);
    kit_finish();
}

// make_section takes elements by a rule, the last of them twice.
static bool chosen(int rule, int x, int y) {
    return rule == 0 ? x == y : rule == 1 ? (x * 7 + y) % 3 == 0 : rule == 2 || (x == 4 && y == 7);
}

static int make_section(int pe, int rule, wh_section *section) {
    int32_t indices[2 * SIDE * SIDE + 2];
    size_t count = 0;
    for (int32_t x = SIDE; x--;)
        for (int32_t y = 0; y < SIDE; y++)
            if (chosen(rule, x, y)) {
                indices[2 * count] = x;
                indices[2 * count++ + 1] = y;
            }
    memcpy(&indices[2 * count], &indices[0], 2 * sizeof(int32_t));
    CHECK_EQ_INT(wh_section_create(job.pe[pe], cells, 2, indices, count + 1, section), WH_OK);
    return (int)count;
}

static void check_calls(int rule, int each) {
    for (int x = 0; x < SIDE; x++)
        for (int y = 0; y < SIDE; y++)
            CHECK_EQ_INT(seen.calls[x][y], chosen(rule, x, y) ? each : 0);
}

static void calls(int pes, int ppn, int rule) {
    enum { EACH = 20 };
    wh_section section;
    begin(pes, ppn, pes - 1);
    int count = make_section(0, rule, &section);
    for (int i = 1; i <= EACH; i++)
        CHECK_EQ_INT(wh_section_send(job.pe[pes / 2], section, cell_told_entry, "hello", 5, i),
                     WH_OK);
    UNTIL(seen.total == count * EACH);
    kit_turns(20);
    check_calls(rule, EACH);
    finish();
}

TEST(calls_of_sections) {
    for (int rule = 0; rule < 4; rule++) {
        calls(1, 1, rule);
        calls(2, 1, rule);
        calls(16, 4, rule);
        calls(23, 1, rule);
    }
}

static void check_sum(int rule, int x_ended, int y_ended) {
    int32_t got[2], expected[2] = {0, 0};
    for (int x = 0; x < SIDE; x++)
        for (int y = 0; y < SIDE; y++)
            if (chosen(rule, x, y) && !(x == x_ended && y == y_ended)) {
                expected[0]++;
                expected[1] += x * SIDE + y;
            }
    CHECK_EQ_INT(seen.size, sizeof(got));
    memcpy(got, seen.value, sizeof(got));
    CHECK_EQ_INT(got[0], expected[0]);
    CHECK_EQ_INT(got[1], expected[1]);
}

static void reduce(int pes, int rule) {
    wh_section section, other;
    uint8_t bytes[WH_SECTION_SIZE];
    begin(pes, 1, 0);
    (void)make_section(pes - 1, 2, &other);
    (void)make_section(pes / 2, rule, &section);
    wh_section_encode(&section, bytes);
    for (int round = 0; round < 5; round++) {
        CHECK_EQ_INT(
            wh_section_send(job.pe[0], section, cell_give_entry, bytes, sizeof(bytes), round),
            WH_OK);
    }
    UNTIL(seen.fired == 5);
    CHECK_EQ_INT(seen.ref, 4);
    check_sum(rule, -1, -1);
    // Each section counts for itself.
    wh_section_encode(&other, bytes);
    CHECK_EQ_INT(wh_section_send(job.pe[0], other, cell_give_entry, bytes, sizeof(bytes), 9),
                 WH_OK);
    UNTIL(seen.fired == 6);
    check_sum(2, -1, -1);
    finish();
}

TEST(reductions_over_sections) {
    for (int rule = 0; rule < 4; rule++) {
        reduce(1, rule);
        reduce(7, rule);
        reduce(16, rule);
    }
}

// An element that has heard of a section from elsewhere contributes before its PE knows the section.
TEST(contributions_before_the_section) {
    wh_section section = {.pe = 1, .number = 1};
    uint8_t bytes[WH_SECTION_SIZE];
    begin(3, 1, 0);
    UNTIL(seen.made == SIDE * SIDE);
    section.collection = cells.collection;
    wh_section_encode(&section, bytes);
    for (int32_t i = 0; i < SIDE; i++)
        CHECK_EQ_INT(wh_chare_send(job.pe[0], wh_proxy_at(cells, 2, (int32_t[]){i, i}),
                                   cell_early_entry, bytes, sizeof(bytes), NULL),
                     WH_OK);
    kit_turns(50);
    CHECK_EQ_INT(seen.fired, 0);
    wh_section made;
    (void)make_section(1, 0, &made);
    CHECK(memcmp(&made, &section, sizeof(made)) == 0);
    UNTIL(seen.fired == 1);
    check_sum(0, -1, -1);
    finish();
}

// One that contributes to a section and ends, both before its PE knows the section.
TEST(ends_before_the_section) {
    wh_section section = {.pe = 1, .number = 1}, made;
    uint8_t bytes[WH_SECTION_SIZE];
    begin(3, 1, 0);
    UNTIL(seen.made == SIDE * SIDE);
    section.collection = cells.collection;
    wh_section_encode(&section, bytes);
    CHECK_EQ_INT(wh_chare_send(job.pe[0], wh_proxy_at(cells, 2, (int32_t[]){3, 3}),
                               cell_early_entry, bytes, sizeof(bytes), NULL),
                 WH_OK);
    CHECK_EQ_INT(wh_chare_send(job.pe[0], wh_proxy_at(cells, 2, (int32_t[]){3, 3}), cell_end_entry,
                               NULL, 0, NULL),
                 WH_OK);
    kit_settle();
    (void)make_section(1, 0, &made);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ_INT(wh_section_send(job.pe[0], made, cell_give_entry, bytes, sizeof(bytes), i),
                     WH_OK);
        UNTIL(seen.sums == i + 1);
        check_sum(0, i ? 3 : -1, i ? 3 : -1);
    }
    finish();
}

TEST(members_that_end) {
    wh_section section;
    uint8_t bytes[WH_SECTION_SIZE];
    begin(4, 1, 0);
    (void)make_section(2, 0, &section);
    wh_section_encode(&section, bytes);
    CHECK_EQ_INT(wh_section_send(job.pe[2], section, cell_give_entry, bytes, sizeof(bytes), 0),
                 WH_OK);
    UNTIL(seen.fired == 1);
    check_sum(0, -1, -1);
    CHECK_EQ_INT(wh_chare_send(job.pe[0], wh_proxy_at(cells, 2, (int32_t[]){3, 3}), cell_end_entry,
                               NULL, 0, NULL),
                 WH_OK);
    kit_turns(50);
    CHECK_EQ_INT(wh_section_send(job.pe[2], section, cell_give_entry, bytes, sizeof(bytes), 0),
                 WH_OK);
    UNTIL(seen.fired == 2);
    check_sum(0, 3, 3);
    kit_turns(50);
    CHECK_EQ_INT(kit_errors.count, 0);  // the one that has ended was not called
    CHECK_EQ_INT(wh_section_destroy(job.pe[2], section), WH_OK);
    CHECK_EQ_INT(wh_section_send(job.pe[2], section, cell_give_entry, bytes, sizeof(bytes), 0),
                 WH_OK);
    UNTIL(kit_errors.count == 1);
    CHECK(strstr(kit_errors.last, "destroyed"));
    kit_errors.count = 0;
    finish();
}

static void go(int32_t i, int to) {
    CHECK_EQ_INT(wh_chare_send(job.pe[0], wh_proxy_at(cells, 2, (int32_t[]){i, i}), cell_go_entry,
                               NULL, 0, WH_SEND_OPTS(.ref = to)),
                 WH_OK);
}

static void give_all(wh_section section) {
    uint8_t bytes[WH_SECTION_SIZE];
    wh_section_encode(&section, bytes);
    CHECK_EQ_INT(wh_section_send(job.pe[0], section, cell_give_entry, bytes, sizeof(bytes), 0),
                 WH_OK);
}

static void end_cell(int32_t i) {
    CHECK_EQ_INT(wh_chare_send(job.pe[0], wh_proxy_at(cells, 2, (int32_t[]){i, i}), cell_end_entry,
                               NULL, 0, NULL),
                 WH_OK);
}

// Members are called and contribute wherever they are, and before and after they have moved.
TEST(members_that_move) {
    enum { PES = 5, ROUNDS = 12 };
    wh_section section;
    begin(PES, 1, 0);
    UNTIL(seen.made == SIDE * SIDE);
    go(1, 3);  // before there is a section
    kit_settle();
    (void)make_section(2, 0, &section);
    for (int round = 1; round <= ROUNDS; round++) {
        CHECK_EQ_INT(wh_section_send(job.pe[0], section, cell_told_entry, "hello", 5, round),
                     WH_OK);
        for (int32_t i = 0; i < SIDE; i += 1 + round % 3)
            go(i, (i + round) % PES);
        give_all(section);
        kit_turns(round % 4);
    }
    UNTIL(seen.sums == ROUNDS && seen.total == SIDE * ROUNDS);
    check_sum(0, -1, -1);
    check_calls(0, ROUNDS);
    finish();
}

// A member that ends elsewhere counts for what it has contributed, and for nothing behind that.
TEST(members_that_end_elsewhere) {
    wh_section section, later;
    begin(4, 1, 0);
    (void)make_section(2, 0, &section);
    give_all(section);
    go(3, 3);
    give_all(section);
    UNTIL(seen.sums == 2);
    check_sum(0, -1, -1);
    give_all(section);
    end_cell(3);
    UNTIL(seen.sums == 3);
    kit_settle();
    give_all(section);
    UNTIL(seen.sums == 4);
    check_sum(0, 3, 3);
    (void)make_section(1, 0, &later);
    give_all(later);
    UNTIL(seen.sums == 5);
    check_sum(0, 3, 3);
    CHECK_EQ_INT(kit_errors.count, 0);
    finish();
}

// What a member has contributed just before it ended comes behind its end.
TEST(contributions_behind_an_end) {
    wh_section section;
    uint8_t bytes[WH_SECTION_SIZE];
    begin(4, 1, 0);
    (void)make_section(2, 0, &section);
    wh_section_encode(&section, bytes);
    go(3, 3);
    kit_settle();
    for (int32_t i = 0; i < SIDE; i++)
        CHECK_EQ_INT(wh_chare_send(job.pe[3], wh_proxy_at(cells, 2, (int32_t[]){i, i}),
                                   cell_early_entry, bytes, sizeof(bytes), NULL),
                     WH_OK);
    CHECK_EQ_INT(wh_chare_send(job.pe[3], wh_proxy_at(cells, 2, (int32_t[]){3, 3}), cell_end_entry,
                               NULL, 0, NULL),
                 WH_OK);
    UNTIL(seen.sums == 1);
    check_sum(0, -1, -1);
    finish();
}

static uint32_t counts_kept(void) {
    uint32_t count = 0;
    for (int i = 0; i < job.pes; i++) {
        whi_chares *c = job.pe[i]->floors[WHI_FLOOR_CHARE].state;
        const whi_collection *in = whi_collection_get(c, cells.collection);
        for (whi_list *node = in->elements.next; node != &in->elements; node = node->next)
            count += whi_shares_of(whi_container_of(node, whi_element, link));
    }
    return count;
}

// Elements remember nothing of a section that was destroyed, wherever they are.
TEST(sections_are_forgotten) {
    wh_section section;
    begin(3, 1, 0);
    (void)make_section(1, 0, &section);
    go(2, 2);
    give_all(section);
    UNTIL(seen.sums == 1);
    CHECK_EQ_INT(counts_kept(), SIDE);
    CHECK_EQ_INT(wh_section_destroy(job.pe[0], section), WH_OK);
    kit_settle();
    CHECK_EQ_INT(counts_kept(), 0);
    finish();
}

static size_t sections_kept(void) {
    size_t count = 0;
    for (int i = 0; i < job.pes; i++) {
        const whi_chares *c = job.pe[i]->floors[WHI_FLOOR_CHARE].state;
        count += whi_hash_count(&c->sections);
    }
    return count;
}

static int late_words;

static void count_late(const char *level, const char *id, const char *text, void *arg) {
    (void)arg;
    (void)text;
    late_words += !strcmp(level, "warn") && !strcmp(id, "W-CHARE-15");
}

// What comes to a section behind its end is refused, once in the log, and kept nowhere, also when the element ends at once.
TEST(contributions_behind_the_destruction) {
    enum { PES = 3 };
    wh_section section, stays;
    begin(PES, 1, 0);
    (void)make_section(1, 1, &stays);
    (void)make_section(1, 0, &section);
    go(2, 2);
    give_all(section);
    UNTIL(seen.sums == 1);
    CHECK_EQ_INT(wh_section_destroy(job.pe[0], section), WH_OK);
    kit_settle();
    size_t kept = sections_kept();
    uint8_t bytes[WH_SECTION_SIZE];
    wh_section_encode(&section, bytes);
    late_words = 0;
    wh_log_set_sink(count_late, NULL);
    for (int32_t i = 0; i < SIDE; i++) {
        wh_proxy member = wh_proxy_at(cells, 2, (int32_t[]){i, i});
        for (int round = 0; round < 3; round++)
            CHECK_EQ_INT(
                wh_chare_send(job.pe[0], member, cell_early_entry, bytes, sizeof(bytes), NULL),
                WH_OK);
        if (i % 2)
            CHECK_EQ_INT(wh_chare_send(job.pe[0], member, cell_end_entry, NULL, 0, NULL), WH_OK);
    }
    kit_settle();
    wh_log_set_sink(NULL, NULL);
    CHECK(late_words >= 1 && late_words <= PES);
    CHECK_EQ_INT(sections_kept(), kept);
    CHECK_EQ_INT(counts_kept(), 0);
    CHECK_EQ_INT(seen.sums, 1);
    finish();
}

TEST(strangers_to_a_section) {
    wh_section section;
    uint8_t bytes[WH_SECTION_SIZE];
    begin(2, 1, 0);
    (void)make_section(0, 0, &section);
    wh_section_encode(&section, bytes);
    kit_turns(20);
    CHECK_EQ_INT(wh_chare_send(job.pe[0], wh_proxy_at(cells, 2, (int32_t[]){0, 1}),
                               cell_early_entry, bytes, sizeof(bytes), NULL),
                 WH_OK);
    UNTIL(kit_errors.count == 1);
    CHECK(strstr(kit_errors.last, "does not belong"));
    kit_errors.count = 0;
    finish();
}

TEST(arguments_that_are_none) {
    int32_t index[2] = {0, 0};
    wh_section section;
    uint8_t bytes[WH_SECTION_SIZE + 1] = {0};
    begin(2, 1, 0);
    UNTIL(seen.made == SIDE * SIDE);
    CHECK_EQ_INT(wh_section_create(job.pe[0], cells, 1, index, 1, &section), WH_EINVAL);
    CHECK_EQ_INT(wh_section_create(job.pe[0], cells, 2, index, 0, &section), WH_EINVAL);
    CHECK_EQ_INT(wh_section_create(job.pe[0], (wh_proxy){.collection = 0}, 2, index, 1, &section),
                 WH_EINVAL);
    CHECK_EQ_INT(wh_section_create(job.pe[0], cells, 2, index, 1, &section), WH_OK);
    wh_section_encode(&section, bytes);
    CHECK_EQ_INT(wh_section_decode(bytes, WH_SECTION_SIZE, &section), WH_OK);
    CHECK_EQ_INT(wh_section_decode(bytes, WH_SECTION_SIZE + 1, &section), WH_EPROTOCOL);
    bytes[12] = 1;
    CHECK_EQ_INT(wh_section_decode(bytes, WH_SECTION_SIZE, &section), WH_EPROTOCOL);
    section.pe = 2;
    CHECK_EQ_INT(wh_section_send(job.pe[0], section, 0, NULL, 0, 0), WH_EINVAL);
    finish();
}

// What is inserted under the index of a member that has ended is none.
TEST(members_that_are_made_anew) {
    wh_section section;
    begin(3, 1, 0);
    (void)make_section(2, 0, &section);
    end_cell(3);
    kit_settle();
    CHECK_EQ_INT(wh_array_insert(job.pe[1], wh_proxy_at(cells, 2, (int32_t[]){3, 3}), NULL, 0),
                 WH_OK);
    kit_settle();
    CHECK_EQ_INT(wh_section_send(job.pe[0], section, cell_told_entry, "hello", 5, 1), WH_OK);
    UNTIL(seen.total == SIDE - 1);
    kit_settle();
    CHECK_EQ_INT(seen.calls[3][3], 0);
    finish();
}

// An element that has ended when a section is made of it is no member.
TEST(members_that_have_ended_before) {
    wh_section section;
    uint8_t bytes[WH_SECTION_SIZE];
    begin(4, 1, 0);
    CHECK_EQ_INT(wh_chare_send(job.pe[0], wh_proxy_at(cells, 2, (int32_t[]){3, 3}), cell_end_entry,
                               NULL, 0, NULL),
                 WH_OK);
    kit_settle();
    (void)make_section(2, 0, &section);
    wh_section_encode(&section, bytes);
    CHECK_EQ_INT(wh_section_send(job.pe[2], section, cell_give_entry, bytes, sizeof(bytes), 0),
                 WH_OK);
    UNTIL(seen.fired == 1);
    check_sum(0, 3, 3);
    finish();
}

// ---- Lists of members, as they are sent.

static wh_status read_list(int parent, const whi_member *members, size_t count, size_t less) {
    uint8_t bytes[256];
    whi_member *read = NULL;
    int above;
    size_t found, size = whi_members_encoded_size(1, count);
    CHECK(size <= sizeof(bytes));
    whi_members_encode(members, count, 1, parent, bytes);
    wh_status st = whi_members_decode(bytes, size - less, 1, 3, 5, &above, &read, &found);
    if (st == WH_OK) {
        CHECK_EQ_INT(above, parent);
        CHECK_EQ_INT(found, count);
        CHECK_MEM(read, members, count * sizeof(*members));
        whi_free(read);
    }
    return st;
}

TEST(lists_of_members_that_cannot_be) {
    enum { SELF = 3, NONE = 5 };
    const whi_member good[] = {{.index = {-4}, .pe = SELF},
                               {.index = {4}, .pe = SELF},
                               {.index = {2}, .pe = 4},
                               {.index = {1}, .pe = 0}};
    const whi_member bad[][2] = {{{.index = {4}, .pe = SELF}, {.index = {1}, .pe = SELF}},
                                 {{.index = {1}, .pe = SELF}, {.index = {1}, .pe = SELF}},
                                 {{.index = {1}, .pe = 0}, {.index = {1}, .pe = 4}},
                                 {{.index = {1}, .pe = 4}, {.index = {1}, .pe = 0}},
                                 {{.index = {1}, .pe = SELF}, {.index = {1}, .pe = NONE}}};
    CHECK_EQ_INT(read_list(2, good, 4, 0), WH_OK);
    CHECK_EQ_INT(read_list(2, good, 4, 1), WH_EPROTOCOL);
    CHECK_EQ_INT(read_list(2, good, 0, 0), WH_EPROTOCOL);
    CHECK_EQ_INT(read_list(SELF, good, 4, 0), WH_EPROTOCOL);
    CHECK_EQ_INT(read_list(NONE, good, 4, 0), WH_EPROTOCOL);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_EQ_INT(read_list(2, bad[i], 2, 0), WH_EPROTOCOL);
    // The maker's own list has not been sorted yet, but names PEs that there are.
    CHECK_EQ_INT(read_list(-1, bad[0], 2, 0), WH_OK);
    CHECK_EQ_INT(read_list(-1, bad[4], 2, 0), WH_EPROTOCOL);
}

TEST_MAIN()
