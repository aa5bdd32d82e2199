// SPDX-License-Identifier: BSD-3-Clause
//
// Whether all ranks call the same collective with arguments that belong together: with WHERRY_MPI_CHECK=1, before each blocking one.
//
// Rank 0 hears from all, compares, and tells all the same: so each rank gets the error, and nobody is left waiting in a collective that others
// do not enter.  The messages go beside those of collectives, with a tag that no schedule has.
#include <stdlib.h>
#include <string.h>

#include "mpi/base/process.h"
#include "mpi/coll/call.h"
#include "mpi/p2p/p2p.h"

enum { TAG = -7, NONE = -1, OWN_FUNCTION = -2 };  // schedules count their tags from 0

// What all ranks of a call have alike.
typedef struct facts {
    int32_t kind, root, op;
    int32_t unused;
    int64_t bytes, elements;  // of a block, NONE: it may differ
    uint64_t signature;       // of its types
} facts;

typedef struct verdict {
    int32_t odd, other;  // ranks that differ; NONE: none do
    facts of_odd, of_other;
} verdict;

static const char *const names[WHM_COLL_KINDS] = {
    [WHM_BARRIER] = "MPI_Barrier",
    [WHM_BCAST] = "MPI_Bcast",
    [WHM_GATHER] = "MPI_Gather",
    [WHM_GATHERV] = "MPI_Gatherv",
    [WHM_SCATTER] = "MPI_Scatter",
    [WHM_SCATTERV] = "MPI_Scatterv",
    [WHM_ALLGATHER] = "MPI_Allgather",
    [WHM_ALLGATHERV] = "MPI_Allgatherv",
    [WHM_ALLTOALL] = "MPI_Alltoall",
    [WHM_ALLTOALLV] = "MPI_Alltoallv",
    [WHM_ALLTOALLW] = "MPI_Alltoallw",
    [WHM_REDUCE] = "MPI_Reduce",
    [WHM_ALLREDUCE] = "MPI_Allreduce",
    [WHM_REDUCE_SCATTER_BLOCK] = "MPI_Reduce_scatter_block",
    [WHM_REDUCE_SCATTER] = "MPI_Reduce_scatter",
    [WHM_SCAN] = "MPI_Scan",
    [WHM_EXSCAN] = "MPI_Exscan",
    [WHM_NEIGHBOR_ALLGATHER] = "MPI_Neighbor_allgather",
    [WHM_NEIGHBOR_ALLGATHERV] = "MPI_Neighbor_allgatherv",
    [WHM_NEIGHBOR_ALLTOALL] = "MPI_Neighbor_alltoall",
    [WHM_NEIGHBOR_ALLTOALLV] = "MPI_Neighbor_alltoallv",
    [WHM_NEIGHBOR_ALLTOALLW] = "MPI_Neighbor_alltoallw",
};

static bool is_wanted(void) {
    static int wanted = -1;
    if (wanted < 0) {
        const char *text = getenv("WHERRY_MPI_CHECK");
        wanted = text && strcmp(text, "1") == 0;
    }
    return wanted;
}

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

static facts facts_of(const whm_coll *coll) {
    facts f = {.kind = coll->kind, .root = NONE, .op = NONE, .bytes = NONE, .elements = NONE};
    const whm_blocks *block = common_block(coll);
    if (is_rooted(coll->kind))
        f.root = coll->root;
    if (coll->op)
        f.op = coll->op->predefined ? (int32_t)coll->op->reduce : OWN_FUNCTION;
    if (!block)
        return f;
    f.bytes = block->count * block->type->size;
    if (wh_type_signature(block->type->layout, block->count, &f.signature, &f.elements) != WH_OK)
        f.elements = NONE;
    return f;
}

static bool are_alike(const facts *a, const facts *b) {
    return memcmp(a, b, sizeof(*a)) == 0;
}

// judge hears from all ranks and finds one that differs from most.
static int judge(whm_comm *comm, const facts *mine, verdict *v) {
    facts *all = malloc((size_t)comm->size * sizeof(*all));
    int unlike = 0, first = 0, rc = all ? MPI_SUCCESS : whm_no_memory();
    for (int i = 1; i < comm->size && rc == MPI_SUCCESS; i++) {
        rc = whm_recv_wait(comm, WHM_COLL, &all[i], sizeof(*all), whm_type_of(MPI_BYTE), i, TAG,
                           MPI_STATUS_IGNORE);
        if (rc == MPI_SUCCESS && !are_alike(&all[i], mine) && !unlike++)
            first = i;
    }
    *v = (verdict){.odd = NONE, .other = NONE};
    if (rc == MPI_SUCCESS && unlike) {
        bool me = unlike > comm->size / 2;
        *v = me ? (verdict){0, first, *mine, all[first]} : (verdict){first, 0, all[first], *mine};
    }
    free(all);
    for (int i = 1; i < comm->size && rc == MPI_SUCCESS; i++)
        rc = whm_send_wait(comm, WHM_COLL, v, sizeof(*v), whm_type_of(MPI_BYTE), i, TAG,
                           WHM_STANDARD);
    return rc;
}

static int ask(whm_comm *comm, const facts *mine, verdict *v) {
    int rc = whm_send_wait(comm, WHM_COLL, mine, sizeof(*mine), whm_type_of(MPI_BYTE), 0, TAG,
                           WHM_STANDARD);
    return rc == MPI_SUCCESS ? whm_recv_wait(comm, WHM_COLL, v, sizeof(*v), whm_type_of(MPI_BYTE),
                                             0, TAG, MPI_STATUS_IGNORE)
                             : rc;
}

static int fail(const verdict *v) {
    const facts *a = &v->of_odd, *b = &v->of_other;
    if (a->kind != b->kind)
        return whm_fail(MPI_ERR_OTHER, "rank %d has called %s, rank %d %s", v->odd, names[a->kind],
                        v->other, names[b->kind]);
    if (a->root != b->root)
        return whm_fail(MPI_ERR_ROOT, "rank %d has called %s with root %d, rank %d with root %d",
                        v->odd, names[a->kind], a->root, v->other, b->root);
    if (a->op != b->op)
        return whm_fail(MPI_ERR_OP, "rank %d has called %s with another operation than rank %d",
                        v->odd, names[a->kind], v->other);
    if (a->bytes != b->bytes)
        return whm_fail(MPI_ERR_COUNT, "rank %d has called %s with %lld bytes, rank %d with %lld",
                        v->odd, names[a->kind], (long long)a->bytes, v->other, (long long)b->bytes);
    return whm_fail(MPI_ERR_TYPE, "rank %d has called %s with elements of other types than rank %d",
                    v->odd, names[a->kind], v->other);
}

int whm_coll_compare(const whm_coll *coll) {
    whm_comm *comm = coll->comm;
    if (__builtin_expect(!is_wanted(), 1) || comm->remote || comm->size == 1)
        return MPI_SUCCESS;
    verdict v;
    facts mine = facts_of(coll);
    int rc = comm->rank == 0 ? judge(comm, &mine, &v) : ask(comm, &mine, &v);
    return rc == MPI_SUCCESS && v.odd != NONE ? fail(&v) : rc;
}
