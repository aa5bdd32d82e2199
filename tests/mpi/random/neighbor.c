// SPDX-License-Identifier: BSD-3-Clause
//
// Collectives of neighbors, in a grid and in a graph.
#include "random.h"

enum { MOST = 100000, FEW = 40 };

typedef struct neighborhood {
    call c;
    int ins, outs, *in, *out;  // the neighbors that this rank hears, and those that it tells
    layout sent, got;
    int each, count;
} neighborhood;

static void find_neighbors(neighborhood *n) {
    int kind, weighted;
    OK(MPI_Topo_test(n->c.comm, &kind));
    if (kind == MPI_CART) {
        OK(MPI_Cartdim_get(n->c.comm, &n->ins));
        n->ins = n->outs = 2 * n->ins;
    } else {
        OK(MPI_Dist_graph_neighbors_count(n->c.comm, &n->ins, &n->outs, &weighted));
    }
    n->in = pending_memory(n->c.p, (size_t)n->ins * sizeof(int));
    n->out = pending_memory(n->c.p, (size_t)n->outs * sizeof(int));
    if (kind != MPI_CART) {
        OK(MPI_Dist_graph_neighbors(n->c.comm, n->ins, n->in, MPI_UNWEIGHTED, n->outs, n->out,
                                    MPI_UNWEIGHTED));
        return;
    }
    for (int i = 0; i < n->ins; i += 2) {
        OK(MPI_Cart_shift(n->c.comm, i / 2, 1, &n->in[i], &n->in[i + 1]));
        n->out[i] = n->in[i];
        n->out[i + 1] = n->in[i + 1];
    }
}

// Nobody has another number in each MPI.
static uint64_t number_of(int rank) {
    return rank == MPI_PROC_NULL ? UINT64_MAX : (uint64_t)rank;
}

static int share(const neighborhood *n, int from, int to) {
    int most = n->count < FEW ? n->count : FEW;
    return (int)hashed((unsigned)most + 1, number_of(from), number_of(to), 9);
}

#define ALIKE (s.at, n->count, n->sent.type, r.at, n->count * n->each, n->got.type)

static void allgather(neighborhood *n) {
    call *c = &n->c;
    block s = pending_make(c->p, &n->sent, n->count, 0);
    block r = pending_make(c->p, &n->got, (MPI_Count)n->count * n->each * n->ins, 1);
    CALL(c, Neighbor_allgather, neighbor_allgather, ALIKE, ALIKE);
}

static void alltoall(neighborhood *n) {
    call *c = &n->c;
    block s = pending_make(c->p, &n->sent, (MPI_Count)n->count * n->outs, 0);
    block r = pending_make(c->p, &n->got, (MPI_Count)n->count * n->each * n->ins, 1);
    CALL(c, Neighbor_alltoall, neighbor_alltoall, ALIKE, ALIKE);
}

static parts from_each(neighborhood *n, int bytes, int each, bool alike) {
    parts in = parts_make(n->c.p, n->ins);
    for (int i = 0; i < n->ins; i++)
        in.counts[i] = share(n, n->in[i], alike ? 0 : n->c.rank) * each;
    parts_place(&in, bytes, 2);
    return in;
}

static parts to_each(neighborhood *n, int bytes) {
    parts out = parts_make(n->c.p, n->outs);
    for (int i = 0; i < n->outs; i++)
        out.counts[i] = share(n, n->c.rank, n->out[i]);
    parts_place(&out, bytes, 1);
    return out;
}

static void allgatherv(neighborhood *n) {
    call *c = &n->c;
    int mine = share(n, c->rank, 0);
    parts in = from_each(n, 1, n->each, true);
    block s = pending_make(c->p, &n->sent, mine, 0), r = pending_make(c->p, &n->got, in.total, 1);
    CALL(c, Neighbor_allgatherv, neighbor_allgatherv,
         (s.at, mine, n->sent.type, r.at, in.counts, in.displs, n->got.type),
         (s.at, mine, n->sent.type, r.at, in.large_counts, in.large_displs, n->got.type));
}

static void alltoallv(neighborhood *n) {
    call *c = &n->c;
    parts in = from_each(n, 1, n->each, false), out = to_each(n, 1);
    block s = pending_make(c->p, &n->sent, out.total, 0),
          r = pending_make(c->p, &n->got, in.total, 1);
    CALL(c, Neighbor_alltoallv, neighbor_alltoallv,
         (s.at, out.counts, out.displs, n->sent.type, r.at, in.counts, in.displs, n->got.type),
         (s.at, out.large_counts, out.large_displs, n->sent.type, r.at, in.large_counts,
          in.large_displs, n->got.type));
}

static MPI_Datatype *types_of(neighborhood *n, int count, MPI_Datatype type) {
    MPI_Datatype *types = pending_memory(n->c.p, (size_t)count * sizeof(MPI_Datatype));
    for (int i = 0; i < count; i++)
        types[i] = type;
    return types;
}

static void alltoallw(neighborhood *n) {
    call *c = &n->c;
    parts in = from_each(n, (int)n->got.extent, n->each, false);
    parts out = to_each(n, (int)n->sent.extent);
    MPI_Datatype *sent = types_of(n, n->outs, n->sent.type),
                 *got = types_of(n, n->ins, n->got.type);
    block s = pending_make(c->p, &n->sent, out.total, 0),
          r = pending_make(c->p, &n->got, in.total, 1);
    CALL(c, Neighbor_alltoallw, neighbor_alltoallw,
         (s.at, out.counts, out.large_displs, sent, r.at, in.counts, in.large_displs, got),
         (s.at, out.large_counts, out.large_displs, sent, r.at, in.large_counts, in.large_displs,
          got));
}

static const struct {
    const char *name;
    void (*begin)(neighborhood *n);
} kinds[] = {{"neighbor_allgather", allgather},
             {"neighbor_allgatherv", allgatherv},
             {"neighbor_alltoall", alltoall},
             {"neighbor_alltoallv", alltoallv},
             {"neighbor_alltoallw", alltoallw}};

void neighbor_step(void) {
    unsigned kind = draw(sizeof(kinds) / sizeof(kinds[0]));
    neighborhood n = {.c = call_draw(kinds[kind].name, draw(2) ? comm_grid : comm_graph),
                      .sent = layout_draw()};
    n.got = layout_peer(&n.sent, &n.each);
    n.count = layout_fit(&n.sent, count_draw(), MOST);
    find_neighbors(&n);
    kinds[kind].begin(&n);
    layout_free(&n.sent);
    layout_free(&n.got);
    call_end(&n.c);
}
