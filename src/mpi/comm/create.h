// SPDX-License-Identifier: BSD-3-Clause
//
// Communicators of the first ranks of another one: those with a topology.
#ifndef WHM_COMM_CREATE_H
#define WHM_COMM_CREATE_H

#include "mpi/comm/comm.h"

// whm_comm_first is collective: *newcomm has the first `count` ranks, in their order, and is NULL for the others.  `failed` is an error class
// of this rank, with which the call fails everywhere, or MPI_SUCCESS; *newcomm is NULL then.
int whm_comm_first(whm_comm *comm, int failed, int count, whm_comm **newcomm);

#endif
