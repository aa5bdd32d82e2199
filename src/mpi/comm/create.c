// SPDX-License-Identifier: BSD-3-Clause
//
// Communicators of a subgroup, and their end.
#include <assert.h>
#include <stdlib.h>

#include "mpi/base/memory.h"
#include "mpi/base/process.h"
#include "mpi/bodies.h"
#include "mpi/comm/claim.h"
#include "mpi/comm/compare.h"
#include "mpi/comm/context.h"
#include "mpi/comm/create.h"
#include "mpi/comm/group.h"
#include "mpi/comm/make.h"
#include "mpi/comm/split.h"

// members_of writes where the members of a group stand in the communicator's, as an array that the caller frees.
static int members_of(const whm_comm *comm, const whm_group *group, int **members) {
    int *ranks = whm_malloc((size_t)group->size * sizeof(*ranks) + 1);
    int rc = ranks ? whm_group_ranks(group, comm->group, ranks) : whm_no_memory();
    for (int i = 0; rc == MPI_SUCCESS && i < group->size; i++) {
        if (ranks[i] == MPI_UNDEFINED)
            rc = whm_fail(MPI_ERR_GROUP,
                          "member %d of the group, rank %d of MPI_COMM_WORLD, is not in the "
                          "communicator",
                          i, whm_group_world(group, i));
    }
    if (rc == MPI_SUCCESS)
        *members = ranks;
    else
        free(ranks);
    return rc;
}

// born gives a communicator of the group a context; *newcomm NULL: this rank is not in it.
static int born(uint32_t context, whm_group *group, const whm_comm *parent, whm_comm **newcomm) {
    *newcomm = NULL;
    assert(group);  // else the claim has failed
    if (group->rank == MPI_UNDEFINED) {
        whm_context_free(whm_self, context);
        return MPI_SUCCESS;
    }
    *newcomm = whm_comm_new(whm_retain(group), NULL, context, parent);
    if (*newcomm)
        return MPI_SUCCESS;
    whm_context_free(whm_self, context);
    return whm_no_memory();
}

int mpi_comm_create(whm_comm *comm, whm_group *group, whm_comm **newcomm) {
    int *members = NULL;
    int failed = members_of(comm, group, &members);
    free(members);
    bool in = failed == MPI_SUCCESS && group->rank != MPI_UNDEFINED;
    if (comm->remote)
        return whm_split(comm, failed, in ? 0 : MPI_UNDEFINED, in ? group->rank : 0, newcomm);
    // Groups of several calls are disjoint, so that one context does for all of them.
    uint32_t context = (uint32_t)WHM_CONTEXT_NONE;
    int rc = whm_claim_all(comm, failed, &context);
    return rc == MPI_SUCCESS ? born(context, group, comm, newcomm) : rc;
}

int whm_comm_first(whm_comm *comm, int failed, int count, whm_comm **newcomm) {
    *newcomm = NULL;
    whm_group *group = NULL;
    if (failed == MPI_SUCCESS && !(group = whm_group_new(count)))
        failed = whm_no_memory();
    for (int i = 0; group && i < group->size; i++)
        group->world[i] = whm_group_world(comm->group, i);
    if (group && group->size)
        whm_group_made(group);
    uint32_t context = (uint32_t)WHM_CONTEXT_NONE;
    int rc = whm_claim_all(comm, failed, &context);
    if (rc == MPI_SUCCESS)
        rc = born(context, group, comm, newcomm);
    whm_group_release(group);
    return rc;
}

int mpi_comm_create_group(whm_comm *comm, whm_group *group, int tag, whm_comm **newcomm) {
    if (comm->remote)
        return whm_fail(MPI_ERR_COMM, "MPI_Comm_create_group takes no intercommunicator");
    *newcomm = NULL;
    if (group->rank == MPI_UNDEFINED)
        return MPI_SUCCESS;
    int *members = NULL;
    int rc = members_of(comm, group, &members);
    if (rc != MPI_SUCCESS)
        return rc;
    whm_claim claim = {
        .agree = {.comm = comm,
                  .members = members,
                  .size = group->size,
                  .me = group->rank,
                  .tag = WHM_TAG_CREATE | tag % WHM_TAG_CREATE},
    };
    rc = whm_claim_wait(&claim);
    free(members);
    return rc == MPI_SUCCESS ? born(claim.context, group, comm, newcomm) : rc;
}

// ---- The end.

static int end(whm_comm *comm) {
    int rc = whm_attrs_delete(whm_comm_holder(comm));
    if (rc != MPI_SUCCESS)
        return rc;
    comm->freed = true;
    comm->o.mark = 0;  // its handle is none from now on, while operations may still hold it
    whm_comm_release(comm);
    return MPI_SUCCESS;
}

int mpi_comm_free(whm_comm *comm) {
    if ((uintptr_t)comm->o.handle < 4096)
        return whm_fail(MPI_ERR_COMM, "%s cannot be freed", comm->name);
    whm_compare_behind(comm);
    return end(comm);
}

int mpi_comm_disconnect(whm_comm *comm) {
    if ((uintptr_t)comm->o.handle < 4096)
        return whm_fail(MPI_ERR_COMM, "%s cannot be disconnected", comm->name);
    // The program has completed its own operations; all others are behind those of the agreement.
    whm_agreement agree = {0};
    whm_agree_all(&agree, comm);
    int rc = whm_agree_wait(&agree);
    return rc == MPI_SUCCESS ? end(comm)
                             : whm_agree_fail(&agree, "a process of it does not answer");
}
