// SPDX-License-Identifier: BSD-3-Clause
//
// Counts and elements of what a status says has come.
#include "mpi/base/status.h"
#include "mpi/bodies.h"
#include "mpi/type/test_named.h"

static MPI_Count count_of(whm_type *type, MPI_Count bytes) {
    MPI_Status status = {0};
    MPI_Count count;
    whm_status_set_bytes(&status, bytes);
    check(mpi_get_count(&status, type, &count));
    return count;
}

static MPI_Count elements_of(whm_type *type, MPI_Count bytes) {
    MPI_Status status = {0};
    MPI_Count count;
    whm_status_set_bytes(&status, bytes);
    check(mpi_get_elements(&status, type, &count));
    return count;
}

// Bytes that a status has after so many elements were set; they are those elements again.
static MPI_Count set(whm_type *type, MPI_Count count) {
    MPI_Status status = {.MPI_SOURCE = 3, .MPI_TAG = 4, .MPI_ERROR = 5};
    whm_status_set(&status, 3, 4, 99, true);
    MPI_Count back;
    check(mpi_status_set_elements(&status, type, count));
    CHECK(status.MPI_SOURCE == 3 && status.MPI_TAG == 4 && status.MPI_ERROR == 5);
    CHECK(status.MPI_internal[2]);
    check(mpi_get_elements(&status, type, &back));
    CHECK_EQ_INT(back, count);
    return whm_status_bytes(&status);
}

TEST(named_types) {
    whm_type *number = named(MPI_INT), *pair = named(MPI_SHORT_INT);
    CHECK_EQ_INT(count_of(number, 12), 3);
    CHECK_EQ_INT(count_of(number, 13), MPI_UNDEFINED);
    CHECK_EQ_INT(elements_of(number, 12), 3);
    CHECK_EQ_INT(elements_of(number, 13), MPI_UNDEFINED);
    CHECK_EQ_INT(count_of(pair, 12), 2);
    CHECK_EQ_INT(elements_of(pair, 12), 4);
    CHECK_EQ_INT(elements_of(pair, 8), 3);
    CHECK_EQ_INT(elements_of(pair, 9), MPI_UNDEFINED);
    CHECK_EQ_INT(elements_of(named(MPI_COMPLEX4), 12), 3);
    CHECK_EQ_INT(set(number, 7), 28);
    CHECK_EQ_INT(set(pair, 3), 8);
    CHECK_EQ_INT(set(number, (MPI_Count)1 << 40), (MPI_Count)1 << 42);
    MPI_Status status = {0};
    CHECK_EQ_INT(mpi_status_set_elements(&status, number, INT64_MAX / 2), MPI_ERR_COUNT);
}

TEST(derived_types) {
    whm_type *vector, *mixed, *none, *both[] = {named(MPI_CHAR), named(MPI_DOUBLE)};
    check(mpi_type_vector(2, 2, 3, named(MPI_INT), &vector));
    CHECK_EQ_INT(count_of(vector, 32), 2);
    CHECK_EQ_INT(count_of(vector, 20), MPI_UNDEFINED);
    CHECK_EQ_INT(elements_of(vector, 20), 5);
    CHECK_EQ_INT(set(vector, 5), 20);
    check(mpi_type_create_struct(2, (MPI_Count[]){3, 2}, (MPI_Aint[]){0, 8}, both, &mixed));
    CHECK_EQ_INT(mixed->size, 19);
    static const int bytes[] = {0, 1, 2, 3, 11, 19, 20, 21, 22, 30, 38};
    for (int i = 0; i < 11; i++) {
        CHECK_EQ_INT(elements_of(mixed, bytes[i]), i);
        CHECK_EQ_INT(set(mixed, i), bytes[i]);
    }
    CHECK_EQ_INT(elements_of(mixed, 12), MPI_UNDEFINED);
    check(mpi_type_contiguous(0, named(MPI_INT), &none));
    CHECK_EQ_INT(count_of(none, 0), 0);
    CHECK_EQ_INT(count_of(none, 1), MPI_UNDEFINED);
    CHECK_EQ_INT(elements_of(none, 0), 0);
    CHECK_EQ_INT(elements_of(none, 1), MPI_UNDEFINED);
    CHECK_EQ_INT(set(none, 0), 0);
    check(mpi_type_free(vector));
    check(mpi_type_free(mixed));
    check(mpi_type_free(none));
}

TEST_MAIN()
