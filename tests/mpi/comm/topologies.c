// SPDX-License-Identifier: BSD-3-Clause
//
// Virtual topologies: what is asked of them on each rank, neighbors, duplicates, errors.
#include "check.h"

static int rank, size;

static void test_cart(void) {
    MPI_Comm cart, dup, row;
    int dims[2] = {0, 0}, periods[2] = {1, 0}, got[2], ring_[2], at[2], n, kind, other, before,
        behind;
    OK(MPI_Dims_create(size, 2, dims));
    OK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &cart));
    OK(MPI_Topo_test(cart, &kind));
    CHECK(kind == MPI_CART);
    OK(MPI_Comm_dup(cart, &dup));
    OK(MPI_Comm_free(&cart));
    cart = dup;  // a duplicate has the topology, too
    OK(MPI_Topo_test(cart, &kind));
    CHECK(kind == MPI_CART);
    OK(MPI_Cartdim_get(cart, &n));
    CHECK(n == 2);
    OK(MPI_Cart_get(cart, 2, got, ring_, at));
    CHECK(got[0] == dims[0] && got[1] == dims[1] && ring_[0] == 1 && ring_[1] == 0);
    CHECK(at[0] == rank / dims[1] && at[1] == rank % dims[1]);
    for (int r = 0; r < size; r++) {
        OK(MPI_Cart_coords(cart, r, 2, at));
        OK(MPI_Cart_rank(cart, at, &other));
        CHECK(other == r);
        at[0] += 3 * dims[0];  // round the ring
        OK(MPI_Cart_rank(cart, at, &other));
        CHECK(other == r);
    }
    OK(MPI_Cart_coords(cart, rank, 2, at));
    OK(MPI_Cart_shift(cart, 0, 1, &before, &behind));
    CHECK(before == (rank - dims[1] + size) % size && behind == (rank + dims[1]) % size);
    OK(MPI_Cart_shift(cart, 1, 1, &before, &behind));
    CHECK(before == (at[1] == 0 ? MPI_PROC_NULL : rank - 1));
    CHECK(behind == (at[1] == dims[1] - 1 ? MPI_PROC_NULL : rank + 1));
    OK(MPI_Cart_shift(cart, 0, -1, &before, &behind));
    CHECK(behind == (rank - dims[1] + size) % size);
    OK(MPI_Cart_sub(cart, (int[]){0, 1}, &row));
    CHECK(size_of(row) == dims[1] && rank_in(row) == at[1]);
    OK(MPI_Cart_get(row, 1, got, ring_, &other));
    CHECK(got[0] == dims[1] && ring_[0] == 0 && other == at[1]);
    ring(row, 1);
    OK(MPI_Comm_free(&row));
    OK(MPI_Cart_sub(cart, (int[]){0, 0}, &row));
    CHECK(size_of(row) == 1);
    OK(MPI_Cartdim_get(row, &n));
    CHECK(n == 0);
    OK(MPI_Comm_free(&row));
    // What each sends to its neighbors arrives where these expect it: in each dimension from behind, then from before.
    int all[4];
    OK(MPI_Neighbor_allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, cart));
    OK(MPI_Cart_shift(cart, 0, 1, &before, &behind));
    CHECK(all[0] == before && all[1] == behind);
    OK(MPI_Comm_free(&cart));
}

static void test_cart_part(void) {
    MPI_Comm cart;
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, (int[]){1}, (int[]){0}, 0, &cart));
    CHECK((cart == MPI_COMM_NULL) == (rank > 0));
    if (cart != MPI_COMM_NULL)
        OK(MPI_Comm_free(&cart));
    OK(MPI_Cart_create(MPI_COMM_WORLD, 0, NULL, NULL, 0, &cart));
    CHECK((cart == MPI_COMM_NULL) == (rank > 0));
    if (cart != MPI_COMM_NULL)
        OK(MPI_Comm_free(&cart));
    int newrank;
    OK(MPI_Cart_map(MPI_COMM_WORLD, 1, (int[]){1}, (int[]){0}, &newrank));
    CHECK(newrank == (rank ? MPI_UNDEFINED : 0));
    FAILS(MPI_Cart_create(MPI_COMM_WORLD, 1, (int[]){size + 1}, (int[]){0}, 0, &cart),
          MPI_ERR_DIMS);
    FAILS(MPI_Cart_create(MPI_COMM_WORLD, 1, (int[]){rank == 0 ? -1 : size}, (int[]){0}, 0, &cart),
          MPI_ERR_DIMS);
    FAILS(MPI_Cartdim_get(MPI_COMM_WORLD, &newrank), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Cart_rank(MPI_COMM_WORLD, (int[]){0}, &newrank), MPI_ERR_TOPOLOGY);
}

// A star: rank 0 with all others.
static void test_graph(void) {
    MPI_Comm graph;
    int index[16], edges[32], got_index[16], got_edges[32], nodes, count, n, list[16];
    for (int i = 0; i < size; i++)
        index[i] = size - 1 + i;
    for (int i = 1; i < size; i++) {
        edges[i - 1] = i;
        edges[size - 2 + i] = 0;
    }
    OK(MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &graph));
    OK(MPI_Graphdims_get(graph, &nodes, &count));
    CHECK(nodes == size && count == 2 * (size - 1));
    OK(MPI_Graph_get(graph, size, count, got_index, got_edges));
    CHECK(!memcmp(index, got_index, sizeof(int) * (size_t)size));
    CHECK(!memcmp(edges, got_edges, sizeof(int) * (size_t)count));
    for (int r = 0; r < size; r++) {
        OK(MPI_Graph_neighbors_count(graph, r, &n));
        CHECK(n == (r ? 1 : size - 1));
        OK(MPI_Graph_neighbors(graph, r, n, list));
        CHECK(n == 0 || list[0] == (r ? 0 : 1));
    }
    int all[16];
    OK(MPI_Neighbor_allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, graph));
    for (int i = 1; rank == 0 && i < size; i++)
        CHECK(all[i - 1] == i);
    CHECK(rank == 0 || all[0] == 0);
    OK(MPI_Comm_set_errhandler(graph, MPI_ERRORS_RETURN));
    FAILS(MPI_Graph_neighbors_count(graph, size, &n), MPI_ERR_RANK);
    OK(MPI_Comm_free(&graph));
    edges[0] = size;
    if (size > 1)
        FAILS(MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &graph), MPI_ERR_ARG);
}

// A ring in one direction, made in three ways.
static void check_ring(MPI_Comm graph, int is_weighted) {
    int in, out, weighted, from = -1, to = -1, from_weight = -1, to_weight = -1, got = -1;
    int behind = (rank + 1) % size, before = (rank + size - 1) % size;
    OK(MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted));
    CHECK(in == 1 && out == 1 && !weighted == !is_weighted);
    OK(MPI_Dist_graph_neighbors(graph, 1, &from, &from_weight, 1, &to, &to_weight));
    CHECK(from == before && to == behind);
    CHECK(from_weight == (is_weighted ? before + 100 : -1));
    CHECK(to_weight == (is_weighted ? rank + 100 : -1));
    OK(MPI_Neighbor_allgather(&rank, 1, MPI_INT, &got, 1, MPI_INT, graph));
    CHECK(got == before);
}

static void test_dist_graph(void) {
    MPI_Comm graph, dup;
    int behind = (rank + 1) % size, before = (rank + size - 1) % size, one = 1;
    int in_weight = before + 100, out_weight = rank + 100;
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, &in_weight, 1, &behind,
                                      &out_weight, MPI_INFO_NULL, 0, &graph));
    check_ring(graph, 1);
    OK(MPI_Comm_dup(graph, &dup));
    OK(MPI_Comm_free(&graph));
    check_ring(dup, 1);
    OK(MPI_Comm_free(&dup));
    OK(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, &one, &behind, MPI_UNWEIGHTED, MPI_INFO_NULL,
                             0, &graph));
    check_ring(graph, 0);
    OK(MPI_Comm_free(&graph));
    // Rank 0 names all edges.
    int sources[16], degrees[16], destinations[16], weights[16];
    for (int i = 0; i < size; i++) {
        sources[i] = i;
        degrees[i] = 1;
        destinations[i] = (i + 1) % size;
        weights[i] = i + 100;
    }
    OK(MPI_Dist_graph_create(MPI_COMM_WORLD, rank ? 0 : size, sources, degrees, destinations,
                             rank ? MPI_WEIGHTS_EMPTY : weights, MPI_INFO_NULL, 0, &graph));
    check_ring(graph, 1);
    OK(MPI_Comm_free(&graph));
    destinations[0] = -5;
    FAILS(MPI_Dist_graph_create(MPI_COMM_WORLD, rank ? 0 : 1, sources, degrees, destinations,
                                MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph),
          MPI_ERR_RANK);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    rank = rank_in(MPI_COMM_WORLD);
    size = size_of(MPI_COMM_WORLD);
    test_cart();
    test_cart_part();
    test_graph();
    test_dist_graph();
    OK(MPI_Finalize());
    return 0;
}
