// SPDX-License-Identifier: BSD-3-Clause
//
// Communicators.
#ifndef WHM_COMM_COMM_H
#define WHM_COMM_COMM_H

#include "mpi/comm/group.h"

typedef struct whm_comm {
    whm_object o;
    whm_rank *owner;
    uint32_t
        context;  // of its messages; the same in all members, in both groups of an intercommunicator
    int rank, size;          // of this rank in the local group, and that group's size
    whm_group *group;        // local
    whm_group *remote;       // of an intercommunicator, else NULL
    struct whm_comm *local;  // of an intercommunicator: one of the local group, for agreement in it
    uint32_t collectives;    // begun on it so far: all members begin them in the same order
    uint32_t compared;       // calls so far that were compared (compare.h)
    struct whm_errhandler *errhandler;
    struct whm_attr *attrs;
    struct whm_info *info;
    struct whm_topo *topo;  // cartesian, graph or distributed graph; NULL: none
    void *coll;             // what src/mpi/coll keeps of it; freed by whm_comm_ops.end
    void *leaders;          // likewise, by whm_comm_ops.end_leaders
    struct whm_comm *
        over;  // it carries out collectives of that one, whose members have its own among them; NULL
    struct whm_buffer *buffer;    // MPI_Comm_attach_buffer
    struct whm_session *session;  // that its group comes from; NULL: MPI_Init
    bool freed;                   // the program has given it up; operations still hold it
    unsigned losses_told;         // of processes, as receives from any source have said so far
    char name[MPI_MAX_OBJECT_NAME];
} whm_comm;

static inline whm_comm *whm_comm_of(MPI_Comm handle) {
    return whm_object_of(handle, WHM_COMM);
}
// The group that sends go to and receives come from.
static inline const whm_group *whm_comm_peers(const whm_comm *comm) {
    return comm->remote ? comm->remote : comm->group;
}
// Whether this rank is the root of a collective, of the group that the root is in.
static inline bool whm_at_root(const whm_comm *comm, int root) {
    return comm->remote ? root == MPI_ROOT : root == comm->rank;
}

// What the communicator is called, for people, who know nothing of those below it.
static inline const char *whm_comm_title(const whm_comm *comm) {
    while (comm->over)
        comm = comm->over;
    return *comm->name ? comm->name : "a communicator without a name";
}

// whm_comm_release drops a reference; the last one frees its context for other communicators.
void whm_comm_release(whm_comm *comm);

// whm_comm_known_rank returns by which number people know a member: it is a rank of the communicator that whm_comm_title names.
static inline int whm_comm_known_rank(const whm_comm *comm, int rank) {
    if (!comm->over || rank < 0)
        return rank;
    int world = whm_group_world(comm->group, rank);
    while (comm->over)
        comm = comm->over;
    for (rank = 0; whm_group_world(comm->group, rank) != world; rank++)
        ;
    return rank;
}

// whm_comm_tag returns the tag, in the space WHM_COLL, of a collective that begins now on an intracommunicator or an intercommunicator:
// the same in all members, below WHM_TAG_CREATE.
enum {
    WHM_TAG_CREATE = 1 << 29
};  // here and above: communicator creation that is not collective over the communicator
static inline int whm_comm_tag(whm_comm *comm) {
    return (int)(comm->collectives++ % WHM_TAG_CREATE);
}

// What the parts above keep of each communicator is ended by their functions, when its last reference goes.
typedef struct whm_comm_ends {
    void (*end)(whm_comm *comm);  // src/mpi/coll; NULL: nothing to end
    void (*end_leaders)(whm_comm *comm);
    // This rank begins no collective on it any more: who waits for it in one hears so.
    void (*leave)(whm_comm *comm);
} whm_comm_ends;
extern whm_comm_ends whm_comm_ops;

// whm_comms_begin makes MPI_COMM_WORLD, MPI_COMM_SELF and MPI_GROUP_EMPTY of a rank.
int whm_comms_begin(whm_rank *rank);
void whm_comms_end(whm_rank *rank);

#endif
