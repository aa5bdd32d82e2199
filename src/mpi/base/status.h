// SPDX-License-Identifier: BSD-3-Clause
//
// The fields of a status that are the library's: how many bytes came, and whether the operation was cancelled.
#ifndef WHM_BASE_STATUS_H
#define WHM_BASE_STATUS_H

#include <mpi.h>
#include <stdbool.h>
#include <string.h>

// The bytes lie in the first two of the ints that the ABI leaves to the library.
static inline MPI_Count whm_status_bytes(const MPI_Status *status) {
    MPI_Count bytes;
    memcpy(&bytes, &status->MPI_internal[0], sizeof(bytes));
    return bytes;
}

static inline void whm_status_set_bytes(MPI_Status *status, MPI_Count bytes) {
    memcpy(&status->MPI_internal[0], &bytes, sizeof(bytes));
}

// All fields but MPI_ERROR.
static inline void whm_status_set(MPI_Status *status, int source, int tag, MPI_Count bytes,
                                  bool cancelled) {
    status->MPI_SOURCE = source;
    status->MPI_TAG = tag;
    whm_status_set_bytes(status, bytes);
    status->MPI_internal[2] = cancelled;
}

#endif
