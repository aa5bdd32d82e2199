// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/comm/comm.h"

#include <stdio.h>

#include "mpi/base/process.h"
#include "mpi/comm/context.h"
#include "mpi/comm/make.h"
#include "mpi/comm/session.h"
#include "mpi/comm/topology.h"
#include "mpi/env/errhandler.h"
#include "mpi/env/info.h"

whm_comm_ends whm_comm_ops;

whm_comm *whm_comm_new(whm_group *group, whm_group *remote, uint32_t context,
                       const whm_comm *parent) {
    whm_comm *comm = whm_object_new(WHM_COMM, sizeof(*comm));
    if (!comm) {
        whm_group_release(group);
        whm_group_release(remote);
        return NULL;
    }
    comm->owner = whm_self;
    comm->context = context;
    comm->group = group;
    comm->remote = remote;
    comm->rank = group->rank;
    comm->size = group->size;
    const whm_session *session = parent ? parent->session : group->session;
    comm->session = session ? whm_retain((void *)(uintptr_t)session) : NULL;
    comm->errhandler =
        whm_errhandler_hold(parent ? parent->errhandler : whm_errhandler_of(MPI_ERRORS_ARE_FATAL));
    return comm;
}

void whm_comm_release(whm_comm *comm) {
    if (!comm || !whm_released(comm))
        return;
    if (whm_comm_ops.end)
        whm_comm_ops.end(comm);
    if (whm_comm_ops.end_leaders)
        whm_comm_ops.end_leaders(comm);
    if (comm->context != (uint32_t)WHM_CONTEXT_NONE)
        whm_context_free(comm->owner, comm->context);
    whm_comm_release(comm->local);
    whm_errhandler_release(comm->errhandler);
    whm_info_release(comm->info);
    whm_session_release(comm->session);
    whm_topo_release(comm->topo);
    whm_group_release(comm->group);
    whm_group_release(comm->remote);
    whm_object_free(comm, sizeof(*comm));
}

// ---- The predefined ones.

static void name(whm_object *object, void *handle) {
    object->handle = handle;
    whm_self->named[(uintptr_t)handle] = object;
}

// begin_one makes MPI_COMM_WORLD of all ranks, or MPI_COMM_SELF of one.
static whm_comm *begin_one(MPI_Comm handle, uint32_t context, int size, const char *text) {
    whm_group *group = whm_group_new(size);
    if (!group || !whm_context_claim(context))
        return NULL;
    for (int i = 0; i < size; i++)
        group->world[i] = size == 1 ? whm_self->world : i;
    whm_comm *comm = whm_comm_new(whm_group_made(group), NULL, context, NULL);
    if (!comm)
        return NULL;
    name(&comm->o, handle);
    snprintf(comm->name, sizeof(comm->name), "%s", text);
    return comm;
}

int whm_comms_begin(whm_rank *rank) {
    int rc = whm_contexts_begin(rank);
    if (rc != MPI_SUCCESS)
        return rc;
    whm_group *empty = whm_object_new(WHM_GROUP, sizeof(*empty));
    if (!empty)
        return whm_no_memory();
    empty->rank = MPI_UNDEFINED;
    name(&empty->o, MPI_GROUP_EMPTY);
    rank->comm_world =
        begin_one(MPI_COMM_WORLD, WHM_CONTEXT_WORLD, whm_process_here.ranks, "MPI_COMM_WORLD");
    rank->comm_self = begin_one(MPI_COMM_SELF, WHM_CONTEXT_SELF, 1, "MPI_COMM_SELF");
    return rank->comm_world && rank->comm_self ? MPI_SUCCESS : whm_no_memory();
}

void whm_comms_end(whm_rank *rank) {
    whm_comm_release(rank->comm_self);
    whm_comm_release(rank->comm_world);
    rank->comm_self = rank->comm_world = NULL;
    whm_object *empty = rank->named[(uintptr_t)MPI_GROUP_EMPTY];
    if (empty)
        whm_object_free(empty, sizeof(whm_group));
    rank->named[(uintptr_t)MPI_COMM_WORLD] = NULL;
    rank->named[(uintptr_t)MPI_COMM_SELF] = NULL;
    rank->named[(uintptr_t)MPI_GROUP_EMPTY] = NULL;
    whm_contexts_end(rank);
}
