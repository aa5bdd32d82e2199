// SPDX-License-Identifier: BSD-3-Clause
//
// The hints of communicators that the library knows.
#ifndef WHM_COMM_HINTS_H
#define WHM_COMM_HINTS_H

#include "mpi/comm/comm.h"
#include "mpi/env/info.h"

// whm_comm_hints takes those of `info` over that are known.
int whm_comm_hints(whm_comm *comm, const whm_info *info);

#endif
