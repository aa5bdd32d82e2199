// SPDX-License-Identifier: BSD-3-Clause
//
// What the members of a communicator tell each other while they make another one from it: few bytes each, blocking.
#ifndef WHM_COMM_SHARE_H
#define WHM_COMM_SHARE_H

#include "mpi/comm/comm.h"

// whm_share gives every member of the local group `each` bytes of every one, in the order of their ranks.  Of an intercommunicator, too.
int whm_share(whm_comm *comm, const void *mine, int each, void *all);

// whm_share_from gives every member of an intracommunicator the bytes of `root`.
int whm_share_from(whm_comm *comm, int root, void *data, int size);

// whm_share_remote gives the leader's bytes, `size` of them, to all members of the other group of an intercommunicator, which get `other_size`.
int whm_share_remote(whm_comm *comm, const void *data, int size, void *other, int other_size);

#endif
