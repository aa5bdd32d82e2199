// SPDX-License-Identifier: BSD-3-Clause
//
// What virtual ranks cost: vp PART SECONDS, compiled by mpicc -vp, started by mpiexec -vp.
//
// yield      a round: each rank asks 1,000 times for a message that never comes, and each time the next rank of its process runs; the figure is
//            one call with the switch in it
// call       the same call where it need not look for anything and no other rank runs
// hop        a message of 8 bytes from rank 0 to rank 1 and back; the figure is one way
// ring       8 bytes once around all ranks
// allreduce  of 8 bytes
// start      nothing, for who measures the whole job
// memory     what the process of rank 0 has resident when all ranks have heard of each other
//
// Rank 0 prints one line of JSON: {"figure": N}, in us or KiB, the median of rounds that take SECONDS.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 2000, CALLS = 1000 };

static int rank, ranks;

typedef void round_fn(void);

static int ascending(const void *x, const void *y) {
    double p = *(const double *)x, q = *(const double *)y;
    return (p > q) - (p < q);
}

// median_of has all ranks do rounds until rank 0 has spent so many seconds; of one in us.
static double median_of(round_fn *fn, double seconds) {
    double *times = rank == 0 ? malloc(MOST * sizeof(*times)) : NULL, median = 0;
    double begin = MPI_Wtime();
    int goes_on = 1, rounds = 0;
    while (goes_on) {
        MPI_Barrier(MPI_COMM_WORLD);
        double before = MPI_Wtime();
        fn();
        double now = MPI_Wtime();
        if (times)
            times[rounds++] = now - before;
        goes_on = rounds < MOST && now - begin < seconds;
        MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (times) {
        qsort(times, (size_t)rounds, sizeof(*times), ascending);
        median = times[rounds / 2] * 1e6;
    }
    free(times);
    return median;
}

static void ask(int source) {
    int flag;
    for (int i = 0; i < CALLS; i++)
        MPI_Iprobe(source, 77, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

static void yield(void) {
    ask(rank);
}

static void call(void) {
    if (rank == 0)
        ask(MPI_PROC_NULL);
}

static void hop(void) {
    double word = 0;
    for (int i = 0; rank < 2 && i < CALLS; i++) {
        if (rank == 0)
            MPI_Send(&word, 1, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD);
        MPI_Recv(&word, 1, MPI_DOUBLE, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(&word, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD);
    }
}

static void ring(void) {
    double word = 0;
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    if (rank == 0)
        MPI_Send(&word, 1, MPI_DOUBLE, next, 1, MPI_COMM_WORLD);
    MPI_Recv(&word, 1, MPI_DOUBLE, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank != 0)
        MPI_Send(&word, 1, MPI_DOUBLE, next, 1, MPI_COMM_WORLD);
}

static void allreduce(void) {
    double mine = rank, sum;
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (sum != (double)ranks * (ranks - 1) / 2)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

static double resident(void) {
    long kib = 0;
    for (int i = 0; i < 20; i++)
        MPI_Barrier(MPI_COMM_WORLD);
    FILE *file = rank == 0 ? fopen("/proc/self/smaps_rollup", "r") : NULL;
    for (char line[256]; file && fgets(line, sizeof(line), file);)
        if (strncmp(line, "Rss:", 4) == 0)
            kib = strtol(line + 4, NULL, 10);
    if (file)
        fclose(file);
    return (double)kib;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: vp PART SECONDS\n");
        return 2;
    }
    const char *part = argv[1];
    double seconds = strtod(argv[2], NULL), figure = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (!strcmp(part, "yield"))
        figure = median_of(yield, seconds) / CALLS / ranks;
    else if (!strcmp(part, "call"))
        figure = median_of(call, seconds) / CALLS;
    else if (!strcmp(part, "hop"))
        figure = median_of(hop, seconds) / CALLS / 2;
    else if (!strcmp(part, "ring"))
        figure = median_of(ring, seconds);
    else if (!strcmp(part, "allreduce"))
        figure = median_of(allreduce, seconds);
    else if (!strcmp(part, "memory"))
        figure = resident();
    if (rank == 0)
        printf("{\"figure\": %.4f}\n", figure);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
