// SPDX-License-Identifier: BSD-3-Clause
//
// The assertions of the standard are kept and told, and need nothing of the library: matching is as fast without them.
#include "mpi/comm/hints.h"

#include <stdlib.h>
#include <string.h>
#include <wherry/mem.h>

#include "mpi/bodies.h"

static const char *const known[] = {"mpi_assert_no_any_tag", "mpi_assert_no_any_source",
                                    "mpi_assert_exact_length", "mpi_assert_allow_overtaking", NULL};

int whm_comm_hints(whm_comm *comm, const whm_info *info) {
    return whm_info_hints(&comm->info, info, known);
}

// Whether there is a device is looked for only if the user asks, as that loads its driver.
const char *whm_alloc_kinds(void) {
    const char *asked = getenv("WHERRY_MPI_MEMORY_ALLOC_KINDS");
    bool cuda = asked && strstr(asked, "cuda") && wh_mem_kinds() & 1u << WH_MEM_CUDA;
    return cuda ? "system,mpi,cuda" : "system,mpi";
}

int mpi_comm_set_info(whm_comm *comm, whm_info *info) {
    return whm_comm_hints(comm, info);
}

// All that are in use: those given, and the others with what holds without them.
int mpi_comm_get_info(whm_comm *comm, whm_info **info_used) {
    whm_info *info = NULL;
    int rc = whm_info_copy(comm->info, &info);
    for (int i = 0; rc == MPI_SUCCESS && known[i]; i++) {
        if (!whm_info_value(info, known[i]))
            rc = whm_info_put(info, known[i], "false");
    }
    if (rc == MPI_SUCCESS)
        rc = whm_info_put(info, "mpi_memory_alloc_kinds", whm_alloc_kinds());
    if (rc == MPI_SUCCESS)
        *info_used = info;
    else
        whm_info_release(info);
    return rc;
}
