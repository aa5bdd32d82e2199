// SPDX-License-Identifier: BSD-3-Clause
//
// The fields of a status, for languages that cannot name them.
#include "mpi/bodies.h"

int mpi_status_get_source(const MPI_Status *status, int *source) {
    *source = status->MPI_SOURCE;
    return MPI_SUCCESS;
}

int mpi_status_set_source(MPI_Status *status, int source) {
    status->MPI_SOURCE = source;
    return MPI_SUCCESS;
}

int mpi_status_get_tag(const MPI_Status *status, int *tag) {
    *tag = status->MPI_TAG;
    return MPI_SUCCESS;
}

int mpi_status_set_tag(MPI_Status *status, int tag) {
    status->MPI_TAG = tag;
    return MPI_SUCCESS;
}

int mpi_status_get_error(const MPI_Status *status, int *error) {
    *error = status->MPI_ERROR;
    return MPI_SUCCESS;
}

int mpi_status_set_error(MPI_Status *status, int error) {
    status->MPI_ERROR = error;
    return MPI_SUCCESS;
}
