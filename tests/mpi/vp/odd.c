// SPDX-License-Identifier: BSD-3-Clause
//
// Rank 1 computes for ever and makes no call of MPI, while the others wait for it in a nonblocking collective, or, with an
// argument, in MPI_Init.
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, in = 1, out;
    MPI_Request request;
    const char *self = getenv("PMI_RANK");
    while (argc > 1 && self && !strcmp(self, "1"))
        pause();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (volatile long turns = 0; rank == 1;)
        turns++;
    MPI_Iallreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Finalize();
}
