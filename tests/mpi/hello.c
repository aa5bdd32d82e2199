// SPDX-License-Identifier: BSD-3-Clause
//
// Says who it is: rank, size, processor; by default in the order of ranks.
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank, size, length;
    char name[MPI_MAX_PROCESSOR_NAME];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(name, &length);
    printf("%d of %d on %s\n", rank, size, name[0] && length > 0 ? "a host" : "nothing");
    return MPI_Finalize();
}
