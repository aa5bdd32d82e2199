// SPDX-License-Identifier: BSD-3-Clause
//
// Attributes of communicators, with callbacks, the predefined ones, and what is deleted when.
#include "check.h"

static int rank, deleted[16], count, quiet;
static MPI_Comm expected;

static int on_copy(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag) {
    CHECK(comm == expected);
    CHECK(*(int *)extra == key);
    *(void **)out = (char *)in + 1000;
    *flag = 1;
    return in == (void *)13 ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int on_delete(MPI_Comm comm, int key, void *value, void *extra) {
    int flag;
    CHECK(*(int *)extra == key);
    void *seen;
    // The attribute is there while it is deleted.
    OK(MPI_Comm_get_attr(comm, key, &seen, &flag));
    CHECK(flag && seen == value);
    deleted[count++] = (int)(MPI_Aint)value;
    return value == (void *)14 && !quiet ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static void test_predefined(void) {
    int *value, flag;
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag));
    CHECK(flag && *value >= 32767);
    int tag = *value, got = 0;
    OK(MPI_Sendrecv(&rank, 1, MPI_INT, 0, tag, &got, 1, MPI_INT, 0, tag, MPI_COMM_SELF,
                    MPI_STATUS_IGNORE));
    CHECK(got == rank);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &value, &flag));
    CHECK(flag && *value == size_of(MPI_COMM_WORLD));
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_HOST, &value, &flag));
    CHECK(flag && *value == MPI_PROC_NULL);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_IO, &value, &flag));
    CHECK(flag && *value == MPI_ANY_SOURCE);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &value, &flag));
    CHECK(flag && *value >= MPI_ERR_LASTCODE);
    FAILS(MPI_Comm_set_attr(MPI_COMM_WORLD, MPI_TAG_UB, &flag), MPI_ERR_KEYVAL);
}

static void test_own(void) {
    static int key, other;
    MPI_Comm comm, dup;
    void *value;
    int flag;
    OK(MPI_Comm_create_keyval(on_copy, on_delete, &key, &key));
    OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, on_delete, &other, &other));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    expected = comm;
    OK(MPI_Comm_get_attr(comm, key, &value, &flag));
    CHECK(!flag);
    OK(MPI_Comm_set_attr(comm, key, (void *)1));
    OK(MPI_Comm_set_attr(comm, other, (void *)2));
    OK(MPI_Comm_dup(comm, &dup));
    OK(MPI_Comm_get_attr(dup, key, &value, &flag));
    CHECK(flag && value == (void *)1001);
    OK(MPI_Comm_get_attr(dup, other, &value, &flag));
    CHECK(flag && value == (void *)2);
    OK(MPI_Comm_free(&dup));
    CHECK(count == 2 && deleted[0] == 2 && deleted[1] == 1001);
    // A copy that fails fails the duplicate, also where only one rank's does.
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    if (rank == 0)
        OK(MPI_Comm_set_attr(comm, key, (void *)13));
    FAILS(MPI_Comm_dup(comm, &dup), MPI_ERR_OTHER);
    MPI_Request request;
    OK(MPI_Comm_idup(comm, &dup, &request));
    FAILS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_OTHER);
    // A delete that fails leaves the communicator.
    OK(MPI_Comm_set_attr(comm, key, (void *)14));
    FAILS(MPI_Comm_free(&comm), MPI_ERR_OTHER);
    CHECK(comm != MPI_COMM_NULL);
    FAILS(MPI_Comm_delete_attr(comm, key), MPI_ERR_OTHER);
    quiet = 1;
    int k = key;
    OK(MPI_Comm_free_keyval(&k));
    CHECK(k == MPI_KEYVAL_INVALID);
    FAILS(MPI_Comm_set_attr(comm, key, (void *)15), MPI_ERR_KEYVAL);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Comm_free_keyval(&other));
}

// What MPI_Finalize deletes, while MPI still works, the last set first.
static int at_end(MPI_Comm comm, int key, void *value, void *extra) {
    (void)key, (void)extra;
    int flag;
    OK(MPI_Finalized(&flag));
    CHECK(!flag && comm == MPI_COMM_SELF);
    ring(MPI_COMM_WORLD, 77);
    printf("%d: %d\n", rank, (int)(MPI_Aint)value);
    return MPI_SUCCESS;
}

int main(int argc, char **argv) {
    int key[3];
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    rank = rank_in(MPI_COMM_WORLD);
    test_predefined();
    test_own();
    for (int i = 0; i < 3; i++) {
        OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_end, &key[i], NULL));
        OK(MPI_Comm_set_attr(MPI_COMM_SELF, key[i], (void *)(MPI_Aint)(i + 1)));
        OK(MPI_Comm_free_keyval(&key[i]));
    }
    OK(MPI_Finalize());
    return 0;
}
