// SPDX-License-Identifier: BSD-3-Clause
//
// Predefined types, handles and references, kinds, names, copies and buffers.

#include <complex.h>
#include <stdbool.h>
#include <wchar.h>

#include "mpi/base/test_check.h"
#include "mpi/bodies.h"
#include "mpi/type/make.h"
#include "mpi/type/predefined.h"

static void begin(void) {
    if (!whm_self->named[(uintptr_t)MPI_INT])
        check(whm_types_begin(whm_self));
}

struct pair_float_int {
    float value;
    int index;
};
struct pair_double_int {
    double value;
    int index;
};
struct pair_long_int {
    long value;
    int index;
};
struct pair_short_int {
    short value;
    int index;
};
struct pair_long_double_int {
    long double value;
    int index;
};

// size, extent: what the compiler says of the type in C.
#define PLAIN(NAME, T)                                                                             \
    { MPI_##NAME, "MPI_" #NAME, sizeof(T), sizeof(T) }
#define PAIR(NAME, T, V)                                                                           \
    { MPI_##NAME, "MPI_" #NAME, sizeof(V) + sizeof(int), sizeof(T) }
static const struct {
    MPI_Datatype handle;
    const char *name;
    size_t size, extent;
} expected[] = {
    PLAIN(AINT, MPI_Aint),
    PLAIN(COUNT, MPI_Count),
    PLAIN(OFFSET, MPI_Offset),
    PLAIN(PACKED, char),
    PLAIN(SHORT, short),
    PLAIN(INT, int),
    PLAIN(LONG, long),
    PLAIN(LONG_LONG, long long),
    PLAIN(UNSIGNED_SHORT, short),
    PLAIN(UNSIGNED, int),
    PLAIN(UNSIGNED_LONG, long),
    PLAIN(UNSIGNED_LONG_LONG, long long),
    PLAIN(FLOAT, float),
    PLAIN(C_FLOAT_COMPLEX, float _Complex),
    PLAIN(CXX_FLOAT_COMPLEX, float _Complex),
    PLAIN(DOUBLE, double),
    PLAIN(C_DOUBLE_COMPLEX, double _Complex),
    PLAIN(CXX_DOUBLE_COMPLEX, double _Complex),
    PLAIN(LOGICAL, int),
    PLAIN(INTEGER, int),
    PLAIN(REAL, float),
    PLAIN(COMPLEX, float _Complex),
    PLAIN(DOUBLE_PRECISION, double),
    PLAIN(DOUBLE_COMPLEX, double _Complex),
    PLAIN(CHARACTER, char),
    PLAIN(LONG_DOUBLE, long double),
    PLAIN(C_LONG_DOUBLE_COMPLEX, long double _Complex),
    PLAIN(CXX_LONG_DOUBLE_COMPLEX, long double _Complex),
    PAIR(FLOAT_INT, struct pair_float_int, float),
    PAIR(DOUBLE_INT, struct pair_double_int, double),
    PAIR(LONG_INT, struct pair_long_int, long),
    PLAIN(2INT, int[2]),
    PAIR(SHORT_INT, struct pair_short_int, short),
    PAIR(LONG_DOUBLE_INT, struct pair_long_double_int, long double),
    PLAIN(2REAL, float[2]),
    PLAIN(2DOUBLE_PRECISION, double[2]),
    PLAIN(2INTEGER, int[2]),
    PLAIN(C_BOOL, bool),
    PLAIN(CXX_BOOL, bool),
    PLAIN(WCHAR, wchar_t),
    PLAIN(INT8_T, int8_t),
    PLAIN(UINT8_T, int8_t),
    PLAIN(CHAR, char),
    PLAIN(SIGNED_CHAR, char),
    PLAIN(UNSIGNED_CHAR, char),
    PLAIN(BYTE, char),
    PLAIN(INT16_T, int16_t),
    PLAIN(UINT16_T, int16_t),
    PLAIN(INT32_T, int32_t),
    PLAIN(UINT32_T, int32_t),
    PLAIN(INT64_T, int64_t),
    PLAIN(UINT64_T, int64_t),
    PLAIN(LOGICAL1, char[1]),
    PLAIN(INTEGER1, char[1]),
    PLAIN(LOGICAL2, char[2]),
    PLAIN(INTEGER2, char[2]),
    PLAIN(REAL2, char[2]),
    PLAIN(LOGICAL4, char[4]),
    PLAIN(INTEGER4, char[4]),
    PLAIN(REAL4, char[4]),
    PLAIN(COMPLEX4, char[4]),
    PLAIN(LOGICAL8, char[8]),
    PLAIN(INTEGER8, char[8]),
    PLAIN(REAL8, char[8]),
    PLAIN(COMPLEX8, char[8]),
    PLAIN(LOGICAL16, char[16]),
    PLAIN(INTEGER16, char[16]),
    PLAIN(REAL16, char[16]),
    PLAIN(COMPLEX16, char[16]),
    PLAIN(COMPLEX32, char[32]),
};

TEST(named_types) {
    begin();
    CHECK_EQ_INT(sizeof(expected) / sizeof(expected[0]), 70);
    for (size_t i = 0; i < 70; i++) {
        whm_type *type = whm_type_of(expected[i].handle);
        CHECK(type && type->o.handle == expected[i].handle);
        CHECK(type->basic && type->committed && type->base == type);
        CHECK_EQ_INT(type->size, expected[i].size);
        CHECK_EQ_INT(type->extent, expected[i].extent);
        CHECK_EQ_INT(type->lb, 0);
        CHECK_EQ_INT(type->true_lb, 0);
        bool gaps = type->size != type->extent;
        CHECK(type->dense == !gaps);
        char name[MPI_MAX_OBJECT_NAME];
        int length, n[3], combiner;
        check(mpi_type_get_name(type, name, &length));
        CHECK_EQ_STR(name, expected[i].name);
        CHECK_EQ_INT(length, strlen(name));
        check(mpi_type_get_envelope(type, &n[0], &n[1], &n[2], &combiner));
        CHECK_EQ_INT(combiner, MPI_COMBINER_NAMED);
        CHECK_EQ_INT(n[0] + n[1] + n[2], 0);
        CHECK_EQ_INT(mpi_type_free(type), MPI_ERR_TYPE);
        CHECK_EQ_INT(mpi_type_get_contents(type, 1, 1, 1, n, &(MPI_Aint){0}, &(MPI_Datatype){0}),
                     MPI_ERR_TYPE);
    }
}

// A type lives as long as anything uses it: its handle is invalid from the program's free on only when nothing does.
TEST(references) {
    begin();
    whm_type *old = whm_type_named(MPI_INT), *a, *b, *c;
    check(mpi_type_contiguous(3, old, &a));
    check(mpi_type_vector(2, 1, 2, a, &b));
    MPI_Datatype handle = a->o.handle;
    check(mpi_type_free(a));
    CHECK(whm_type_of(handle) == a);
    check(mpi_type_dup(b, &c));
    check(mpi_type_free(b));
    check(mpi_type_commit(c));
    CHECK_EQ_INT(c->size, 24);
    check(mpi_type_free(c));
    CHECK(!whm_type_of(handle));
}

TEST(names) {
    begin();
    whm_type *type;
    char name[MPI_MAX_OBJECT_NAME], longest[300];
    int length;
    check(mpi_type_contiguous(2, whm_type_named(MPI_INT), &type));
    check(mpi_type_get_name(type, name, &length));
    CHECK_EQ_STR(name, "");
    check(mpi_type_set_name(type, "column"));
    check(mpi_type_get_name(type, name, &length));
    CHECK_EQ_STR(name, "column");
    CHECK_EQ_INT(length, 6);
    memset(longest, 'x', sizeof(longest));
    longest[299] = 0;
    check(mpi_type_set_name(type, longest));
    check(mpi_type_get_name(type, name, &length));
    CHECK_EQ_INT(length, MPI_MAX_OBJECT_NAME - 1);
    CHECK_EQ_INT(strlen(name), MPI_MAX_OBJECT_NAME - 1);
    check(mpi_type_free(type));
}

TEST(dup_keeps_what_it_is) {
    begin();
    whm_type *type, *twin;
    check(mpi_type_contiguous(2, whm_type_named(MPI_INT), &type));
    check(mpi_type_dup(type, &twin));
    CHECK(!twin->committed);
    check(mpi_type_free(twin));
    check(mpi_type_commit(type));
    check(mpi_type_dup(type, &twin));
    CHECK(twin->committed);
    check(mpi_type_free(twin));
    check(mpi_type_free(type));
}

// The elements of a type: of one named type, or of several.
TEST(base) {
    begin();
    whm_type *number = whm_type_named(MPI_INT), *real = whm_type_named(MPI_DOUBLE);
    whm_type *one, *many, *both[] = {number, real}, *same[] = {number, NULL};
    check(mpi_type_vector(2, 2, 3, number, &one));
    CHECK(one->base == number);
    same[1] = one;
    const long lengths[] = {1, 1}, at[] = {0, 8};
    check(mpi_type_create_struct(2, lengths, at, both, &many));
    CHECK(!many->base);
    check(mpi_type_free(many));
    check(mpi_type_create_struct(2, lengths, at, same, &many));
    CHECK(many->base == number);
    check(mpi_type_free(many));
    check(mpi_type_free(one));
}

TEST(match_size) {
    begin();
    whm_type *type;
    check(mpi_type_match_size(MPI_TYPECLASS_INTEGER, 8, &type));
    CHECK(type->o.handle == MPI_INTEGER8);
    check(mpi_type_match_size(MPI_TYPECLASS_REAL, 4, &type));
    CHECK(type->o.handle == MPI_REAL4);
    check(mpi_type_match_size(MPI_TYPECLASS_COMPLEX, 32, &type));
    CHECK(type->o.handle == MPI_COMPLEX32);
    CHECK_EQ_INT(mpi_type_match_size(MPI_TYPECLASS_REAL, 1, &type), MPI_ERR_ARG);
    CHECK_EQ_INT(mpi_type_match_size(MPI_TYPECLASS_REAL, 3, &type), MPI_ERR_ARG);
    CHECK_EQ_INT(mpi_type_match_size(MPI_TYPECLASS_INTEGER, 0, &type), MPI_ERR_ARG);
    CHECK_EQ_INT(mpi_type_match_size(4711, 4, &type), MPI_ERR_ARG);
}

TEST(value_index) {
    begin();
    whm_type *pair, *number = whm_type_named(MPI_INT), *real = whm_type_named(MPI_DOUBLE);
    check(mpi_type_get_value_index(real, number, &pair));
    CHECK(pair->o.handle == MPI_DOUBLE_INT);
    check(mpi_type_get_value_index(number, number, &pair));
    CHECK(pair->o.handle == MPI_2INT);
    check(mpi_type_get_value_index(number, real, &pair));
    CHECK(!pair);
}

TEST(fortran_kinds) {
    begin();
    whm_type *a, *b;
    int ints[2], combiner, n[3];
    check(mpi_type_create_f90_real(6, 37, &a));
    CHECK_EQ_INT(a->size, 4);
    check(mpi_type_create_f90_real(15, MPI_UNDEFINED, &a));
    CHECK_EQ_INT(a->size, 8);
    check(mpi_type_create_f90_real(15, MPI_UNDEFINED, &b));
    CHECK(a == b);
    check(mpi_type_create_f90_real(MPI_UNDEFINED, 4000, &b));
    CHECK_EQ_INT(b->size, 16);
    check(mpi_type_create_f90_complex(15, 307, &b));
    CHECK_EQ_INT(b->size, 16);
    check(mpi_type_get_envelope(b, &n[0], &n[1], &n[2], &combiner));
    CHECK_EQ_INT(combiner, MPI_COMBINER_F90_COMPLEX);
    CHECK_EQ_INT(n[0], 2);
    CHECK_EQ_INT(n[1] + n[2], 0);
    check(mpi_type_get_contents(b, 2, 0, 0, ints, NULL, NULL));
    CHECK_EQ_INT(ints[0], 15);
    CHECK_EQ_INT(ints[1], 307);
    static const int ranges[][2] = {{2, 1}, {3, 2}, {9, 4}, {10, 8}, {18, 8}, {19, 16}};
    for (size_t i = 0; i < 6; i++) {
        check(mpi_type_create_f90_integer(ranges[i][0], &a));
        CHECK_EQ_INT(a->size, ranges[i][1]);
    }
    check(mpi_type_get_envelope(a, &n[0], &n[1], &n[2], &combiner));
    CHECK_EQ_INT(combiner, MPI_COMBINER_F90_INTEGER);
    CHECK_EQ_INT(n[0], 1);
    CHECK_EQ_INT(mpi_type_free(a), MPI_ERR_TYPE);
    CHECK(a->committed);
    CHECK_EQ_INT(mpi_type_create_f90_integer(39, &a), MPI_ERR_ARG);
    CHECK_EQ_INT(mpi_type_create_f90_real(MPI_UNDEFINED, MPI_UNDEFINED, &a), MPI_ERR_ARG);
    CHECK_EQ_INT(mpi_type_create_f90_real(100, 10, &a), MPI_ERR_ARG);
    CHECK_EQ_INT(mpi_type_create_f90_complex(-1, 10, &a), MPI_ERR_ARG);
}

// ---- Buffers of the library's own, and copies.

static void check_space(whm_type *type, MPI_Count count) {
    check(mpi_type_commit(type));
    char *buf = whm_space_new(count, type), bytes[256];
    CHECK(buf);
    CHECK((uintptr_t)buf % 16 == 0);
    MPI_Count position = 0, size = count * type->size;
    for (MPI_Count i = 0; i < size; i++)
        bytes[i] = (char)(3 * i + 1);
    check(mpi_unpack(bytes, size, &position, buf, count, type, NULL));
    char back[256];
    position = 0;
    check(mpi_pack(buf, count, type, back, sizeof(back), &position, NULL));
    CHECK_EQ_INT(position, size);
    CHECK_MEM(back, bytes, (size_t)size);
    whm_space_free(buf, type);
    check(mpi_type_free(type));
}

TEST(space) {
    begin();
    whm_type *old = whm_type_named(MPI_SHORT_INT), *type;
    for (MPI_Count count = 1; count <= 5; count++) {
        check(mpi_type_create_resized(old, 3, 40, &type));
        check_space(type, count);
        check(mpi_type_create_resized(old, 3, -40, &type));
        check_space(type, count);
        check(mpi_type_create_hindexed(2, (long[]){1, 1}, (long[]){100, -90}, old, &type));
        check_space(type, count);
        check(mpi_type_create_hindexed(2, (long[]){1, 1}, (long[]){1000, 1036}, old, &type));
        check_space(type, count);
    }
    check(mpi_type_contiguous(0, old, &type));
    void *none = whm_space_new(7, type);
    CHECK(none);
    whm_space_free(none, type);
    whm_space_free(NULL, type);
    check(mpi_type_free(type));
    check(mpi_type_contiguous((MPI_Count)1 << 50, old, &type));
    CHECK(!whm_space_new((MPI_Count)1 << 20, type));
    check(mpi_type_free(type));
}

TEST(copies) {
    begin();
    whm_type *number = whm_type_named(MPI_INT), *every_other;
    int from[6] = {1, 2, 3, 4, 5, 6}, to[6] = {0};
    check(mpi_type_vector(3, 1, 2, number, &every_other));
    check(mpi_type_commit(every_other));
    check(whm_copy(to, 1, every_other, from, 6, number));
    CHECK(memcmp(to, ((int[]){1, 0, 2, 0, 3, 0}), sizeof(to)) == 0);
    check(whm_copy(to, 6, number, from, 1, every_other));
    CHECK(memcmp(to, ((int[]){1, 3, 5, 0, 3, 0}), sizeof(to)) == 0);
    check(whm_copy(NULL, 0, number, NULL, 0, number));
    CHECK_EQ_INT(whm_copy(NULL, 1, number, from, 1, number), MPI_ERR_BUFFER);
    check(mpi_type_free(every_other));
}

// Nothing is left of a rank's types, and its next ones are as good.
TEST(ends) {
    begin();
    whm_types_end(whm_self);
    CHECK(!whm_type_of(MPI_INT) && !whm_type_of(MPI_COMPLEX32));
    begin();
    CHECK(whm_type_of(MPI_INT));
    whm_types_end(whm_self);
}

TEST_MAIN()
