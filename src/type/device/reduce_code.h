// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel that reduces, written as those of code.h are, behind which it stands: a thread owns an element, which begins
// at a multiple of the grain.
#ifndef WHI_TYPE_DEVICE_REDUCE_CODE_H
#define WHI_TYPE_DEVICE_REDUCE_CODE_H

#include "type/device/code.h"

#ifndef WHI_CONST_LOOPS

// Up to eight bytes that may lie anywhere, and so with any part of a pair or of a complex number.
WHI_FN whi_d64 whi_load_bytes(whi_d64 at, whi_d32 n) {
    if (n == 8 && at % 8 == 0)
        return WHI_LOAD(whi_d64, at);
    if (n == 4 && at % 4 == 0)
        return WHI_LOAD(whi_d32, at);
    if (n == 2 && at % 2 == 0)
        return WHI_LOAD(whi_d16, at);
    whi_d64 value = 0;
    for (whi_d32 i = 0; i < n; i++)
        value |= (whi_d64)WHI_LOAD(whi_d8, at + i) << 8 * i;
    return value;
}

WHI_FN void whi_store_bytes(whi_d64 at, whi_d32 n, whi_d64 value) {
    if (n == 8 && at % 8 == 0)
        WHI_STORE(whi_d64, at, value);
    else if (n == 4 && at % 4 == 0)
        WHI_STORE(whi_d32, at, (whi_d32)value);
    else if (n == 2 && at % 2 == 0)
        WHI_STORE(whi_d16, at, (whi_d16)value);
    else
        for (whi_d32 i = 0; i < n; i++)
            WHI_STORE(whi_d8, at + i, (whi_d8)(value >> 8 * i));
}

WHI_FN double whi_double_of_bits(whi_d64 bits) {
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

WHI_FN whi_d64 whi_bits_of_double(double value) {
    whi_d64 bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

// What elements there are and what is done with them, as whi_type_class and wh_reduce have it.
enum {
    WHI_DEVICE_INT = 2,
    WHI_DEVICE_FLOAT = 4,
    WHI_DEVICE_COMPLEX = 5,
    WHI_DEVICE_BFLOAT = 7,
    WHI_DEVICE_E4M3 = 8,
    WHI_DEVICE_E5M2 = 9,
};
enum {
    WHI_DEVICE_MAX,
    WHI_DEVICE_MIN,
    WHI_DEVICE_SUM,
    WHI_DEVICE_PROD,
    WHI_DEVICE_LAND,
    WHI_DEVICE_BAND,
    WHI_DEVICE_LOR,
    WHI_DEVICE_BOR,
    WHI_DEVICE_LXOR,
    WHI_DEVICE_BXOR,
    WHI_DEVICE_MINLOC,
    WHI_DEVICE_MAXLOC,
};

// In all that follows `a` is the value that is there and `b` the one that comes.

WHI_FN whi_d64 whi_widen(whi_d64 bits, whi_d32 size, int is_signed) {
    whi_d32 rest = 64 - 8 * size;
    return is_signed ? (whi_d64)((whi_dint)(bits << rest) >> rest) : bits;
}

WHI_FN whi_d64 whi_reduce_integer(whi_d32 op, whi_d64 a, whi_d64 b, whi_d32 size, int is_signed) {
    whi_d64 x = whi_widen(a, size, is_signed), y = whi_widen(b, size, is_signed);
    int more = is_signed ? (whi_dint)x > (whi_dint)y : x > y;
    switch (op) {
    case WHI_DEVICE_MAX: return more ? a : b;
    case WHI_DEVICE_MIN: return more ? b : a;
    case WHI_DEVICE_SUM: return x + y;
    case WHI_DEVICE_PROD: return x * y;
    case WHI_DEVICE_LAND: return x && y;
    case WHI_DEVICE_BAND: return a & b;
    case WHI_DEVICE_LOR: return x || y;
    case WHI_DEVICE_BOR: return a | b;
    case WHI_DEVICE_LXOR: return !x != !y;
    default: return a ^ b;
    }
}

WHI_FN whi_small_float whi_small_format(whi_d32 type_class) {
    whi_small_float f;
    f.exponent = type_class == WHI_DEVICE_BFLOAT ? 8 : type_class == WHI_DEVICE_E4M3 ? 4 : 5;
    f.mantissa = type_class == WHI_DEVICE_FLOAT ? 10 : type_class == WHI_DEVICE_BFLOAT ? 7 : 1;
    f.mantissa = type_class == WHI_DEVICE_E4M3 ? 3 : type_class == WHI_DEVICE_E5M2 ? 2 : f.mantissa;
    f.finite = type_class == WHI_DEVICE_E4M3;
    return f;
}

// Every float is a double exactly, and a sum or product of two rounds to a float as if it were made in one.
WHI_FN double whi_decode(whi_d64 bits, whi_d32 type_class, whi_d32 size) {
    if (size == 8)
        return whi_double_of_bits(bits);
    return size == 4 ? (double)whi_float_of_bits((whi_d32)bits)
                     : (double)whi_small_decode((whi_d32)bits, whi_small_format(type_class));
}

WHI_FN whi_d64 whi_encode(double value, whi_d32 type_class, whi_d32 size) {
    if (size == 8)
        return whi_bits_of_double(value);
    return size == 4 ? whi_bits_of_float((float)value)
                     : whi_small_encode((float)value, whi_small_format(type_class));
}

// A comparison with NaN is false: the first test keeps a NaN that is there, the second lets one in.
WHI_FN whi_d64 whi_reduce_float(whi_d32 op, whi_d64 a, whi_d64 b, whi_d32 type_class,
                                whi_d32 size) {
    double x = whi_decode(a, type_class, size), y = whi_decode(b, type_class, size);
    switch (op) {
    case WHI_DEVICE_MAX: return x != x || x >= y ? a : b;
    case WHI_DEVICE_MIN: return x != x || x <= y ? a : b;
    case WHI_DEVICE_SUM: x = x + y; break;
    case WHI_DEVICE_PROD: x = x * y; break;
    case WHI_DEVICE_LAND: x = x != 0 && y != 0; break;
    case WHI_DEVICE_LOR: x = x != 0 || y != 0; break;
    default: x = (x != 0) != (y != 0); break;
    }
    return whi_encode(x, type_class, size);
}

// One part of the product of two complex numbers, each step rounded to the parts' size: no step is joined with another.
WHI_FN double whi_round(double value, whi_d32 size) {
    return size == 4 ? (double)(float)value : value;
}
WHI_FN double whi_product(double x, double y, whi_d32 size) {
    return whi_round(WHI_MULTIPLY(x, y), size);
}

typedef struct whi_complex {
    double re, im;
} whi_complex;

// An infinity as 1, all else as 0, with its sign.
WHI_FN double whi_box(double value) {
    double one = whi_bits_of_double(value) << 1 == (whi_d64)0x7ff << 53;
    return whi_bits_of_double(value) >> 63 ? -one : one;
}
WHI_FN double whi_zero_nan(double value) {
    return value != value ? (whi_bits_of_double(value) >> 63 ? -0.0 : 0.0) : value;
}
WHI_FN int whi_infinite(double value) {
    return whi_bits_of_double(value) << 1 == (whi_d64)0x7ff << 53;
}

// The product as C has it (Annex G): what is infinite stays so, though parts of it be NaN.
WHI_FN whi_complex whi_complex_product(whi_complex x, whi_complex y, whi_d32 size) {
    double ac = whi_product(x.re, y.re, size), bd = whi_product(x.im, y.im, size);
    double ad = whi_product(x.re, y.im, size), bc = whi_product(x.im, y.re, size);
    whi_complex z;
    z.re = whi_round(ac - bd, size);
    z.im = whi_round(ad + bc, size);
    if (z.re == z.re || z.im == z.im)
        return z;
    int again = 0;
    if (whi_infinite(x.re) || whi_infinite(x.im)) {
        x.re = whi_box(x.re), x.im = whi_box(x.im);
        y.re = whi_zero_nan(y.re), y.im = whi_zero_nan(y.im);
        again = 1;
    }
    if (whi_infinite(y.re) || whi_infinite(y.im)) {
        y.re = whi_box(y.re), y.im = whi_box(y.im);
        x.re = whi_zero_nan(x.re), x.im = whi_zero_nan(x.im);
        again = 1;
    }
    if (!again && (whi_infinite(ac) || whi_infinite(bd) || whi_infinite(ad) || whi_infinite(bc))) {
        x.re = whi_zero_nan(x.re), x.im = whi_zero_nan(x.im);
        y.re = whi_zero_nan(y.re), y.im = whi_zero_nan(y.im);
        again = 1;
    }
    if (again) {
        double infinity = whi_double_of_bits((whi_d64)0x7ff << 52);
        z.re = infinity * (WHI_MULTIPLY(x.re, y.re) - WHI_MULTIPLY(x.im, y.im));
        z.im = infinity * (WHI_MULTIPLY(x.re, y.im) + WHI_MULTIPLY(x.im, y.re));
    }
    return z;
}

// `to` is what is there, and where the result goes; `in` is what comes.
WHI_FN void whi_reduce_complex(whi_d32 op, whi_d64 to, whi_d64 in, whi_d32 size) {
    whi_complex x, y;
    whi_d32 half = size / 2;
    x.re = whi_decode(whi_load_bytes(to, half), WHI_DEVICE_FLOAT, half);
    x.im = whi_decode(whi_load_bytes(to + half, half), WHI_DEVICE_FLOAT, half);
    y.re = whi_decode(whi_load_bytes(in, half), WHI_DEVICE_FLOAT, half);
    y.im = whi_decode(whi_load_bytes(in + half, half), WHI_DEVICE_FLOAT, half);
    if (op == WHI_DEVICE_PROD) {
        x = whi_complex_product(x, y, half);
    } else {
        x.re = x.re + y.re;
        x.im = x.im + y.im;
    }
    whi_store_bytes(to, half, whi_encode(x.re, WHI_DEVICE_FLOAT, half));
    whi_store_bytes(to + half, half, whi_encode(x.im, WHI_DEVICE_FLOAT, half));
}

// Whether the pair that comes replaces the one that is there.
WHI_FN int whi_pair_wins(whi_d32 op, whi_d64 a, whi_d64 b, whi_d32 type_class, whi_d32 size,
                         int at_a, int at_b) {
    int more, less, same;
    if (type_class == WHI_DEVICE_INT) {
        whi_dint x = (whi_dint)whi_widen(a, size, 1), y = (whi_dint)whi_widen(b, size, 1);
        more = y > x, less = y < x, same = y == x;
    } else {
        double x = whi_decode(a, type_class, size), y = whi_decode(b, type_class, size);
        more = y > x || (y != y && x == x);
        less = y < x || (y != y && x == x);
        same = y == x || (x != x && y != y);
    }
    return (op == WHI_DEVICE_MAXLOC ? more : less) || (same && at_b < at_a);
}

// Of a pair one side is packed, and the other has its index where memory has it.
typedef struct whi_pair_at {
    whi_d64 value, index;
} whi_pair_at;

WHI_FN void whi_reduce_pair(whi_d32 op, whi_pair_at to, whi_pair_at in, whi_d32 type_class,
                            whi_d32 size) {
    whi_d64 a = whi_load_bytes(to.value, size), b = whi_load_bytes(in.value, size);
    int at_a = (int)whi_load_bytes(to.index, 4), at_b = (int)whi_load_bytes(in.index, 4);
    if (!whi_pair_wins(op, a, b, type_class, size, at_a, at_b))
        return;
    whi_store_bytes(to.value, size, b);
    whi_store_bytes(to.index, 4, (whi_d32)at_b);
}

WHI_FN void whi_reduce_element(const whi_device_args *a, whi_d64 at, whi_d64 packed,
                               whi_d32 element) {
    whi_d32 type_class = WHI_DEVICE_CLASS(element), size = WHI_DEVICE_VALUE(element);
    whi_d64 to = a->unpack ? at : packed, in = a->unpack ? packed : at;
    if (WHI_DEVICE_INDEX_AT(element)) {
        whi_pair_at in_memory, in_packed;
        in_memory.value = at, in_memory.index = at + WHI_DEVICE_INDEX_AT(element);
        in_packed.value = packed, in_packed.index = packed + size;
        whi_reduce_pair(a->op, a->unpack ? in_memory : in_packed, a->unpack ? in_packed : in_memory,
                        type_class, size);
        return;
    }
    if (type_class == WHI_DEVICE_COMPLEX) {
        whi_reduce_complex(a->op, to, in, size);
        return;
    }
    whi_d64 x = whi_load_bytes(to, size), y = whi_load_bytes(in, size);
    whi_store_bytes(to, size,
                    type_class >= WHI_DEVICE_FLOAT
                        ? whi_reduce_float(a->op, x, y, type_class, size)
                        : whi_reduce_integer(a->op, x, y, size, type_class == WHI_DEVICE_INT));
}

WHI_KERNEL(wherry_accumulate) {
    WHI_EACH_THREAD(t) {
        const whi_device_args *a = WHI_ARGS;
        whi_d64 p = a->from + (WHI_BLOCK * WHI_DEVICE_THREADS + t) * a->grain;
        if (p < a->to) {
            whi_place found = whi_find(a, p);
            whi_d32 size = WHI_DEVICE_SIZE(found.element);
            if (a->grain == size || found.within % size == 0)
                whi_reduce_element(a, found.at, whi_packed(a, p), found.element);
        }
    }
}
#endif  // WHI_CONST_LOOPS

#endif
