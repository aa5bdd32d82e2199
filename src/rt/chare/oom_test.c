// SPDX-License-Identifier: BSD-3-Clause
//
// Out of memory in reductions, sections and channels: the n-th allocation fails, for each n.  What was accepted happens, or a loss
// or a failure is told; each operation ends once; nothing is left behind, as the sanitizers see.
#include <wherry/channel.h>
#include <wherry/section.h>

#include "base/alloc.h"
#include "rt/channel/channels.h"
#include "rt/chare/element_kit.h"

enum { PES = 3, CELLS = 6, ROUNDS = 4, OPS = 5 };

static struct {
    int asked, ran;                    // calls that were accepted
    int given[ROUNDS], fired[ROUNDS];  // contributions and results
    int begun, ended;                  // operations of channels
    bool said;                         // somebody was told that there is no memory
    wh_section section;
    bool made;
} work;

static wh_proxy cells;

// good counts a call that was accepted.
static bool good(wh_status st, wh_status expected) {
    CHECK(st == expected || st == WH_ENOMEM || st == WH_ECLOSED || st == WH_EPEER);
    work.said |= st != expected;
    return st == expected;
}

typedef struct cell {
    wh_channel *to;
    int in[OPS], out[OPS];
} cell;

#define CELL_ENTRIES(ENTRY)                                                                        \
    ENTRY(cell, give, 0) ENTRY(cell, told, 0) ENTRY(cell, open, 0) ENTRY(cell, end, 0)
WH_CLASS(cell, CELL_ENTRIES, .state = sizeof(cell));

// ---- Reductions: a sum, a set, a tuple of both, nothing; over the collection, or over a section of it.

static wh_status give(wh_chare *self, int round, const wh_section *in) {
    int32_t value[40] = {1, self->proxy.index[0]};
    wh_contribution parts[] = {{.reducer = WH_REDUCER_OP,
                                .op = WH_REDUCE_SUM,
                                .type = WH_TYPE_INT32,
                                .data = value,
                                .count = 40},
                               {.reducer = WH_REDUCER_SET, .data = value, .count = sizeof(value)}};
    wh_callback to = {.kind = WH_CALLBACK_FUNCTION,
                      .function = wh_function_id("result"),
                      .pe = round % PES,
                      .ref = round};
    const wh_contribution *first = round == 1 ? &parts[1] : parts;
    size_t count = round == 3 ? 0 : round == 2 ? 2 : 1;
    return in ? wh_section_contribute(self, *in, first, count, sizeof(parts[0]), &to)
              : wh_contribute(self, first, count, sizeof(parts[0]), &to);
}

static void contribute(wh_chare *self, const wh_call *call) {
    work.ran++;
    for (int round = 0; round < ROUNDS; round++) {
        const wh_section *in = call->ref ? &work.section : NULL;
        wh_status st = give(self, round, in);
        if (st == WH_ENOMEM)  // nothing has been done
            st = give(self, round, in);
        if (!good(st, WH_OK))
            return;  // the later ones would be those of earlier numbers
        work.given[round]++;
    }
}

static void cell_give(wh_chare *self, const wh_call *call) {
    contribute(self, call);
}

static void cell_told(wh_chare *self, const wh_call *call) {
    contribute(self, call);
}

static void on_result(wh_pe *pe, const wh_call *call, void *arg) {
    (void)pe;
    (void)arg;
    CHECK_EQ_INT(work.given[call->ref], CELLS);
    CHECK_EQ_INT(work.fired[call->ref]++, 0);
    int32_t sum[2];
    size_t cursor = 0;
    wh_reduction_item item = {.data = call->args};
    if (call->ref == 1 || call->ref == 3)
        return;
    CHECK(call->ref == 0 || wh_reduction_next(call->args, call->size, &cursor, &item));
    memcpy(sum, item.data, sizeof(sum));
    CHECK_EQ_INT(sum[0], CELLS);
    CHECK_EQ_INT(sum[1], CELLS * (CELLS - 1) / 2);
}

static void call_each(unsigned entry) {
    for (int32_t i = 0; i < CELLS; i++)
        work.asked += good(
            wh_chare_send(job.pe[i % PES], wh_proxy_at(cells, 1, &i), entry, "", 0, NULL), WH_OK);
}

static bool all_reduced(int calls) {
    if (work.ran < calls)
        return false;
    for (int i = 0; i < ROUNDS; i++)
        if (work.given[i] == CELLS && !work.fired[i])
            return false;
    return true;
}

static void reduce(void) {
    call_each(cell_give_entry);
}

static bool has_reduced(void) {
    return all_reduced(work.asked);
}

static void use_section(void) {
    int32_t indices[CELLS];
    for (int i = 0; i < CELLS; i++)
        indices[i] = CELLS - 1 - i;
    work.made = good(wh_section_create(job.pe[1], cells, 1, indices, CELLS, &work.section), WH_OK);
    if (work.made)
        work.asked =
            good(wh_section_send(job.pe[2], work.section, cell_told_entry, "", 0, 1), WH_OK);
}

static bool has_used_section(void) {
    return all_reduced(work.asked * CELLS);
}

// ---- Channels.

static void on_done(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    (void)arg;
    CHECK(result->status <= WH_OK);
    work.ended++;
}

static void cell_open(wh_chare *self, const wh_call *call) {
    cell *c = self->state;
    int32_t peer = self->proxy.index[0] ^ 1;
    (void)call;
    work.ran++;
    if (!good(wh_channel_open(self, wh_proxy_at(self->proxy, 1, &peer),
                              WH_CHANNEL_OPTS(.window = 2), &c->to),
              WH_OK))
        return;
    for (int i = 0; i < OPS; i++) {
        wh_status st =
            wh_channel_recv(c->to, &c->in[i], sizeof(int), WH_OP_OPTS(.done = on_done), NULL);
        work.begun += st == WH_PENDING;
        work.said |= st < 0;
        c->out[i] = i;
        st = wh_channel_send(c->to, &c->out[i], sizeof(int), WH_OP_OPTS(.done = on_done), NULL);
        work.begun += st == WH_PENDING;
        work.said |= st < 0;
    }
}

static void cell_end(wh_chare *self, const wh_call *call) {
    (void)self;
    (void)call;
}

static void use_channels(void) {
    call_each(cell_open_entry);
}

static bool has_used_channels(void) {
    return work.ran == work.asked && work.ended == work.begun;
}

// ---- The loop.

typedef struct scenario {
    void (*work)(void);
    bool (*done)(void);
} scenario;

static bool is_told(void) {
    return job.failures || job.lost || kit_errors.count;
}

static void begin(void) {
    memset(&work, 0, sizeof(work));
    kit_begin(PES, 1);
    for (int i = 0; i < PES; i++) {
        whi_channels_attach(job.pe[i]);
        CHECK_EQ_INT(wh_class_register(job.pe[i], &cell_class), WH_OK);
        CHECK_EQ_INT(wh_function_register(job.pe[i], "result", on_result, NULL), WH_OK);
    }
    kit_count_errors();
    CHECK_EQ_INT(wh_array_create(job.pe[0], "cell", WH_ARRAY_OPTS(.dims = 1, .shape = {CELLS}),
                                 NULL, 0, &cells),
                 WH_OK);
    kit_settle();
}

// run does the work while the n-th allocation fails; false: there are not so many.
static bool run(const scenario *s, uint64_t n) {
    begin();
    whi_alloc_fail_at(n);
    s->work();
    UNTIL(s->done() || work.said || is_told());
    kit_turns(
        50);  // who was refused something has been told; what others wait for may then never come
    bool reached = whi_alloc_count() >= n;
    whi_alloc_fail_at(0);
    CHECK(reached || (s->done() && !work.said && !is_told()));
    if (!is_told() && wh_chare_destroy(job.pe[0], cells) == WH_OK)
        UNTIL(work.ended == work.begun);
    kit_end();
    CHECK_EQ_INT(work.ended, work.begun);
    return reached;
}

static void each_fails_once(scenario s, uint64_t least) {
    uint64_t n = 1;
    while (run(&s, n))
        n++;
    CHECK(n > least);
}

TEST(reductions) {
    each_fails_once((scenario){reduce, has_reduced}, 20);
}

TEST(sections) {
    each_fails_once((scenario){use_section, has_used_section}, 20);
}

TEST(channels) {
    each_fails_once((scenario){use_channels, has_used_channels}, 20);
}

TEST_MAIN()
