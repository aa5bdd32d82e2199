// SPDX-License-Identifier: BSD-3-Clause
//
// What all groups share.  A group is a list of ranks of MPI_COMM_WORLD, so that all questions about two groups are answered by a table
// from there to the ranks of one of them.
#include "mpi/comm/group.h"

#include <stdlib.h>

#include "mpi/base/memory.h"
#include "mpi/base/process.h"
#include "mpi/comm/session.h"
#include "mpi/env/errhandler.h"

whm_group *whm_group_new(int size) {
    if (size == 0)
        return whm_group_of(MPI_GROUP_EMPTY);
    whm_group *group = whm_object_new(WHM_GROUP, sizeof(*group));
    if (!group)
        return NULL;
    group->size = size;
    group->rank = MPI_UNDEFINED;
    group->world = whm_malloc((size_t)size * sizeof(*group->world));
    if (!group->world) {
        whm_object_free(group, sizeof(*group));
        return NULL;
    }
    return group;
}

whm_group *whm_group_made(whm_group *group) {
    group->rank = whm_group_find(group, whm_self->world);
    return group;
}

void whm_group_release(whm_group *group) {
    if (!group || (uintptr_t)group->o.handle < 4096 || !whm_released(group))
        return;
    whm_session_release(group->session);
    free(group->world);
    whm_object_free(group, sizeof(*group));
}

whm_group *whm_group_from(whm_group *group, const whm_group *source) {
    if (group && source->session && group->size && !group->session)
        group->session = whm_retain(source->session);
    return group;
}

void whm_session_release(whm_session *session) {
    if (!session || !whm_released(session))
        return;
    whm_errhandler_release(session->errhandler);
    whm_object_free(session, sizeof(*session));
}

int whm_group_find(const whm_group *group, int world) {
    if (!group->world)
        return world >= 0 && world < group->size ? world : MPI_UNDEFINED;
    for (int i = 0; i < group->size; i++) {
        if (group->world[i] == world)
            return i;
    }
    return MPI_UNDEFINED;
}

int whm_group_ranks(const whm_group *from, const whm_group *to, int *ranks) {
    int *at = whm_malloc((size_t)whm_process_here.ranks * sizeof(*at));
    if (!at)
        return whm_no_memory();
    for (int w = 0; w < whm_process_here.ranks; w++)
        at[w] = MPI_UNDEFINED;
    for (int i = 0; i < to->size; i++)
        at[whm_group_world(to, i)] = i;
    for (int i = 0; i < from->size; i++)
        ranks[i] = at[whm_group_world(from, i)];
    free(at);
    return MPI_SUCCESS;
}

int whm_group_compared(const whm_group *a, const whm_group *b, int *result) {
    *result = MPI_UNEQUAL;
    if (a->size != b->size)
        return MPI_SUCCESS;
    int i = 0;
    while (i < a->size && whm_group_world(a, i) == whm_group_world(b, i))
        i++;
    if (i == a->size) {
        *result = MPI_IDENT;
        return MPI_SUCCESS;
    }
    int *ranks = whm_malloc((size_t)a->size * sizeof(*ranks));
    if (!ranks)
        return whm_no_memory();
    int rc = whm_group_ranks(a, b, ranks);
    for (i = 0; rc == MPI_SUCCESS && i < a->size && ranks[i] != MPI_UNDEFINED; i++)
        ;
    if (rc == MPI_SUCCESS && i == a->size)
        *result = MPI_SIMILAR;
    free(ranks);
    return rc;
}
