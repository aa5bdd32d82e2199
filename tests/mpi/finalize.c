// SPDX-License-Identifier: BSD-3-Clause
//
// finalize ROUNDS LATE [WITHOUT [OTHER]]: rank 0 calls MPI_Finalize at once; the others still have messages for each other, ROUNDS times around.  Then they do;
// rank LATE comes last, and its program goes on after MPI_Finalize.  Rank WITHOUT leaves a barrier
// out, or calls another collective instead.
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, size, token = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank) {
        int others = size - 1, next = rank % others + 1, last = (rank + others - 2) % others + 1;
        for (int i = 0; i < atoi(argv[1]); i++)
            MPI_Sendrecv(&rank, 1, MPI_INT, next, i, &token, 1, MPI_INT, last, i, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
        if (atoi(argv[1]) && token != last)
            MPI_Abort(MPI_COMM_WORLD, 3);
    }
    if (rank == atoi(argv[2]))
        usleep(3000);
    if (argc > 3 && rank != atoi(argv[3]))
        MPI_Barrier(MPI_COMM_WORLD);
    else if (argc > 4)
        MPI_Gather(&rank, 1, MPI_INT, &token, 1, MPI_INT, !rank, MPI_COMM_WORLD),
            MPI_Recv(&token, 1, MPI_INT, !rank, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
    if (rank == atoi(argv[2]))
        usleep(3000);
    return 0;
}
