// SPDX-License-Identifier: BSD-3-Clause
//
// Functions that cannot fail and concern no object: they are what they return.
#include <time.h>

#include "mpi/front/check.h"

double PMPI_Wtime(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
WHM_WEAK(MPI_Wtime);

double PMPI_Wtick(void) {
    struct timespec t;
    clock_getres(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
WHM_WEAK(MPI_Wtick);

// Addresses are numbers that wrap, as unsigned ones do.
MPI_Aint PMPI_Aint_add(MPI_Aint base, MPI_Aint disp) {
    return (MPI_Aint)((uintptr_t)base + (uintptr_t)disp);
}
WHM_WEAK(MPI_Aint_add);

MPI_Aint PMPI_Aint_diff(MPI_Aint addr1, MPI_Aint addr2) {
    return (MPI_Aint)((uintptr_t)addr1 - (uintptr_t)addr2);
}
WHM_WEAK(MPI_Aint_diff);

// For profilers, which put their own in its place.
int PMPI_Pcontrol(const int level, ...) {
    (void)level;
    return MPI_SUCCESS;
}
WHM_WEAK(MPI_Pcontrol);
