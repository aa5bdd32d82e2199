// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks whose blocking collectives do not go together, in memory that they share: an error at who has another number of elements or another root,
// nobody hangs, and the collectives after it are right.  And ranks that are many calls ahead of others.  2 ranks or more.
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

enum { BEFORE = 20, MANY = 1 << 17, AHEAD = 300 };

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
    expect("another count", rank != 1 || rc == MPI_ERR_TRUNCATE);
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

// Who gives does not wait for those that read, for as many calls as there is room for; then it does, and nothing is overwritten.
static void ahead(int giver) {
    int right = 1, sum;
    if (rank != giver)
        usleep(20000);
    for (int i = 0; i < AHEAD; i++) {
        int n = i % 50 == 49 ? 1500 : i % 3 ? 1 : 100;
        for (int k = 0; k < n && rank == giver; k++)
            buffer[k] = i + k;
        MPI_Bcast(buffer, n, MPI_INT, giver, MPI_COMM_WORLD);
        for (int k = 0; k < n; k++)
            right &= buffer[k] == i + k;
    }
    expect("a bcast by who is ahead", right);
    if (rank == 0)
        usleep(20000);
    for (int i = 0; i < AHEAD; i++) {
        int mine = i * (rank + 1), size;
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        MPI_Reduce(&mine, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
        right &= rank != 0 || sum == i * size * (size + 1) / 2;
    }
    expect("a reduction by those ahead", right);
}

// Large data may be read where they lie: they are the program's again when the last rank has them, and not before.
static int out[2 * MANY], in[2 * MANY];

static void fill(void) {
    for (int k = 0; k < 2 * MANY; k++)
        out[k] = buffer[k] = rank + k;
}

static int sums_up(int size) {
    int right = 1;
    for (int k = 0; k < 2 * MANY; k++)
        right &= in[k] == size * (size - 1) / 2 + k * size;
    return right;
}

static int all_of(int from) {
    int right = 1;
    for (int k = 0; k < 2 * MANY; k++)
        right &= buffer[k] == from + k;
    return right;
}

static int parts(int size, int part) {
    int right = 1;
    for (int k = 0; k < size * part; k++)
        right &= in[k] == k / part + rank * part + k % part;
    return right;
}

static void late(int late_one) {
    int right = 1, size, part = MANY / 8, other = !late_one;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int kind = 0; kind < 4; kind++) {
        fill();
        if (rank == late_one)
            usleep(20000);
        if (kind == 0) {
            MPI_Bcast(buffer, 2 * MANY, MPI_INT, other, MPI_COMM_WORLD);
            right &= all_of(other);
        } else if (kind == 1) {
            MPI_Alltoall(out, part, MPI_INT, in, part, MPI_INT, MPI_COMM_WORLD);
            right &= parts(size, part);
        } else if (kind == 2) {
            MPI_Allreduce(out, in, 2 * MANY, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            right &= sums_up(size);
        } else {
            MPI_Reduce(out, in, 2 * MANY, MPI_INT, MPI_SUM, late_one, MPI_COMM_WORLD);
            right &= rank != late_one || sums_up(size);
        }
        for (int k = 0; k < 2 * MANY; k++)
            out[k] = in[k] = buffer[k] = -1;
    }
    expect("data of who goes on at once", right);
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
    late(0);
    late(1);
    other_count(10, 2 * MANY);
    other_count(2 * MANY, 10);
    other_count(MANY, 2 * MANY);
    ahead(0);
    ahead(1);
    MPI_Finalize();
    return failures > 0;
}
