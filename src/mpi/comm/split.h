// SPDX-License-Identifier: BSD-3-Clause
//
// Splitting a communicator by colors: those of one color make a new one, in the order of their keys.
#ifndef WHM_COMM_SPLIT_H
#define WHM_COMM_SPLIT_H

#include "mpi/comm/comm.h"

// whm_split is collective; color MPI_UNDEFINED: *newcomm is NULL.  `failed` is an error class of this rank, with which the call fails
// everywhere, or MPI_SUCCESS.  Of an intercommunicator both groups are split; a color without members in one of them gives NULL.
int whm_split(whm_comm *comm, int failed, int color, int key, whm_comm **newcomm);

// whm_host_of writes a number that is the same for processes that can share memory, and most likely differs between others.
long long whm_host_of(void);

#endif
