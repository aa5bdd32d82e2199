// SPDX-License-Identifier: BSD-3-Clause
//
// MPI_Alloc_mem: host memory of the engine's, aligned to lines of the cache, large pieces in huge pages where the system has them.
#include <wherry/mem.h>

#include "mpi/base/rank.h"
#include "mpi/bodies.h"

int mpi_alloc_mem(MPI_Aint size, whm_info *info, void *baseptr) {
    (void)info;
    void *memory;
    // Of no bytes it gives an address, too, which MPI_Free_mem takes.
    wh_status status = wh_mem_alloc_kind(WH_MEM_HOST, 0, size ? (size_t)size : 1, &memory);
    if (status != WH_OK)
        return whm_fail(MPI_ERR_NO_MEM, "there are no %lld bytes", (long long)size);
    *(void **)baseptr = memory;
    return MPI_SUCCESS;
}

int mpi_free_mem(void *base) {
    if (wh_mem_free_kind(WH_MEM_HOST, base) != WH_OK)
        return whm_fail(MPI_ERR_BASE, "%p is no memory of MPI_Alloc_mem", base);
    return MPI_SUCCESS;
}
