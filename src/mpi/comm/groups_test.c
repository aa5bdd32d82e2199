// SPDX-License-Identifier: BSD-3-Clause
#include "base/test.h"
#include "mpi/base/process.h"
#include "mpi/bodies.h"
#include "mpi/comm/comm.h"
#include "mpi/env/errhandler.h"

// A job of eight, seen by rank 3, without any process.
static whm_group *world(void) {
    whm_process_here.ranks = 8;
    whm_self->world = 3;
    if (!whm_self->comm_world) {
        whm_errhandlers_begin(whm_self);
        CHECK_EQ_INT(whm_comms_begin(whm_self), MPI_SUCCESS);
    }
    whm_group *group;
    CHECK_EQ_INT(mpi_comm_group(whm_self->comm_world, &group), MPI_SUCCESS);
    return group;
}

static whm_group *of(int n, const int *ranks) {
    whm_group *all = world(), *group;
    CHECK_EQ_INT(mpi_group_incl(all, n, ranks, &group), MPI_SUCCESS);
    whm_group_release(all);
    return group;
}
#define OF(...) of(sizeof((int[]){__VA_ARGS__}) / sizeof(int), (int[]){__VA_ARGS__})

static void check(whm_group *group, int n, const int *ranks) {
    CHECK_EQ_INT(group->size, n);
    int rank = MPI_UNDEFINED;
    for (int i = 0; i < n; i++) {
        CHECK_EQ_INT(whm_group_world(group, i), ranks[i]);
        rank = ranks[i] == 3 ? i : rank;
    }
    CHECK_EQ_INT(group->rank, rank);
    whm_group_release(group);
}
#define IS(group, ...)                                                                             \
    check(group, sizeof((int[]){__VA_ARGS__}) / sizeof(int), (int[]){__VA_ARGS__})

TEST(choose_by_rank) {
    whm_group *all = world(), *group;
    IS(all, 0, 1, 2, 3, 4, 5, 6, 7);
    IS(OF(7, 3, 1), 7, 3, 1);
    whm_group *base = OF(7, 3, 1, 5);
    CHECK_EQ_INT(mpi_group_excl(base, 2, (int[]){3, 0}, &group), MPI_SUCCESS);
    IS(group, 3, 1);
    CHECK_EQ_INT(mpi_group_incl(base, 2, (int[]){1, 1}, &group), MPI_ERR_RANK);
    CHECK_EQ_INT(mpi_group_incl(base, 1, (int[]){4}, &group), MPI_ERR_RANK);
    CHECK_EQ_INT(mpi_group_excl(base, 1, (int[]){-1}, &group), MPI_ERR_RANK);
    whm_group_release(base);
}

TEST(empty_group_is_predefined) {
    whm_group *all = world(), *group;
    CHECK_EQ_INT(mpi_group_incl(all, 0, NULL, &group), MPI_SUCCESS);
    CHECK(group->o.handle == MPI_GROUP_EMPTY);
    CHECK_EQ_INT(mpi_group_difference(all, all, &group), MPI_SUCCESS);
    CHECK(group->o.handle == MPI_GROUP_EMPTY);
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(mpi_group_free(group), MPI_SUCCESS);
    CHECK(whm_group_of(MPI_GROUP_EMPTY) == group);
    whm_group_release(all);
}

TEST(set_operations) {
    whm_group *a = OF(5, 3, 1, 0), *b = OF(1, 2, 5), *group;
    CHECK_EQ_INT(mpi_group_union(a, b, &group), MPI_SUCCESS);
    IS(group, 5, 3, 1, 0, 2);
    CHECK_EQ_INT(mpi_group_intersection(a, b, &group), MPI_SUCCESS);
    IS(group, 5, 1);
    CHECK_EQ_INT(mpi_group_intersection(b, a, &group), MPI_SUCCESS);
    IS(group, 1, 5);
    CHECK_EQ_INT(mpi_group_difference(a, b, &group), MPI_SUCCESS);
    IS(group, 3, 0);
    whm_group_release(a);
    whm_group_release(b);
}

TEST(ranges) {
    whm_group *all = world(), *group;
    int r[3][3] = {{6, 7, 1}, {4, 0, -2}, {1, 1, 5}};
    CHECK_EQ_INT(mpi_group_range_incl(all, 3, r, &group), MPI_SUCCESS);
    IS(group, 6, 7, 4, 2, 0, 1);
    CHECK_EQ_INT(mpi_group_range_excl(all, 3, r, &group), MPI_SUCCESS);
    IS(group, 3, 5);
    int zero[1][3] = {{0, 3, 0}}, away[1][3] = {{0, 3, -1}}, out[1][3] = {{0, 8, 1}};
    int twice[2][3] = {{0, 7, 1}, {0, 7, 1}};
    CHECK_EQ_INT(mpi_group_range_incl(all, 1, zero, &group), MPI_ERR_ARG);
    CHECK_EQ_INT(mpi_group_range_incl(all, 1, away, &group), MPI_ERR_ARG);
    CHECK_EQ_INT(mpi_group_range_excl(all, 1, out, &group), MPI_ERR_RANK);
    CHECK_EQ_INT(mpi_group_range_incl(all, 2, twice, &group), MPI_ERR_RANK);
    whm_group_release(all);
}

TEST(compare_and_translate) {
    whm_group *a = OF(5, 3, 1), *b = OF(5, 3, 1), *c = OF(1, 3, 5), *d = OF(1, 3, 4);
    int result, ranks[4];
    CHECK_EQ_INT(mpi_group_compare(a, b, &result), MPI_SUCCESS);
    CHECK_EQ_INT(result, MPI_IDENT);
    CHECK_EQ_INT(mpi_group_compare(a, c, &result), MPI_SUCCESS);
    CHECK_EQ_INT(result, MPI_SIMILAR);
    CHECK_EQ_INT(mpi_group_compare(a, d, &result), MPI_SUCCESS);
    CHECK_EQ_INT(result, MPI_UNEQUAL);
    CHECK_EQ_INT(mpi_group_translate_ranks(a, 4, (int[]){2, MPI_PROC_NULL, 0, 1}, d, ranks),
                 MPI_SUCCESS);
    CHECK_EQ_INT(ranks[0], 0);
    CHECK_EQ_INT(ranks[1], MPI_PROC_NULL);
    CHECK_EQ_INT(ranks[2], MPI_UNDEFINED);
    CHECK_EQ_INT(ranks[3], 1);
    CHECK_EQ_INT(mpi_group_translate_ranks(a, 1, (int[]){3}, d, ranks), MPI_ERR_RANK);
    whm_group_release(a);
    whm_group_release(b);
    whm_group_release(c);
    whm_group_release(d);
}

TEST(communicators_of_the_job) {
    whm_group_release(world());
    whm_comm *all = whm_comm_of(MPI_COMM_WORLD), *self = whm_comm_of(MPI_COMM_SELF);
    int size, rank, result, length;
    char name[MPI_MAX_OBJECT_NAME];
    CHECK_EQ_INT(mpi_comm_size(all, &size) + mpi_comm_rank(all, &rank), MPI_SUCCESS);
    CHECK_EQ_INT(size, 8);
    CHECK_EQ_INT(rank, 3);
    CHECK_EQ_INT(mpi_comm_size(self, &size) + mpi_comm_rank(self, &rank), MPI_SUCCESS);
    CHECK_EQ_INT(size, 1);
    CHECK_EQ_INT(rank, 0);
    CHECK_EQ_INT(whm_group_world(self->group, 0), 3);
    CHECK_EQ_INT(mpi_comm_compare(all, self, &result), MPI_SUCCESS);
    CHECK_EQ_INT(result, MPI_UNEQUAL);
    CHECK_EQ_INT(mpi_comm_get_name(self, name, &length), MPI_SUCCESS);
    CHECK_EQ_STR(name, "MPI_COMM_SELF");
    CHECK_EQ_INT(length, 13);
    CHECK_EQ_INT(mpi_comm_remote_size(all, &size), MPI_ERR_COMM);
    CHECK(!whm_comm_of(MPI_COMM_NULL));
    whm_comms_end(whm_self);
    CHECK(!whm_comm_of(MPI_COMM_WORLD));
}

TEST_MAIN()
