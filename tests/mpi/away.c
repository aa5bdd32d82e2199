// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks that do not come back into the library after a call that has returned: what they have sent in it arrives all the same, also
// where it was the first between two ranks, and they had no connection yet.  away CALL FOLDER: each rank says in a file of the
// folder that its call has returned, and waits for the files of all others without a call of MPI.
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATIENCE_MS = 30000, STEP_MS = 2, BIG = 1 << 20 };

static int rank, size;
static char data[BIG];

static void barrier(void) {
    MPI_Barrier(MPI_COMM_WORLD);
}

static void bcast(void) {
    MPI_Bcast(data, 100, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static void gather(void) {
    static int all[1024];
    MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
}

// Enough of them that memory which the ranks share takes over.
static void many(void) {
    for (int i = 0; i < 20; i++)
        MPI_Bcast(data, 100, MPI_CHAR, i % size, MPI_COMM_WORLD);
}

// The last ranks send, the first one receives.
static void to_first(int (*send)(const void *, int, MPI_Datatype, int, int, MPI_Comm), int count) {
    for (int i = 1; i < size && rank == 0; i++)
        MPI_Recv(data, count, MPI_CHAR, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank)
        send(data, count, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
}

static void small(void) {
    to_first(MPI_Send, 1);
}

// The second one finds a connection that is not there yet.
static int twice(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
    MPI_Request first;
    MPI_Isend(buf, count, type, dest, tag, comm, &first);
    MPI_Request_free(&first);
    return MPI_Send(buf, count, type, dest, tag, comm);
}

static void two(void) {
    to_first(twice, 1);
    for (int i = 1; i < size && rank == 0; i++)
        MPI_Recv(data, 1, MPI_CHAR, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void large(void) {
    to_first(MPI_Send, BIG);
}

static void synchronous(void) {
    to_first(MPI_Ssend, 1);
}

static void started(void) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank == 0)
        MPI_Irecv(data, 1, MPI_CHAR, size - 1, 0, MPI_COMM_WORLD, &request);
    else if (rank == size - 1)
        MPI_Isend(data, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void window(void) {
    MPI_Win win;
    static int mine[64];
    int one = 1;
    MPI_Win_create(mine, sizeof(mine), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    MPI_Put(&one, 1, MPI_INT, (rank + 1) % size, rank % 64, 1, MPI_INT, win);
    MPI_Accumulate(&one, 1, MPI_INT, 0, 5, 1, MPI_INT, MPI_SUM, win);
    MPI_Win_fence(0, win);
}

static const struct {
    const char *name;
    void (*call)(void);
} calls[] = {
    {"barrier", barrier}, {"bcast", bcast},   {"gather", gather}, {"many", many},
    {"small", small},     {"two", two},       {"large", large},   {"synchronous", synchronous},
    {"started", started}, {"window", window},
};

static void name_of(char *text, size_t max, const char *folder, int of) {
    snprintf(text, max, "%s/%d", folder, of);
}

static int all_are_back(const char *folder) {
    char name[4096];
    name_of(name, sizeof(name), folder, rank);
    close(open(name, O_CREAT | O_WRONLY, 0600));
    for (int of = 0, waited = 0; of < size; of++) {
        name_of(name, sizeof(name), folder, of);
        for (; access(name, F_OK) != 0; waited += STEP_MS) {
            if (waited > PATIENCE_MS) {
                fprintf(stderr, "rank %d: rank %d has not come out of its call\n", rank, of);
                return 0;
            }
            usleep(STEP_MS * 1000);
        }
    }
    return 1;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]) && argc == 3; i++) {
        if (strcmp(calls[i].name, argv[1]) != 0)
            continue;
        calls[i].call();
        if (!all_are_back(argv[2]))
            MPI_Abort(MPI_COMM_WORLD, 1);
        MPI_Finalize();
        return 0;
    }
    fprintf(stderr, "usage: away CALL FOLDER\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
}
