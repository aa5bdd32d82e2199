// SPDX-License-Identifier: BSD-3-Clause
//
// Communicators of one group: duplicates, subgroups, splits, their messages, errors, and their contexts when there are many.
#include "check.h"

static int rank, size;

static void test_dup(void) {
    MPI_Comm a, b, c;
    MPI_Request req;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &a));
    OK(MPI_Comm_idup(a, &b, &req));
    OK(MPI_Wait(&req, MPI_STATUS_IGNORE));
    OK(MPI_Comm_dup_with_info(b, MPI_INFO_NULL, &c));
    CHECK(compared(a, a) == MPI_IDENT);
    CHECK(compared(a, b) == MPI_CONGRUENT);
    CHECK(compared(MPI_COMM_WORLD, c) == MPI_CONGRUENT);
    // What is sent on one arrives on that one.
    int next = (rank + 1) % size, before = (rank + size - 1) % size, in[3] = {0},
        out[3] = {1, 2, 3};
    MPI_Request reqs[3];
    OK(MPI_Irecv(&in[2], 1, MPI_INT, before, 0, c, &reqs[0]));
    OK(MPI_Irecv(&in[1], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, b, &reqs[1]));
    OK(MPI_Irecv(&in[0], 1, MPI_INT, before, 0, a, &reqs[2]));
    OK(MPI_Send(&out[0], 1, MPI_INT, next, 0, a));
    OK(MPI_Send(&out[1], 1, MPI_INT, next, 0, b));
    OK(MPI_Send(&out[2], 1, MPI_INT, next, 0, c));
    OK(MPI_Waitall(3, reqs, MPI_STATUSES_IGNORE));
    CHECK(in[0] == 1 && in[1] == 2 && in[2] == 3);
    OK(MPI_Comm_free(&a));
    CHECK(a == MPI_COMM_NULL);
    ring(b, 5);
    OK(MPI_Comm_disconnect(&b));
    CHECK(b == MPI_COMM_NULL);
    ring(c, 6);
    OK(MPI_Comm_free(&c));
}

// Several at once, completed in another order; each is usable when its request is complete.
static void test_idup_many(void) {
    enum { MANY = 20 };
    MPI_Comm comm[MANY];
    MPI_Request req[MANY];
    for (int i = 0; i < MANY; i++)
        OK(MPI_Comm_idup(MPI_COMM_WORLD, &comm[i], &req[i]));
    for (int i = MANY; i-- > 0;)
        OK(MPI_Wait(&req[(i + rank) % MANY], MPI_STATUS_IGNORE));
    for (int i = 0; i < MANY; i++)
        ring(comm[i], i);
    for (int i = 0; i < MANY; i++)
        OK(MPI_Comm_free(&comm[i]));
}

static void test_split(void) {
    MPI_Comm comm;
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comm));
    int n = (size + 1 - rank % 2) / 2;
    CHECK(size_of(comm) == n);
    CHECK(rank_in(comm) == n - 1 - rank / 2);
    ring(comm, 1);
    MPI_Comm part;
    OK(MPI_Comm_split(comm, rank_in(comm) == 0 ? MPI_UNDEFINED : 7, 0, &part));
    CHECK((part == MPI_COMM_NULL) == (rank_in(comm) == 0));
    if (part != MPI_COMM_NULL) {
        CHECK(size_of(part) == n - 1);
        ring(part, 2);
        OK(MPI_Comm_free(&part));
    }
    OK(MPI_Comm_free(&comm));
    // Equal keys: the order stays.
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, 3, &comm));
    CHECK(compared(comm, MPI_COMM_WORLD) == MPI_CONGRUENT);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm));
    CHECK(size_of(comm) == size);  // all of this test's processes are on one host
    ring(comm, 3);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_UNGUIDED, 0, MPI_INFO_NULL, &comm));
    CHECK(comm == MPI_COMM_NULL);
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_hw_resource_type", "mpi_shared_memory"));
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, info, &comm));
    CHECK(comm != MPI_COMM_NULL);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Info_set(info, "mpi_hw_resource_type", "abacus"));
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, info, &comm));
    CHECK(comm == MPI_COMM_NULL);
    OK(MPI_Info_free(&info));
}

static MPI_Group group_of(MPI_Comm comm, int first, int last, int stride) {
    MPI_Group all, part;
    int range[1][3] = {{first, last, stride}};
    OK(MPI_Comm_group(comm, &all));
    OK(MPI_Group_range_incl(all, 1, range, &part));
    OK(MPI_Group_free(&all));
    return part;
}

static void test_create(void) {
    MPI_Comm comm;
    MPI_Group group = group_of(MPI_COMM_WORLD, size - 1, 0, -2);
    int me;
    OK(MPI_Group_rank(group, &me));
    OK(MPI_Comm_create(MPI_COMM_WORLD, group, &comm));
    CHECK((comm == MPI_COMM_NULL) == (me == MPI_UNDEFINED));
    if (comm != MPI_COMM_NULL) {
        CHECK(rank_in(comm) == me);
        ring(comm, 1);
        OK(MPI_Comm_free(&comm));
        OK(MPI_Comm_create_group(MPI_COMM_WORLD, group, 42, &comm));
        CHECK(rank_in(comm) == me);
        ring(comm, 2);
        OK(MPI_Comm_free(&comm));
    }
    OK(MPI_Group_free(&group));
    CHECK(group == MPI_GROUP_NULL);
    OK(MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_EMPTY, &comm));
    CHECK(comm == MPI_COMM_NULL);
    // Two disjoint groups in one call.
    group = group_of(MPI_COMM_WORLD, rank % 2, size - 1, 2);
    OK(MPI_Comm_create(MPI_COMM_WORLD, group, &comm));
    CHECK(rank_in(comm) == rank / 2);
    ring(comm, 3);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Group_free(&group));
}

static void test_errors(void) {
    MPI_Comm comm = MPI_COMM_WORLD, part;
    FAILS(MPI_Comm_free(&comm), MPI_ERR_COMM);
    CHECK(comm == MPI_COMM_WORLD);
    comm = MPI_COMM_NULL;
    FAILS(MPI_Comm_dup(comm, &part), MPI_ERR_COMM);
    FAILS(MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? -3 : 1, 0, &part), MPI_ERR_ARG);
    FAILS(MPI_Comm_split_type(MPI_COMM_WORLD, 12345, 0, MPI_INFO_NULL, &part), MPI_ERR_ARG);
    // One rank's mistake is everybody's error.
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank == 0, 0, &part));
    MPI_Group all, mine;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &all));
    OK(MPI_Comm_group(part, &mine));
    if (rank > 0) {
        OK(MPI_Comm_set_errhandler(part, MPI_ERRORS_RETURN));
        FAILS(MPI_Comm_create(part, rank == 1 ? all : mine, &comm), MPI_ERR_GROUP);
    }
    OK(MPI_Group_free(&all));
    OK(MPI_Group_free(&mine));
    MPI_Comm freed = part;
    OK(MPI_Comm_free(&part));
    FAILS(MPI_Comm_rank(freed, &(int){0}), MPI_ERR_COMM);
    // One that an operation still holds is no more for the program either.
    MPI_Request req;
    int got = -1;
    OK(MPI_Comm_dup(MPI_COMM_SELF, &part));
    OK(MPI_Irecv(&got, 1, MPI_INT, 0, 0, part, &req));
    OK(MPI_Send(&rank, 1, MPI_INT, 0, 0, part));
    freed = part;
    OK(MPI_Comm_free(&part));
    FAILS(MPI_Comm_rank(freed, &got), MPI_ERR_COMM);
    OK(MPI_Wait(&req, MPI_STATUS_IGNORE));
    CHECK(got == rank);
}

static void on_self(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    fprintf(stderr, "error %d of a request is raised on MPI_COMM_SELF\n", *code);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

// What is wrong with a request is its communicator's error.
static void test_errors_of_requests(void) {
    MPI_Comm comm;
    MPI_Errhandler handler;
    MPI_Request req, parts;
    int got[2] = {-1, -1};
    OK(MPI_Comm_create_errhandler(on_self, &handler));
    OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, handler));
    OK(MPI_Recv_init(got, 1, MPI_INT, 0, 0, comm, &req));
    OK(MPI_Start(&req));
    FAILS(MPI_Start(&req), MPI_ERR_REQUEST);
    FAILS(MPI_Startall(1, &req), MPI_ERR_REQUEST);
    OK(MPI_Send(&rank, 1, MPI_INT, 0, 0, comm));
    OK(MPI_Wait(&req, MPI_STATUS_IGNORE));
    CHECK(got[0] == rank);
    OK(MPI_Request_free(&req));
    OK(MPI_Irecv(got, 1, MPI_INT, 0, 0, comm, &req));
    FAILS(MPI_Start(&req), MPI_ERR_REQUEST);
    OK(MPI_Cancel(&req));
    OK(MPI_Wait(&req, MPI_STATUS_IGNORE));
    OK(MPI_Bsend_init(got, 1, MPI_INT, 0, 0, comm, &req));
    FAILS(MPI_Start(&req), MPI_ERR_BUFFER);  // nothing is attached
    OK(MPI_Request_free(&req));
    OK(MPI_Psend_init(got, 2, 1, MPI_INT, 0, 0, comm, MPI_INFO_NULL, &parts));
    FAILS(MPI_Pready(0, parts), MPI_ERR_REQUEST);
    FAILS(MPI_Pready(2, parts), MPI_ERR_ARG);
    OK(MPI_Request_free(&parts));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Comm_free(&comm));
}

// Contexts of freed communicators are used again, and those that differ between ranks are skipped.
static void test_many(int times) {
    MPI_Comm comm, kept[100];
    for (int i = 0; i < times; i++) {
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        if (i % 1000 == 0)
            ring(comm, i);
        OK(MPI_Comm_free(&comm));
    }
    for (int i = 0; i < 100; i++)
        OK(MPI_Comm_split(MPI_COMM_WORLD, (rank + i) % 3 ? 0 : MPI_UNDEFINED, 0, &kept[i]));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    ring(comm, 0);
    for (int i = 99; i >= 0; i--) {
        if (kept[i] != MPI_COMM_NULL) {
            ring(kept[i], i);
            OK(MPI_Comm_free(&kept[i]));
        }
    }
    OK(MPI_Comm_free(&comm));
}

static void test_names(void) {
    char name[MPI_MAX_OBJECT_NAME], longer[2 * MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Comm comm;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_get_name(comm, name, &length));
    CHECK(length == 0 && !name[0]);
    OK(MPI_Comm_set_name(comm, "mine"));
    OK(MPI_Comm_get_name(comm, name, &length));
    CHECK(length == 4 && !strcmp(name, "mine"));
    memset(longer, 'x', sizeof(longer));
    longer[sizeof(longer) - 1] = 0;
    OK(MPI_Comm_set_name(comm, longer));
    OK(MPI_Comm_get_name(comm, name, &length));
    CHECK(length == MPI_MAX_OBJECT_NAME - 1);
    OK(MPI_Comm_free(&comm));
}

static void test_info(void) {
    MPI_Comm comm, dup;
    MPI_Info info;
    char value[64];
    int flag, length = sizeof(value);
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_assert_no_any_tag", "true"));
    OK(MPI_Info_set(info, "nobody_knows", "this"));
    OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm));
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_dup(comm, &dup));
    OK(MPI_Comm_get_info(dup, &info));
    OK(MPI_Info_get_string(info, "mpi_assert_no_any_tag", &length, value, &flag));
    CHECK(flag && !strcmp(value, "true"));
    length = sizeof(value);
    OK(MPI_Info_get_string(info, "mpi_assert_no_any_source", &length, value, &flag));
    CHECK(flag && !strcmp(value, "false"));
    OK(MPI_Info_get_string(info, "nobody_knows", &length, value, &flag));
    CHECK(!flag);
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Comm_free(&dup));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    rank = rank_in(MPI_COMM_WORLD);
    size = size_of(MPI_COMM_WORLD);
    test_dup();
    test_idup_many();
    test_split();
    test_create();
    test_errors();
    test_errors_of_requests();
    test_names();
    test_info();
    test_many(argc > 1 ? atoi(argv[1]) : 100);
    OK(MPI_Finalize());
    return 0;
}
