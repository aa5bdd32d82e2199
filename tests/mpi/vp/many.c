// SPDX-License-Identifier: BSD-3-Clause
//
// As many ranks as there are: a word around all of them, reductions, a broadcast, and a communicator of every 32nd.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "rank %d of %d: %s\n", rank, ranks, #what);                            \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                          \
        }                                                                                          \
    } while (0)

static int rank, ranks;

// Each rank adds its number to what goes around.
static void ring(void) {
    long sum = 0, others = 0;
    if (rank == 0)
        MPI_Send(&sum, 1, MPI_LONG, 1 % ranks, 1, MPI_COMM_WORLD);
    MPI_Recv(&others, 1, MPI_LONG, (rank + ranks - 1) % ranks, 1, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    CHECK(others == (rank ? (long)rank * (rank - 1) / 2 : (long)ranks * (ranks - 1) / 2));
    sum = others + rank;
    if (rank)
        MPI_Send(&sum, 1, MPI_LONG, (rank + 1) % ranks, 1, MPI_COMM_WORLD);
}

static void reductions(int round) {
    enum { SOME = 33 };
    long mine[SOME], all[SOME], most = -1, word = rank == round % ranks ? 1000 + round : -1;
    for (int i = 0; i < SOME; i++)
        mine[i] = (long)rank * (i + 1) + round;
    MPI_Allreduce(mine, all, SOME, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < SOME; i++)
        CHECK(all[i] == (long)ranks * (ranks - 1) / 2 * (i + 1) + (long)round * ranks);
    MPI_Allreduce(mine, &most, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    CHECK(most == ranks - 1 + round);
    MPI_Bcast(&word, 1, MPI_LONG, round % ranks, MPI_COMM_WORLD);
    CHECK(word == 1000 + round);
}

static void part(void) {
    MPI_Comm few;
    int sum, count, want = 0;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 32, -rank, &few);
    MPI_Comm_size(few, &count);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, few);
    for (int r = rank % 32; r < ranks; r += 32, count--)
        want += r;
    CHECK(count == 0 && sum == want);
    MPI_Comm_free(&few);
}

int main(int argc, char **argv) {
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    CHECK(level ==
          MPI_THREAD_FUNNELED);  // a thread of the program's would not know which rank it is of
    CHECK(argc == 2 && ranks == atoi(argv[1]));
    for (int i = 0; i < 12; i++) {
        ring();
        reductions(i);
    }
    part();
    MPI_Finalize();
    return 0;
}
