// SPDX-License-Identifier: BSD-3-Clause
//
// A scan is an allgather of the operands, of which each rank combines those before its own; a reduce-scatter is an allreduce, of which each takes its
// block.  Both move and combine more than is wanted, so they are for short operands.
#include "mpi/coll/compose.h"

#include <stdlib.h>

#include "mpi/base/process.h"
#include "mpi/coll/choose.h"
#include "mpi/coll/leaders.h"
#include "mpi/coll/shared.h"

// Bytes of an operand of a scan, and of all of a reduce-scatter.  Where each rank has a processor of its own, messages cost less, and so do long ones.
enum {
    SCAN_MOST = 4 << 10,
    SCAN_MOST_APART = 1 << 10,
    WHOLE_MOST = 256 << 10,
    WHOLE_MOST_APART = 4 << 10
};

static int scan(const whm_coll *coll, whm_carry_out_fn *carry_out, char *all) {
    const whm_blocks *data = &coll->recv;
    MPI_Count count = data->count, size = count * data->type->size;
    int last = coll->comm->rank - (coll->kind == WHM_EXSCAN);
    whm_coll part = *coll;  // with the operation: ranks that give another one are noticed
    part.kind = WHM_ALLGATHER;
    part.send = *data;
    part.send.buf = (void *)(uintptr_t)whm_operand(coll);
    part.recv.buf = all;
    int error = carry_out(&part);
    if (error != MPI_SUCCESS || last < 0)
        return error;
    char *result = all + last * size;
    for (int i = last - 1; error == MPI_SUCCESS && i >= 0; i--)
        error = whm_reduce(all + i * size, result, count, data->type, coll->op);
    int copied = whm_copy(data->buf, count, data->type, result, count, data->type);
    return error == MPI_SUCCESS ? copied : error;
}

static int reduce_scatter(const whm_coll *coll, whm_carry_out_fn *carry_out, char *all) {
    const whm_blocks *data = &coll->recv;
    whm_coll part = *coll;
    MPI_Count whole = 0, before = 0, mine = whm_block_count(data, coll->comm->rank);
    for (int i = 0; i < coll->comm->size; i++) {
        before = i == coll->comm->rank ? whole : before;
        whole += whm_block_count(data, i);
    }
    part.kind = WHM_ALLREDUCE;
    part.send.buf = (void *)(uintptr_t)whm_operand(coll);
    part.recv = (whm_blocks){.buf = all, .count = whole, .type = data->type};
    int error = carry_out(&part);
    return error != MPI_SUCCESS ? error
                                : whm_copy(data->buf, mine, data->type,
                                           all + before * data->type->size, mine, data->type);
}

bool whm_coll_compose(const whm_coll *coll, whm_carry_out_fn *carry_out, int *error) {
    bool scans = coll->kind == WHM_SCAN || coll->kind == WHM_EXSCAN,
         scatters = coll->kind == WHM_REDUCE_SCATTER || coll->kind == WHM_REDUCE_SCATTER_BLOCK;
    // What all ranks know alike decides.
    if (!(scans || scatters) || coll->comm->remote || !coll->op->predefined ||
        !coll->recv.type->dense)
        return false;
    const whm_shared *shared = whm_shared_of(coll->comm);
    if (!shared && !whm_leaders_of(coll->comm))
        return false;
    bool apart = shared && !whm_shared_crowded(shared);
    MPI_Count size = whm_coll_bytes(coll);
    MPI_Count most =
        scans ? (apart ? SCAN_MOST_APART : SCAN_MOST) : (apart ? WHOLE_MOST_APART : WHOLE_MOST);
    if (size > most)
        return false;
    size *= scans ? coll->comm->size : 1;
    _Alignas(16) char small[2048];
    char *all = size <= (MPI_Count)sizeof(small) ? small : malloc((size_t)size);
    if (!all)
        whm_process_no_memory();
    *error = scans ? scan(coll, carry_out, all) : reduce_scatter(coll, carry_out, all);
    if (all != small)
        free(all);
    return true;
}
