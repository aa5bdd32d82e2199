// SPDX-License-Identifier: BSD-3-Clause
//
// Distributed graphs: each rank knows its own neighbors only.
//
// MPI_Dist_graph_create lets any rank name any edges, so these are told to all, and each takes those that concern it: what a rank names is
// seldom much.
#include <stdlib.h>

#include "mpi/base/memory.h"
#include "mpi/base/process.h"
#include "mpi/bodies.h"
#include "mpi/comm/share.h"
#include "mpi/topo/topo.h"

static bool weighted(const int *weights) {
    return weights != MPI_UNWEIGHTED;
}

// check_list checks neighbors and their weights.
static int check_list(int count, const int *ranks, const int *weights, int size) {
    if (weights == NULL && count)
        return whm_fail(MPI_ERR_ARG, "weights are NULL; MPI_UNWEIGHTED stands for none");
    if (weights == MPI_WEIGHTS_EMPTY && count)
        return whm_fail(MPI_ERR_ARG, "MPI_WEIGHTS_EMPTY is for ranks without neighbors");
    for (int i = 0; i < count; i++) {
        if (ranks[i] < 0 || ranks[i] >= size)
            return whm_fail(MPI_ERR_RANK, "neighbor %d is %d, in a communicator of %d ranks", i,
                            ranks[i], size);
        if (weighted(weights) && weights[i] < 0)
            return whm_fail(MPI_ERR_ARG, "weight %d is %d", i, weights[i]);
    }
    return MPI_SUCCESS;
}

static whm_topo *complete(whm_topo *graph) {
    if (graph && graph->from && graph->to && graph->from_weight && graph->to_weight)
        return graph;
    whm_topo_release(graph);
    return NULL;
}

static whm_topo *adjacent(int in, const int *from, const int *from_weight, int out, const int *to,
                          const int *to_weight) {
    whm_topo *graph = whm_topo_new(MPI_DIST_GRAPH);
    if (!graph)
        return NULL;
    bool w = weighted(from_weight);
    *graph = (whm_topo){.refs = 1,
                        .kind = MPI_DIST_GRAPH,
                        .weighted = w,
                        .in = in,
                        .out = out,
                        .from = whm_topo_ints(from, in),
                        .to = whm_topo_ints(to, out),
                        .from_weight = whm_topo_ints(from_weight, w ? in : 0),
                        .to_weight = whm_topo_ints(to_weight, w ? out : 0)};
    return complete(graph);
}

int mpi_dist_graph_create_adjacent(whm_comm *comm_old, int indegree, const int *sources,
                                   const int *sourceweights, int outdegree, const int *destinations,
                                   const int *destweights, whm_info *info, int reorder,
                                   whm_comm **comm_dist_graph) {
    (void)info;
    (void)reorder;
    int rc = whm_topo_check_intra(comm_old);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = check_list(indegree, sources, sourceweights, comm_old->size);
    if (rc == MPI_SUCCESS)
        rc = check_list(outdegree, destinations, destweights, comm_old->size);
    if (rc == MPI_SUCCESS && weighted(sourceweights) != weighted(destweights))
        rc = whm_fail(MPI_ERR_ARG, "only one of the two lists has weights");
    whm_topo *graph = NULL;
    if (rc == MPI_SUCCESS &&
        !(graph = adjacent(indegree, sources, sourceweights, outdegree, destinations, destweights)))
        rc = whm_no_memory();
    return whm_topo_born(comm_old, rc, comm_old->size, graph, comm_dist_graph);
}

// ---- Edges named anywhere.

typedef struct edge {
    int from, to, weight;
} edge;

typedef struct named {  // by a rank
    int failed, weighted, count;
} named;

// check_edges checks what this rank names, and writes how many edges that are.
static int check_edges(int n, const int *sources, const int *degrees, const int *destinations,
                       const int *weights, int size, int *count) {
    int all = 0;
    for (int i = 0; i < n; i++) {
        if (degrees[i] < 0)
            return whm_fail(MPI_ERR_ARG, "degree %d is %d", i, degrees[i]);
        all += degrees[i];
    }
    *count = all;
    if (all && !destinations)
        return whm_fail(MPI_ERR_ARG, "the destinations are NULL");
    int rc = check_list(n, sources, MPI_UNWEIGHTED, size);
    return rc == MPI_SUCCESS ? check_list(all, destinations, weights, size) : rc;
}

static edge *list_edges(int n, const int *sources, const int *degrees, const int *destinations,
                        const int *weights, int room) {
    edge *list = whm_calloc((size_t)room + 1, sizeof(*list));
    for (int i = 0, e = 0; list && i < n; i++) {
        for (int k = 0; k < degrees[i]; k++, e++)
            list[e] = (edge){sources[i], destinations[e], weighted(weights) ? weights[e] : 0};
    }
    return list;
}

// take fills in what concerns this rank, or counts it if the lists are not there yet.
static void take(whm_topo *graph, int rank, const edge *all, int each, const named *by, int size) {
    graph->in = graph->out = 0;
    for (int r = 0; r < size; r++) {
        for (int i = 0; i < by[r].count; i++) {
            const edge *e = &all[(size_t)r * (size_t)each + (size_t)i];
            if (e->to == rank && graph->from) {
                graph->from[graph->in] = e->from;
                graph->from_weight[graph->in] = e->weight;
            }
            if (e->from == rank && graph->to) {
                graph->to[graph->out] = e->to;
                graph->to_weight[graph->out] = e->weight;
            }
            graph->in += e->to == rank;
            graph->out += e->from == rank;
        }
    }
}

static whm_topo *gather(const whm_comm *comm, const edge *all, int each, const named *by) {
    whm_topo *graph = whm_topo_new(MPI_DIST_GRAPH);
    if (!graph)
        return NULL;
    graph->weighted = by[0].weighted;
    take(graph, comm->rank, all, each, by, comm->size);
    size_t in = (size_t)graph->in + 1, out = (size_t)graph->out + 1;
    graph->from = whm_malloc(in * sizeof(int));
    graph->from_weight = whm_malloc(in * sizeof(int));
    graph->to = whm_malloc(out * sizeof(int));
    graph->to_weight = whm_malloc(out * sizeof(int));
    graph = complete(graph);
    if (graph)
        take(graph, comm->rank, all, each, by, comm->size);
    return graph;
}

// agree looks at what all have said: the most edges of one, or an error that is the same for all.
static int agree(const named *by, int size, int me, int *each) {
    *each = 0;
    for (int r = 0; r < size; r++) {
        if (by[r].failed != MPI_SUCCESS)
            return r == me ? by[r].failed
                           : whm_fail(by[r].failed, "rank %d has failed in this call", r);
        if (by[r].weighted != by[0].weighted)
            return whm_fail(MPI_ERR_ARG, "only one of the ranks 0 and %d gives weights", r);
        *each = by[r].count > *each ? by[r].count : *each;
    }
    return MPI_SUCCESS;
}

int mpi_dist_graph_create(whm_comm *comm_old, int n, const int *sources, const int *degrees,
                          const int *destinations, const int *weights, whm_info *info, int reorder,
                          whm_comm **comm_dist_graph) {
    (void)info;
    (void)reorder;
    int each = 0, size = comm_old->size, rc = whm_topo_check_intra(comm_old);
    if (rc != MPI_SUCCESS)
        return rc;
    named mine = {0, weighted(weights), 0}, *by = whm_malloc((size_t)size * sizeof(*by));
    mine.failed = check_edges(n, sources, degrees, destinations, weights, size, &mine.count);
    if (!by)
        whm_process_no_memory();
    rc = whm_share(comm_old, &mine, sizeof(mine), by);
    if (rc == MPI_SUCCESS)
        rc = agree(by, size, comm_old->rank, &each);
    edge *own = NULL, *all = NULL;
    if (rc == MPI_SUCCESS) {
        own = list_edges(n, sources, degrees, destinations, weights, each);
        all = whm_malloc((size_t)size * (size_t)each * sizeof(*all) + 1);
        if (!own || !all)
            whm_process_no_memory();
        rc = whm_share(comm_old, own, each * (int)sizeof(*own), all);
    }
    whm_topo *graph = rc == MPI_SUCCESS ? gather(comm_old, all, each, by) : NULL;
    if (rc == MPI_SUCCESS && !graph)
        rc = whm_no_memory();
    free(by);
    free(own);
    free(all);
    return whm_topo_born(comm_old, rc, size, graph, comm_dist_graph);
}

// ---- Asking.

int mpi_dist_graph_neighbors_count(whm_comm *comm, int *indegree, int *outdegree,
                                   int *is_weighted) {
    const whm_topo *graph = whm_topo_of(comm, MPI_DIST_GRAPH);
    if (!graph)
        return MPI_ERR_TOPOLOGY;
    *indegree = graph->in;
    *outdegree = graph->out;
    *is_weighted = graph->weighted;
    return MPI_SUCCESS;
}

static void write_list(int count, int room, const int *ranks, const int *weights, int *to,
                       int *to_weights) {
    for (int i = 0; i < count && i < room; i++) {
        to[i] = ranks[i];
        if (weights && weighted(to_weights) && to_weights != MPI_WEIGHTS_EMPTY)
            to_weights[i] = weights[i];
    }
}

int mpi_dist_graph_neighbors(whm_comm *comm, int maxindegree, int *sources, int *sourceweights,
                             int maxoutdegree, int *destinations, int *destweights) {
    const whm_topo *graph = whm_topo_of(comm, MPI_DIST_GRAPH);
    if (!graph)
        return MPI_ERR_TOPOLOGY;
    write_list(graph->in, maxindegree, graph->from, graph->weighted ? graph->from_weight : NULL,
               sources, sourceweights);
    write_list(graph->out, maxoutdegree, graph->to, graph->weighted ? graph->to_weight : NULL,
               destinations, destweights);
    return MPI_SUCCESS;
}
