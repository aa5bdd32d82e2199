// SPDX-License-Identifier: BSD-3-Clause
//
// Rank 1 computes for ever and makes no call of MPI, while the others wait for it in a nonblocking collective.  odd late: they wait in MPI_Init.
// odd CALL: each sends what the next does not receive, and waits in that call.
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char much[1 << 20];

// Of two threads one waits for what is not received, and the other has waited since then.
static void *wait_for_ever(void *next) {
    MPI_Request request;
    MPI_Isend(much, sizeof(much), MPI_BYTE, *(int *)next, 7, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return NULL;
}

static void wait_beside(int next) {
    static char in[sizeof(much)];
    MPI_Request all[2];
    pthread_t thread;
    pthread_create(&thread, NULL, wait_for_ever, &next);
    usleep(200000);
    MPI_Irecv(in, sizeof(in), MPI_BYTE, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &all[0]);
    MPI_Isend(much, sizeof(much), MPI_BYTE, next, 9, MPI_COMM_WORLD, &all[1]);
    MPI_Waitall(2, all, MPI_STATUSES_IGNORE);
    pthread_join(thread, NULL);
}

static void wait_in(const char *call, int next) {
    enum { COUNT = 2 };
    MPI_Request all[COUNT] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL}, *request = &all[1];
    MPI_Comm comm = MPI_COMM_WORLD;
    int n, at[COUNT];
    if (!strcmp(call, "threads"))
        wait_beside(next);
    if (!strcmp(call, "send"))
        MPI_Send(much, sizeof(much), MPI_BYTE, next, 7, comm);
    else if (!strcmp(call, "ssend"))
        MPI_Ssend(much, 5, MPI_BYTE, next, 7, comm);
    else if (!strcmp(call, "issend"))
        MPI_Issend(much, 5, MPI_BYTE, next, 7, comm, request);
    else if (!strcmp(call, "isendrecv"))
        MPI_Isendrecv(much, sizeof(much), MPI_BYTE, next, 7, NULL, 0, MPI_BYTE, next, 8, comm,
                      request);
    else if (!strcmp(call, "psend"))
        MPI_Psend_init(much, 4, sizeof(much) / 4, MPI_BYTE, next, 7, comm, MPI_INFO_NULL, request);
    else
        MPI_Isend(much, sizeof(much), MPI_BYTE, next, 7, comm, request);
    if (!strcmp(call, "psend")) {
        MPI_Start(request);
        MPI_Pready(1, *request);
    }
    if (!strcmp(call, "waitany"))
        MPI_Waitany(COUNT, all, &n, MPI_STATUS_IGNORE);
    else if (!strcmp(call, "waitsome"))
        MPI_Waitsome(COUNT, all, &n, at, MPI_STATUSES_IGNORE);
    else if (!strcmp(call, "wait"))
        MPI_Wait(request, MPI_STATUS_IGNORE);
    else
        MPI_Waitall(COUNT, all, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv) {
    int rank, in = 1, out, provided;
    MPI_Request request;
    const char *self = getenv("PMI_RANK");
    while (argc > 1 && !strcmp(argv[1], "late") && self && !strcmp(self, "1"))
        pause();
    MPI_Init_thread(&argc, &argv, argc > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc > 1)
        wait_in(argv[1], (rank + 1) % 3);
    for (volatile long turns = 0; rank == 1;)
        turns++;
    MPI_Iallreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Finalize();
}
