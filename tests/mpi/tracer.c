// SPDX-License-Identifier: BSD-3-Clause
// A profiler as the standard describes: functions of MPI that say so and call the library's under its other name.
#include <stdio.h>

#include <mpi.h>

int MPI_Comm_toint(MPI_Comm comm) {
    puts("MPI_Comm_toint");
    return PMPI_Comm_toint(comm);
}

double MPI_Wtime(void) {
    puts("MPI_Wtime");
    return PMPI_Wtime();
}
