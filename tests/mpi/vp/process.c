// SPDX-License-Identifier: BSD-3-Clause
//
// MPIX_Process tells the processes apart, in a job of any kind.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <wherry_mpix.h>

int main(void) {
    int rank, size, process = -1, processes = -1, pid = (int)getpid(), distinct = 0, good = 1;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPIX_Process(&process, &processes);
    MPIX_Process(NULL, NULL);
    int mine[2] = {process, pid}, *all = malloc((size_t)size * sizeof(mine));
    MPI_Allgather(mine, 2, MPI_INT, all, 2, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) {
        int first = 0;
        while (all[2 * first + 1] != all[2 * i + 1])
            first++;
        distinct += first == i;
        good = good && (all[2 * i] == process) == (all[2 * i + 1] == pid);
    }
    good = good && process >= 0 && process < processes && processes == distinct;
    // Where ranks do not move, each may say that it stays.
    good = good && MPIX_Migrate(process) == MPI_SUCCESS && MPIX_Migrate(MPIX_STAY) == MPI_SUCCESS;
    printf("rank %d is %s\n", rank, good ? "good" : "told of a wrong process");
    free(all);
    MPI_Finalize();
    return 0;
}
