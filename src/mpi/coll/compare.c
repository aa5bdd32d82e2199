// SPDX-License-Identifier: BSD-3-Clause
//
// What all ranks of a collective give alike, for mpi/comm/compare.h.
#include "mpi/comm/compare.h"
#include "mpi/coll/call.h"

enum { NONE = -1, OWN_FUNCTION = -2 };

static bool is_rooted(whm_coll_kind kind) {
    return kind == WHM_BCAST || kind == WHM_GATHER || kind == WHM_GATHERV || kind == WHM_SCATTER ||
           kind == WHM_SCATTERV || kind == WHM_REDUCE;
}

// common_block returns the block that has the same elements at all ranks, or NULL.
static const whm_blocks *common_block(const whm_coll *coll) {
    bool is_root = coll->comm->rank == coll->root;
    switch (coll->kind) {
    case WHM_BCAST:
    case WHM_ALLGATHER:
    case WHM_ALLTOALL:
    case WHM_REDUCE:
    case WHM_ALLREDUCE:
    case WHM_REDUCE_SCATTER_BLOCK:
    case WHM_SCAN:
    case WHM_EXSCAN: return &coll->recv;
    case WHM_GATHER: return is_root ? &coll->recv : &coll->send;
    case WHM_SCATTER: return is_root ? &coll->send : &coll->recv;
    default: return NULL;
    }
}

// types_of makes a value of the elements of a block.
static int64_t types_of(const whm_blocks *block) {
    int64_t elements;
    uint64_t signature;
    if (wh_type_signature(block->type->layout, block->count, &signature, &elements) != WH_OK)
        return NONE;
    return (int64_t)(signature + (uint64_t)elements * 0x9E3779B97F4A7C15u);
}

// facts_of fills in the facts, and ends them.  The groups of an intercommunicator have roots and blocks of their own.
static void facts_of(const whm_coll *coll, whm_fact facts[WHM_FACTS + 1]) {
    int n = 0;
    const whm_blocks *block = coll->comm->remote ? NULL : common_block(coll);
    if (is_rooted(coll->kind) && !coll->comm->remote)
        facts[n++] = (whm_fact){"root", WHM_NAME_FIRST, MPI_ERR_ROOT, coll->root};
    if (coll->op)
        facts[n++] = (whm_fact){"another operation", WHM_UNSAID, MPI_ERR_OP,
                                coll->op->predefined ? (int)coll->op->reduce : OWN_FUNCTION};
    if (block) {
        facts[n++] =
            (whm_fact){"bytes", WHM_VALUE_FIRST, MPI_ERR_COUNT, block->count * block->type->size};
        facts[n++] =
            (whm_fact){"elements of other types", WHM_UNSAID, MPI_ERR_TYPE, types_of(block)};
    }
    facts[n] = (whm_fact){.name = NULL};
}

int whm_coll_compare(const whm_coll *coll) {
    whm_fact facts[WHM_FACTS + 1];
    facts_of(coll, facts);
    return whm_compare(coll->comm, facts);
}

whm_comparison *whm_coll_compare_new(const whm_coll *coll) {
    whm_fact facts[WHM_FACTS + 1];
    facts_of(coll, facts);
    return whm_compare_new(coll->comm, facts);
}
