// SPDX-License-Identifier: BSD-3-Clause
//
// A first program: who it is, a message to itself, a token around a ring, and a receive that is too short, which is an error
// and no loss of what comes after it.
#include <mpi.h>
#include <stdio.h>

static int wrong;

static void expect(int is, int should, const char *what) {
    if (is != should) {
        fprintf(stderr, "%s: %d, not %d\n", what, is, should);
        wrong = 1;
    }
}

static void to_itself(int rank) {
    int sent = rank + 7, got = -1;
    MPI_Request request;
    MPI_Irecv(&got, 1, MPI_INT, rank, 5, MPI_COMM_WORLD, &request);
    MPI_Send(&sent, 1, MPI_INT, rank, 5, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(got, sent, "from itself");
}

static void around(int rank, int size) {
    int token = rank, from = (rank + size - 1) % size;
    for (int i = 0; i < size; i++)
        MPI_Sendrecv_replace(&token, 1, MPI_INT, (rank + 1) % size, 1, from, 1, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
    expect(token, rank, "the token that comes back");
}

static void too_long(int rank) {
    int sent[4] = {1, 2, 3, 4}, got[4] = {0}, class = MPI_SUCCESS, count;
    MPI_Request requests[2];
    MPI_Status status;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Isend(sent, 4, MPI_INT, rank, 2, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(sent, 3, MPI_INT, rank, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Error_class(MPI_Recv(got, 2, MPI_INT, rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE), &class);
    expect(class, MPI_ERR_TRUNCATE, "a receive that is too short");
    expect(got[2], 0, "behind the buffer");
    MPI_Recv(got, 4, MPI_INT, rank, 2, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    expect(count, 3, "elements of the next message");
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    to_itself(rank);
    around(rank, size);
    too_long(rank);
    printf("rank %d of %d\n", rank, size);
    MPI_Finalize();
    return wrong;
}
