// SPDX-License-Identifier: BSD-3-Clause
//
// The algorithms and their switches.  Short messages want few rounds, long ones few bytes per rank (Thakur, Rabenseifner, Gropp, Optimization of
// collective communication operations in MPICH, 2005; Chan et al., Collective communication: theory, practice, and experience, 2007; Bruck et al.,
// Efficient algorithms for all-to-all communications, 1997).  The sizes are those papers', moved where this library measured otherwise.
#include "mpi/coll/choose.h"

#include "mpi/base/process.h"

#define KIB ((MPI_Count)1 << 10)
#define MIB ((MPI_Count)1 << 20)
enum {
    FEW = 8,     // so many ranks that a message of each to each costs less than another round
    CROWD = 32,  // so many that what all do together counts, and not what the last waits for
};

// Of each kind the last row takes what is left.
const whm_algorithm whm_algorithms[WHM_COLL_KINDS][WHM_ALGORITHMS] =
    {
        [WHM_BARRIER] =
            {
                {"flat", whm_barrier_flat, WHM_NEEDS_FEW, 3, 0},
                {"tree", whm_barrier_tree, WHM_FOR_CROWDS, CROWD, 0},
                {"dissemination", whm_barrier_dissemination, 0, 0, 0},
                {"leaders", whm_inter_barrier, WHM_NEEDS_INTER, 0, 0},
            },
        [WHM_BCAST] =
            {
                {"binomial", whm_bcast_binomial, 0, 0, 12 * KIB},
                {"scatter", whm_bcast_scatter, 0, 8, MIB},
                {"binomial", whm_bcast_binomial, 0, 0, 256 * KIB},
                {"chain", whm_bcast_chain, 0, 0, 0},
                {"leaders", whm_inter_bcast, WHM_NEEDS_INTER, 0, 0},
            },
        [WHM_GATHER] =
            {
                {"binomial", whm_gather_binomial, 0, 4, KIB},
                {"linear", whm_gather_linear, 0, 0, 0},
                {"linear, between groups", whm_inter_gather, WHM_NEEDS_INTER, 0, 0},
            },
        [WHM_GATHERV] =
            {
                {"linear", whm_gather_linear, 0, 0, 0},
                {"linear, between groups", whm_inter_gather, WHM_NEEDS_INTER, 0, 0},
            },
        [WHM_SCATTER] =
            {
                {"binomial", whm_scatter_binomial, 0, 4, KIB},
                {"linear", whm_scatter_linear, 0, 0, 0},
                {"linear, between groups", whm_inter_scatter, WHM_NEEDS_INTER, 0, 0},
            },
        [WHM_SCATTERV] =
            {
                {"linear", whm_scatter_linear, 0, 0, 0},
                {"linear, between groups", whm_inter_scatter, WHM_NEEDS_INTER, 0, 0},
            },
        [WHM_ALLGATHER] =
            {
                {"flat", whm_allgather_flat, WHM_NEEDS_FEW, 3, 2 * KIB},
                {"doubling", whm_allgather_doubling, WHM_NEEDS_POWER, 0, 512 * KIB},
                {"bruck", whm_allgather_bruck, 0, 0, 80 * KIB},
                {"ring", whm_allgather_ring, 0, 3, 0},
                {"flat", whm_allgather_flat, 0, 0, 0},
                {"exchange", whm_inter_exchange, WHM_NEEDS_INTER, 0, 0},
            },
        [WHM_ALLGATHERV] =
            {
                {"flat", whm_allgather_flat, WHM_NEEDS_FEW, 3, 2 * KIB},
                {"bruck", whm_allgather_bruck, 0, 0, 80 * KIB},
                {"ring", whm_allgather_ring, 0, 3, 0},
                {"flat", whm_allgather_flat, 0, 0, 0},
                {"exchange", whm_inter_exchange, WHM_NEEDS_INTER, 0, 0},
            },
        [WHM_ALLTOALL] =
            {
                {"bruck", whm_alltoall_bruck, 0, 8, 256},
                {"scattered", whm_alltoall_scattered, 0, 0, 32 * KIB},
                {"pairwise", whm_alltoall_pairwise, 0, 0, 0},
                {"exchange", whm_inter_exchange, WHM_NEEDS_INTER, 0, 0},
            },
        [WHM_ALLTOALLV] =
            {
                {"scattered", whm_alltoall_scattered, 0, 0, 0},
                {"exchange", whm_inter_exchange, WHM_NEEDS_INTER, 0, 0},
            },
        [WHM_ALLTOALLW] =
            {
                {"scattered", whm_alltoall_scattered, 0, 0, 0},
                {"exchange", whm_inter_exchange, WHM_NEEDS_INTER, 0, 0},
            },
        [WHM_REDUCE] =
            {
                {"flat", whm_reduce_flat, WHM_NEEDS_FEW, 3, 256},
                {"binomial", whm_reduce_binomial, 0, 0, 2 * KIB},
                {"halving", whm_reduce_halving, 0, 0, 0},
                {"leaders", whm_inter_reduce, WHM_NEEDS_INTER, 0, 0},
            },
        [WHM_ALLREDUCE] =
            {
                {"flat", whm_allreduce_flat, WHM_NEEDS_FEW, 3, 256},
                {"tree", whm_allreduce_tree, WHM_FOR_CROWDS, CROWD, 2 * KIB},
                {"doubling", whm_allreduce_doubling, 0, 0, 2 * KIB},
                {"halving", whm_allreduce_halving, 0, 0, MIB},
                {"ring", whm_allreduce_ring, WHM_NEEDS_COMMUTE, 3, 0},
                {"halving", whm_allreduce_halving, 0, 0, 0},
                {"leaders", whm_inter_allreduce, WHM_NEEDS_INTER, 0, 0},
            },
        [WHM_REDUCE_SCATTER_BLOCK] =
            {
                {"doubling", whm_reduce_scatter_doubling, 0, 0, 512},
                {"halving", whm_reduce_scatter_halving, WHM_NEEDS_POWER | WHM_NEEDS_COMMUTE, 0,
                 512 * KIB},
                {"pairwise", whm_reduce_scatter_pairwise, 0, 0, 0},
                {"leaders", whm_inter_reduce_scatter, WHM_NEEDS_INTER, 0, 0},
            },
        [WHM_REDUCE_SCATTER] =
            {
                {"doubling", whm_reduce_scatter_doubling, 0, 0, 512},
                {"halving", whm_reduce_scatter_halving, WHM_NEEDS_POWER | WHM_NEEDS_COMMUTE, 0,
                 512 * KIB},
                {"pairwise", whm_reduce_scatter_pairwise, 0, 0, 0},
                {"leaders", whm_inter_reduce_scatter, WHM_NEEDS_INTER, 0, 0},
            },
        [WHM_SCAN] =
            {
                {"doubling", whm_scan_doubling, 0, 0, 0},
            },
        [WHM_EXSCAN] =
            {
                {"doubling", whm_scan_doubling, 0, 0, 0},
            },
        [WHM_NEIGHBOR_ALLGATHER] = {{"neighbors", whm_neighbor_exchange, 0, 0, 0}},
        [WHM_NEIGHBOR_ALLGATHERV] = {{"neighbors", whm_neighbor_exchange, 0, 0, 0}},
        [WHM_NEIGHBOR_ALLTOALL] = {{"neighbors", whm_neighbor_exchange, 0, 0, 0}},
        [WHM_NEIGHBOR_ALLTOALLV] = {{"neighbors", whm_neighbor_exchange, 0, 0, 0}},
        [WHM_NEIGHBOR_ALLTOALLW] = {{"neighbors", whm_neighbor_exchange, 0, 0, 0}},
};

static MPI_Count all_blocks(const whm_coll *coll) {
    MPI_Count bytes = 0;
    for (int i = 0; i < coll->comm->size; i++)
        bytes += whm_block_bytes(&coll->recv, i);
    return bytes;
}

MPI_Count whm_coll_bytes(const whm_coll *coll) {
    bool is_root = coll->comm->rank == coll->root;
    switch (coll->kind) {
    case WHM_GATHER: return whm_block_bytes(is_root ? &coll->recv : &coll->send, 0);
    case WHM_SCATTER: return whm_block_bytes(is_root ? &coll->send : &coll->recv, 0);
    case WHM_ALLGATHER:
    case WHM_REDUCE_SCATTER_BLOCK: return coll->comm->size * whm_block_bytes(&coll->recv, 0);
    case WHM_ALLGATHERV:
    case WHM_REDUCE_SCATTER: return all_blocks(coll);
    case WHM_BCAST:
    case WHM_ALLTOALL:
    case WHM_REDUCE:
    case WHM_ALLREDUCE:
    case WHM_SCAN:
    case WHM_EXSCAN: return whm_block_bytes(&coll->recv, 0);
    default: return 0;
    }
}

bool whm_algorithm_works(const whm_algorithm *algorithm, const whm_coll *coll) {
    unsigned size = (unsigned)coll->comm->size;
    if ((coll->comm->remote != NULL) != ((algorithm->needs & WHM_NEEDS_INTER) != 0))
        return false;
    if ((algorithm->needs & WHM_NEEDS_FEW) && size > FEW)
        return false;
    if ((algorithm->needs & WHM_NEEDS_POWER) && (size & (size - 1)) != 0)
        return false;
    return !(algorithm->needs & WHM_NEEDS_COMMUTE) || coll->op->commutes;
}

const whm_algorithm *whm_choose(const whm_coll *coll) {
    const whm_algorithm *row = whm_algorithms[coll->kind];
    MPI_Count bytes = coll->comm->remote ? 0 : whm_coll_bytes(coll);
    bool crowd = whm_process_here.virtual;
    while (row->build &&
           !(coll->comm->size >= row->ranks && (row->bytes == 0 || bytes <= row->bytes) &&
             (crowd || !(row->needs & WHM_FOR_CROWDS)) && whm_algorithm_works(row, coll)))
        row++;
    return row->build ? row : NULL;
}

bool whm_coll_no_data(const whm_coll *coll) {
    switch (coll->kind) {
    case WHM_BARRIER:
    case WHM_GATHERV:
    case WHM_SCATTERV:
    case WHM_ALLTOALLV:
    case WHM_ALLTOALLW: return false;
    default:
        return coll->kind < WHM_NEIGHBOR_ALLGATHER && !coll->comm->remote &&
               whm_coll_bytes(coll) == 0;
    }
}

int whm_coll_build(whm_schedule *schedule, const whm_coll *coll, bool keep) {
    if (!whm_coll_no_data(coll))
        whm_choose(coll)->build(schedule, coll);
    return whm_schedule_close(schedule, keep);
}
