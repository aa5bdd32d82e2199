// SPDX-License-Identifier: BSD-3-Clause
//
// What is wrong with the arguments of a collective, beyond what each of them says for itself.
#include "mpi/coll/call.h"
#include "mpi/coll/choose.h"

static bool neighborhood(const whm_coll *coll) {
    return coll->kind >= WHM_NEIGHBOR_ALLGATHER;
}

// Whether this rank has a buffer to read from, and one to write to.
static bool reads(const whm_coll *coll) {
    bool is_root = whm_at_root(coll->comm, coll->root);
    switch (coll->kind) {
    case WHM_BARRIER:
    case WHM_BCAST: return false;
    case WHM_SCATTER:
    case WHM_SCATTERV: return is_root;
    case WHM_GATHER:
    case WHM_GATHERV:
    case WHM_REDUCE: return !coll->comm->remote || coll->root >= 0;
    default: return true;
    }
}

static bool writes(const whm_coll *coll) {
    bool is_root = whm_at_root(coll->comm, coll->root);
    switch (coll->kind) {
    case WHM_BARRIER:
    case WHM_BCAST: return false;
    case WHM_GATHER:
    case WHM_GATHERV:
    case WHM_REDUCE: return is_root;
    case WHM_SCATTER:
    case WHM_SCATTERV: return !coll->comm->remote || coll->root >= 0;
    default: return true;
    }
}

static int check_place(const whm_coll *coll) {
    if (!whm_in_place(&coll->send) && !whm_in_place(&coll->recv))
        return MPI_SUCCESS;
    bool rooted = coll->kind == WHM_GATHER || coll->kind == WHM_GATHERV ||
                  coll->kind == WHM_SCATTER || coll->kind == WHM_SCATTERV ||
                  coll->kind == WHM_REDUCE;
    bool scatter = coll->kind == WHM_SCATTER || coll->kind == WHM_SCATTERV;
    const whm_blocks *may = scatter ? &coll->recv : &coll->send;
    const whm_blocks *never = scatter ? &coll->send : &coll->recv;
    if ((scatter ? reads(coll) : writes(coll)) && whm_in_place(never))
        return whm_fail(MPI_ERR_BUFFER, "MPI_IN_PLACE stands for the %s buffer, which it cannot",
                        scatter ? "send" : "receive");
    if (!(scatter ? writes(coll) : reads(coll)) || !whm_in_place(may))
        return MPI_SUCCESS;
    if (coll->comm->remote || neighborhood(coll))
        return whm_fail(MPI_ERR_BUFFER,
                        "MPI_IN_PLACE is not for intercommunicators and neighborhoods");
    if (rooted && coll->comm->rank != coll->root)
        return whm_fail(MPI_ERR_BUFFER, "MPI_IN_PLACE is for the root, %d, and this is rank %d",
                        coll->root, coll->comm->rank);
    return MPI_SUCCESS;
}

static int check_overlap(const whm_coll *coll) {
    if (coll->send.buf != coll->recv.buf || !coll->op || !coll->recv.buf ||
        whm_in_place(&coll->send) || !reads(coll) || !writes(coll) ||
        whm_block_bytes(&coll->recv, 0) == 0)
        return MPI_SUCCESS;
    return whm_fail(MPI_ERR_BUFFER,
                    "the send buffer and the receive buffer are the same: give MPI_IN_PLACE as the "
                    "send buffer");
}

// The type of a reduction stands behind both buffers, so the fronts have seen only the second.  A derived type may have absolute addresses.
static int check_operand(const whm_coll *coll) {
    if (coll->send.buf || !coll->op || !reads(coll) || !coll->recv.type->basic ||
        whm_block_bytes(&coll->recv, 0) == 0)
        return MPI_SUCCESS;
    return whm_fail(MPI_ERR_BUFFER, "sendbuf is NULL, and there are data to reduce");
}

int whm_coll_check(const whm_coll *coll) {
    if (neighborhood(coll) && !coll->comm->topo)
        return whm_fail(MPI_ERR_TOPOLOGY, "the communicator has no topology, so no neighbors");
    if (coll->comm->remote && !whm_choose(coll))
        return whm_fail(MPI_ERR_COMM, "this collective is not for intercommunicators");
    int error = check_place(coll);
    if (error == MPI_SUCCESS)
        error = check_operand(coll);
    if (error == MPI_SUCCESS)
        error = check_overlap(coll);
    if (error == MPI_SUCCESS && coll->op)
        error = whm_op_check(coll->op, coll->recv.type);
    return error;
}
