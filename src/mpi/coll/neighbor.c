// SPDX-License-Identifier: BSD-3-Clause
//
// Collectives of neighbourhoods: each rank with those that its topology names.
#include "mpi/coll/coll.h"
#include "mpi/comm/topology.h"

static void receive(whm_schedule *s, const whm_blocks *blocks, const whm_topo *topo, int i) {
    if (topo->from[i] != MPI_PROC_NULL)
        whm_recv_block(s, blocks, i, topo->from[i]);
}

// A rank that is a neighbour more than once sends its messages in its own order, and messages of one rank match in order.  In a dimension of a
// cartesian topology what a rank sends backwards comes from the one behind, so that one is received from first.
static void receive_all(whm_schedule *s, const whm_blocks *blocks, const whm_topo *topo) {
    bool cartesian = topo->kind == MPI_CART;
    for (int i = 0; i < topo->in; i++)
        receive(s, blocks, topo, cartesian ? i ^ 1 : i);
}

void whm_neighbor_exchange(whm_schedule *s, const whm_coll *coll) {
    const whm_topo *topo = coll->comm->topo;
    bool gather = coll->kind == WHM_NEIGHBOR_ALLGATHER || coll->kind == WHM_NEIGHBOR_ALLGATHERV;
    receive_all(s, &coll->recv, topo);
    for (int i = 0; i < topo->out; i++)
        if (topo->to[i] != MPI_PROC_NULL)
            whm_send_block(s, &coll->send, gather ? 0 : i, topo->to[i]);
}
