// SPDX-License-Identifier: BSD-3-Clause
//
// Short collectives and a window that ranks share, from the start of a job on.  Each rank prints `memory` if it has mapped what the launcher has made for all ranks.
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { CALLS = 40 };

static void tell(void) {
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof(line), maps))
        if (strstr(line, "wherry-ranks")) {
            puts("memory");
            break;
        }
    if (maps)
        fclose(maps);
}

int main(int argc, char **argv) {
    int rank, size, sum, root, *mine;
    MPI_Win win;
    MPI_Init(&argc, &argv);
    tell();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < CALLS; i++) {
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        root = i % size == rank ? i : -1;
        MPI_Bcast(&root, 1, MPI_INT, i % size, MPI_COMM_WORLD);
        if (sum != size * (size - 1) / 2 || root != i)
            MPI_Abort(MPI_COMM_WORLD, 3);
    }
    MPI_Win_allocate_shared(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
    MPI_Win_fence(0, win);
    MPI_Put(&rank, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    if (*mine != (rank + size - 1) % size)
        MPI_Abort(MPI_COMM_WORLD, 4);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
