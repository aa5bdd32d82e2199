// SPDX-License-Identifier: BSD-3-Clause
//
// Making communicators: what functions that create them share.
#ifndef WHM_COMM_MAKE_H
#define WHM_COMM_MAKE_H

#include "mpi/comm/comm.h"
#include "mpi/env/attr.h"

// whm_comm_new makes one of this rank, which takes over the references to the groups, also if it fails (NULL: no memory).  Its context
// is taken already, or set later.  Its error handler is that of `parent`, or for NULL MPI_ERRORS_ARE_FATAL.
enum { WHM_CONTEXT_NONE = -1 };
whm_comm *whm_comm_new(whm_group *group, whm_group *remote, uint32_t context,
                       const whm_comm *parent);

static inline whm_holder whm_comm_holder(whm_comm *comm) {
    return (whm_holder){&comm->attrs, comm->o.handle, WHM_COMM};
}

#endif
