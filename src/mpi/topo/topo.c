// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/topo/topo.h"

#include <stdlib.h>
#include <string.h>

#include "mpi/base/memory.h"
#include "mpi/bodies.h"
#include "mpi/comm/create.h"

int whm_topo_born(whm_comm *comm, int failed, int count, whm_topo *topo, whm_comm **newcomm) {
    int rc = whm_comm_first(comm, failed, count, newcomm);
    if (rc == MPI_SUCCESS && *newcomm)
        (*newcomm)->topo = topo;
    else
        whm_topo_release(topo);
    return rc;
}

whm_topo *whm_topo_of(const whm_comm *comm, int kind) {
    whm_topo *topo = comm->topo;
    if (topo && topo->kind == kind)
        return topo;
    (void)whm_fail(MPI_ERR_TOPOLOGY, "the communicator has no %s topology",
                   kind == MPI_CART    ? "cartesian"
                   : kind == MPI_GRAPH ? "graph"
                                       : "distributed graph");
    return NULL;
}

int *whm_topo_ints(const int *from, int count) {
    int *copy = whm_malloc(((size_t)count + 1) * sizeof(*copy));
    if (copy && count)
        memcpy(copy, from, (size_t)count * sizeof(*copy));
    return copy;
}

int whm_topo_check_intra(const whm_comm *comm) {
    return comm->remote ? whm_fail(MPI_ERR_COMM, "an intercommunicator can have no topology")
                        : MPI_SUCCESS;
}

int mpi_topo_test(whm_comm *comm, int *status) {
    *status = comm->topo ? comm->topo->kind : MPI_UNDEFINED;
    return MPI_SUCCESS;
}
