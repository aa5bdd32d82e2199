// SPDX-License-Identifier: BSD-3-Clause
//
// Collectives that move data, in all forms.  What is sent has one layout; what is received may have another.
#include "random.h"

enum { SENT = 0, GOT = 50 };       // salts
enum { MOST = 300000, FEW = 50 };  // bytes of a block; elements for one of several peers

// Blocks of `count` elements of `sent`, each of which is `each` of `got`.
typedef struct exchange {
    call c;
    layout sent, got;
    int each, count;
} exchange;

static int got_count(const exchange *e) {
    return e->count * e->each;
}

static block of_sent(exchange *e, MPI_Count count) {
    return pending_make(e->c.p, &e->sent, count, SENT);
}

static block of_got(exchange *e, MPI_Count count) {
    return pending_make(e->c.p, &e->got, count, GOT);
}

static void barrier(exchange *e) {
    const call *c = &e->c;
    if (c->form == BLOCKING)
        OK(MPI_Barrier(c->comm));
    else if (c->form == NONBLOCKING)
        OK(MPI_Ibarrier(c->comm, c->request));
    else
        OK(MPI_Barrier_init(c->comm, MPI_INFO_NULL, c->request));
}

static void bcast(exchange *e) {
    call *c = &e->c;
    block b = c->is_root ? of_sent(e, e->count) : of_got(e, got_count(e));
    argument a = argument_make(&b, c->is_root ? &e->sent : &e->got,
                               c->is_root ? e->count : got_count(e), draw(4) == 0);
    CALL(c, Bcast, bcast, (a.at, a.count, a.type, c->root), (a.at, a.count, a.type, c->root));
    argument_free(&a);
}

// The arguments of calls whose blocks are all alike.
#define ALIKE(s, r) (s, e->count, e->sent.type, r, got_count(e), e->got.type, c->root)
#define ALIKE_OF_ALL(s, r) (s, e->count, e->sent.type, r, got_count(e), e->got.type)

static void gather(exchange *e) {
    call *c = &e->c;
    block s = of_sent(e, e->count), r = of_got(e, (MPI_Count)got_count(e) * c->peers);
    const void *from = c->in_place && c->is_root ? MPI_IN_PLACE : s.at;
    CALL(c, Gather, gather, ALIKE(from, r.at), ALIKE(from, r.at));
}

static void scatter(exchange *e) {
    call *c = &e->c;
    block s = of_sent(e, (MPI_Count)e->count * c->peers), r = of_got(e, got_count(e));
    void *to = c->in_place && c->is_root ? MPI_IN_PLACE : r.at;
    CALL(c, Scatter, scatter, ALIKE(s.at, to), ALIKE(s.at, to));
}

static void allgather(exchange *e) {
    call *c = &e->c;
    block s = of_sent(e, e->count), r = of_got(e, (MPI_Count)got_count(e) * c->peers);
    const void *from = c->in_place ? MPI_IN_PLACE : s.at;
    CALL(c, Allgather, allgather, ALIKE_OF_ALL(from, r.at), ALIKE_OF_ALL(from, r.at));
}

static void alltoall(exchange *e) {
    call *c = &e->c;
    e->count = layout_fit(&e->sent, e->count, MOST / 4);
    block s = of_sent(e, (MPI_Count)e->count * c->peers);
    block r = of_got(e, (MPI_Count)got_count(e) * c->peers);
    const void *from = c->in_place ? MPI_IN_PLACE : s.at;
    CALL(c, Alltoall, alltoall, ALIKE_OF_ALL(from, r.at), ALIKE_OF_ALL(from, r.at));
}

// share returns how many elements a rank has where each has its own number of them.
static int share(const exchange *e, int rank) {
    int most = e->count < FEW ? e->count : FEW;
    return (int)hashed((unsigned)most + 1, (unsigned)e->c.salt, (unsigned)rank, 4);
}

static parts shares(exchange *e) {
    parts all = parts_make(e->c.p, e->c.peers);
    for (int i = 0; i < e->c.peers; i++)
        all.counts[i] = share(e, i) * e->each;
    parts_place(&all, 1, (unsigned)e->c.salt);
    return all;
}

static void gatherv(exchange *e) {
    call *c = &e->c;
    int mine = share(e, c->rank);
    parts all = shares(e);
    block s = of_sent(e, mine), r = of_got(e, all.total);
    const void *from = c->in_place && c->is_root ? MPI_IN_PLACE : s.at;
    CALL(
        c, Gatherv, gatherv,
        (from, mine, e->sent.type, r.at, all.counts, all.displs, e->got.type, c->root),
        (from, mine, e->sent.type, r.at, all.large_counts, all.large_displs, e->got.type, c->root));
}

static void scatterv(exchange *e) {
    call *c = &e->c;
    int mine = share(e, c->rank);
    parts all = shares(e);
    block s = of_got(e, all.total), r = of_sent(e, mine);
    void *to = c->in_place && c->is_root ? MPI_IN_PLACE : r.at;
    CALL(c, Scatterv, scatterv,
         (s.at, all.counts, all.displs, e->got.type, to, mine, e->sent.type, c->root),
         (s.at, all.large_counts, all.large_displs, e->got.type, to, mine, e->sent.type, c->root));
}

static void allgatherv(exchange *e) {
    call *c = &e->c;
    int mine = share(e, c->rank);
    parts all = shares(e);
    block s = of_sent(e, mine), r = of_got(e, all.total);
    const void *from = c->in_place ? MPI_IN_PLACE : s.at;
    CALL(c, Allgatherv, allgatherv,
         (from, mine, e->sent.type, r.at, all.counts, all.displs, e->got.type),
         (from, mine, e->sent.type, r.at, all.large_counts, all.large_displs, e->got.type));
}

// between returns how many elements one rank sends another; in place as many come back.
static int between(const exchange *e, int group, int from, int to) {
    int most = e->count < FEW ? e->count : FEW;
    if (e->c.in_place && from > to)
        return between(e, group, to, from);
    return (int)hashed((unsigned)most + 1, (unsigned)(e->c.salt + group), (unsigned)from,
                       (unsigned)to + 5);
}

static void alltoallv(exchange *e) {
    call *c = &e->c;
    parts out = parts_make(c->p, c->peers), in = parts_make(c->p, c->peers);
    for (int i = 0; i < c->peers; i++) {
        out.counts[i] = between(e, c->group, c->rank, i);
        in.counts[i] = between(e, c->inter ? !c->group : 0, i, c->rank) * e->each;
    }
    parts_place(&out, 1, 1);
    parts_place(&in, 1, 2);
    block s = of_sent(e, out.total), r = of_got(e, in.total);
    const void *from = c->in_place ? MPI_IN_PLACE : s.at;
    CALL(c, Alltoallv, alltoallv,
         (from, out.counts, out.displs, e->sent.type, r.at, in.counts, in.displs, e->got.type),
         (from, out.large_counts, out.large_displs, e->sent.type, r.at, in.large_counts,
          in.large_displs, e->got.type));
}

// from_every places what comes from each peer, in one layout or the other, in memory for elements of `sent`.
static MPI_Datatype *from_every(exchange *e, parts *in) {
    const call *c = &e->c;
    MPI_Datatype *types = pending_memory(c->p, (size_t)c->peers * sizeof(MPI_Datatype));
    for (int i = 0; i < c->peers; i++)
        in->counts[i] = between(e, c->inter ? !c->group : 0, i, c->rank);
    parts_place(in, (int)e->sent.extent, 2);
    for (int i = 0; i < c->peers; i++) {
        bool other = hashed(2, (unsigned)me, (unsigned)i, 6);
        types[i] = other ? e->got.type : e->sent.type;
        if (!other)
            continue;
        in->large_counts[i] = in->counts[i] *= e->each;
        in->large_displs[i] = in->displs[i] += (int)(e->sent.true_lb - e->got.true_lb);
    }
    return types;
}

static void alltoallw(exchange *e) {
    call *c = &e->c;
    parts out = parts_make(c->p, c->peers), in = parts_make(c->p, c->peers);
    MPI_Datatype *types = pending_memory(c->p, (size_t)c->peers * sizeof(MPI_Datatype));
    for (int i = 0; i < c->peers; i++) {
        out.counts[i] = between(e, c->group, c->rank, i);
        types[i] = e->sent.type;
    }
    parts_place(&out, (int)e->sent.extent, 1);
    MPI_Datatype *got = from_every(e, &in);
    block s = of_sent(e, out.total), r = of_sent(e, in.total);
    const void *from = c->in_place ? MPI_IN_PLACE : s.at;
    CALL(c, Alltoallw, alltoallw,
         (from, out.counts, out.displs, types, r.at, in.counts, in.displs, got),
         (from, out.large_counts, out.large_displs, types, r.at, in.large_counts, in.large_displs,
          got));
}

static const struct {
    const char *name;
    void (*begin)(exchange *e);
} kinds[] = {{"barrier", barrier},     {"bcast", bcast},         {"gather", gather},
             {"scatter", scatter},     {"allgather", allgather}, {"alltoall", alltoall},
             {"gatherv", gatherv},     {"scatterv", scatterv},   {"allgatherv", allgatherv},
             {"alltoallv", alltoallv}, {"alltoallw", alltoallw}};

void exchange_step(void) {
    unsigned kind = draw(sizeof(kinds) / sizeof(kinds[0]));
    bool inter = draw(6) == 0 && comm_inter != MPI_COMM_NULL;
    MPI_Comm comm = comm_draw();
    exchange e = {.c = call_draw(kinds[kind].name, inter ? comm_inter : comm),
                  .sent = layout_draw()};
    e.got = layout_peer(&e.sent, &e.each);
    e.count = layout_fit(&e.sent, count_draw(), MOST);
    kinds[kind].begin(&e);
    layout_free(&e.sent);
    layout_free(&e.got);
    call_end(&e.c);
}
