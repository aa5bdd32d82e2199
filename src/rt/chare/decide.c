// SPDX-License-Identifier: BSD-3-Clause
//
// Where a strategy that sees all loads puts the elements, at the root.
//
// Loads come as blocks, one per PE: PE, count (4 bytes each), then of each element its load (8) and whether it is fixed (1).
// Moves go as blocks, too: PE, count, then pairs of the element's place in its PE's block and the PE to which it goes.
#include "base/alloc.h"
#include "rt/chare/step.h"
#include "rt/chare/why.h"

enum { LOAD_SIZE = 9, PAIR_SIZE = 8, BLOCK_SIZE = 8 };

// ---- Loads.

wh_status whi_decide_write(whi_balance *b, int pe) {
    size_t size = BLOCK_SIZE + b->count * LOAD_SIZE;
    void *bytes = whi_blob_add(&b->up, size);
    if (!bytes)
        return WH_ENOMEM;
    whi_writer to;
    whi_writer_init(&to, bytes, size);
    whi_writer_u32(&to, (uint32_t)pe);
    whi_writer_u32(&to, (uint32_t)b->count);
    for (size_t i = 0; i < b->count; i++) {
        whi_writer_f64(&to, b->own[i].load);
        whi_writer_u8(&to, (uint8_t)b->own[i].fixed);
    }
    return WH_OK;
}

// All elements, ordered by PE.
typedef struct table {
    wh_balance_element *elements;
    int32_t *to;
    size_t *first;  // by PE, and one more
    size_t count;
} table;

static void table_fini(table *t) {
    whi_free(t->elements);
    whi_free(t->to);
    whi_free(t->first);
}

// read_heads counts the elements of each PE.
static wh_status read_heads(const whi_blob *up, int pes, table *t) {
    whi_reader from;
    whi_reader_init(&from, up->data, up->size);
    while (whi_reader_left(&from)) {
        uint32_t pe = whi_reader_u32(&from), count = whi_reader_u32(&from);
        (void)whi_reader_bytes(&from, (size_t)count * LOAD_SIZE);
        if (!whi_reader_ok(&from) || pe >= (unsigned)pes || t->first[pe + 1])
            return WH_EPROTOCOL;
        t->first[pe + 1] = count;
    }
    for (int i = 0; i < pes; i++)
        t->first[i + 1] += t->first[i];
    t->count = t->first[pes];
    return whi_reader_ok(&from) ? WH_OK : WH_EPROTOCOL;
}

static wh_status read_loads(const whi_blob *up, table *t) {
    whi_reader from;
    whi_reader_init(&from, up->data, up->size);
    while (whi_reader_left(&from)) {
        uint32_t pe = whi_reader_u32(&from), count = whi_reader_u32(&from);
        for (uint32_t i = 0; i < count; i++) {
            size_t at = t->first[pe] + i;
            wh_balance_element *e = &t->elements[at];
            *e = (wh_balance_element){.load = whi_reader_f64(&from), .pe = (int32_t)pe};
            e->fixed = whi_reader_u8(&from);
            t->to[at] = e->pe;
            if (!whi_is_load(e->load) || e->fixed > 1)
                return WH_EPROTOCOL;
        }
    }
    return WH_OK;
}

static wh_status read_table(const whi_blob *up, int pes, table *t) {
    *t = (table){.first = whi_calloc((size_t)pes + 1, sizeof(*t->first))};
    wh_status st = t->first ? read_heads(up, pes, t) : WH_ENOMEM;
    if (st != WH_OK)
        return st;
    t->elements = whi_calloc(t->count + 1, sizeof(*t->elements));
    t->to = whi_calloc(t->count + 1, sizeof(*t->to));
    return t->elements && t->to ? read_loads(up, t) : WH_ENOMEM;
}

// ---- Moves.

static wh_status write_moves(const table *t, int pes, whi_blob *moves) {
    for (int pe = 0; pe < pes; pe++) {
        uint32_t count = 0;
        for (size_t i = t->first[pe]; i < t->first[pe + 1]; i++)
            count += t->to[i] != pe;
        if (!count)
            continue;
        size_t size = BLOCK_SIZE + (size_t)count * PAIR_SIZE;
        void *bytes = whi_blob_add(moves, size);
        if (!bytes)
            return WH_ENOMEM;
        whi_writer to;
        whi_writer_init(&to, bytes, size);
        whi_writer_u32(&to, (uint32_t)pe);
        whi_writer_u32(&to, count);
        for (size_t i = t->first[pe]; i < t->first[pe + 1]; i++) {
            if (t->to[i] == pe)
                continue;
            whi_writer_u32(&to, (uint32_t)(i - t->first[pe]));
            whi_writer_u32(&to, (uint32_t)t->to[i]);
        }
    }
    return WH_OK;
}

bool whi_decide_next(whi_reader *at, int pes, whi_moves *moves) {
    if (!whi_reader_left(at))
        return false;
    moves->pe = whi_reader_u32(at);
    moves->count = whi_reader_u32(at);
    moves->pairs = whi_reader_bytes(at, (size_t)moves->count * PAIR_SIZE);
    if (moves->pe >= (unsigned)pes)
        whi_reader_fail(at);
    return whi_reader_ok(at);
}

// ---- The strategy.

// What a program's own strategy has answered is not trusted: who was put nowhere stays.
static void check(whi_chares *c, const whi_balance *b, const char *name, wh_status st, table *t) {
    wh_proxy proxy = {.collection = b->in->def.id};
    size_t bad = 0;
    for (size_t i = 0; i < t->count; i++) {
        bool is_pe = t->to[i] >= 0 && t->to[i] < c->pe->pes;
        bad += !is_pe;
        if (!is_pe || st != WH_OK || t->elements[i].fixed)
            t->to[i] = t->elements[i].pe;
    }
    if (st != WH_OK)
        whi_chares_error(c, &proxy, "balancer %s has failed, and nothing moves: %s", name,
                         wh_status_text(st));
    else if (bad)
        whi_chares_error(c, &proxy,
                         "balancer %s puts %zu elements of %s on PEs that do not exist: they stay",
                         name, bad, whi_say_collection(c, b->in->def.id).text);
}

wh_status whi_decide(whi_chares *c, whi_balance *b, whi_blob *moves) {
    table t;
    int pes = c->pe->pes;
    wh_status st = read_table(&b->up, pes, &t);
    if (st == WH_OK) {
        uint64_t id = b->in->def.balance;
        const whi_named *custom = whi_named_find(c, id, WHI_NAMED_BALANCER);
        if (custom)
            check(c, b, custom->name, custom->balancer(t.elements, t.count, pes, t.to, custom->arg),
                  &t);
        else if (whi_balancer_kind_of(id) == WHI_BALANCER_REFINE)
            st = whi_balance_refine(t.elements, t.count, pes, t.to, NULL);
        else
            st = whi_balance_greedy(t.elements, t.count, pes, t.to, NULL);
    }
    if (st == WH_OK)
        st = write_moves(&t, pes, moves);
    table_fini(&t);
    return st;
}
