// SPDX-License-Identifier: BSD-3-Clause
//
// Graph topologies of MPI-1: every rank is given all edges.
#include <stdlib.h>

#include "mpi/bodies.h"
#include "mpi/comm/compare.h"
#include "mpi/topo/topo.h"

static int check(int nnodes, const int *index, const int *edges, int size) {
    if (nnodes > size)
        return whm_fail(MPI_ERR_ARG, "the graph has %d nodes, the communicator %d ranks", nnodes,
                        size);
    for (int i = 0; i < nnodes; i++) {
        if (index[i] < (i ? index[i - 1] : 0))
            return whm_fail(MPI_ERR_ARG, "index %d is %d, less than the one before", i, index[i]);
    }
    for (int e = 0; nnodes && e < index[nnodes - 1]; e++) {
        if (!edges || edges[e] < 0 || edges[e] >= nnodes)
            return whm_fail(MPI_ERR_ARG, "edge %d does not lead to a node of %d", e, nnodes);
    }
    return MPI_SUCCESS;
}

static int first_of(const whm_topo *graph, int rank) {
    return rank ? graph->index[rank - 1] : 0;
}

static whm_topo *make(int nnodes, const int *index, const int *edges, int rank) {
    whm_topo *graph = whm_topo_new(MPI_GRAPH);
    if (!graph)
        return NULL;
    graph->nodes = nnodes;
    graph->edges = nnodes ? index[nnodes - 1] : 0;
    graph->index = whm_topo_ints(index, nnodes);
    graph->edge = whm_topo_ints(edges, graph->edges);
    if (graph->index && graph->edge && rank < nnodes) {
        graph->in = graph->out = index[rank] - first_of(graph, rank);
        graph->from = whm_topo_ints(graph->edge + first_of(graph, rank), graph->in);
        graph->to = whm_topo_ints(graph->edge + first_of(graph, rank), graph->out);
    }
    if (!graph->index || !graph->edge || (rank < nnodes && (!graph->from || !graph->to))) {
        whm_topo_release(graph);
        return NULL;
    }
    return graph;
}

// The front has compared the index, which says how many edges there are.
static int compare_edges(whm_comm *comm, int nnodes, const int *index, const int *edges) {
    int n = nnodes ? index[nnodes - 1] : 0;
    size_t size = edges && n > 0 ? (size_t)n * sizeof(*edges) : 0;
    return whm_compare_facts(comm,
                             {"other edges", WHM_UNSAID, MPI_ERR_NOT_SAME, whm_hash(edges, size)});
}

int mpi_graph_create(whm_comm *comm_old, int nnodes, const int *indx, const int *edges, int reorder,
                     whm_comm **comm_graph) {
    (void)reorder;
    int rc = whm_topo_check_intra(comm_old);
    if (rc == MPI_SUCCESS)
        rc = compare_edges(comm_old, nnodes, indx, edges);
    if (rc != MPI_SUCCESS)
        return rc;
    whm_topo *graph = NULL;
    rc = check(nnodes, indx, edges, comm_old->size);
    if (rc == MPI_SUCCESS && !(graph = make(nnodes, indx, edges, comm_old->rank)))
        rc = whm_no_memory();
    return whm_topo_born(comm_old, rc, nnodes, graph, comm_graph);
}

int mpi_graph_map(whm_comm *comm, int nnodes, const int *indx, const int *edges, int *newrank) {
    int rc = check(nnodes, indx, edges, comm->size);
    if (rc == MPI_SUCCESS)
        *newrank = comm->rank < nnodes ? comm->rank : MPI_UNDEFINED;
    return rc;
}

int mpi_graphdims_get(whm_comm *comm, int *nnodes, int *nedges) {
    const whm_topo *graph = whm_topo_of(comm, MPI_GRAPH);
    if (!graph)
        return MPI_ERR_TOPOLOGY;
    *nnodes = graph->nodes;
    *nedges = graph->edges;
    return MPI_SUCCESS;
}

int mpi_graph_get(whm_comm *comm, int maxindex, int maxedges, int *indx, int *edges) {
    const whm_topo *graph = whm_topo_of(comm, MPI_GRAPH);
    if (!graph)
        return MPI_ERR_TOPOLOGY;
    if (maxindex < graph->nodes || maxedges < graph->edges)
        return whm_fail(MPI_ERR_ARG, "there are %d nodes and %d edges, and room for %d and %d",
                        graph->nodes, graph->edges, maxindex, maxedges);
    for (int i = 0; i < graph->nodes; i++)
        indx[i] = graph->index[i];
    for (int e = 0; e < graph->edges; e++)
        edges[e] = graph->edge[e];
    return MPI_SUCCESS;
}

// degree writes how many neighbors a rank has.
static int degree(const whm_topo *graph, int rank, int *count) {
    if (!graph)
        return MPI_ERR_TOPOLOGY;
    if (rank < 0 || rank >= graph->nodes)
        return whm_fail(MPI_ERR_RANK, "there is no rank %d in a graph of %d", rank, graph->nodes);
    *count = graph->index[rank] - first_of(graph, rank);
    return MPI_SUCCESS;
}

int mpi_graph_neighbors_count(whm_comm *comm, int rank, int *nneighbors) {
    return degree(whm_topo_of(comm, MPI_GRAPH), rank, nneighbors);
}

int mpi_graph_neighbors(whm_comm *comm, int rank, int maxneighbors, int *neighbors) {
    const whm_topo *graph = whm_topo_of(comm, MPI_GRAPH);
    int count = 0, rc = degree(graph, rank, &count);
    if (rc != MPI_SUCCESS)
        return rc;
    for (int i = 0; i < count && i < maxneighbors; i++)
        neighbors[i] = graph->edge[first_of(graph, rank) + i];
    return MPI_SUCCESS;
}
