// SPDX-License-Identifier: BSD-3-Clause
//
// Sessions: each holds the job as MPI_Init does.  Groups and communicators that come from one know it.
#ifndef WHM_COMM_SESSION_H
#define WHM_COMM_SESSION_H

#include "mpi/base/object.h"
#include "mpi/base/rank.h"

typedef struct whm_session {
    whm_object o;
    struct whm_errhandler *errhandler;  // second, as the error handlers want it
    struct whm_buffer *buffer;          // MPI_Session_attach_buffer
    int level;                          // MPI_THREAD_*, as asked for
} whm_session;

void whm_session_release(whm_session *session);

#endif
