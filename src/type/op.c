// SPDX-License-Identifier: BSD-3-Clause
//
// One loop per operation and kind of number, all from one list.
//
// The kinds are type classes and widths, not C types: `long` and `int64_t` share code.  The rules (NaN,
// wrapping, truth) are stated in pack.h.  Elements are copied in and out, because packed ones lie at
// any address; compilers turn that into plain vector loads.
#include "type/op.h"

#include <complex.h>
#include <float.h>
#include <string.h>

#include "type/small_float.h"
#include "type/type.h"

// Writes a result.  Only what is value: the padding of a long double would be whatever was in a
// register, and has no business in memory that may be sent.
#define STORE(name, T)                                                                             \
    static inline void store_##name(char *to, T value) {                                           \
        memcpy(to, &value, sizeof(T));                                                             \
    }

static inline void store_fld(char *to, long double value) {
    memcpy(to, &value, LDBL_MANT_DIG == 64 ? 10 : sizeof(value));
}

static inline void store_cld(char *to, long double _Complex value) {
    store_fld(to, creall(value));
    store_fld(to + sizeof(long double), cimagl(value));
}

// In the expressions, `a` is the value that is there and `b` the one that comes.
#define DEFINE(op, name, T, expression)                                                            \
    static void op##_##name(const char *in, char *inout, size_t n) {                               \
        for (size_t i = 0; i < n; i++) {                                                           \
            T a, b;                                                                                \
            memcpy(&a, inout + i * sizeof(T), sizeof(T));                                          \
            memcpy(&b, in + i * sizeof(T), sizeof(T));                                             \
            store_##name(inout + i * sizeof(T), (T)(expression));                                  \
        }                                                                                          \
    }

#define DEFINE_LOGIC(name, T)                                                                      \
    DEFINE(land, name, T, a &&b)                                                                   \
    DEFINE(lor, name, T, a || b)                                                                   \
    DEFINE(lxor, name, T, !a != !b)

#define DEFINE_BITS(name, T)                                                                       \
    DEFINE(band, name, T, a &b)                                                                    \
    DEFINE(bor, name, T, a | b)                                                                    \
    DEFINE(bxor, name, T, a ^ b)

// Sums and products are made in uint64_t, where wrapping is defined, and cut to width.
#define DEFINE_INTEGER(name, T)                                                                    \
    DEFINE(max, name, T, a > b ? a : b)                                                            \
    DEFINE(min, name, T, a < b ? a : b)                                                            \
    DEFINE(sum, name, T, (uint64_t)a + (uint64_t)b)                                                \
    DEFINE(prod, name, T, (uint64_t)a *(uint64_t)b)                                                \
    DEFINE_LOGIC(name, T)                                                                          \
    DEFINE_BITS(name, T)

// A comparison with NaN is false: the first test keeps a NaN that is there, the second lets one in.
#define DEFINE_FLOAT(name, T)                                                                      \
    DEFINE(max, name, T, a != a || a >= b ? a : b)                                                 \
    DEFINE(min, name, T, a != a || a <= b ? a : b)                                                 \
    DEFINE(sum, name, T, a + b)                                                                    \
    DEFINE(prod, name, T, a *b)                                                                    \
    DEFINE_LOGIC(name, T)

#define DEFINE_COMPLEX(name, T)                                                                    \
    DEFINE(sum, name, T, a + b)                                                                    \
    DEFINE(prod, name, T, a *b)

// A small float is computed as float.  MAX and MIN select one of the two, so nothing is rounded.
#define DEFINE_SMALL(op, name, T, format, expression)                                              \
    static void op##_##name(const char *in, char *inout, size_t n) {                               \
        for (size_t i = 0; i < n; i++) {                                                           \
            T x, y;                                                                                \
            memcpy(&x, inout + i * sizeof(T), sizeof(T));                                          \
            memcpy(&y, in + i * sizeof(T), sizeof(T));                                             \
            float a = whi_small_decode(x, format), b = whi_small_decode(y, format);                \
            x = (T)(expression);                                                                   \
            memcpy(inout + i * sizeof(T), &x, sizeof(T));                                          \
        }                                                                                          \
    }

#define DEFINE_SMALL_FLOAT(name, T, f)                                                             \
    DEFINE_SMALL(max, name, T, f, a != a || a >= b ? x : y)                                        \
    DEFINE_SMALL(min, name, T, f, a != a || a <= b ? x : y)                                        \
    DEFINE_SMALL(sum, name, T, f, whi_small_encode(a + b, f))                                      \
    DEFINE_SMALL(prod, name, T, f, whi_small_encode(a *b, f))                                      \
    DEFINE_SMALL(land, name, T, f, whi_small_encode(a &&b, f))                                     \
    DEFINE_SMALL(lor, name, T, f, whi_small_encode(a || b, f))                                     \
    DEFINE_SMALL(lxor, name, T, f, whi_small_encode(!a != !b, f))

// A pair: `better` says whether b's value wins, `same` whether the smaller index decides.
#define DEFINE_LOC(op, name, T, better, same)                                                      \
    static void op##_##name(const char *in, char *inout, size_t n) {                               \
        enum { SIZE = sizeof(T) + sizeof(int) };                                                   \
        for (size_t i = 0; i < n; i++, in += SIZE, inout += SIZE) {                                \
            T a, b;                                                                                \
            int at_a, at_b;                                                                        \
            memcpy(&a, inout, sizeof(T));                                                          \
            memcpy(&b, in, sizeof(T));                                                             \
            memcpy(&at_a, inout + sizeof(T), sizeof(int));                                         \
            memcpy(&at_b, in + sizeof(T), sizeof(int));                                            \
            if ((better) || ((same) && at_b < at_a))                                               \
                memcpy(inout, in, SIZE);                                                           \
        }                                                                                          \
    }

#define DEFINE_PAIR(name, T)                                                                       \
    DEFINE_LOC(maxloc, name, T, b > a || (b != b && a == a), b == a || (a != a && b != b))         \
    DEFINE_LOC(minloc, name, T, b < a || (b != b && a == a), b == a || (a != a && b != b))

#define INTEGERS(X)                                                                                \
    X(i8, int8_t)                                                                                  \
    X(i16, int16_t)                                                                                \
    X(i32, int32_t)                                                                                \
    X(i64, int64_t)                                                                                \
    X(u8, uint8_t)                                                                                 \
    X(u16, uint16_t)                                                                               \
    X(u32, uint32_t)                                                                               \
    X(u64, uint64_t)
#define FLOATS(X)                                                                                  \
    X(f32, float)                                                                                  \
    X(f64, double)                                                                                 \
    X(fld, long double)
#define COMPLEXES(X)                                                                               \
    X(c32, float _Complex)                                                                         \
    X(c64, double _Complex)                                                                        \
    X(cld, long double _Complex)
#define SMALLS(X)                                                                                  \
    X(f16, uint16_t, whi_float16)                                                                  \
    X(bf16, uint16_t, whi_bfloat16)                                                                \
    X(e4m3, uint8_t, whi_e4m3)                                                                     \
    X(e5m2, uint8_t, whi_e5m2)
#define PAIRS(X)                                                                                   \
    X(p_float, float)                                                                              \
    X(p_double, double)                                                                            \
    X(p_long, long)                                                                                \
    X(p_int, int)                                                                                  \
    X(p_short, short)                                                                              \
    X(p_fld, long double)

INTEGERS(STORE)
STORE(f32, float)
STORE(f64, double)
STORE(c32, float _Complex)
STORE(c64, double _Complex)
STORE(truth, uint8_t)
INTEGERS(DEFINE_INTEGER)
FLOATS(DEFINE_FLOAT)
COMPLEXES(DEFINE_COMPLEX)
SMALLS(DEFINE_SMALL_FLOAT)
PAIRS(DEFINE_PAIR)
// A BOOL is a byte that holds 0 or 1, and must hold one of them again.
DEFINE_LOGIC(truth, uint8_t)

#define KIND2(name, T) KIND_##name,
#define KIND3(name, T, f) KIND_##name,
typedef enum kind {
    KIND_none,
    KIND_byte,
    KIND_truth,
    INTEGERS(KIND2) FLOATS(KIND2) COMPLEXES(KIND2) SMALLS(KIND3) PAIRS(KIND2) KINDS
} kind;

#define ENTRIES_LOGIC(name)                                                                        \
    [WH_REDUCE_LAND] = land_##name, [WH_REDUCE_LOR] = lor_##name, [WH_REDUCE_LXOR] = lxor_##name,
#define ENTRIES_BITS(name)                                                                         \
    [WH_REDUCE_BAND] = band_##name, [WH_REDUCE_BOR] = bor_##name, [WH_REDUCE_BXOR] = bxor_##name,
#define ENTRIES_ORDER(name) [WH_REDUCE_MAX] = max_##name, [WH_REDUCE_MIN] = min_##name,
#define ENTRIES_RING(name) [WH_REDUCE_SUM] = sum_##name, [WH_REDUCE_PROD] = prod_##name,
#define ROW_INTEGER(name, T)                                                                       \
    [KIND_##name] = {ENTRIES_ORDER(name) ENTRIES_RING(name) ENTRIES_LOGIC(name) ENTRIES_BITS(name)},
#define ROW_FLOAT(name, T)                                                                         \
    [KIND_##name] = {ENTRIES_ORDER(name) ENTRIES_RING(name) ENTRIES_LOGIC(name)},
#define ROW_SMALL(name, T, f) ROW_FLOAT(name, T)
#define ROW_COMPLEX(name, T) [KIND_##name] = {ENTRIES_RING(name)},
#define ROW_PAIR(name, T)                                                                          \
    [KIND_##name] = {[WH_REDUCE_MINLOC] = minloc_##name, [WH_REDUCE_MAXLOC] = maxloc_##name},

static whi_op_fn *const functions[KINDS][WH_REDUCES] = {
    [KIND_byte] = {ENTRIES_BITS(u8)},
    [KIND_truth] = {ENTRIES_LOGIC(truth) ENTRIES_BITS(u8)},
    INTEGERS(ROW_INTEGER) FLOATS(ROW_FLOAT) COMPLEXES(ROW_COMPLEX) SMALLS(ROW_SMALL)
        PAIRS(ROW_PAIR)};

static kind integer_kind(const whi_basic *basic) {
    bool is_signed = basic->type_class == WHI_TYPE_CLASS_INT;
    switch (basic->size) {
    case 1: return is_signed ? KIND_i8 : KIND_u8;
    case 2: return is_signed ? KIND_i16 : KIND_u16;
    case 4: return is_signed ? KIND_i32 : KIND_u32;
    default: return is_signed ? KIND_i64 : KIND_u64;
    }
}

static kind kind_of(wh_type_id id) {
    switch (id) {
    case WH_TYPE_FLOAT: return KIND_f32;
    case WH_TYPE_DOUBLE: return KIND_f64;
    case WH_TYPE_LONG_DOUBLE: return KIND_fld;
    case WH_TYPE_COMPLEX_FLOAT: return KIND_c32;
    case WH_TYPE_COMPLEX_DOUBLE: return KIND_c64;
    case WH_TYPE_COMPLEX_LONG_DOUBLE: return KIND_cld;
    case WH_TYPE_FLOAT16: return KIND_f16;
    case WH_TYPE_BFLOAT16: return KIND_bf16;
    case WH_TYPE_FLOAT8_E4M3: return KIND_e4m3;
    case WH_TYPE_FLOAT8_E5M2: return KIND_e5m2;
    case WH_TYPE_FLOAT_INT: return KIND_p_float;
    case WH_TYPE_DOUBLE_INT: return KIND_p_double;
    case WH_TYPE_LONG_INT: return KIND_p_long;
    case WH_TYPE_INT_INT: return KIND_p_int;
    case WH_TYPE_SHORT_INT: return KIND_p_short;
    case WH_TYPE_LONG_DOUBLE_INT: return KIND_p_fld;
    default: break;
    }
    const whi_basic *basic = &whi_basics[id];
    if (basic->type_class == WHI_TYPE_CLASS_INT || basic->type_class == WHI_TYPE_CLASS_UINT)
        return integer_kind(basic);
    return basic->type_class == WHI_TYPE_CLASS_BYTE ? KIND_byte : KIND_truth;
}

whi_op_fn *whi_op_find(wh_reduce op, wh_type_id id) {
    return functions[kind_of(id)][op];
}
