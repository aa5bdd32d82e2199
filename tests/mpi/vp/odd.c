// SPDX-License-Identifier: BSD-3-Clause
//
// Rank 1 computes for ever and makes no call of MPI, while the others wait for it in a nonblocking collective.  odd late: they wait in MPI_Init.
// odd send: each sends what the next does not receive.
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char much[1 << 20];

int main(int argc, char **argv) {
    int rank, in = 1, out;
    MPI_Request request;
    const char *self = getenv("PMI_RANK");
    while (argc > 1 && !strcmp(argv[1], "late") && self && !strcmp(self, "1"))
        pause();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc > 1)
        MPI_Send(much, sizeof(much), MPI_BYTE, (rank + 1) % 3, 7, MPI_COMM_WORLD);
    for (volatile long turns = 0; rank == 1;)
        turns++;
    MPI_Iallreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Finalize();
}
