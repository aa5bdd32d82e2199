// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/comm/split.h"

#include <assert.h>
#include <stdlib.h>

#include "mpi/base/memory.h"
#include "mpi/base/process.h"
#include "mpi/bodies.h"
#include "mpi/comm/claim.h"
#include "mpi/comm/context.h"
#include "mpi/comm/group.h"
#include "mpi/comm/share.h"

typedef struct choice {  // of a member
    int failed, color, key;
    int rank;  // in its group
} choice;

static int by_key(const void *a, const void *b) {
    const choice *x = a, *y = b;
    return x->key != y->key ? (x->key > y->key) - (x->key < y->key) : x->rank - y->rank;
}

// group_of makes the group of those of a color, in the order of their keys.  It sorts the choices.
static whm_group *group_of(const whm_group *from, choice *all, int color) {
    int n = 0;
    assert(all);  // else no member has a color
    for (int i = 0; i < from->size; i++) {
        if (all[i].color == color)
            all[n++] = all[i];
    }
    qsort(all, (size_t)n, sizeof(*all), by_key);
    whm_group *group = whm_group_new(n);
    for (int i = 0; group && i < n; i++)
        group->world[i] = whm_group_world(from, all[i].rank);
    return group && n ? whm_group_made(group) : group;
}

static int check(const choice *all, int size, int me) {
    for (int i = 0; i < size; i++) {
        if (all[i].failed != MPI_SUCCESS && i == me)
            return all[i].failed;  // the reason is said
        if (all[i].failed != MPI_SUCCESS)
            return whm_fail(all[i].failed, "rank %d has failed in this call", i);
        if (all[i].color < 0 && all[i].color != MPI_UNDEFINED)
            return whm_fail(MPI_ERR_ARG,
                            "the color of rank %d is %d, neither MPI_UNDEFINED nor 0 or more", i,
                            all[i].color);
    }
    return MPI_SUCCESS;
}

// gather shares the choices of both groups: *local and *remote (NULL for an intracommunicator) are freed by the caller.
static int gather(whm_comm *comm, choice mine, choice **local, choice **remote) {
    int others = comm->remote ? comm->remote->size : 0;
    *local = whm_malloc((size_t)comm->size * sizeof(choice));
    *remote = others ? whm_malloc((size_t)others * sizeof(choice)) : NULL;
    if (!*local || (others && !*remote))
        whm_process_no_memory();
    int rc = whm_share(comm, &mine, sizeof(mine), *local);
    if (rc == MPI_SUCCESS && others)
        rc = whm_share_remote(comm, *local, comm->size * (int)sizeof(choice), *remote,
                              others * (int)sizeof(choice));
    if (rc == MPI_SUCCESS)
        rc = check(*local, comm->size, comm->rank);
    return rc == MPI_SUCCESS && others ? check(*remote, others, -1) : rc;
}

// claimed claims a context over all of a communicator, for *made, which is released if that fails, and may be NULL.
static int claimed(whm_comm *over, int failed, whm_comm **made) {
    uint32_t context = (uint32_t)WHM_CONTEXT_NONE;
    int rc = whm_claim_all(over, failed, &context);
    if (rc == MPI_SUCCESS && *made)
        (*made)->context = context;
    else if (rc == MPI_SUCCESS)
        whm_context_free(whm_self, context);
    if (rc != MPI_SUCCESS) {
        whm_comm_release(*made);
        *made = NULL;
    }
    return rc;
}

// make makes this rank's new communicator, without contexts; NULL: it has none.
static int make(whm_comm *comm, int color, choice *local, choice *remote, whm_comm **made) {
    *made = NULL;
    if (color == MPI_UNDEFINED)
        return MPI_SUCCESS;
    whm_group *group = group_of(comm->group, local, color);
    whm_group *other = comm->remote ? group_of(comm->remote, remote, color) : NULL;
    if (!group || (comm->remote && !other)) {
        whm_group_release(group);
        return whm_no_memory();
    }
    if (other && other->size == 0) {
        whm_group_release(group);
        return MPI_SUCCESS;
    }
    *made = whm_comm_new(group, other, (uint32_t)WHM_CONTEXT_NONE, comm);
    if (*made && other)
        (*made)->local = whm_comm_new(whm_retain(group), NULL, (uint32_t)WHM_CONTEXT_NONE, comm);
    return *made && (!other || (*made)->local) ? MPI_SUCCESS : whm_no_memory();
}

int whm_split(whm_comm *comm, int failed, int color, int key, whm_comm **newcomm) {
    choice mine = {failed, color, key, comm->rank}, *local, *remote;
    whm_comm *made = NULL;
    int rc = gather(comm, mine, &local, &remote);
    if (rc == MPI_SUCCESS)
        rc = claimed(comm, make(comm, color, local, remote, &made), &made);
    if (rc == MPI_SUCCESS && comm->remote) {
        whm_comm *inside = made ? made->local : NULL;
        rc = claimed(comm->local, MPI_SUCCESS, &inside);
        if (rc != MPI_SUCCESS && made) {
            made->local = NULL;
            whm_comm_release(made);
        }
    }
    free(local);
    free(remote);
    if (failed != MPI_SUCCESS)
        return failed;
    if (rc == MPI_SUCCESS)
        *newcomm = made;
    return rc;
}

int mpi_comm_split(whm_comm *comm, int color, int key, whm_comm **newcomm) {
    return whm_split(comm, MPI_SUCCESS, color, key, newcomm);
}
