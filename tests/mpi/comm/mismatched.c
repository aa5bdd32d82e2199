// SPDX-License-Identifier: BSD-3-Clause
//
// Messages whose sender and receiver name other types: bytes go as they are, what does not fit is an error, and nobody waits for ever.  Two ranks.
#include "check.h"

enum { TAG = 4, MANY = 5000 };  // above what a record has

static int rank;

// send has rank 0 send, and rank 1 receive by another type; it returns how that has ended.
static int send(const void *out, int count, MPI_Datatype type, void *in, int room, MPI_Datatype by,
                MPI_Status *status) {
    if (rank == 0) {
        OK(MPI_Send(out, count, type, 1, TAG, MPI_COMM_WORLD));
        return MPI_SUCCESS;
    }
    return MPI_Recv(in, room, by, 0, TAG, MPI_COMM_WORLD, status);
}

static int elements(const MPI_Status *status, MPI_Datatype type) {
    int count = -1;
    OK(MPI_Get_count(status, type, &count));
    return count;
}

static void other_type_of_the_same_bytes(int count) {
    static int out[2 * MANY], in[2 * MANY];
    MPI_Status status;
    for (int i = 0; i < 2 * count; i++) {
        out[i] = i;
        in[i] = -1;
    }
    OK(send(out, 2 * count, MPI_INT, in, count, MPI_DOUBLE, &status));
    if (rank == 0)
        return;
    CHECK(elements(&status, MPI_DOUBLE) == count && elements(&status, MPI_INT) == 2 * count);
    CHECK(memcmp(in, out, (size_t)count * sizeof(double)) == 0);
}

static void half_an_element(int count) {
    static char out[sizeof(int) * MANY], in[sizeof(int) * MANY];
    MPI_Status status;
    size_t bytes = sizeof(int) * (size_t)count - 1;
    memset(out, 1, sizeof(out));
    memset(in, 0, sizeof(in));
    OK(send(out, (int)bytes, MPI_CHAR, in, count, MPI_INT, &status));
    if (rank == 0)
        return;
    CHECK(elements(&status, MPI_INT) == MPI_UNDEFINED);
    CHECK(elements(&status, MPI_CHAR) == (int)bytes);
    CHECK(memcmp(in, out, bytes) == 0 && in[bytes] == 0);
}

static void by_a_type_with_gaps(int count) {
    static short out[2 * MANY];
    static int in[2 * MANY];
    MPI_Datatype gaps;
    MPI_Status status;
    OK(MPI_Type_vector(count, 1, 2, MPI_INT, &gaps));
    OK(MPI_Type_commit(&gaps));
    for (int i = 0; i < 2 * count; i++) {
        out[i] = (short)(i + 1);
        in[i] = -1;
    }
    OK(send(out, 2 * count, MPI_SHORT, in, 1, gaps, &status));
    for (int i = 0; rank && i < count; i++)
        CHECK(memcmp(&in[2 * i], &out[2 * i], sizeof(int)) == 0 && in[2 * i + 1] == -1);
    OK(MPI_Type_free(&gaps));
}

static void more_than_fits(int count) {
    static int out[MANY];
    static short in[MANY];
    MPI_Status status;
    for (int i = 0; i < count; i++) {
        out[i] = i;
        in[i] = -1;
    }
    int code = send(out, count, MPI_INT, in, count - 1, MPI_SHORT, &status);
    CHECK(class_of(code) == (rank ? MPI_ERR_TRUNCATE : MPI_SUCCESS));
    CHECK(in[count - 1] == -1);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    rank = rank_in(MPI_COMM_WORLD);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    static const int counts[] = {2, 100, MANY};
    for (int i = 0; i < 3; i++) {
        other_type_of_the_same_bytes(counts[i]);
        half_an_element(counts[i]);
        by_a_type_with_gaps(counts[i]);
        more_than_fits(counts[i]);
    }
    OK(MPI_Finalize());
    return 0;
}
