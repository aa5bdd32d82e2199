// SPDX-License-Identifier: BSD-3-Clause
#include "base/test.h"
#include "mpi/bodies.h"

static int product(int count, const int *dims) {
    int n = 1;
    for (int i = 0; i < count; i++)
        n *= dims[i];
    return n;
}

TEST(as_close_as_possible) {
    static const struct {
        int nodes, count, dims[4];
    } cases[] = {{6, 2, {3, 2}},      {7, 2, {7, 1}},          {12, 2, {4, 3}},
                 {36, 3, {4, 3, 3}},  {24, 3, {4, 3, 2}},      {64, 3, {4, 4, 4}},
                 {1, 3, {1, 1, 1}},   {100, 2, {10, 10}},      {60, 4, {5, 3, 2, 2}},
                 {97, 3, {97, 1, 1}}, {5040, 4, {10, 9, 8, 7}}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        int dims[4] = {0};
        CHECK_EQ_INT(mpi_dims_create(cases[i].nodes, cases[i].count, dims), MPI_SUCCESS);
        for (int d = 0; d < cases[i].count; d++)
            CHECK_EQ_INT(dims[d], cases[i].dims[d]);
    }
}

TEST(every_number) {
    for (int n = 1; n <= 2000; n++) {
        for (int count = 1; count <= 6; count++) {
            int dims[6] = {0};
            CHECK_EQ_INT(mpi_dims_create(n, count, dims), MPI_SUCCESS);
            CHECK_EQ_INT(product(count, dims), n);
            for (int d = 1; d < count; d++)
                CHECK(dims[d] <= dims[d - 1]);
        }
    }
    int dims[3] = {0};
    CHECK_EQ_INT(mpi_dims_create(735134400, 3, dims), MPI_SUCCESS);
    CHECK_EQ_INT(product(3, dims), 735134400);
    int prime[2] = {0};
    CHECK_EQ_INT(mpi_dims_create(2147483647, 2, prime), MPI_SUCCESS);
    CHECK(prime[0] == 2147483647 && prime[1] == 1);
}

TEST(some_are_given) {
    int a[3] = {0, 3, 0};
    CHECK_EQ_INT(mpi_dims_create(24, 3, a), MPI_SUCCESS);
    CHECK(a[0] == 4 && a[1] == 3 && a[2] == 2);
    int b[3] = {0, 5, 0};
    CHECK_EQ_INT(mpi_dims_create(24, 3, b), MPI_ERR_DIMS);
    int c[2] = {4, 6};
    CHECK_EQ_INT(mpi_dims_create(24, 2, c), MPI_SUCCESS);
    CHECK_EQ_INT(mpi_dims_create(48, 2, c), MPI_ERR_DIMS);
    int d[2] = {0, -1};
    CHECK_EQ_INT(mpi_dims_create(24, 2, d), MPI_ERR_DIMS);
    int e[1] = {0};
    CHECK_EQ_INT(mpi_dims_create(0, 1, e), MPI_ERR_DIMS);
}

TEST_MAIN()
