// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/env/kinds.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <wherry/mem.h>

const char *whm_alloc_kinds_asked(void) {
    const char *asked = getenv("WHERRY_MPI_MEMORY_ALLOC_KINDS");
    return asked && *asked ? asked : NULL;
}

// Sessions ask for all of the process: the standard allows more than what was asked for.
static atomic_bool cuda_asked;

void whm_alloc_kinds_ask(const char *kinds) {
    if (kinds && strstr(kinds, "cuda"))
        cuda_asked = true;
}

// Whether there is a device is looked for only if the user asks, as that loads its driver.
static const char *alloc_kinds(void) {
    whm_alloc_kinds_ask(whm_alloc_kinds_asked());
    return cuda_asked && wh_mem_kinds() & 1u << WH_MEM_CUDA ? "system,mpi,cuda" : "system,mpi";
}

int whm_hints_used(const whm_info *hints, whm_info **used) {
    whm_info *info = NULL;
    int rc = whm_info_copy(hints, &info);
    if (rc == MPI_SUCCESS)
        rc = whm_info_put(info, "mpi_memory_alloc_kinds", alloc_kinds());
    if (rc == MPI_SUCCESS)
        *used = info;
    else
        whm_info_release(info);
    return rc;
}
