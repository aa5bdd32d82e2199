// SPDX-License-Identifier: BSD-3-Clause
//
// MPI_APPNUM is the number that stands on the command line: which of the programs of `mpiexec A : B` this is.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int *number, found, rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &found);
    int right = argc > 1 && found && *number == atoi(argv[1]);
    if (!right)
        printf("rank %d: MPI_APPNUM is %d\n", rank, found ? *number : -1);
    MPI_Finalize();
    return !right;
}
