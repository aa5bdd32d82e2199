// SPDX-License-Identifier: BSD-3-Clause
//
// A rank sends more than its receiver takes in: what is kept for that is bounded, so the later of its sends wait, and all arrive in order.
// unreceived N [BYTES]: N messages, empty or of so many bytes, are under way while the ranks meet in a barrier.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { MESSAGES = 40000, LENGTH = 768, EMPTY = 200000 };  // 117 MiB, and without any
static int rank, size, out[MESSAGES][LENGTH];
static MPI_Request request[EMPTY];

static void fail(const char *what, int n) {
    fprintf(stderr, "rank %d: %s: %d\n", rank, what, n);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static int ended(int messages) {
    int n = 0, flag;
    for (int i = 0; i < messages; i++) {
        MPI_Request_get_status(request[i], &flag, MPI_STATUS_IGNORE);
        n += flag;
    }
    return n;
}

static void meet_with(int messages, int bytes, int next, int before) {
    MPI_Request barrier;
    MPI_Request *all = malloc((size_t)messages * sizeof(*all));
    char *data = calloc(1, (size_t)bytes + 1), *in = malloc((size_t)bytes + 1);
    if (!all || !data || !in)
        fail("there is no memory", messages);
    for (int i = 0; i < messages; i++)
        MPI_Isend(data, bytes, MPI_BYTE, next, 0, MPI_COMM_WORLD, &all[i]);
    MPI_Ibarrier(MPI_COMM_WORLD, &barrier);  // by messages, where others go through shared memory
    MPI_Wait(&barrier, MPI_STATUS_IGNORE);
    for (int i = 0; i < messages; i++)
        MPI_Recv(in, bytes, MPI_BYTE, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Waitall(messages, all, MPI_STATUSES_IGNORE);
    free(all);
    free(data);
    free(in);
    MPI_Finalize();
}

// What a process keeps for messages that have no bytes is bounded, too.
static void send_empty(int next, int before) {
    for (int i = 0; i < EMPTY; i++)
        MPI_Isend(NULL, 0, MPI_INT, next, 7, MPI_COMM_WORLD, &request[i]);
    int n = ended(EMPTY);
    if (size > 1 && (n < 1000 || n > EMPTY * 3 / 4))
        fail("empty sends that have ended before anything was received", n);
    MPI_Barrier(MPI_COMM_WORLD);  // a rank that is done with counting does not receive before
    for (int i = 0; i < EMPTY; i++)
        MPI_Recv(NULL, 0, MPI_INT, before, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Waitall(EMPTY, request, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv) {
    int in[LENGTH];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    MPI_Sendrecv(NULL, 0, MPI_INT, next, 6, NULL, 0, MPI_INT, before, 6, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);  // they are connected now
    if (argc > 1) {
        meet_with(atoi(argv[1]), argc > 2 ? atoi(argv[2]) : 0, next, before);
        return 0;
    }
    for (int i = 0; i < MESSAGES; i++) {
        out[i][0] = i;
        out[i][LENGTH - 1] = rank;
        MPI_Isend(out[i], LENGTH, MPI_INT, next, i % 3, MPI_COMM_WORLD, &request[i]);
    }
    int n = ended(MESSAGES);
    if (n < 1000 || n > MESSAGES * 3 / 4)
        fail("sends that have ended before anything was received", n);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < MESSAGES; i++) {
        MPI_Recv(in, LENGTH, MPI_INT, before, i % 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (in[0] != i || in[LENGTH - 1] != before)
            fail("what has come is not the message", i);
    }
    MPI_Waitall(MESSAGES, request, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MESSAGES; i++)  // what was received makes room again
        MPI_Sendrecv(out[i], LENGTH, MPI_INT, next, 4, in, LENGTH, MPI_INT, before, 4,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Isend(out[0], 1, MPI_INT, next, 5, MPI_COMM_WORLD, &request[0]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Request_get_status(request[0], &n, MPI_STATUS_IGNORE);
    if (!n)
        fail("a send waits though there is room", 0);
    MPI_Recv(in, 1, MPI_INT, before, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request[0], MPI_STATUS_IGNORE);
    send_empty(next, before);
    MPI_Finalize();
    return 0;
}
