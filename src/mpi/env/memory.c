// SPDX-License-Identifier: BSD-3-Clause
//
// MPI_Alloc_mem: memory that is good for messages and windows.  All of the host's is; its alignment is what is promised.
#include <stdlib.h>

#include "mpi/base/lock.h"
#include "mpi/bodies.h"
#include "mpi/env/info.h"

enum { LINE = 64, ALIGNMENT_MAX = 1 << 30 };

// alignment reads what the program asks for at least: a power of two.
static int alignment(const whm_info *info, size_t *bytes) {
    const char *text = whm_info_value(info, "mpi_minimum_memory_alignment");
    *bytes = LINE;
    if (!text)
        return MPI_SUCCESS;
    char *end;
    long asked = strtol(text, &end, 10);
    if (*end || asked < 1 || asked > ALIGNMENT_MAX || (asked & (asked - 1)))
        return whm_fail(MPI_ERR_INFO_VALUE,
                        "mpi_minimum_memory_alignment is \"%s\", not a power of two", text);
    if (asked > LINE)
        *bytes = (size_t)asked;
    return MPI_SUCCESS;
}

int mpi_alloc_mem(MPI_Aint size, whm_info *info, void *baseptr) {
    size_t bytes;
    int rc = alignment(info, &bytes);
    if (rc != MPI_SUCCESS)
        return rc;
    void *memory = NULL;
    whm_go_out();  // it is the program's
    int error = posix_memalign(&memory, bytes, size ? (size_t)size : 1);
    whm_come_back();
    if (error)
        return whm_fail(MPI_ERR_NO_MEM, "there are no %lld bytes of memory", (long long)size);
    *(void **)baseptr = memory;
    return MPI_SUCCESS;
}

int mpi_free_mem(void *base) {
    free(base);
    return MPI_SUCCESS;
}
