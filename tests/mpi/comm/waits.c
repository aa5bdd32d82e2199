// SPDX-License-Identifier: BSD-3-Clause
//
// Threads that wait: for each other within a rank, for other ranks, and long enough to be asleep, the one that drives and the others.
#include <pthread.h>
#include <unistd.h>

#include "check.h"

enum { THREADS = 3, ROUNDS = 60, SHORT_US = 20, LONG_US = 4000 };

static int rank, ranks;

static void rest(int us) {
    if (us)
        usleep((useconds_t)us);
}

// Most answer at once; now and then one is late, so that all others sleep.
static int lateness(int me, int round) {
    return (round + 7 * me) % 20 == 0 ? LONG_US : (round + me) % 3 == 0 ? SHORT_US : 0;
}

// Each thread has a partner in the next rank, and one in the rank before.
static void *around(void *arg) {
    int me = (int)(MPI_Aint)arg, next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    for (int i = 0; i < ROUNDS; i++) {
        int out = 1000 * rank + i, in = -1;
        MPI_Request request;
        rest(lateness(me + rank, i));
        OK(MPI_Irecv(&in, 1, MPI_INT, before, me, MPI_COMM_WORLD, &request));
        OK(MPI_Send(&out, 1, MPI_INT, next, me, MPI_COMM_WORLD));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(in == 1000 * before + i);
    }
    return NULL;
}

// A word goes from thread to thread of one rank, all but one of which wait.
static void *relay(void *arg) {
    int me = (int)(MPI_Aint)arg, word = -1;
    for (int i = 0; i < ROUNDS; i++) {
        int number = i * THREADS + me;
        if (number) {
            OK(MPI_Recv(&word, 1, MPI_INT, 0, 100 + me, MPI_COMM_SELF, MPI_STATUS_IGNORE));
            CHECK(word == number);
        }
        rest(lateness(0, number));
        word = number + 1;
        if (word < ROUNDS * THREADS)
            OK(MPI_Send(&word, 1, MPI_INT, 0, 100 + word % THREADS, MPI_COMM_SELF));
    }
    return NULL;
}

// Whoever drives ends first while the others are asleep: another one has to go on.
static void *in_order(void *arg) {
    int me = (int)(MPI_Aint)arg, word = -1;
    OK(MPI_Recv(&word, 1, MPI_INT, (rank + 1) % ranks, 200 + me, MPI_COMM_WORLD,
                MPI_STATUS_IGNORE));
    CHECK(word == me);
    return NULL;
}

static void all(void *fn(void *)) {
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, fn, (void *)(MPI_Aint)i) == 0);
    for (int i = 0; fn == in_order && i < THREADS; i++) {
        rest(LONG_US);
        OK(MPI_Send(&i, 1, MPI_INT, (rank + ranks - 1) % ranks, 200 + i, MPI_COMM_WORLD));
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
}

int main(int argc, char **argv) {
    int provided;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK(provided == MPI_THREAD_MULTIPLE);
    rank = rank_in(MPI_COMM_WORLD);
    ranks = size_of(MPI_COMM_WORLD);
    for (int i = 0; i < 3; i++) {
        all(around);
        all(relay);
        all(in_order);
    }
    OK(MPI_Finalize());
    return 0;
}
