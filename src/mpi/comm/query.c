// SPDX-License-Identifier: BSD-3-Clause
//
// What a program asks a communicator, and its name: local functions.
#include <stdio.h>
#include <string.h>

#include "mpi/bodies.h"
#include "mpi/comm/comm.h"
#include "mpi/comm/group.h"

int mpi_comm_size(whm_comm *comm, int *size) {
    *size = comm->size;
    return MPI_SUCCESS;
}

int mpi_comm_rank(whm_comm *comm, int *rank) {
    *rank = comm->rank;
    return MPI_SUCCESS;
}

int mpi_comm_test_inter(whm_comm *comm, int *flag) {
    *flag = comm->remote != NULL;
    return MPI_SUCCESS;
}

static int check_inter(const whm_comm *comm) {
    return comm->remote ? MPI_SUCCESS
                        : whm_fail(MPI_ERR_COMM, "only an intercommunicator has a remote group");
}

int mpi_comm_remote_size(whm_comm *comm, int *size) {
    int rc = check_inter(comm);
    if (rc == MPI_SUCCESS)
        *size = comm->remote->size;
    return rc;
}

int mpi_comm_group(whm_comm *comm, whm_group **group) {
    *group = whm_retain(comm->group);
    return MPI_SUCCESS;
}

int mpi_comm_remote_group(whm_comm *comm, whm_group **group) {
    int rc = check_inter(comm);
    if (rc == MPI_SUCCESS)
        *group = whm_retain(comm->remote);
    return rc;
}

int mpi_comm_compare(whm_comm *comm1, whm_comm *comm2, int *result) {
    *result = MPI_IDENT;
    if (comm1 == comm2)
        return MPI_SUCCESS;
    *result = MPI_UNEQUAL;
    if (!comm1->remote != !comm2->remote)
        return MPI_SUCCESS;
    int local, remote = MPI_IDENT;
    int rc = whm_group_compared(comm1->group, comm2->group, &local);
    if (rc == MPI_SUCCESS && comm1->remote)
        rc = whm_group_compared(comm1->remote, comm2->remote, &remote);
    if (rc != MPI_SUCCESS)
        return rc;
    if (local != MPI_UNEQUAL && remote != MPI_UNEQUAL)
        *result = local == MPI_IDENT && remote == MPI_IDENT ? MPI_CONGRUENT : MPI_SIMILAR;
    return MPI_SUCCESS;
}

int mpi_comm_set_name(whm_comm *comm, const char *comm_name) {
    snprintf(comm->name, sizeof(comm->name), "%s", comm_name);
    return MPI_SUCCESS;
}

int mpi_comm_get_name(whm_comm *comm, char *comm_name, int *resultlen) {
    strcpy(comm_name, comm ? comm->name : "MPI_COMM_NULL");
    *resultlen = (int)strlen(comm_name);
    return MPI_SUCCESS;
}

// No process has been started by MPI_Comm_spawn.
int mpi_comm_get_parent(whm_comm **parent) {
    *parent = NULL;
    return MPI_SUCCESS;
}
