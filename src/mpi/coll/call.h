// SPDX-License-Identifier: BSD-3-Clause
//
// The three ways to call a collective: waiting, with a request, and as a persistent request.
#ifndef WHM_COLL_CALL_H
#define WHM_COLL_CALL_H

#include "mpi/coll/coll.h"
#include "mpi/p2p/request.h"

// whm_coll_run carries it out; an MPI error class.
int whm_coll_run(const whm_coll *coll);

// whm_coll_begin starts it, whm_coll_prepare makes a request that can be started.  The arrays of the call may go when they return.
int whm_coll_begin(const whm_coll *coll, whm_request **request);
int whm_coll_prepare(const whm_coll *coll, whm_request **request);

// whm_coll_check says what is wrong with the arguments, as far as this rank can tell.
int whm_coll_check(const whm_coll *coll);

// whm_coll_compare says what is wrong with them beside those of the other ranks, where the program is run with WHERRY_MPI_CHECK=1: all of them
// get the same error.
int whm_coll_compare(const whm_coll *coll);

// whm_coll_compare_new is whm_compare_new for a collective.
struct whm_comparison *whm_coll_compare_new(const whm_coll *coll);

#endif
