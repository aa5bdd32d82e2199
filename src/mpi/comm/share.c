// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/comm/share.h"

#include <stdlib.h>
#include <string.h>

#include "mpi/base/memory.h"
#include "mpi/base/process.h"
#include "mpi/base/status.h"
#include "mpi/p2p/transfer.h"

// check says whether a message that has come is of this call.
static int check(int rc, const MPI_Status *status, MPI_Count expected) {
    if (rc == MPI_SUCCESS && whm_status_bytes(status) != expected)
        rc = whm_other_call(status->MPI_SOURCE, whm_status_bytes(status), expected);
    return rc;
}

// Bruck et al. 1997: after each round a member has twice as many blocks, its own first, those of the ranks behind it in order.
int whm_share(whm_comm *comm, const void *mine, int each, void *all) {
    whm_comm *over = comm->remote ? comm->local : comm;
    whm_type *byte = whm_type_of(MPI_BYTE);
    int tag = whm_comm_tag(over), size = over->size, rank = over->rank, rc = MPI_SUCCESS;
    char *blocks = whm_malloc((size_t)size * (size_t)each);
    if (!blocks)
        whm_process_no_memory();
    memcpy(blocks, mine, (size_t)each);
    for (int have = 1; rc == MPI_SUCCESS && have < size; have *= 2) {
        MPI_Status status;
        int more = size - have < have ? size - have : have;
        rc = whm_sendrecv_wait(over, WHM_COLL, blocks, (MPI_Count)more * each, byte,
                               (rank - have + size) % size, tag, blocks + (size_t)have * each,
                               (MPI_Count)more * each, byte, (rank + have) % size, tag, &status);
        rc = check(rc, &status, (MPI_Count)more * each);
    }
    for (int i = 0; rc == MPI_SUCCESS && i < size; i++)
        memcpy((char *)all + (size_t)((rank + i) % size) * each, blocks + (size_t)i * each,
               (size_t)each);
    free(blocks);
    return rc;
}

// A binomial tree: rank r, counted from the root, hears from r without its lowest set bit.
int whm_share_from(whm_comm *comm, int root, void *data, int size) {
    whm_type *byte = whm_type_of(MPI_BYTE);
    int tag = whm_comm_tag(comm), n = comm->size, rc = MPI_SUCCESS;
    int me = (comm->rank - root + n) % n, bit = 1;
    while (bit < n && !(me & bit))
        bit *= 2;
    if (me) {
        MPI_Status status;
        rc = whm_recv_wait(comm, WHM_COLL, data, size, byte, (me - bit + root) % n, tag, &status);
        rc = check(rc, &status, size);
    }
    for (bit /= 2; rc == MPI_SUCCESS && bit; bit /= 2) {
        if (me + bit < n)
            rc = whm_send_wait(comm, WHM_COLL, data, size, byte, (me + bit + root) % n, tag,
                               WHM_STANDARD);
    }
    return rc;
}

int whm_share_remote(whm_comm *comm, const void *data, int size, void *other, int other_size) {
    whm_type *byte = whm_type_of(MPI_BYTE);
    int tag = whm_comm_tag(comm), rc = MPI_SUCCESS;
    if (comm->rank == 0)
        rc = whm_sendrecv_wait(comm, WHM_COLL, data, size, byte, 0, tag, other, other_size, byte, 0,
                               tag, MPI_STATUS_IGNORE);
    return rc == MPI_SUCCESS ? whm_share_from(comm->local, 0, other, other_size) : rc;
}
