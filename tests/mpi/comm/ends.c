// SPDX-License-Identifier: BSD-3-Clause
//
// Errors and ends: argv[1] says which.  ends_test.py looks at what is printed and at the exit status.
#include "check.h"

static int called, rank;

static void on_error(MPI_Comm *comm, int *code, ...) {
    CHECK(*comm != MPI_COMM_NULL);
    called = *code;
}

// An error handler of the program's is asked for its communicator, and the call returns.
static void test_handlers(void) {
    MPI_Errhandler mine, got;
    MPI_Comm comm;
    int code = MPI_SUCCESS, x = 0;
    OK(MPI_Comm_create_errhandler(on_error, &mine));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_get_errhandler(comm, &got));
    CHECK(got == MPI_ERRORS_ARE_FATAL);
    OK(MPI_Comm_set_errhandler(comm, mine));
    OK(MPI_Errhandler_free(&mine));
    CHECK(mine == MPI_ERRHANDLER_NULL);
    FAILS(MPI_Send(&x, 1, MPI_INT, 9999, 0, comm), MPI_ERR_RANK);
    CHECK(class_of(called) == MPI_ERR_RANK);
    OK(MPI_Add_error_code(MPI_ERR_OTHER, &code));
    OK(MPI_Comm_call_errhandler(comm, code));
    CHECK(called == code);
    MPI_Comm dup;
    OK(MPI_Comm_dup(comm, &dup));  // inherits it
    called = 0;
    FAILS(MPI_Send(&x, 1, MPI_INT, 0, -7, dup), MPI_ERR_TAG);
    CHECK(class_of(called) == MPI_ERR_TAG);
    OK(MPI_Comm_free(&dup));
    OK(MPI_Comm_get_errhandler(comm, &got));
    CHECK(got != MPI_ERRHANDLER_NULL);
    OK(MPI_Errhandler_free(&got));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Win_create_errhandler((MPI_Win_errhandler_function *)(void *)on_error, &mine));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    FAILS(MPI_Comm_set_errhandler(MPI_COMM_WORLD, mine), MPI_ERR_ERRHANDLER);
    OK(MPI_Errhandler_free(&mine));
    FAILS(MPI_Comm_rank(MPI_COMM_NULL, &x), MPI_ERR_COMM);
}

static void test_environment(void) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int a, b, length, flag;
    OK(MPI_Get_version(&a, &b));
    CHECK(a == MPI_VERSION && b == MPI_SUBVERSION);
    OK(MPI_Get_library_version(text, &length));
    CHECK(strncmp(text, "Wherry ", 7) == 0 && (int)strlen(text) == length);
    OK(MPI_Get_processor_name(text, &length));
    CHECK(length > 0 && (int)strlen(text) == length);
    OK(MPI_Is_thread_main(&flag));
    CHECK(flag);
    OK(MPI_Query_thread(&a));
    CHECK(a >= MPI_THREAD_SINGLE);
    length = sizeof(text);
    OK(MPI_Info_get_string(MPI_INFO_ENV, "command", &length, text, &flag));
    CHECK(flag && length > 1);
    MPI_Info info;
    OK(MPI_Get_hw_resource_info(&info));
    OK(MPI_Info_free(&info));
    CHECK(MPI_Wtime() > 0 && MPI_Wtick() > 0);
}

// before_init: what works before MPI_Init.
static void before_init(void) {
    MPI_Info info;
    MPI_Errhandler handler;
    int flag, class_, length;
    char text[MPI_MAX_ERROR_STRING];
    OK(MPI_Initialized(&flag));
    CHECK(!flag);
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "a", "b"));
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_create_errhandler(on_error, &handler));
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Error_class(MPI_ERR_TAG, &class_));
    OK(MPI_Error_string(MPI_ERR_TAG, text, &length));
}

// Requests of several kinds that nobody waits for: rank 0 has one, rank 1 six.
static void leak_requests(void) {
    static int room[2];
    MPI_Request request;
    OK(MPI_Ibarrier(MPI_COMM_WORLD, &request));
    if (rank == 0)
        OK(MPI_Send(room, 1, MPI_INT, 1, 5, MPI_COMM_WORLD));
    if (rank != 1)
        return;
    MPI_Recv(&room[1], 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    OK(MPI_Irecv(room, 1, MPI_INT, 1, 6, MPI_COMM_WORLD, &request));  // it has ended
    OK(MPI_Send(room, 1, MPI_INT, 1, 6, MPI_COMM_WORLD));
    OK(MPI_Irecv(room, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, &request));      // nothing comes
    OK(MPI_Recv_init(room, 1, MPI_INT, 0, 8, MPI_COMM_WORLD, &request));  // never begun
    OK(MPI_Send_init(room, 1, MPI_INT, 0, 9, MPI_COMM_SELF, &request));
    OK(MPI_Precv_init(room, 1, 1, MPI_INT, 0, 10, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    OK(MPI_Irecv(room, 1, MPI_INT, 0, 11, MPI_COMM_WORLD, &request));  // not counted: it was freed
    OK(MPI_Request_free(&request));
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "well";
    int x = 0, flag;
    before_init();
    OK(MPI_Init(&argc, &argv));
    rank = rank_in(MPI_COMM_WORLD);
    if (strcmp(how, "well") == 0) {
        test_handlers();
        test_environment();
    } else if (strcmp(how, "fatal") == 0 && rank == 1) {
        MPI_Send(&x, 1, MPI_INT, 9999, 0, MPI_COMM_WORLD);
    } else if (strcmp(how, "fatal") == 0) {
        MPI_Recv(&x, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(how, "abort") == 0 && rank == 0) {
        printf("before the end");  // what was printed is not lost
        MPI_Abort(MPI_COMM_WORLD, 7);
    } else if (strcmp(how, "abort") == 0) {
        MPI_Recv(&x, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(how, "hang") ==
               0) {  // rank 1 waits for what nobody sends, and the other for it
        if (rank == 0)
            OK(MPI_Send(&x, 1, MPI_INT, 1, 4, MPI_COMM_WORLD));
        if (rank == 1)
            OK(MPI_Recv(&x, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Barrier(MPI_COMM_WORLD));
    } else if (strcmp(how, "absent") == 0) {  // once they share memory, one does not come
        for (int i = 0; i < 20; i++)
            OK(MPI_Barrier(MPI_COMM_WORLD));
        if (rank == 1)
            OK(MPI_Recv(&x, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Barrier(MPI_COMM_WORLD));
    } else if (strcmp(how, "requests") == 0) {
        leak_requests();
    } else if (strcmp(how, "leaks") == 0) {
        MPI_Request req;
        if (rank == 0) {
            OK(MPI_Send(&x, 1, MPI_INT, 1, 23, MPI_COMM_WORLD));
            OK(MPI_Send(&x, 1, MPI_INT, 1, 24, MPI_COMM_WORLD));
        } else {
            OK(MPI_Recv(&x, 1, MPI_INT, 0, 24, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            OK(MPI_Irecv(&x, 1, MPI_INT, 0, 99, MPI_COMM_WORLD, &req));
        }
    }
    OK(MPI_Finalize());
    OK(MPI_Finalized(&flag));
    CHECK(flag);
    return 0;
}
