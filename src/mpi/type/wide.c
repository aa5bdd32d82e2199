// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/type/wide.h"

#include <float.h>
#include <string.h>

typedef __int128 integer;
typedef unsigned __int128 natural;
#if LDBL_MANT_DIG == 113
typedef long double quad;
#else
typedef __float128 quad;
#endif

// `a` is what is there, `b` what comes.
#define DEFINE(op, name, T, expression)                                                            \
    static void op##_##name(const char *in, char *inout, size_t n) {                               \
        for (size_t i = 0; i < n; i++) {                                                           \
            T a, b;                                                                                \
            memcpy(&a, inout + i * sizeof(T), sizeof(T));                                          \
            memcpy(&b, in + i * sizeof(T), sizeof(T));                                             \
            a = (T)(expression);                                                                   \
            memcpy(inout + i * sizeof(T), &a, sizeof(T));                                          \
        }                                                                                          \
    }

DEFINE(max, integer, integer, a > b ? a : b)
DEFINE(min, integer, integer, a < b ? a : b)
DEFINE(sum, integer, integer, (natural)a + (natural)b)
DEFINE(prod, integer, integer, (natural)a *(natural)b)
DEFINE(band, integer, integer, a &b)
DEFINE(bor, integer, integer, a | b)
DEFINE(bxor, integer, integer, a ^ b)

DEFINE(land, logical, integer, a &&b)
DEFINE(lor, logical, integer, a || b)
DEFINE(lxor, logical, integer, !a != !b)

// As the engine's: NaN if either is.
DEFINE(max, real, quad, a != a || a >= b ? a : b)
DEFINE(min, real, quad, a != a || a <= b ? a : b)
DEFINE(sum, real, quad, a + b)
DEFINE(prod, real, quad, a *b)

typedef struct complex_quad {
    quad re, im;
} complex_quad;

static complex_quad sum_of(complex_quad a, complex_quad b) {
    return (complex_quad){a.re + b.re, a.im + b.im};
}

static complex_quad product_of(complex_quad a, complex_quad b) {
    return (complex_quad){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

DEFINE(sum, complex, complex_quad, sum_of(a, b))
DEFINE(prod, complex, complex_quad, product_of(a, b))

// ---- Half precision: to float and back, which rounds to the nearest, ties to even.

static float decode(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, exponent = bits >> 10 & 31,
             fraction = bits & 0x3ffu;
    uint32_t word =
        exponent == 31 ? 0x7f800000u | fraction << 13 : (exponent + 112) << 23 | fraction << 13;
    float value;
    if (exponent == 0) {
        value = (float)fraction * 0x1p-24f;
        return sign ? -value : value;
    }
    word |= sign;
    memcpy(&value, &word, sizeof(value));
    return value;
}

static uint16_t rounded(uint32_t value, unsigned shift) {
    uint32_t rest = value & ((1u << shift) - 1), half = 1u << (shift - 1), kept = value >> shift;
    return (uint16_t)(kept + (rest > half || (rest == half && (kept & 1))));
}

static uint16_t encode(float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof(word));
    uint16_t sign = (uint16_t)(word >> 16 & 0x8000u);
    uint32_t magnitude = word & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return sign | 0x7e00u;
    if (magnitude >= 0x477ff000u)  // rounds to more than the largest
        return sign | 0x7c00u;
    if (magnitude >= 0x38800000u)
        return sign | rounded(magnitude - 0x38000000u, 13);
    unsigned shift = 126 - (magnitude >> 23);
    if (shift > 25)
        return sign;
    return sign | rounded((magnitude & 0x7fffffu) | 0x800000u, shift);
}

typedef struct half_complex {
    uint16_t re, im;
} half_complex;

static half_complex half_sum(half_complex a, half_complex b) {
    return (half_complex){encode(decode(a.re) + decode(b.re)), encode(decode(a.im) + decode(b.im))};
}

static half_complex half_product(half_complex a, half_complex b) {
    float ar = decode(a.re), ai = decode(a.im), br = decode(b.re), bi = decode(b.im);
    return (half_complex){encode(ar * br - ai * bi), encode(ar * bi + ai * br)};
}

DEFINE(sum, half, half_complex, half_sum(a, b))
DEFINE(prod, half, half_complex, half_product(a, b))

// ---- Pairs.  Equal values keep the smaller index, NaN wins over a number.

#define DEFINE_PAIR(name, T)                                                                       \
    typedef struct pair_##name {                                                                   \
        T value, index;                                                                            \
    } pair_##name;                                                                                 \
    static bool smaller_index_##name(pair_##name a, pair_##name b) {                               \
        bool same = a.value == b.value || (a.value != a.value && b.value != b.value);              \
        return same && b.index < a.index;                                                          \
    }                                                                                              \
    static bool first_nan_##name(pair_##name a, pair_##name b) {                                   \
        return b.value != b.value && a.value == a.value;                                           \
    }                                                                                              \
    static bool takes_##name(pair_##name a, pair_##name b) {                                       \
        return first_nan_##name(a, b) || smaller_index_##name(a, b);                               \
    }                                                                                              \
    DEFINE(maxloc, name, pair_##name, b.value > a.value || takes_##name(a, b) ? b : a)             \
    DEFINE(minloc, name, pair_##name, b.value < a.value || takes_##name(a, b) ? b : a)

DEFINE_PAIR(floats, float)
DEFINE_PAIR(doubles, double)

static whm_wide_fn *const functions[WHM_WIDES][WH_REDUCES] = {
    [WHM_WIDE_INTEGER] = {[WH_REDUCE_MAX] = max_integer,
                          [WH_REDUCE_MIN] = min_integer,
                          [WH_REDUCE_SUM] = sum_integer,
                          [WH_REDUCE_PROD] = prod_integer,
                          [WH_REDUCE_BAND] = band_integer,
                          [WH_REDUCE_BOR] = bor_integer,
                          [WH_REDUCE_BXOR] = bxor_integer},
    [WHM_WIDE_LOGICAL] = {[WH_REDUCE_LAND] = land_logical,
                          [WH_REDUCE_LOR] = lor_logical,
                          [WH_REDUCE_LXOR] = lxor_logical},
    [WHM_WIDE_REAL] = {[WH_REDUCE_MAX] = max_real,
                       [WH_REDUCE_MIN] = min_real,
                       [WH_REDUCE_SUM] = sum_real,
                       [WH_REDUCE_PROD] = prod_real},
    [WHM_WIDE_COMPLEX] = {[WH_REDUCE_SUM] = sum_complex, [WH_REDUCE_PROD] = prod_complex},
    [WHM_WIDE_HALF_COMPLEX] = {[WH_REDUCE_SUM] = sum_half, [WH_REDUCE_PROD] = prod_half},
    [WHM_WIDE_FLOATS] = {[WH_REDUCE_MINLOC] = minloc_floats, [WH_REDUCE_MAXLOC] = maxloc_floats},
    [WHM_WIDE_DOUBLES] = {[WH_REDUCE_MINLOC] = minloc_doubles, [WH_REDUCE_MAXLOC] = maxloc_doubles},
};

whm_wide_fn *whm_wide_find(wh_reduce op, whm_wide wide) {
    return functions[wide][op];
}
