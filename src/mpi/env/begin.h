// SPDX-License-Identifier: BSD-3-Clause
//
// A rank's begin and end: the parts of the library in their order.
#ifndef WHM_ENV_BEGIN_H
#define WHM_ENV_BEGIN_H

#include "mpi/base/rank.h"

// whm_rank_early makes what programs may use before MPI_Init: error handlers and infos.
void whm_rank_early(whm_rank *rank);

// whm_job_begin joins the job with a thread level (MPI_THREAD_*) and makes all that this rank has of MPI, whm_job_end leaves it and frees that.
// An MPI error code.  MPI_Init and sessions call them; each counts, and only the first and the last do it.
int whm_job_begin(int level);
int whm_job_end(void);

// whm_tell_leaks says on stderr what the program has left undone when it ends: requests, receives, messages.
void whm_tell_leaks(const whm_rank *rank);

#endif
