// SPDX-License-Identifier: BSD-3-Clause
//
// Threads that make communicators at the same time: each over a communicator of its own, and all over one with tags of their own.
#include <pthread.h>

#include "check.h"

enum { THREADS = 4, ROUNDS = 10 };
static MPI_Comm own[THREADS];
static MPI_Group everybody;

static void *work(void *arg) {
    int me = (int)(MPI_Aint)arg;
    MPI_Comm comm, part, kept[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        OK(MPI_Comm_dup(own[me], &comm));
        OK(MPI_Comm_create_group(MPI_COMM_WORLD, everybody, me, &kept[i]));
        OK(MPI_Comm_split(comm, rank_in(comm) % 2, 0, &part));
        ring(kept[i], i);
        ring(part, i);
        ring(comm, i);
        OK(MPI_Comm_free(&comm));
        OK(MPI_Comm_free(&part));
    }
    for (int i = 0; i < ROUNDS; i++) {
        ring(kept[i], i);
        OK(MPI_Comm_free(&kept[i]));
    }
    return NULL;
}

int main(int argc, char **argv) {
    int provided;
    pthread_t thread[THREADS];
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK(provided == MPI_THREAD_MULTIPLE);
    OK(MPI_Comm_group(MPI_COMM_WORLD, &everybody));
    for (int i = 0; i < THREADS; i++)
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &own[i]));
    // The threads begin in another order on each rank.
    int rank = rank_in(MPI_COMM_WORLD);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, work, (void *)(MPI_Aint)((i + rank) % THREADS)) ==
              0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        OK(MPI_Comm_free(&own[i]));
    OK(MPI_Group_free(&everybody));
    OK(MPI_Finalize());
    return 0;
}
