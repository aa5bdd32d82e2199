// SPDX-License-Identifier: BSD-3-Clause
//
// Blocking collectives that are another one, and some work of each rank by itself: where memory that ranks share makes the other one cheap.
#ifndef WHM_COLL_COMPOSE_H
#define WHM_COLL_COMPOSE_H

#include "mpi/coll/coll.h"

typedef int whm_carry_out_fn(const whm_coll *coll);

// whm_coll_compose carries out a scan, exscan or reduce-scatter so, by what `carry_out` does, if it is short enough and the communicator's ranks share
// memory, or those of each host do: false, and otherwise *error.
bool whm_coll_compose(const whm_coll *coll, whm_carry_out_fn *carry_out, int *error);

#endif
