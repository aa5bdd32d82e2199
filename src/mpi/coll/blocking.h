// SPDX-License-Identifier: BSD-3-Clause
//
// Blocking collectives: through shared memory, by leaders, or by messages of all.
#ifndef WHM_COLL_BLOCKING_H
#define WHM_COLL_BLOCKING_H

#include "mpi/coll/coll.h"

// whm_coll_carry_out does so, and waits: an MPI error class, with a sentence.  The arguments are checked.
int whm_coll_carry_out(const whm_coll *coll);

#endif
