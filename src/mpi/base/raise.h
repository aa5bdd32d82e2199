// SPDX-License-Identifier: BSD-3-Clause
//
// What becomes of a call that has failed: an error handler is asked.
#ifndef WHM_BASE_RAISE_H
#define WHM_BASE_RAISE_H

#include "mpi/base/object.h"
#include "mpi/base/rank.h"

// whm_raise asks the error handler of a communicator, window, file or session, and returns what the call is to return.  `object` NULL: the
// call concerns none, and the handler is MPI_COMM_SELF's, for files that of MPI_FILE_NULL, before MPI_Init the initial one.  src/mpi/env implements it.
int whm_raise(whm_kind kind, void *object, int code);

// whm_blame names the communicator whose error handler is asked when the call under way fails, where no argument tells: that of a request.
// It is held until then.
static inline int whm_blame(struct whm_comm *comm, int code) {
    if (comm && !whm_self->blame)
        whm_self->blame = (struct whm_comm *)whm_retain(comm);
    return code;
}

#endif
