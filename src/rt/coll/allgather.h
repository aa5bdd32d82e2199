// SPDX-License-Identifier: BSD-3-Clause
#ifndef WHI_RT_COLL_ALLGATHER_H
#define WHI_RT_COLL_ALLGATHER_H

#include "rt/coll/op.h"

// What an operation that collects a block of each member has as the beginning of its state.  `blocks` has room for a block of each;
// the own one is the first there, and at the end that of the next rank the second, and so on around.
typedef struct whi_coll_bruck {
    uint64_t distance;
    uint64_t size;  // of a block
    char *blocks;
} whi_coll_bruck;

// whi_coll_bruck_step is the step of such an operation.  It needs two parts.
bool whi_coll_bruck_step(whi_coll_op *op);

#endif
