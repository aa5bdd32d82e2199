// SPDX-License-Identifier: BSD-3-Clause
//
// Intercommunicators: made from two halves, duplicated, split, merged.
#include "check.h"

static int rank, size;

static void test_merge(MPI_Comm inter, int left) {
    MPI_Comm comm;
    int lefts = (size + 1) / 2, rights = size / 2, me = rank_in(inter);
    OK(MPI_Intercomm_merge(inter, left, &comm));  // the left ones are high
    CHECK(size_of(comm) == size);
    CHECK(rank_in(comm) == (left ? rights + me : me));
    ring(comm, 1);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Intercomm_merge(inter, !left, &comm));
    CHECK(rank_in(comm) == (left ? me : lefts + me));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Intercomm_merge(inter, 0, &comm));
    CHECK(size_of(comm) == size);
    ring(comm, 2);
    OK(MPI_Comm_free(&comm));
}

static void test_split(MPI_Comm inter, int left) {
    MPI_Comm part;
    int me = rank_in(inter), lefts = (size + 1) / 2, rights = size / 2, others;
    OK(MPI_Comm_split(inter, me % 2, 0, &part));
    int mine = (left ? lefts : rights), theirs = left ? rights : lefts;
    int n = (theirs + 1 - me % 2) / 2;
    CHECK((part == MPI_COMM_NULL) == (n == 0));
    if (n) {
        OK(MPI_Comm_remote_size(part, &others));
        CHECK(others == n);
        CHECK(size_of(part) == (mine + 1 - me % 2) / 2);
        cross(part, 9);
        OK(MPI_Comm_free(&part));
    }
    // Only the first of each side.
    MPI_Group all, first;
    OK(MPI_Comm_group(inter, &all));
    OK(MPI_Group_incl(all, 1, (int[]){0}, &first));
    OK(MPI_Comm_create(inter, first, &part));
    CHECK((part == MPI_COMM_NULL) == (me != 0));
    if (me == 0) {
        cross(part, 10);
        OK(MPI_Comm_free(&part));
    }
    OK(MPI_Group_free(&all));
    OK(MPI_Group_free(&first));
}

static void test_all(int left, MPI_Comm half) {
    MPI_Comm inter, dup;
    MPI_Request req;
    int flag, others;
    int leader = size_of(half) - 1;  // of each half the last one
    int remote = left ? size / 2 * 2 - 1 : (size + 1) / 2 * 2 - 2;
    OK(MPI_Intercomm_create(half, leader, MPI_COMM_WORLD, remote, 17, &inter));
    OK(MPI_Comm_test_inter(inter, &flag));
    CHECK(flag);
    OK(MPI_Comm_remote_size(inter, &others));
    CHECK(others == size - size_of(half));
    CHECK(compared(inter, half) == MPI_UNEQUAL);
    cross(inter, 3);
    OK(MPI_Comm_dup(inter, &dup));
    CHECK(compared(inter, dup) == MPI_CONGRUENT);
    cross(dup, 4);
    OK(MPI_Comm_free(&dup));
    OK(MPI_Comm_idup(inter, &dup, &req));
    OK(MPI_Wait(&req, MPI_STATUS_IGNORE));
    cross(dup, 5);
    test_merge(dup, left);
    OK(MPI_Comm_disconnect(&dup));
    test_split(inter, left);
    MPI_Group theirs, mine, both;
    OK(MPI_Comm_remote_group(inter, &theirs));
    OK(MPI_Comm_group(inter, &mine));
    OK(MPI_Group_intersection(mine, theirs, &both));
    CHECK(both == MPI_GROUP_EMPTY);
    OK(MPI_Group_free(&theirs));
    OK(MPI_Group_free(&mine));
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    OK(MPI_Comm_split_type(inter, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &dup));
    CHECK(compared(inter, dup) == MPI_CONGRUENT);
    cross(dup, 11);
    OK(MPI_Comm_free(&dup));
    FAILS(MPI_Intercomm_merge(half, 0, &dup), MPI_ERR_COMM);
    OK(MPI_Comm_free(&inter));
}

// test_contexts has numbers that are free on one side only, in turn, so that they agree late, and each time on communicators of other numbers.
static void test_contexts(int left, MPI_Comm half) {
    enum { OWN = 120, TIMES = 24 };
    MPI_Comm own[OWN], more[TIMES], inter[TIMES], both;
    for (int i = 0; i < OWN; i++)
        OK(MPI_Comm_dup(half, &own[i]));
    for (int i = left; i < OWN; i += 2)
        OK(MPI_Comm_free(&own[i]));
    for (int i = 0; i < TIMES; i++) {
        OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, left, 18, &inter[i]));
        OK(MPI_Intercomm_merge(inter[i], left, &both));
        CHECK(size_of(both) == size);
        OK(MPI_Comm_free(&both));
        if (left)
            OK(MPI_Comm_dup(half, &more[i]));
    }
    for (int i = 0; i < TIMES; i++) {
        OK(MPI_Comm_free(&inter[i]));
        if (left)
            OK(MPI_Comm_free(&more[i]));
    }
    for (int i = !left; i < OWN; i += 2)
        OK(MPI_Comm_free(&own[i]));
}

int main(int argc, char **argv) {
    MPI_Comm half;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    rank = rank_in(MPI_COMM_WORLD);
    size = size_of(MPI_COMM_WORLD);
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half));
    for (int i = 0; i < 3; i++)
        test_all(rank % 2 == 0, half);
    test_contexts(rank % 2 == 0, half);
    OK(MPI_Comm_free(&half));
    OK(MPI_Finalize());
    return 0;
}
