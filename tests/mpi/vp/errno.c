// SPDX-License-Identifier: BSD-3-Clause
//
// errno is each rank's own, whatever other ranks of its process do while it waits.  errno [move]: also where ranks move.
#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <wherry_mpix.h>

enum { ROUNDS = 100 };

static int rank;

// Not inline: compilers take the address of errno to stay the same, and a rank that moves is in another process then.
__attribute__((noinline)) static void set(int error) {
    errno = error;
}
__attribute__((noinline)) static int get(void) {
    return errno;
}

static void check(int good, const char *after) {
    if (good)
        return;
    fprintf(stderr, "rank %d: errno is %d after %s\n", rank, get(), after);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv) {
    int sum, there, process, processes, mine;
    (void)argv;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    mine = 1000 + rank;  // no error of the system's
    MPIX_Process(&process, &processes);
    // The first calls connect processes, which may set errno as any call of a library may, but never to 0.
    set(mine);
    MPI_Barrier(MPI_COMM_WORLD);
    check(get() != 0, "the first barrier");
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        set(mine);
        MPI_Barrier(MPI_COMM_WORLD);
        check(get() == mine, "a barrier");
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
        check(get() == mine, "MPI_Iprobe");
        if (argc == 1)
            continue;
        process = (process + 1) % processes;
        check(MPIX_Migrate(process) == MPI_SUCCESS && get() == mine, "MPIX_Migrate");
    }
    printf("rank %d is good\n", rank);
    MPI_Finalize();
    return 0;
}
