// SPDX-License-Identifier: BSD-3-Clause
//
// A process that may open no more files: what it cannot do says why.  few window|message, or few fence|wait BYTES: an access to a rank that it is not connected to,
// of 8 or more.
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MOST = 1 << 20, FAR = 4 };

// No number below the limit is free.
static void use_up(void) {
    struct rlimit limit;
    int last = dup(0);
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = (rlim_t)last + 1;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static void access_far(const char *ends, int bytes) {
    static char memory[MOST], data[MOST];
    int rank;
    MPI_Win win;
    MPI_Request request;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_create(memory, MOST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    if (rank == 1)
        use_up();
    if (rank == 1 && strcmp(ends, "wait") == 0) {
        MPI_Rput(data, bytes, MPI_BYTE, FAR, 0, bytes, MPI_BYTE, win, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        MPI_Put(data, bytes, MPI_BYTE, FAR, 0, bytes, MPI_BYTE, win);
    }
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

int main(int argc, char **argv) {
    int rank, size, got;
    void *base;
    MPI_Win win;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (strcmp(argv[1], "window") == 0) {
        // All know each other before.
        MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &got, 1, MPI_INT,
                     (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1)
            use_up();
        MPI_Win_allocate_shared(1, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    } else if (argc > 2) {
        access_far(argv[1], atoi(argv[2]));
    } else if (rank == 1) {
        use_up();
        MPI_Send(&rank, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&got, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
