// SPDX-License-Identifier: BSD-3-Clause
//
// Threads that ask with MPI_Testall in a loop, beside others that wait: on few processors, too, nobody keeps the library or the processor from those
// that have something to do.
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 16, ROUNDS = 2000, LENGTH = 64 };
static int rank, size;

static void finish(MPI_Request request[2], int way) {
    int flag = 0;
    switch (way) {
    case 0: MPI_Waitall(2, request, MPI_STATUSES_IGNORE); return;
    case 1:
        while (!flag)
            MPI_Testall(2, request, &flag, MPI_STATUSES_IGNORE);
        return;
    default: MPI_Wait(&request[0], MPI_STATUS_IGNORE); MPI_Wait(&request[1], MPI_STATUS_IGNORE);
    }
}

static void *work(void *arg) {
    int me = (int)(MPI_Aint)arg, next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (int i = 0; i < ROUNDS; i++) {
        int out[LENGTH], in[LENGTH] = {0};
        MPI_Request request[2];
        for (int k = 0; k < LENGTH; k++)
            out[k] = (rank * THREADS + me) * ROUNDS + i + k;
        MPI_Irecv(in, LENGTH, MPI_INT, before, me, MPI_COMM_WORLD, &request[0]);
        MPI_Isend(out, LENGTH, MPI_INT, next, me, MPI_COMM_WORLD, &request[1]);
        finish(request, i % 3);
        for (int k = 0; k < LENGTH; k++)
            if (in[k] != (before * THREADS + me) * ROUNDS + i + k) {
                fprintf(stderr, "rank %d, thread %d, round %d: element %d is %d\n", rank, me, i, k,
                        in[k]);
                abort();
            }
    }
    return NULL;
}

int main(int argc, char **argv) {
    int provided;
    pthread_t thread[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < THREADS; i++)
        if (provided != MPI_THREAD_MULTIPLE ||
            pthread_create(&thread[i], NULL, work, (void *)(MPI_Aint)i))
            abort();
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    MPI_Finalize();
    return 0;
}
