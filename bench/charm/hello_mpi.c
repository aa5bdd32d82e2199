// SPDX-License-Identifier: BSD-3-Clause
//
// A job that begins, hears once of each process, and ends, over MPI: compiled by run.py against each MPI.
#include <mpi.h>
#include <stdlib.h>

#include "bench/charm/pss.h"

int main(int argc, char **argv) {
    int rank, count;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    long *all = calloc((size_t)count, sizeof(long));
    if (!all)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    long kib = bench_pss_kib();
    MPI_Gather(&kib, 1, MPI_LONG, all, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    if (rank == 0)
        bench_pss_print(all, count);
    free(all);
    MPI_Finalize();
    return 0;
}
