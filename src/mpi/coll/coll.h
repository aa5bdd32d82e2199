// SPDX-License-Identifier: BSD-3-Clause
//
// Collectives: what a call asks for, and the algorithms that turn it into a schedule.
#ifndef WHM_COLL_COLL_H
#define WHM_COLL_COLL_H

#include "mpi/coll/schedule.h"

typedef enum whm_coll_kind {
    WHM_BARRIER,
    WHM_BCAST,
    WHM_GATHER,
    WHM_GATHERV,
    WHM_SCATTER,
    WHM_SCATTERV,
    WHM_ALLGATHER,
    WHM_ALLGATHERV,
    WHM_ALLTOALL,
    WHM_ALLTOALLV,
    WHM_ALLTOALLW,
    WHM_REDUCE,
    WHM_ALLREDUCE,
    WHM_REDUCE_SCATTER_BLOCK,
    WHM_REDUCE_SCATTER,
    WHM_SCAN,
    WHM_EXSCAN,
    WHM_NEIGHBOR_ALLGATHER,  // from here on: with neighbours
    WHM_NEIGHBOR_ALLGATHERV,
    WHM_NEIGHBOR_ALLTOALL,
    WHM_NEIGHBOR_ALLTOALLV,
    WHM_NEIGHBOR_ALLTOALLW,
    WHM_COLL_KINDS
} whm_coll_kind;

// A buffer of the call: one block, or one for each rank or neighbour.
typedef struct whm_blocks {
    void *buf;
    MPI_Count count;          // of each block, unless `counts`
    const MPI_Count *counts;  //
    const MPI_Aint *displs;   // in extents; in bytes if `types`.  NULL: one block behind the other
    whm_type *type;           // of all, unless `types`
    whm_type *const *types;
} whm_blocks;

// A call.  The arrays live for the call only: building a schedule copies what it needs.
typedef struct whm_coll {
    whm_coll_kind kind;
    whm_comm *comm;
    whm_op *op;
    int root;
    // What is read, and what is written.  With one buffer it is `recv`.  Reductions have count, or counts, and type in `recv` in any case.
    whm_blocks send, recv;
} whm_coll;

// An algorithm adds its steps to an empty schedule.  Where it takes the memory it asks for, whm_schedule.error says when there was none.
typedef void whm_build(whm_schedule *schedule, const whm_coll *coll);

static inline whm_type *whm_block_type(const whm_blocks *blocks, int i) {
    return blocks->types ? blocks->types[i] : blocks->type;
}
static inline MPI_Count whm_block_count(const whm_blocks *blocks, int i) {
    return blocks->counts ? blocks->counts[i] : blocks->count;
}
static inline MPI_Count whm_block_bytes(const whm_blocks *blocks, int i) {
    return whm_block_count(blocks, i) * whm_block_type(blocks, i)->size;
}
static inline char *whm_block_at(const whm_blocks *blocks, int i) {
    char *buf = blocks->buf;
    if (blocks->types)
        return buf + blocks->displs[i];
    return buf + (blocks->displs ? blocks->displs[i] : i * blocks->count) * blocks->type->extent;
}
static inline bool whm_in_place(const whm_blocks *blocks) {
    return blocks->buf == MPI_IN_PLACE;
}
// What this rank puts into a reduction.
static inline const void *whm_operand(const whm_coll *coll) {
    return whm_in_place(&coll->send) ? coll->recv.buf : coll->send.buf;
}
static inline void *whm_elements(const void *buf, MPI_Count count, const whm_type *type) {
    return (char *)(uintptr_t)buf + count * type->extent;
}

// Steps of blocks (blocks.c).  A block without bytes is not sent, and its receiver does not expect it.
void whm_send_block(whm_schedule *schedule, const whm_blocks *blocks, int i, int dest);
void whm_recv_block(whm_schedule *schedule, const whm_blocks *blocks, int i, int source);
void whm_copy_block(whm_schedule *schedule, const whm_blocks *to, int t, const whm_blocks *from,
                    int f);

// whm_stack_blocks makes the displacements of blocks with counts that lie one behind the other.  whm_even_blocks parts `count` elements
// among the ranks; no part is larger than the first.  False: no memory.  Both make arrays of the schedule.
bool whm_stack_blocks(whm_schedule *schedule, whm_blocks *blocks);
bool whm_even_blocks(whm_schedule *schedule, void *buf, MPI_Count count, whm_type *type,
                     whm_blocks *blocks);

// Data as bytes: the buffer itself where it is dense, otherwise memory of the schedule.  whm_bytes_in copies the data there first, whm_bytes_out
// gives room for it, and whm_bytes_back then copies it to the buffer.  NULL: no memory, or no bytes.
char *whm_bytes_in(whm_schedule *schedule, const void *buf, MPI_Count count, whm_type *type);
char *whm_bytes_out(whm_schedule *schedule, void *buf, MPI_Count count, whm_type *type);
void whm_bytes_back(whm_schedule *schedule, void *buf, MPI_Count count, whm_type *type,
                    const char *bytes);
void whm_send_bytes(whm_schedule *schedule, const void *bytes, MPI_Count size, int dest);
void whm_recv_bytes(whm_schedule *schedule, void *bytes, MPI_Count size, int source);

// The algorithms, by file; choose.c says when each is used.
whm_build whm_barrier_flat, whm_barrier_tree, whm_barrier_dissemination;
whm_build whm_bcast_binomial, whm_bcast_scatter, whm_bcast_chain;
whm_build whm_gather_binomial, whm_gather_linear, whm_scatter_binomial, whm_scatter_linear;
whm_build whm_allgather_flat, whm_allgather_doubling, whm_allgather_bruck, whm_allgather_ring;
whm_build whm_alltoall_bruck, whm_alltoall_scattered, whm_alltoall_pairwise;
whm_build whm_reduce_flat, whm_reduce_binomial, whm_reduce_halving;
whm_build whm_allreduce_flat, whm_allreduce_tree, whm_allreduce_doubling, whm_allreduce_halving,
    whm_allreduce_ring;
whm_build whm_reduce_scatter_doubling, whm_reduce_scatter_halving, whm_reduce_scatter_pairwise;
whm_build whm_scan_doubling;
whm_build whm_inter_barrier, whm_inter_bcast, whm_inter_gather, whm_inter_scatter,
    whm_inter_exchange, whm_inter_reduce, whm_inter_allreduce, whm_inter_reduce_scatter;
whm_build whm_neighbor_exchange;

// Trees: ranks are counted from the root on, place 0 is the root's.  The lowest bit of a place is the distance to its parent, and all lower
// bits those to its children; the root's is the least power of two that is not below the number of ranks.
int whm_place_of(const whm_schedule *schedule, int root);
int whm_rank_at_place(const whm_schedule *schedule, int root, int place);
int whm_tree_bit(const whm_schedule *schedule, int place);

// Parts of algorithms that others have, too.
void whm_bcast_steps(whm_schedule *schedule, void *buf, MPI_Count count, whm_type *type, int root);
void whm_barrier_steps(whm_schedule *schedule);
// All blocks to all ranks around the ring; rank r begins with block (r - shift) mod size.
void whm_ring_steps(whm_schedule *schedule, const whm_blocks *blocks, int shift);
// The reduction of all operands, `count` elements at `buf`, in rank order, at `root`, where the result is returned; elsewhere NULL.
void *whm_reduce_steps(whm_schedule *schedule, const void *buf, MPI_Count count, whm_type *type,
                       int root, void *result);
// Combines the operands of all ranks, `count` elements each, one behind the other; returns where the result is.
void *whm_combine_steps(whm_schedule *schedule, void *operands, MPI_Count count, whm_type *type);
// The reduction of what lies in `buf`, in rank order, in `buf` of all ranks.
void whm_allreduce_steps(whm_schedule *schedule, void *buf, MPI_Count count, whm_type *type);

#endif
