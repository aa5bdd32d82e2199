// SPDX-License-Identifier: BSD-3-Clause
//
// Intercommunicators: made from two groups that do not overlap, and merged into one.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/base/memory.h"
#include "mpi/base/process.h"
#include "mpi/bodies.h"
#include "mpi/comm/claim.h"
#include "mpi/comm/context.h"
#include "mpi/comm/group.h"
#include "mpi/comm/inter.h"
#include "mpi/comm/share.h"

enum { BRIDGE = WHM_TAG_CREATE << 1 };  // tags of messages between leaders

// ---- The leaders tell each other their groups.

typedef struct head {  // of what the leader tells its own group
    int error, size;
} head;

// meet exchanges lists of members with the other leader: *other is freed by the caller.
static int meet(const whm_meeting *with, const whm_group *local, int *size, int **other) {
    whm_type *byte = whm_type_of(MPI_BYTE);
    int *mine = whm_malloc((size_t)local->size * sizeof(*mine));
    if (!mine)
        return whm_no_memory();
    for (int i = 0; i < local->size; i++)
        mine[i] = whm_group_world(local, i);
    int rc = whm_sendrecv_wait(with->bridge, WHM_COLL, &local->size, sizeof(int), byte, with->peer,
                               with->tag, size, sizeof(int), byte, with->peer, with->tag,
                               MPI_STATUS_IGNORE);
    int *theirs = rc == MPI_SUCCESS ? whm_malloc((size_t)*size * sizeof(*theirs)) : NULL;
    if (rc == MPI_SUCCESS && !theirs)
        rc = whm_no_memory();
    if (rc == MPI_SUCCESS)
        rc = whm_sendrecv_wait(with->bridge, WHM_COLL, mine, local->size * (int)sizeof(int), byte,
                               with->peer, with->tag, theirs, *size * (int)sizeof(int), byte,
                               with->peer, with->tag, MPI_STATUS_IGNORE);
    free(mine);
    *other = theirs;
    return rc;
}

static int disjoint(const whm_group *a, const whm_group *b) {
    int *ranks = whm_malloc((size_t)a->size * sizeof(*ranks));
    int rc = ranks ? whm_group_ranks(a, b, ranks) : whm_no_memory();
    for (int i = 0; rc == MPI_SUCCESS && i < a->size; i++) {
        if (ranks[i] != MPI_UNDEFINED)
            rc = whm_fail(MPI_ERR_COMM, "rank %d of MPI_COMM_WORLD is in both groups",
                          whm_group_world(a, i));
    }
    free(ranks);
    return rc;
}

// learn makes the remote group, from what the leader has heard; `failed` is the leader's error.
static int learn(whm_comm *local, int leader, const whm_meeting *with, whm_group **remote) {
    head h = {MPI_SUCCESS, 0};
    int *list = NULL;
    if (local->rank == leader)
        h.error =
            with->error != MPI_SUCCESS ? with->error : meet(with, local->group, &h.size, &list);
    int rc = whm_share_from(local, leader, &h, sizeof(h));
    if (rc == MPI_SUCCESS && h.error != MPI_SUCCESS)
        rc = local->rank == leader
                 ? h.error
                 : whm_fail(h.error, "the leader, rank %d, has failed in this call", leader);
    whm_group *group = rc == MPI_SUCCESS ? whm_group_new(h.size) : NULL;
    if (rc == MPI_SUCCESS && !group)
        rc = whm_no_memory();
    if (group && list)
        memcpy(group->world, list, (size_t)h.size * sizeof(*list));
    free(list);
    if (group)
        rc = whm_share_from(local, leader, group->world, h.size * (int)sizeof(int));
    if (group)
        whm_group_made(group);
    if (rc == MPI_SUCCESS)
        rc = disjoint(local->group, group);
    if (rc == MPI_SUCCESS)
        *remote = group;
    else
        whm_group_release(group);
    return rc;
}

// claim_both claims the contexts of an intercommunicator and of its `local`.
static int claim_both(whm_comm *local, int leader, const whm_meeting *with, whm_comm *made,
                      int failed) {
    whm_claim claim = {.failed = failed};
    whm_agree_all(&claim.agree, local);
    claim.agree.two = true;
    claim.agree.leader = leader;
    claim.agree.bridge = with->bridge;
    claim.agree.peer = with->peer;
    claim.agree.bridge_tag = with->tag;
    int rc = whm_claim_wait(&claim);
    if (rc != MPI_SUCCESS)
        return rc;
    assert(made && made->local);  // else the claim has failed
    made->context = claim.context;
    return whm_claim_all(local, MPI_SUCCESS, &made->local->context);
}

int whm_intercomm(whm_comm *local, int leader, const whm_meeting *with, whm_comm **made) {
    whm_group *remote = NULL;
    int failed = learn(local, leader, with, &remote);
    // Where learning fails it fails for both groups, but for a lost process and for want of memory.
    if (failed != MPI_SUCCESS)
        return failed;
    whm_comm *inter =
        whm_comm_new(whm_retain(local->group), remote, (uint32_t)WHM_CONTEXT_NONE, local);
    if (inter)
        inter->local =
            whm_comm_new(whm_retain(local->group), NULL, (uint32_t)WHM_CONTEXT_NONE, local);
    failed = inter && inter->local ? MPI_SUCCESS : whm_no_memory();
    int rc = claim_both(local, leader, with, inter, failed);
    if (rc == MPI_SUCCESS)
        *made = inter;
    else
        whm_comm_release(inter);
    return rc;
}

int mpi_intercomm_create(whm_comm *local_comm, int local_leader, whm_comm *peer_comm,
                         int remote_leader, int tag, whm_comm **newintercomm) {
    if (local_comm->remote)
        return whm_fail(MPI_ERR_COMM, "the local communicator is an intercommunicator");
    if (local_leader < 0 || local_leader >= local_comm->size)
        return whm_fail(MPI_ERR_RANK, "there is no rank %d in the local communicator of %d",
                        local_leader, local_comm->size);
    whm_meeting with = {peer_comm, remote_leader, BRIDGE | tag % WHM_TAG_CREATE, MPI_SUCCESS};
    if (local_comm->rank == local_leader) {
        if (!peer_comm)
            with.error = whm_fail(MPI_ERR_COMM, "the leader needs a communicator with its peer");
        else if (remote_leader < 0 || remote_leader >= whm_comm_peers(peer_comm)->size)
            with.error = whm_fail(MPI_ERR_RANK, "there is no rank %d in the peer communicator",
                                  remote_leader);
    }
    return whm_intercomm(local_comm, local_leader, &with, newintercomm);
}

// ---- Merging.

// The group whose first member has the lower rank in MPI_COMM_WORLD is A; both sides know which they are.
enum { HIGH_A = WHM_CLAIM_OWN, LOW_A, HIGH_B, LOW_B };
_Static_assert((int)LOW_B < (int)WHM_AGREED, "there is room for it");

static whm_group *joined(const whm_group *low, const whm_group *high) {
    whm_group *group = whm_group_new(low->size + high->size);
    for (int i = 0; group && i < group->size; i++)
        group->world[i] =
            i < low->size ? whm_group_world(low, i) : whm_group_world(high, i - low->size);
    return group ? whm_group_made(group) : NULL;
}

int mpi_intercomm_merge(whm_comm *intercomm, int high, whm_comm **newintracomm) {
    if (!intercomm->remote)
        return whm_fail(MPI_ERR_COMM, "only intercommunicators can be merged");
    bool a = whm_group_world(intercomm->group, 0) < whm_group_world(intercomm->remote, 0);
    whm_claim claim = {0};
    whm_agree_all(&claim.agree, intercomm);
    int64_t *said = claim.agree.value;
    said[HIGH_A] = said[LOW_A] = said[HIGH_B] = said[LOW_B] = INT64_MIN;
    said[a ? HIGH_A : HIGH_B] = high != 0;
    said[a ? LOW_A : LOW_B] = -(high != 0);
    int rc = whm_claim_wait(&claim);
    if (rc != MPI_SUCCESS)
        return rc;
    if (said[HIGH_A] != -said[LOW_A] || said[HIGH_B] != -said[LOW_B])
        rc = whm_fail(MPI_ERR_ARG, "`high` differs between the members of a group");
    // Both high, or both low: A is the lower one.
    bool first = said[HIGH_A] == said[HIGH_B] ? a : !high;
    whm_group *group = rc != MPI_SUCCESS ? NULL
                       : first           ? joined(intercomm->group, intercomm->remote)
                                         : joined(intercomm->remote, intercomm->group);
    whm_comm *made = group ? whm_comm_new(group, NULL, claim.context, intercomm) : NULL;
    if (made)
        *newintracomm = made;
    else
        whm_context_free(whm_self, claim.context);
    return made || rc != MPI_SUCCESS ? rc : whm_no_memory();
}
