// SPDX-License-Identifier: BSD-3-Clause
//
// Groups: lists of ranks of MPI_COMM_WORLD.  A group never changes once the program or a communicator has it; who makes one owns a reference.
#ifndef WHM_COMM_GROUP_H
#define WHM_COMM_GROUP_H

#include "mpi/base/object.h"
#include "mpi/base/rank.h"

typedef struct whm_group {
    whm_object o;
    int size;
    int rank;                     // the rank of who has made it, or MPI_UNDEFINED
    int *world;                   // numbers of the members in MPI_COMM_WORLD; NULL: member i is i
    struct whm_session *session;  // that it comes from; NULL: MPI_Init
} whm_group;

static inline int whm_group_world(const whm_group *group, int rank) {
    return group->world ? group->world[rank] : rank;
}
static inline whm_group *whm_group_of(MPI_Group handle) {
    return whm_object_of(handle, WHM_GROUP);
}
// whm_group_release drops a reference; MPI_GROUP_EMPTY, of which nobody counts them, stays.
void whm_group_release(whm_group *group);

// whm_group_new makes a group of `size` members, whose `world` the caller fills in before whm_group_made; of none: MPI_GROUP_EMPTY.
// NULL: no memory.
whm_group *whm_group_new(int size);

// whm_group_made finds this rank in it, and returns the group.
whm_group *whm_group_made(whm_group *group);

// whm_group_from notes that the group was made from `source`, whose session it has, and returns it; NULL too.
whm_group *whm_group_from(whm_group *group, const whm_group *source);

// whm_group_find returns the rank in the group of a rank of MPI_COMM_WORLD, or MPI_UNDEFINED.
int whm_group_find(const whm_group *group, int world);

// MPI_IDENT, MPI_SIMILAR or MPI_UNEQUAL.
int whm_group_compared(const whm_group *a, const whm_group *b, int *result);

// whm_group_ranks writes where the members of `from` stand in `to`: `size` of from's ints, MPI_UNDEFINED for those who do not.
int whm_group_ranks(const whm_group *from, const whm_group *to, int *ranks);

#endif
