// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks on several hosts.
//
//     hosts RANKS      whether so many are on each
//     hosts absent N   rank N does not come to a barrier
//     hosts late N     it comes late, and nobody leaves the barrier before
//     hosts many N     it makes N communicators, with collectives on each, and a window in shared memory has room beside them
//     hosts lost N     it ends while the others wait for it there, with errors returned
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LATE_US = 200000 };
static int rank, failures;

static void absent(int who) {
    while (rank == who)
        pause();
    MPI_Barrier(MPI_COMM_WORLD);
}

static void late(int who) {
    double came, left;
    if (rank == who)
        usleep(LATE_US);
    came = MPI_Wtime();
    MPI_Barrier(MPI_COMM_WORLD);
    left = MPI_Wtime();  // of one clock, whatever the hosts are called
    MPI_Bcast(&came, 1, MPI_DOUBLE, who, MPI_COMM_WORLD);
    if (left < came && ++failures)
        printf("rank %d has not waited for rank %d\n", rank, who);
}

static void lost(int who) {
    int error, size, class = MPI_SUCCESS;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == who) {
        usleep(LATE_US);
        raise(SIGKILL);
    }
    error = MPI_Barrier(MPI_COMM_WORLD);
    MPI_Error_class(error, &class);
    printf(class == MPI_ERR_PROC_ABORTED ? "it ends\n" : "error class %d\n", class);
    // It must not end because others leave.
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < size; i++)
        if (i != rank && i != who)
            MPI_Sendrecv(NULL, 0, MPI_INT, i, 0, NULL, 0, MPI_INT, i, 0, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
}

static void many(int n) {
    MPI_Comm *all = malloc((size_t)n * sizeof(*all)), host;
    MPI_Win win;
    void *memory;
    for (int i = 0; i < n; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &all[i]);
        for (int k = 0; k < 12; k++)
            MPI_Barrier(all[i]);
    }
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Win_allocate_shared(1 << 20, 1, MPI_INFO_NULL, host, &memory, &win);
    memset(memory, rank, 1 << 20);
    MPI_Win_free(&win);
    MPI_Comm_free(&host);
    for (int i = 0; i < n; i++)
        MPI_Comm_free(&all[i]);
    free(all);
}

static void count(int expected) {
    MPI_Comm host;
    int here;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &here);
    MPI_Comm_free(&host);
    if (here != expected && ++failures)
        printf("rank %d shares its host with %d ranks\n", rank, here);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 20; i++)
        MPI_Barrier(MPI_COMM_WORLD);
    int n = atoi(argv[argc - 1]);
    if (argc == 2)
        count(n);
    else if (strcmp(argv[1], "absent") == 0)
        absent(n);
    else if (strcmp(argv[1], "late") == 0)
        late(n);
    else if (strcmp(argv[1], "many") == 0)
        many(n);
    else
        lost(n);
    MPI_Finalize();
    return failures > 0;
}
