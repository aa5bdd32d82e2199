// SPDX-License-Identifier: BSD-3-Clause
//
// Sessions without MPI_Init, one after the other and two at a time, and communicators of their groups.
#include "check.h"

static void test_sets(MPI_Session session) {
    int count, length = 0, flag;
    char name[MPI_MAX_PSET_NAME_LEN], value[64];
    MPI_Info info;
    MPI_Group group;
    OK(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &count));
    CHECK(count == 2);
    OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, &length, NULL));
    CHECK(length == 12);
    FAILS(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, &length, NULL), MPI_ERR_ARG);
    OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, &length, name));
    CHECK(strcmp(name, "mpi://WORLD") == 0);
    OK(MPI_Session_get_pset_info(session, "mpi://SELF", &info));
    length = 0;
    OK(MPI_Info_get_string(info, "mpi_size", &length, NULL, &flag));
    CHECK(flag && length == 2);
    OK(MPI_Info_get_string(info, "mpi_size", &length, value, &flag));
    CHECK(flag && strcmp(value, "1") == 0);
    OK(MPI_Info_free(&info));
    OK(MPI_Session_get_info(session, &info));
    length = sizeof(value);
    OK(MPI_Info_get_string(info, "thread_level", &length, value, &flag));
    CHECK(flag && strncmp(value, "MPI_THREAD_", 11) == 0);
    OK(MPI_Info_free(&info));
    static const char *const again[] = {"mpi://self", "MPI://Self"};  // the same URI
    for (int i = 0; i < 2; i++) {
        OK(MPI_Group_from_session_pset(session, again[i], &group));
        OK(MPI_Group_size(group, &count));
        CHECK(count == 1);
        OK(MPI_Group_free(&group));
    }
    FAILS(MPI_Group_from_session_pset(session, "mpi://SELF/", &group), MPI_ERR_ARG);
    FAILS(MPI_Group_from_session_pset(session, "mpi://NOBODY", &group), MPI_ERR_ARG);
}

static MPI_Comm world_of(MPI_Session session, const char *tag) {
    MPI_Group group;
    MPI_Comm comm;
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    OK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    OK(MPI_Group_free(&group));
    return comm;
}

static void test_inter(MPI_Comm world) {
    MPI_Group all, low, high;
    MPI_Comm inter;
    int size = size_of(world), rank = rank_in(world), others;
    OK(MPI_Comm_group(world, &all));
    OK(MPI_Group_range_incl(all, 1, (int[1][3]){{0, size / 2 - 1, 1}}, &low));
    OK(MPI_Group_difference(all, low, &high));
    int lower = rank < size / 2;
    OK(MPI_Intercomm_create_from_groups(lower ? low : high, lower ? 0 : size - size / 2 - 1,
                                        lower ? high : low, lower ? size - size / 2 - 1 : 0,
                                        "halves", MPI_INFO_NULL, MPI_ERRORS_RETURN, &inter));
    OK(MPI_Comm_remote_size(inter, &others));
    CHECK(others == (lower ? size - size / 2 : size / 2));
    cross(inter, 1);
    OK(MPI_Comm_free(&inter));
    OK(MPI_Group_free(&all));
    OK(MPI_Group_free(&low));
    OK(MPI_Group_free(&high));
}

static int heard;
static void hear(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    heard += class_of(*code) == MPI_ERR_GROUP || class_of(*code) == MPI_ERR_RANK;
}

// What fails is told to the error handler of the call, where nothing else returns.
static void test_failures(MPI_Comm world) {
    MPI_Errhandler handler;
    MPI_Group all, others;
    MPI_Comm comm;
    OK(MPI_Comm_create_errhandler(hear, &handler));
    OK(MPI_Comm_group(world, &all));
    OK(MPI_Group_excl(all, 1, (int[1]){rank_in(world)}, &others));
    int others_size;
    OK(MPI_Group_size(others, &others_size));
    if (others_size) {
        FAILS(MPI_Comm_create_from_group(others, "others", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm),
              MPI_ERR_GROUP);
        FAILS(MPI_Comm_create_from_group(others, "others", MPI_INFO_NULL, handler, &comm),
              MPI_ERR_GROUP);
        CHECK(heard == 1);
    }
    heard = 0;
    FAILS(MPI_Intercomm_create_from_groups(all, 99, all, 0, "none", MPI_INFO_NULL, handler, &comm),
          MPI_ERR_RANK);
    CHECK(heard == 1);
    OK(MPI_Group_free(&others));
    OK(MPI_Group_free(&all));
    OK(MPI_Errhandler_free(&handler));
}

// A buffer that is attached to a session serves its communicators, and those made from them.
static void test_buffer(MPI_Session session, MPI_Comm world) {
    MPI_Comm comm;
    char space[1024], *got;
    int size, x = 1, y = 0;
    OK(MPI_Comm_dup(world, &comm));
    FAILS(MPI_Bsend(&x, 1, MPI_INT, rank_in(comm), 0, comm), MPI_ERR_BUFFER);
    OK(MPI_Session_attach_buffer(session, space, sizeof(space)));
    OK(MPI_Bsend(&x, 1, MPI_INT, rank_in(comm), 0, comm));
    OK(MPI_Recv(&y, 1, MPI_INT, rank_in(comm), 0, comm, MPI_STATUS_IGNORE));
    CHECK(y == 1);
    OK(MPI_Session_flush_buffer(session));
    OK(MPI_Session_detach_buffer(session, &got, &size));
    CHECK(got == space && size == sizeof(space));
    OK(MPI_Comm_free(&comm));
}

int main(int argc, char **argv) {
    MPI_Session session, other;
    int flag;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Initialized(&flag));
    CHECK(!flag);
    test_sets(session);
    MPI_Comm world = world_of(session, "first");
    ring(world, 1);
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &other));
    MPI_Comm second = world_of(other, "second");
    CHECK(compared(world, second) == MPI_CONGRUENT);
    ring(second, 2);
    if (size_of(world) > 1)
        test_inter(world);
    test_buffer(session, world);
    test_failures(world);
    OK(MPI_Comm_free(&world));
    OK(MPI_Session_finalize(&session));
    CHECK(session == MPI_SESSION_NULL);
    ring(second, 3);
    OK(MPI_Comm_free(&second));
    OK(MPI_Session_finalize(&other));
    // All have ended, and another one begins; then MPI_Init, too, if it is asked for.
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    world = world_of(session, "third");
    ring(world, 4);
    OK(MPI_Comm_free(&world));
    if (argc > 1) {
        OK(MPI_Init(&argc, &argv));
        ring(MPI_COMM_WORLD, 5);
        OK(MPI_Finalize());
        OK(MPI_Finalized(&flag));
        CHECK(flag);
    }
    OK(MPI_Session_finalize(&session));
    return 0;
}
