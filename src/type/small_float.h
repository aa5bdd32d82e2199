// SPDX-License-Identifier: BSD-3-Clause
//
// Floats of 8 and 16 bits, converted to and from float bit by bit.
//
// Every value of these formats is a float exactly.  Back, rounding is to nearest, ties to even; what
// is too large becomes infinity, or NaN in a format without infinities (E4M3), as others do it.
#ifndef WHI_TYPE_SMALL_FLOAT_H
#define WHI_TYPE_SMALL_FLOAT_H

// Kernels have these functions, too (device/code.h).
#ifdef __CUDACC__
#define WHI_SMALL_FN static __device__ __forceinline__
#else
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#define WHI_SMALL_FN static inline
#endif

typedef struct whi_small_float {
    int exponent, mantissa;  // bits
    bool finite;             // all exponents are numbers; only all ones is NaN
} whi_small_float;

#ifndef __CUDACC__
static const whi_small_float whi_float16 = {5, 10, false};
static const whi_small_float whi_bfloat16 = {8, 7, false};
static const whi_small_float whi_e4m3 = {4, 3, true};
static const whi_small_float whi_e5m2 = {5, 2, false};
#endif

WHI_SMALL_FN float whi_float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

WHI_SMALL_FN uint32_t whi_bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

WHI_SMALL_FN float whi_small_decode(uint32_t bits, whi_small_float f) {
    int width = f.exponent + f.mantissa, bias = (1 << (f.exponent - 1)) - 1;
    uint32_t sign = bits >> width << 31, magnitude = bits & ((1u << width) - 1);
    uint32_t e = magnitude >> f.mantissa, m = magnitude & ((1u << f.mantissa) - 1);
    uint32_t top = (1u << f.exponent) - 1;
    if (f.finite ? magnitude == (1u << width) - 1 : e == top)
        return whi_float_of_bits(sign | 0x7f800000u |
                                 (f.finite ? 0x400000u : m << (23 - f.mantissa)));
    if (e != 0 || f.exponent == 8)  // a bfloat's denormals are a float's
        return whi_float_of_bits(sign | ((e + 127 - (uint32_t)bias) << 23) |
                                 m << (23 - f.mantissa));
    // Denormal: m units of 2^(1 - bias - mantissa).
    float unit = whi_float_of_bits((uint32_t)(127 + 1 - bias - f.mantissa) << 23);
    float value = (float)m * unit;
    return sign ? -value : value;
}

WHI_SMALL_FN uint32_t whi_small_encode(float value, whi_small_float f) {
    int width = f.exponent + f.mantissa, bias = (1 << (f.exponent - 1)) - 1;
    uint32_t bits = whi_bits_of_float(value), magnitude = bits & 0x7fffffff;
    uint32_t sign = bits >> 31 << width, all = (1u << width) - 1;
    uint32_t infinity = all >> f.mantissa << f.mantissa;
    uint32_t nan = f.finite ? all : infinity | 1u << (f.mantissa - 1);
    if (magnitude > 0x7f800000)
        return sign | nan;
    if (magnitude == 0x7f800000)
        return sign | (f.finite ? nan : infinity);
    int e = (int)(magnitude >> 23) - 127 + bias, shift = 23 - f.mantissa;
    uint32_t m = (magnitude & 0x7fffff) | (magnitude >> 23 ? 0x800000 : 0);
    if (f.exponent == 8 && magnitude >> 23 == 0)
        e = 1;  // a float's denormals count as its smallest exponent
    if (e < 1) {
        shift += 1 - e;
        e = 1;
        if (shift > 25)
            return sign;
    }
    uint32_t half = 1u << (shift - 1), rest = m & ((half << 1) - 1), rounded = m >> shift;
    rounded += rest > half || (rest == half && (rounded & 1));
    // The leading one of a normal number adds one to the exponent field, and so does a carry.
    uint32_t result = ((uint32_t)(e - 1) << f.mantissa) + rounded;
    uint32_t largest = f.finite ? all - 1 : infinity - 1;
    return sign | (result <= largest ? result : f.finite ? nan : infinity);
}

#endif
