// SPDX-License-Identifier: BSD-3-Clause
//
// A rank whose memory is used up gets a message of another process that it has not asked for: nothing can keep that, so the job ends and says why.
#include <mpi.h>
#include <unistd.h>

#include <cstdlib>

int main(int argc, char **argv) {
    int rank, datum = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        for (std::size_t size = std::size_t(1) << 40; size >= 16; size /= 2)
            while (void *volatile block = std::malloc(size))
                (void)block;
        MPI_Recv(&datum, 1, MPI_INT, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        for (int there;;) {  // some may come before
            MPI_Send(&datum, 1, MPI_INT, 1, 5, MPI_COMM_WORLD);
            MPI_Iprobe(1, 7, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
            usleep(1000);
        }
    }
    MPI_Finalize();
    return 0;
}
