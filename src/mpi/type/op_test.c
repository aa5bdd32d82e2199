// SPDX-License-Identifier: BSD-3-Clause
//
// Every operation on every named type: against plain loops where it is defined, refused with a sentence where it is not.

#include <complex.h>
#include <limits.h>
#include <math.h>

#include "mpi/base/test_check.h"
#include "mpi/bodies.h"
#include "mpi/type/op.h"
#include "mpi/type/predefined.h"

enum { N = 700, OPS = 14 };  // more than one piece of packed pairs

static const MPI_Op ops[OPS] = {MPI_MAX,    MPI_MIN,    MPI_SUM,     MPI_PROD, MPI_LAND,
                                MPI_BAND,   MPI_LOR,    MPI_BOR,     MPI_LXOR, MPI_BXOR,
                                MPI_MINLOC, MPI_MAXLOC, MPI_REPLACE, MPI_NO_OP};

static void begin(void) {
    if (whm_self->named[(uintptr_t)MPI_INT])
        return;
    check(whm_types_begin(whm_self));
    check(whm_ops_begin(whm_self));
}

static whm_op *op_of(MPI_Op handle) {
    whm_op *op = whm_op_of(handle);
    CHECK(op);
    return op;
}

static int value_of(int i) {
    return (int)((unsigned)i * 2654435761u >> 20) % 11 - 3;
}

typedef unsigned __int128 natural;

// The plain loops: a = in[i], b = inout[i].
#define ORDER(T)                                                                                   \
    case WH_REDUCE_MAX: r = a > b ? a : b; break;                                                  \
    case WH_REDUCE_MIN:                                                                            \
        r = a < b ? a : b;                                                                         \
        break;
#define RING(T)                                                                                    \
    case WH_REDUCE_SUM: r = (T)(a + b); break;                                                     \
    case WH_REDUCE_PROD: r = (T)(a * b); break;
// Integers wrap.
#define WRAP(T)                                                                                    \
    case WH_REDUCE_SUM: r = (T)((natural)a + (natural)b); break;                                   \
    case WH_REDUCE_PROD:                                                                           \
        r = (T)((natural)a * (natural)b);                                                          \
        break;
#define LOGIC(T)                                                                                   \
    case WH_REDUCE_LAND: r = a && b; break;                                                        \
    case WH_REDUCE_LOR: r = a || b; break;                                                         \
    case WH_REDUCE_LXOR:                                                                           \
        r = !a != !b;                                                                              \
        break;
#define BITWISE(T)                                                                                 \
    case WH_REDUCE_BAND: r = (T)(a & b); break;                                                    \
    case WH_REDUCE_BOR: r = (T)(a | b); break;                                                     \
    case WH_REDUCE_BXOR:                                                                           \
        r = (T)(a ^ b);                                                                            \
        break;

#define PLAIN(NAME, T, CASES)                                                                      \
    static bool plain_##NAME(whm_type *type, whm_op *op) {                                         \
        T in[N], inout[N], expected[N];                                                            \
        for (int i = 0; i < N; i++) {                                                              \
            T a = in[i] = (T)value_of(i), b = inout[i] = (T)value_of(i + N), r;                    \
            switch (op->reduce) { CASES default : return false; }                                  \
            expected[i] = r;                                                                       \
        }                                                                                          \
        check(mpi_reduce_local(in, inout, N, type, op));                                           \
        for (int i = 0; i < N; i++)                                                                \
            CHECK(inout[i] == expected[i]);                                                        \
        return true;                                                                               \
    }

#define INTEGER(NAME, T) PLAIN(NAME, T, ORDER(T) WRAP(T) LOGIC(T) BITWISE(T))
#define FORTRAN(NAME, T) PLAIN(NAME, T, ORDER(T) WRAP(T) BITWISE(T))
#define FLOATING(NAME, T) PLAIN(NAME, T, ORDER(T) RING(T))
#define COMPLEX(NAME, T) PLAIN(NAME, T, RING(T))
#define LOGICAL(NAME, T) PLAIN(NAME, T, LOGIC(T))
#define BYTES(NAME, T) PLAIN(NAME, T, BITWISE(T))

INTEGER(short, short)
INTEGER(int, int)
INTEGER(long, long)
INTEGER(ushort, unsigned short)
INTEGER(uint, unsigned)
INTEGER(ulong, unsigned long)
INTEGER(schar, signed char)
INTEGER(uchar, unsigned char)
FORTRAN(fortran1, int8_t)
FORTRAN(fortran2, int16_t)
FORTRAN(fortran4, int32_t)
FORTRAN(fortran8, int64_t)
FORTRAN(fortran16, __int128)
FLOATING(float, float)
FLOATING(double, double)
FLOATING(longdouble, long double)
COMPLEX(cfloat, float _Complex)
COMPLEX(cdouble, double _Complex)
COMPLEX(clongdouble, long double _Complex)
LOGICAL(truth, bool)
LOGICAL(logical1, int8_t)
LOGICAL(logical2, int16_t)
LOGICAL(logical4, int32_t)
LOGICAL(logical8, int64_t)
LOGICAL(logical16, __int128)
BYTES(byte, unsigned char)
#if __LDBL_MANT_DIG__ == 113
typedef long double quad;
#else
typedef __float128 quad;
#endif
FLOATING(quad, quad)

// What has no C type of its own here is two of another, or converted.
static uint16_t half_of(int value) {  // exact for small integers
    uint16_t sign = value < 0 ? 0x8000 : 0;
    unsigned magnitude = (unsigned)abs(value);
    if (magnitude == 0)
        return sign;
    int log = 31 - __builtin_clz(magnitude);
    return (uint16_t)(sign | (log + 15) << 10 | ((magnitude << (10 - log)) & 0x3ff));
}

static bool plain_half(whm_type *type, whm_op *op) {
    uint16_t in[N], inout[N], expected[N];
    for (int i = 0; i < N; i++) {
        int a = value_of(i), b = value_of(i + N), r;
        in[i] = half_of(a);
        inout[i] = half_of(b);
        switch (op->reduce) {
            ORDER(int)
            RING(int)
        default: return false;
        }
        expected[i] = half_of(r);
    }
    check(mpi_reduce_local(in, inout, N, type, op));
    for (int i = 0; i < N; i++)  // zero has two signs
        CHECK(inout[i] == expected[i] || ((inout[i] | expected[i]) & 0x7fff) == 0);
    return true;
}

static bool plain_chalf(whm_type *type, whm_op *op) {
    uint16_t in[N][2], inout[N][2], expected[N][2];
    for (int i = 0; i < N; i++) {
        int a = value_of(i), b = value_of(i + N), c = value_of(i + 2 * N), d = value_of(i + 3 * N);
        in[i][0] = half_of(a);
        in[i][1] = half_of(b);
        inout[i][0] = half_of(c);
        inout[i][1] = half_of(d);
        if (op->reduce != WH_REDUCE_SUM && op->reduce != WH_REDUCE_PROD)
            return false;
        bool sum = op->reduce == WH_REDUCE_SUM;
        expected[i][0] = half_of(sum ? a + c : a * c - b * d);
        expected[i][1] = half_of(sum ? b + d : a * d + b * c);
    }
    check(mpi_reduce_local(in, inout, N, type, op));
    for (int i = 0; i < 2 * N; i++) {
        uint16_t got = inout[i / 2][i % 2], want = expected[i / 2][i % 2];
        CHECK(got == want || ((got | want) & 0x7fff) == 0);
    }
    return true;
}

static bool plain_cquad(whm_type *type, whm_op *op) {
    quad in[N][2], inout[N][2], expected[N][2];
    for (int i = 0; i < N; i++) {
        quad a = in[i][0] = value_of(i), b = in[i][1] = value_of(i + N);
        quad c = inout[i][0] = value_of(i + 2 * N), d = inout[i][1] = value_of(i + 3 * N);
        if (op->reduce != WH_REDUCE_SUM && op->reduce != WH_REDUCE_PROD)
            return false;
        bool sum = op->reduce == WH_REDUCE_SUM;
        expected[i][0] = sum ? a + c : a * c - b * d;
        expected[i][1] = sum ? b + d : a * d + b * c;
    }
    check(mpi_reduce_local(in, inout, N, type, op));
    for (int i = 0; i < 2 * N; i++)
        CHECK(inout[i / 2][i % 2] == expected[i / 2][i % 2]);
    return true;
}

#define PAIRS(NAME, V, I)                                                                          \
    static bool plain_##NAME(whm_type *type, whm_op *op) {                                         \
        struct {                                                                                   \
            V value;                                                                               \
            I index;                                                                               \
        } in[N], inout[N], expected[N];                                                            \
        if (op->reduce != WH_REDUCE_MINLOC && op->reduce != WH_REDUCE_MAXLOC)                      \
            return false;                                                                          \
        bool max = op->reduce == WH_REDUCE_MAXLOC;                                                 \
        for (int i = 0; i < N; i++) {                                                              \
            in[i].value = (V)value_of(i);                                                          \
            in[i].index = (I)(value_of(i + 5) + 10);                                               \
            inout[i].value = (V)value_of(i + N);                                                   \
            inout[i].index = (I)(value_of(i + N + 5) + 10);                                        \
            bool better = max ? in[i].value > inout[i].value : in[i].value < inout[i].value;       \
            bool same = in[i].value == inout[i].value;                                             \
            bool first = same && in[i].index < inout[i].index;                                     \
            expected[i] = better || first ? in[i] : inout[i];                                      \
        }                                                                                          \
        check(mpi_reduce_local(in, inout, N, type, op));                                           \
        for (int i = 0; i < N; i++)                                                                \
            CHECK(inout[i].value == expected[i].value && inout[i].index == expected[i].index);     \
        return true;                                                                               \
    }
PAIRS(float_int, float, int)
PAIRS(double_int, double, int)
PAIRS(long_int, long, int)
PAIRS(int_int, int, int)
PAIRS(short_int, short, int)
PAIRS(long_double_int, long double, int)
PAIRS(floats, float, float)
PAIRS(doubles, double, double)

static bool plain_none(whm_type *type, whm_op *op) {
    (void)type;
    (void)op;
    return false;
}

static const struct {
    MPI_Datatype handle;
    bool (*plain)(whm_type *type, whm_op *op);
} cases[] = {
    {MPI_AINT, plain_long},
    {MPI_COUNT, plain_long},
    {MPI_OFFSET, plain_long},
    {MPI_PACKED, plain_none},
    {MPI_SHORT, plain_short},
    {MPI_INT, plain_int},
    {MPI_LONG, plain_long},
    {MPI_LONG_LONG, plain_long},
    {MPI_UNSIGNED_SHORT, plain_ushort},
    {MPI_UNSIGNED, plain_uint},
    {MPI_UNSIGNED_LONG, plain_ulong},
    {MPI_UNSIGNED_LONG_LONG, plain_ulong},
    {MPI_FLOAT, plain_float},
    {MPI_C_FLOAT_COMPLEX, plain_cfloat},
    {MPI_CXX_FLOAT_COMPLEX, plain_cfloat},
    {MPI_DOUBLE, plain_double},
    {MPI_C_DOUBLE_COMPLEX, plain_cdouble},
    {MPI_CXX_DOUBLE_COMPLEX, plain_cdouble},
    {MPI_LOGICAL, plain_logical4},
    {MPI_INTEGER, plain_fortran4},
    {MPI_REAL, plain_float},
    {MPI_COMPLEX, plain_cfloat},
    {MPI_DOUBLE_PRECISION, plain_double},
    {MPI_DOUBLE_COMPLEX, plain_cdouble},
    {MPI_CHARACTER, plain_none},
    {MPI_LONG_DOUBLE, plain_longdouble},
    {MPI_C_LONG_DOUBLE_COMPLEX, plain_clongdouble},
    {MPI_CXX_LONG_DOUBLE_COMPLEX, plain_clongdouble},
    {MPI_FLOAT_INT, plain_float_int},
    {MPI_DOUBLE_INT, plain_double_int},
    {MPI_LONG_INT, plain_long_int},
    {MPI_2INT, plain_int_int},
    {MPI_SHORT_INT, plain_short_int},
    {MPI_LONG_DOUBLE_INT, plain_long_double_int},
    {MPI_2REAL, plain_floats},
    {MPI_2DOUBLE_PRECISION, plain_doubles},
    {MPI_2INTEGER, plain_int_int},
    {MPI_C_BOOL, plain_truth},
    {MPI_CXX_BOOL, plain_truth},
    {MPI_WCHAR, plain_none},
    {MPI_INT8_T, plain_schar},
    {MPI_UINT8_T, plain_uchar},
    {MPI_CHAR, plain_none},
    {MPI_SIGNED_CHAR, plain_schar},
    {MPI_UNSIGNED_CHAR, plain_uchar},
    {MPI_BYTE, plain_byte},
    {MPI_INT16_T, plain_short},
    {MPI_UINT16_T, plain_ushort},
    {MPI_INT32_T, plain_int},
    {MPI_UINT32_T, plain_uint},
    {MPI_INT64_T, plain_long},
    {MPI_UINT64_T, plain_ulong},
    {MPI_LOGICAL1, plain_logical1},
    {MPI_INTEGER1, plain_fortran1},
    {MPI_LOGICAL2, plain_logical2},
    {MPI_INTEGER2, plain_fortran2},
    {MPI_REAL2, plain_half},
    {MPI_LOGICAL4, plain_logical4},
    {MPI_INTEGER4, plain_fortran4},
    {MPI_REAL4, plain_float},
    {MPI_COMPLEX4, plain_chalf},
    {MPI_LOGICAL8, plain_logical8},
    {MPI_INTEGER8, plain_fortran8},
    {MPI_REAL8, plain_double},
    {MPI_COMPLEX8, plain_cfloat},
    {MPI_LOGICAL16, plain_logical16},
    {MPI_INTEGER16, plain_fortran16},
    {MPI_REAL16, plain_quad},
    {MPI_COMPLEX16, plain_cdouble},
    {MPI_COMPLEX32, plain_cquad},
};

TEST(all_pairs) {
    begin();
    CHECK_EQ_INT(sizeof(cases) / sizeof(cases[0]), 70);
    int defined = 0;
    for (size_t c = 0; c < 70; c++) {
        for (int o = 0; o < OPS; o++) {
            whm_type *type = whm_type_named(cases[c].handle);
            whm_op *op = op_of(ops[o]);
            if (cases[c].plain(type, op)) {
                defined++;
                continue;
            }
            char a[32] = {0}, b[32] = {0};
            CHECK_EQ_INT(mpi_reduce_local(a, b, 1, type, op), MPI_ERR_OP);
            CHECK(op->reduce == WH_REDUCE_REPLACE || op->reduce == WH_REDUCE_NO_OP ||
                  strstr(whm_self->sentence, type->what->name));
        }
    }
    // Kinds of C 18 x 10, of several languages 3 x 10, of Fortran 6 x 7; floats 9 x 4, complex 12 x 2, logical 8 x 3, bytes 3, pairs 9 x 2.
    CHECK_EQ_INT(defined, 357);
}

TEST(nan_and_ties_of_pairs_of_reals) {
    begin();
    float in[] = {NAN, 3, 1, 7, 2, 5}, inout[] = {1, 2, NAN, 1, 2, 4};
    check(mpi_reduce_local(in, inout, 3, whm_type_named(MPI_2REAL), op_of(MPI_MAXLOC)));
    CHECK(isnan(inout[0]) && inout[1] == 3);
    CHECK(isnan(inout[2]) && inout[3] == 1);
    CHECK(inout[4] == 2 && inout[5] == 4);
}

TEST(half_precision_rounds_to_even) {
    begin();
    // 2048 + 1 = 2049 lies between 2048 and 2050: even is 2048; 2050 + 1 = 2051 goes to 2052; 65504 + 32 is infinite.
    uint16_t in[2][2] = {{0x3c00, 0x3c00}, {0x5000, 0x0001}},
             inout[2][2] = {{0x6800, 0x6801}, {0x7bff, 0x0001}};
    check(mpi_reduce_local(in, inout, 2, whm_type_named(MPI_COMPLEX4), op_of(MPI_SUM)));
    CHECK_EQ_INT(inout[0][0], 0x6800);
    CHECK_EQ_INT(inout[0][1], 0x6802);
    CHECK_EQ_INT(inout[1][0], 0x7c00);
    CHECK_EQ_INT(inout[1][1], 0x0002);
}

// ---- The program's functions: they get its type and its counts, and in[i] comes first.

static MPI_Datatype seen;
static MPI_Count seen_length;

static void subtract(void *in, void *inout, int *length, MPI_Datatype *type) {
    seen = *type;
    seen_length = *length;
    for (int i = 0; i < *length; i++)
        ((int *)inout)[i] = ((int *)in)[i] - ((int *)inout)[i];
}

static void subtract_large(void *in, void *inout, MPI_Count *length, MPI_Datatype *type) {
    seen = *type;
    seen_length = *length;
    for (MPI_Count i = 0; i < *length; i++)
        ((int *)inout)[i] = ((int *)in)[i] - ((int *)inout)[i];
}

TEST(functions_of_the_program) {
    begin();
    whm_op *op[2];
    whm_type *type;
    int commute;
    check(mpi_op_create(subtract, 0, &op[0]));
    check(mpi_op_create_c(subtract_large, 1, &op[1]));
    check(mpi_type_contiguous(1, whm_type_named(MPI_INT), &type));
    check(mpi_type_commit(type));
    for (int i = 0; i < 2; i++) {
        int in[] = {10, 20, 30}, inout[] = {1, 2, 3};
        seen_length = 0;
        check(mpi_reduce_local(in, inout, 3, type, op[i]));
        static const int want[] = {9, 18, 27};
        CHECK(memcmp(inout, want, sizeof(want)) == 0);
        CHECK(seen == type->o.handle);
        CHECK_EQ_INT(seen_length, 3);
        check(mpi_op_commutative(op[i], &commute));
        CHECK_EQ_INT(commute, i);
        check(mpi_op_free(op[i]));
    }
    CHECK_EQ_INT(mpi_op_create(NULL, 1, &op[0]), MPI_ERR_ARG);
    check(mpi_type_free(type));
}

static long long total;
static int calls;
static void counts(void *in, void *inout, int *length, MPI_Datatype *type) {
    (void)in;
    (void)type;
    CHECK(inout == (void *)(uintptr_t)(0x10000 + total));
    total += *length;
    calls++;
}

TEST(more_elements_than_an_int_counts) {
    begin();
    whm_op *op;
    check(mpi_op_create(counts, 1, &op));
    void *nowhere = (void *)(uintptr_t)0x10000;
    check(whm_reduce(nowhere, nowhere, 2 * (MPI_Count)INT_MAX + 5, whm_type_named(MPI_BYTE), op));
    CHECK_EQ_INT(total, 2 * (long long)INT_MAX + 5);
    CHECK_EQ_INT(calls, 3);
    check(mpi_op_free(op));
}

// ---- Types that operations are refused on, and those of accumulates.

TEST(derived_types) {
    begin();
    whm_type *number = whm_type_named(MPI_INT), *twin, *vector, *both[] = {number, NULL};
    int in[2] = {1, 2}, inout[2] = {3, 4};
    check(mpi_type_dup(number, &twin));
    check(mpi_reduce_local(in, inout, 2, twin, op_of(MPI_SUM)));
    CHECK(inout[0] == 4 && inout[1] == 6);
    check(mpi_type_vector(1, 2, 2, number, &vector));
    CHECK_EQ_INT(mpi_reduce_local(in, inout, 1, vector, op_of(MPI_SUM)), MPI_ERR_TYPE);
    check(mpi_type_commit(vector));
    CHECK_EQ_INT(mpi_reduce_local(in, inout, 1, vector, op_of(MPI_SUM)), MPI_ERR_OP);
    check(whm_op_check_access(op_of(MPI_SUM), vector));
    check(whm_op_check_access(op_of(MPI_REPLACE), vector));
    CHECK_EQ_INT(whm_op_check_access(op_of(MPI_MINLOC), vector), MPI_ERR_OP);
    both[1] = whm_type_named(MPI_FLOAT);
    check(mpi_type_free(vector));
    check(mpi_type_create_struct(2, (MPI_Count[]){1, 1}, (MPI_Aint[]){0, 4}, both, &vector));
    CHECK_EQ_INT(whm_op_check_access(op_of(MPI_SUM), vector), MPI_ERR_OP);
    check(whm_op_check_access(op_of(MPI_NO_OP), vector));
    check(mpi_type_free(vector));
    check(mpi_type_free(twin));
    CHECK_EQ_INT(mpi_op_free(op_of(MPI_SUM)), MPI_ERR_OP);
}

TEST(accumulate_into_a_layout) {
    begin();
    static const MPI_Datatype kinds[] = {MPI_INT, MPI_INTEGER16};
    for (int k = 0; k < 2; k++) {
        whm_type *one = whm_type_named(kinds[k]), *vector;
        enum { MANY = 500 };
        static unsigned char buf[MANY * 2 * 16], packed[MANY * 16];
        memset(buf, 0, sizeof(buf));
        memset(packed, 0, sizeof(packed));
        size_t size = (size_t)one->size;
        for (int i = 0; i < MANY; i++) {
            buf[2 * i * size] = (unsigned char)(i % 100);
            packed[i * size] = (unsigned char)(i % 50);
        }
        check(mpi_type_vector(MANY, 1, 2, one, &vector));
        check(mpi_type_commit(vector));
        // In two parts, as they come.
        MPI_Count cut = 123 * one->size, all = MANY * one->size;
        check(whm_accumulate(packed, cut, 0, buf, 1, vector, op_of(MPI_SUM)));
        check(whm_accumulate(packed + cut, all - cut, cut, buf, 1, vector, op_of(MPI_SUM)));
        for (int i = 0; i < MANY; i++) {
            CHECK_EQ_INT(buf[2 * i * size], i % 100 + i % 50);
            CHECK_EQ_INT(buf[(2 * i + 1) * size], 0);
        }
        check(mpi_type_free(vector));
    }
}

TEST_MAIN()
