// SPDX-License-Identifier: BSD-3-Clause
#ifndef WHM_MPIX_KEEPS_H
#define WHM_MPIX_KEEPS_H

#include "mpi/mpix/joint.h"

extern whm_joint_t whm_joint;

// The heap of the rank that runs in this thread; NULL: memory is the C library's.
extern _Thread_local void *whm_mpix_heap __attribute__((tls_model("initial-exec")));

#endif
