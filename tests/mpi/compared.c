// SPDX-License-Identifier: BSD-3-Clause
//
// Collectives whose ranks do not agree, under WHERRY_MPI_CHECK=1: compared CASE [fatal].  Each rank prints the class of its error, and after it the ranks
// still work together; or the error ends the job.  Case "right" has none.
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int rank, size;
static char data[4096], more[4096];

static int kind(void) {
    return rank == 1 ? MPI_Reduce(data, more, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD)
                     : MPI_Bcast(data, 1, MPI_INT, 0, MPI_COMM_WORLD);
}

static int root(void) {
    return MPI_Bcast(data, 1, MPI_INT, rank == 2, MPI_COMM_WORLD);
}

static int op(void) {
    return MPI_Allreduce(data, more, 1, MPI_INT, rank == 1 ? MPI_MAX : MPI_SUM, MPI_COMM_WORLD);
}

static int bytes(void) {
    return MPI_Allgather(data, 1 + (rank == 2), MPI_INT, more, 1 + (rank == 2), MPI_INT,
                         MPI_COMM_WORLD);
}

static int types(void) {
    return MPI_Bcast(data, 1, rank == 1 ? MPI_FLOAT : MPI_INT, 0, MPI_COMM_WORLD);
}

// Rank 0 is the odd one here.
static int first(void) {
    return rank ? MPI_Barrier(MPI_COMM_WORLD) : MPI_Bcast(data, 1, MPI_INT, 0, MPI_COMM_WORLD);
}

// Other ways to say the same are no mistakes.
static int right(void) {
    MPI_Datatype two;
    MPI_Type_contiguous(2, MPI_INT, &two);
    MPI_Type_commit(&two);
    int rc = MPI_Bcast(data, rank ? 2 : 1, rank ? MPI_INT : two, 0, MPI_COMM_WORLD);
    MPI_Type_free(&two);
    if (rc == MPI_SUCCESS)
        rc =
            MPI_Gather(rank ? data : MPI_IN_PLACE, 3, MPI_INT, more, 3, MPI_INT, 0, MPI_COMM_WORLD);
    if (rc == MPI_SUCCESS)
        rc = MPI_Scatter(data, 3, MPI_INT, rank ? more : MPI_IN_PLACE, 3, MPI_INT, 0,
                         MPI_COMM_WORLD);
    if (rc == MPI_SUCCESS)
        rc = MPI_Allreduce(MPI_IN_PLACE, more, 5, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (rc == MPI_SUCCESS)
        rc = MPI_Alltoall(data, 1, MPI_INT, more, 1, MPI_INT, MPI_COMM_WORLD);
    return rc;
}

static const struct {
    const char *name;
    int (*call)(void);
} cases[] = {{"kind", kind},   {"root", root},   {"op", op},      {"bytes", bytes},
             {"types", types}, {"first", first}, {"right", right}};

int main(int argc, char **argv) {
    int rc = MPI_ERR_OTHER, class, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc == 2)
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (argc > 1 && strcmp(cases[i].name, argv[1]) == 0)
            rc = cases[i].call();
    MPI_Error_class(rc, &class);
    printf("%d: %d\n", rank, class);
    int one = 1;
    if (MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS ||
        sum != size)
        MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Finalize();
    return 0;
}
