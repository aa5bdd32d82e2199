// SPDX-License-Identifier: BSD-3-Clause
//
// Reductions: with operations of MPI, exact on what they get, and with one of the program's that does not commute.
//
// That one composes maps x -> ax + b of 32 bits, which lie in a type with or without a gap.
#include "random.h"

enum { FEW = 60, MANY = 6000, SUM_MOST = 1000 };

static MPI_Op compose_small, compose_large;
static MPI_Datatype map_dense, map_gapped;

static void compose(const void *in, void *inout, MPI_Count count, MPI_Datatype type) {
    MPI_Count lb, extent;
    OK(MPI_Type_get_extent_c(type, &lb, &extent));
    size_t b = extent == 2 * sizeof(uint32_t) ? 1 : 2;  // where the second number lies
    for (MPI_Count i = 0; i < count; i++) {
        const uint32_t *x = (const void *)((const char *)in + i * extent);
        uint32_t *y = (void *)((char *)inout + i * extent);
        uint32_t factor = y[0];
        y[0] = x[0] * factor;
        y[b] = factor * x[b] + y[b];
    }
}

static void composed(void *in, void *inout, int *count, MPI_Datatype *type) {
    compose(in, inout, *count, *type);
}

static void composed_large(void *in, void *inout, MPI_Count *count, MPI_Datatype *type) {
    compose(in, inout, *count, *type);
}

void combine_begin(void) {
    MPI_Datatype apart;
    OK(MPI_Op_create(composed, 0, &compose_small));
    OK(MPI_Op_create_c(composed_large, 0, &compose_large));
    OK(MPI_Type_contiguous(2, MPI_UINT32_T, &map_dense));
    OK(MPI_Type_vector(2, 1, 2, MPI_UINT32_T, &apart));
    OK(MPI_Type_create_resized(apart, 0, 16, &map_gapped));
    OK(MPI_Type_free(&apart));
    OK(MPI_Type_commit(&map_dense));
    OK(MPI_Type_commit(&map_gapped));
}

void combine_end(void) {
    OK(MPI_Op_free(&compose_small));
    OK(MPI_Op_free(&compose_large));
    OK(MPI_Type_free(&map_dense));
    OK(MPI_Type_free(&map_gapped));
}

typedef struct combination {
    call c;
    MPI_Op op;
    layout l;
    int count;
    bool real;  // of small whole numbers, whose sums have no rounding
} combination;

static void draw_operation(combination *k) {
    const MPI_Op ops[] = {MPI_SUM,  MPI_MAX,  MPI_MIN, MPI_PROD,
                          MPI_BXOR, MPI_BAND, MPI_LOR, MPI_LXOR};
    const MPI_Datatype whole[] = {MPI_INT32_T, MPI_UINT8_T, MPI_INT64_T, MPI_UINT16_T, MPI_INT};
    const MPI_Datatype real[] = {MPI_DOUBLE, MPI_FLOAT};
    unsigned op = draw(8), type = draw(10);
    k->op = ops[op];
    switch (draw(6)) {
    case 0: k->op = compose_small, k->l = layout_of(type < 5 ? map_dense : map_gapped); return;
    case 1: k->op = compose_large, k->l = layout_of(type < 5 ? map_dense : map_gapped); return;
    case 2: k->op = op < 4 ? MPI_MINLOC : MPI_MAXLOC, k->l = layout_of(MPI_2INT); return;
    case 3: k->op = ops[op % 3], k->l = layout_of(real[type % 2]), k->real = true; return;
    default: k->l = layout_of(whole[type % 5]);
    }
}

static block operand(combination *k, MPI_Count count, unsigned salt) {
    block b = block_make(&k->l, count, salt);
    double *wide = (void *)b.at;
    float *narrow = (void *)b.at;
    for (MPI_Count i = 0; k->real && i < count; i++) {
        unsigned value = hashed(SUM_MOST, (unsigned)me, salt, (uint64_t)i);
        if (k->l.size == sizeof(double))
            wide[i] = value;
        else
            narrow[i] = (float)value;
    }
    return b;
}

#define OPERANDS (from, r.at, k->count, k->l.unit, k->op)

static void reduce(combination *k) {
    call *c = &k->c;
    block s = operand(k, k->count, 0), r = operand(k, k->count, 1);
    const void *from = c->in_place && c->is_root ? MPI_IN_PLACE : s.at;
    CALL(c, Reduce, reduce, (from, r.at, k->count, k->l.unit, k->op, c->root),
         (from, r.at, k->count, k->l.unit, k->op, c->root));
    pending_block(c->p, s);
    pending_block(c->p, r);
}

static void allreduce(combination *k) {
    call *c = &k->c;
    block s = operand(k, k->count, 0), r = operand(k, k->count, 1);
    const void *from = c->in_place ? MPI_IN_PLACE : s.at;
    CALL(c, Allreduce, allreduce, OPERANDS, OPERANDS);
    pending_block(c->p, s);
    pending_block(c->p, r);
}

static void scan(combination *k) {
    call *c = &k->c;
    block s = operand(k, k->count, 0), r = operand(k, k->count, 1);
    const void *from = c->in_place ? MPI_IN_PLACE : s.at;
    CALL(c, Scan, scan, OPERANDS, OPERANDS);
    pending_block(c->p, s);
    pending_block(c->p, r);
}

// The first rank's result is undefined, and so would be what a second start in place takes there.
static void exscan(combination *k) {
    call *c = &k->c;
    block s = operand(k, k->count, 0), r = operand(k, k->count, 1);
    const void *from = c->in_place && c->form != PERSISTENT ? MPI_IN_PLACE : s.at;
    CALL(c, Exscan, exscan, OPERANDS, OPERANDS);
    pending_block(c->p, s);
    if (c->rank > 0)
        pending_block(c->p, r);
    else
        c->p->memory[c->p->n_memory++] = r.room;
}

// Of what it got in place a reduce-scatter leaves the result; what lies behind it is undefined.
static void keep_result(combination *k, block r, MPI_Count all, MPI_Count mine, bool in_place) {
    if (in_place)
        r.bytes -= (size_t)((all - mine) * k->l.extent) + 64;
    pending_block(k->c.p, r);
}

static void reduce_scatter_block(combination *k) {
    call *c = &k->c;
    bool in_place = c->in_place && c->form != PERSISTENT;
    if (c->inter)  // both groups have as many elements
        k->count *= c->peers;
    MPI_Count all = (MPI_Count)k->count * size_of(c->comm);
    block s = operand(k, all, 0), r = operand(k, all, 1);
    const void *from = in_place ? MPI_IN_PLACE : s.at;
    CALL(c, Reduce_scatter_block, reduce_scatter_block, OPERANDS, OPERANDS);
    pending_block(c->p, s);
    keep_result(k, r, all, k->count, in_place);
}

static void reduce_scatter(combination *k) {
    call *c = &k->c;
    bool in_place = c->in_place && c->form != PERSISTENT;
    parts all = parts_make(c->p, size_of(c->comm));
    for (int i = 0; i < all.length; i++) {
        unsigned some = hashed(3, (unsigned)i, 1, 7);
        all.counts[i] = some ? (int)hashed((unsigned)k->count + 1, (unsigned)i, 0, 7) : 0;
    }
    parts_place(&all, 1, 1);
    MPI_Count total = 0;
    for (int i = 0; i < all.length; i++)
        total += all.counts[i];
    block s = operand(k, total, 0), r = operand(k, total, 1);
    const void *from = in_place ? MPI_IN_PLACE : s.at;
    CALL(c, Reduce_scatter, reduce_scatter, (from, r.at, all.counts, k->l.unit, k->op),
         (from, r.at, all.large_counts, k->l.unit, k->op));
    pending_block(c->p, s);
    keep_result(k, r, total, all.counts[c->rank], in_place);
}

static void reduce_local(combination *k) {
    block s = operand(k, k->count, 0), r = operand(k, k->count, 1);
    EITHER(k->c.large, Reduce_local, s.at, r.at, k->count, k->l.unit, k->op);
    pending_block(k->c.p, s);
    pending_block(k->c.p, r);
}

static const struct {
    const char *name;
    void (*begin)(combination *k);
    bool inter;  // there is one between groups
} kinds[] = {{"reduce", reduce, true},
             {"allreduce", allreduce, true},
             {"reduce_scatter_block", reduce_scatter_block, true},
             {"reduce_scatter", reduce_scatter, false},
             {"scan", scan, false},
             {"exscan", exscan, false},
             {"reduce_local", reduce_local, false}};

void combine_step(void) {
    unsigned kind = draw(sizeof(kinds) / sizeof(kinds[0]));
    bool inter = draw(6) == 0 && kinds[kind].inter && comm_inter != MPI_COMM_NULL;
    MPI_Comm comm = comm_draw();
    combination k = {.c = call_draw(kinds[kind].name, inter ? comm_inter : comm)};
    if (kinds[kind].begin == reduce_local && k.c.form != BLOCKING) {
        k.c.form = BLOCKING;
        k.c.p->count = 0;
        k.c.p->persistent = false;
    }
    draw_operation(&k);
    k.count = (int)(draw(3) ? draw(FEW) : draw(MANY));
    kinds[kind].begin(&k);
    layout_free(&k.l);
    call_end(&k.c);
}
