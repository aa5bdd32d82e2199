// SPDX-License-Identifier: BSD-3-Clause
//
// The assertions of the standard are kept and told, and need nothing of the library: matching is as fast without them.
#include "mpi/comm/hints.h"

#include "mpi/bodies.h"
#include "mpi/env/kinds.h"

static const char *const known[] = {"mpi_assert_no_any_tag", "mpi_assert_no_any_source",
                                    "mpi_assert_exact_length", "mpi_assert_allow_overtaking", NULL};

int whm_comm_hints(whm_comm *comm, const whm_info *info) {
    return whm_info_hints(&comm->info, info, known);
}

int mpi_comm_set_info(whm_comm *comm, whm_info *info) {
    return whm_comm_hints(comm, info);
}

// All that are in use: those given, and the others with what holds without them.
int mpi_comm_get_info(whm_comm *comm, whm_info **info_used) {
    whm_info *info = NULL;
    int rc = whm_hints_used(comm->info, &info);
    for (int i = 0; rc == MPI_SUCCESS && known[i]; i++) {
        if (!whm_info_value(info, known[i]))
            rc = whm_info_put(info, known[i], "false");
    }
    if (rc == MPI_SUCCESS)
        *info_used = info;
    else
        whm_info_release(info);
    return rc;
}
