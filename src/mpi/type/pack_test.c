// SPDX-License-Identifier: BSD-3-Clause
//
// MPI_Pack, MPI_Unpack and their external32 forms.
#include "mpi/bodies.h"
#include "mpi/type/test_named.h"

TEST(several_into_one_buffer) {
    int numbers[3] = {1, 2, 3}, back[3];
    double real = 2.5, real_back;
    char packed[64];
    MPI_Count position = 0, size;
    check(mpi_pack(numbers, 3, named(MPI_INT), packed, sizeof(packed), &position, NULL));
    check(mpi_pack(&real, 1, named(MPI_DOUBLE), packed, sizeof(packed), &position, NULL));
    CHECK_EQ_INT(position, 20);
    check(mpi_pack_size(3, named(MPI_INT), NULL, &size));
    CHECK_EQ_INT(size, 12);
    position = 0;
    check(mpi_unpack(packed, 20, &position, back, 3, named(MPI_INT), NULL));
    check(mpi_unpack(packed, 20, &position, &real_back, 1, named(MPI_DOUBLE), NULL));
    CHECK_EQ_INT(position, 20);
    CHECK_MEM(back, numbers, sizeof(back));
    CHECK(real_back == real);
}

TEST(rooms) {
    int numbers[3] = {1, 2, 3};
    char packed[12];
    MPI_Count position = 4;
    CHECK_EQ_INT(mpi_pack(numbers, 3, named(MPI_INT), packed, 12, &position, NULL),
                 MPI_ERR_TRUNCATE);
    CHECK_EQ_INT(position, 4);
    CHECK(strstr(whm_self->sentence, "12 bytes do not fit"));
    CHECK_EQ_INT(mpi_unpack(packed, 12, &position, numbers, 3, named(MPI_INT), NULL),
                 MPI_ERR_TRUNCATE);
    position = 13;
    CHECK_EQ_INT(mpi_pack(numbers, 0, named(MPI_INT), packed, 12, &position, NULL), MPI_ERR_ARG);
    position = -1;
    CHECK_EQ_INT(mpi_pack(numbers, 0, named(MPI_INT), packed, 12, &position, NULL), MPI_ERR_ARG);
    position = 0;
    CHECK_EQ_INT(mpi_pack(NULL, 3, named(MPI_INT), packed, 12, &position, NULL), MPI_ERR_BUFFER);
    CHECK_EQ_INT(mpi_pack(numbers, 3, named(MPI_INT), NULL, 12, &position, NULL), MPI_ERR_BUFFER);
    check(mpi_pack(NULL, 0, named(MPI_INT), NULL, 0, &position, NULL));
    MPI_Count size;
    CHECK_EQ_INT(mpi_pack_size(INT64_MAX / 2, named(MPI_INT), NULL, &size), MPI_ERR_COUNT);
}

TEST(uncommitted) {
    whm_type *type;
    int numbers[2] = {0};
    char packed[8];
    MPI_Count position = 0;
    check(mpi_type_contiguous(2, named(MPI_INT), &type));
    CHECK_EQ_INT(mpi_pack(numbers, 1, type, packed, 8, &position, NULL), MPI_ERR_TYPE);
    CHECK_EQ_INT(mpi_unpack(packed, 8, &position, numbers, 1, type, NULL), MPI_ERR_TYPE);
    check(mpi_type_commit(type));
    check(mpi_pack(numbers, 1, type, packed, 8, &position, NULL));
    check(mpi_type_free(type));
}

// Addresses in the type, and none beside it.
TEST(bottom) {
    static int a = 11, b = 22;
    MPI_Aint at[2];
    check(mpi_get_address(&a, &at[0]));
    check(mpi_get_address(&b, &at[1]));
    CHECK(at[0] == (MPI_Aint)&a);
    whm_type *type;
    check(mpi_type_create_hindexed(2, (MPI_Count[]){1, 1}, at, named(MPI_INT), &type));
    check(mpi_type_commit(type));
    int packed[2];
    MPI_Count position = 0;
    check(mpi_pack(MPI_BOTTOM, 1, type, packed, 8, &position, NULL));
    CHECK_MEM(packed, ((int[]){11, 22}), 8);
    position = 0;
    check(mpi_unpack((int[]){33, 44}, 8, &position, MPI_BOTTOM, 1, type, NULL));
    CHECK(a == 33 && b == 44);
    check(mpi_type_free(type));
}

TEST(external32) {
    long numbers[2] = {1, -2}, back[2];
    unsigned char packed[16];
    MPI_Count position = 0, size;
    check(mpi_pack_external_size("external32", 2, named(MPI_INTEGER8), &size));
    CHECK_EQ_INT(size, 16);
    check(mpi_pack_external("external32", numbers, 2, named(MPI_INTEGER8), packed, 16, &position));
    CHECK_EQ_INT(position, 16);
    CHECK_MEM(packed, "\0\0\0\0\0\0\0\1\377\377\377\377\377\377\377\376", 16);
    position = 0;
    check(mpi_unpack_external("external32", packed, 16, &position, back, 2, named(MPI_INTEGER8)));
    CHECK_MEM(back, numbers, sizeof(back));
    CHECK_EQ_INT(mpi_pack_external_size("native", 2, named(MPI_INT), &size),
                 MPI_ERR_UNSUPPORTED_DATAREP);
    position = 8;
    CHECK_EQ_INT(
        mpi_pack_external("external32", numbers, 2, named(MPI_INTEGER8), packed, 16, &position),
        MPI_ERR_TRUNCATE);
    CHECK_EQ_INT(mpi_pack_external_size("external32", 2, named(MPI_INTEGER16), &size),
                 MPI_ERR_CONVERSION);
}

TEST_MAIN()
