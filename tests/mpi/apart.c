// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks whose blocking collectives do not go together, in memory that they share: an error at who has another number of elements or another root,
// nobody hangs, and the collectives after it are right.  2 ranks or more.
#include <mpi.h>
#include <stdio.h>

enum { BEFORE = 20, MANY = 1 << 17 };

static int buffer[2 * MANY], rank, failures;

static void expect(const char *what, int condition) {
    if (condition)
        return;
    failures++;
    printf("rank %d: %s\n", rank, what);
}

// As many rounds as the data need at each rank, which are not as many at all of them.
static void other_count(int few, int many) {
    int rc = MPI_Bcast(buffer, rank == 1 ? few : many, MPI_INT, 0, MPI_COMM_WORLD);
    expect("another count", (rc == MPI_ERR_TRUNCATE) == (rank == 1));
}

static void other_root(void) {
    int rc = MPI_Bcast(buffer, 10, MPI_INT, rank == 1 ? 1 : 0, MPI_COMM_WORLD);
    expect("another root", rc == MPI_SUCCESS);  // nobody reads from rank 1, which reads from nobody
    int one = 1, sum = 0, size;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    rc = MPI_Allreduce(&one, &sum, 1, MPI_INT, rank == 1 ? MPI_MAX : MPI_SUM, MPI_COMM_WORLD);
    expect("another operation", rc == MPI_ERR_OP);
    rc = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect("what follows", rc == MPI_SUCCESS && sum == size);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < BEFORE; i++)
        expect("a barrier", MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS);
    other_count(10, 20);
    other_count(10, 2 * MANY);
    other_count(2 * MANY, 10);
    other_root();
    MPI_Finalize();
    return failures > 0;
}
