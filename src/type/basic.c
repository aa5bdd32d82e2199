// SPDX-License-Identifier: BSD-3-Clause
//
// The predefined types: one table from the public list, and one immortal node per entry.
//
// The compiler measures size, extent and alignment; the external32 widths are the MPI standard's
// (types that it does not know keep their own width).
#include <complex.h>
#include <limits.h>
#include <wchar.h>

#include "type/type.h"

#define INT_CLASS(T) ((T)-1 < (T)1 ? WHI_TYPE_CLASS_INT : WHI_TYPE_CLASS_UINT)

#define PLAIN(T, CLASS, EXT32)                                                                     \
    { #T, CLASS, CLASS, sizeof(T), sizeof(T), _Alignof(T), sizeof(T), 0, EXT32 }
#define INTEGER(T) PLAIN(T, INT_CLASS(T), sizeof(T))
#define SMALL(NAME, CLASS, SIZE)                                                                   \
    { NAME, CLASS, CLASS, SIZE, SIZE, SIZE, SIZE, 0, SIZE }
#define PAIR_STRUCT(NAME, T)                                                                       \
    struct pair_##NAME {                                                                           \
        T value;                                                                                   \
        int index;                                                                                 \
    }
PAIR_STRUCT(float_int, float);
PAIR_STRUCT(double_int, double);
PAIR_STRUCT(long_int, long);
PAIR_STRUCT(int_int, int);
PAIR_STRUCT(short_int, short);
PAIR_STRUCT(long_double_int, long double);

#define PAIR(NAME, T, CLASS, EXT32)                                                                \
    {                                                                                              \
#NAME, WHI_TYPE_CLASS_PAIR, CLASS, sizeof(T) + sizeof(int), sizeof(struct pair_##NAME),    \
            _Alignof(struct pair_##NAME), sizeof(T), offsetof(struct pair_##NAME, index),          \
            (EXT32) + 4                                                                            \
    }

const whi_basic whi_basics[WH_TYPE_IDS] = {
    [WH_TYPE_BYTE] = SMALL("byte", WHI_TYPE_CLASS_BYTE, 1),
    [WH_TYPE_BOOL] = PLAIN(_Bool, WHI_TYPE_CLASS_BOOL, 1),
    [WH_TYPE_CHAR] = INTEGER(char),
    [WH_TYPE_SCHAR] = INTEGER(signed char),
    [WH_TYPE_UCHAR] = INTEGER(unsigned char),
    [WH_TYPE_WCHAR] = PLAIN(wchar_t, INT_CLASS(wchar_t), 2),
    [WH_TYPE_INT8] = INTEGER(int8_t),
    [WH_TYPE_INT16] = INTEGER(int16_t),
    [WH_TYPE_INT32] = INTEGER(int32_t),
    [WH_TYPE_INT64] = INTEGER(int64_t),
    [WH_TYPE_UINT8] = INTEGER(uint8_t),
    [WH_TYPE_UINT16] = INTEGER(uint16_t),
    [WH_TYPE_UINT32] = INTEGER(uint32_t),
    [WH_TYPE_UINT64] = INTEGER(uint64_t),
    [WH_TYPE_SHORT] = INTEGER(short),
    [WH_TYPE_USHORT] = INTEGER(unsigned short),
    [WH_TYPE_INT] = INTEGER(int),
    [WH_TYPE_UINT] = INTEGER(unsigned int),
    [WH_TYPE_LONG] = PLAIN(long, WHI_TYPE_CLASS_INT, 4),
    [WH_TYPE_ULONG] = PLAIN(unsigned long, WHI_TYPE_CLASS_UINT, 4),
    [WH_TYPE_LLONG] = INTEGER(long long),
    [WH_TYPE_ULLONG] = INTEGER(unsigned long long),
    [WH_TYPE_INT_FAST8] = INTEGER(int_fast8_t),
    [WH_TYPE_INT_FAST16] = INTEGER(int_fast16_t),
    [WH_TYPE_INT_FAST32] = INTEGER(int_fast32_t),
    [WH_TYPE_INT_FAST64] = INTEGER(int_fast64_t),
    [WH_TYPE_UINT_FAST8] = INTEGER(uint_fast8_t),
    [WH_TYPE_UINT_FAST16] = INTEGER(uint_fast16_t),
    [WH_TYPE_UINT_FAST32] = INTEGER(uint_fast32_t),
    [WH_TYPE_UINT_FAST64] = INTEGER(uint_fast64_t),
    [WH_TYPE_INT_LEAST8] = INTEGER(int_least8_t),
    [WH_TYPE_INT_LEAST16] = INTEGER(int_least16_t),
    [WH_TYPE_INT_LEAST32] = INTEGER(int_least32_t),
    [WH_TYPE_INT_LEAST64] = INTEGER(int_least64_t),
    [WH_TYPE_UINT_LEAST8] = INTEGER(uint_least8_t),
    [WH_TYPE_UINT_LEAST16] = INTEGER(uint_least16_t),
    [WH_TYPE_UINT_LEAST32] = INTEGER(uint_least32_t),
    [WH_TYPE_UINT_LEAST64] = INTEGER(uint_least64_t),
    [WH_TYPE_INTMAX] = INTEGER(intmax_t),
    [WH_TYPE_UINTMAX] = INTEGER(uintmax_t),
    [WH_TYPE_SIZE] = INTEGER(size_t),
    [WH_TYPE_INTPTR] = INTEGER(intptr_t),
    [WH_TYPE_UINTPTR] = INTEGER(uintptr_t),
    [WH_TYPE_PTRDIFF] = INTEGER(ptrdiff_t),
    [WH_TYPE_FLOAT] = PLAIN(float, WHI_TYPE_CLASS_FLOAT, 4),
    [WH_TYPE_DOUBLE] = PLAIN(double, WHI_TYPE_CLASS_FLOAT, 8),
    [WH_TYPE_LONG_DOUBLE] = PLAIN(long double, WHI_TYPE_CLASS_FLOAT, 16),
    [WH_TYPE_COMPLEX_FLOAT] = PLAIN(float _Complex, WHI_TYPE_CLASS_COMPLEX, 8),
    [WH_TYPE_COMPLEX_DOUBLE] = PLAIN(double _Complex, WHI_TYPE_CLASS_COMPLEX, 16),
    [WH_TYPE_COMPLEX_LONG_DOUBLE] = PLAIN(long double _Complex, WHI_TYPE_CLASS_COMPLEX, 32),
    [WH_TYPE_FLOAT_INT] = PAIR(float_int, float, WHI_TYPE_CLASS_FLOAT, 4),
    [WH_TYPE_DOUBLE_INT] = PAIR(double_int, double, WHI_TYPE_CLASS_FLOAT, 8),
    [WH_TYPE_LONG_INT] = PAIR(long_int, long, WHI_TYPE_CLASS_INT, 4),
    [WH_TYPE_INT_INT] = PAIR(int_int, int, WHI_TYPE_CLASS_INT, 4),
    [WH_TYPE_SHORT_INT] = PAIR(short_int, short, WHI_TYPE_CLASS_INT, 2),
    [WH_TYPE_LONG_DOUBLE_INT] = PAIR(long_double_int, long double, WHI_TYPE_CLASS_FLOAT, 16),
    [WH_TYPE_FLOAT16] = SMALL("float16", WHI_TYPE_CLASS_FLOAT, 2),
    [WH_TYPE_BFLOAT16] = SMALL("bfloat16", WHI_TYPE_CLASS_BFLOAT, 2),
    [WH_TYPE_FLOAT8_E4M3] = SMALL("float8_e4m3", WHI_TYPE_CLASS_E4M3, 1),
    [WH_TYPE_FLOAT8_E5M2] = SMALL("float8_e5m2", WHI_TYPE_CLASS_E5M2, 1),
};

// One node each, with its single argument behind it, filled before main.
static struct {
    _Alignas(wh_type) unsigned char node[sizeof(wh_type) + sizeof(int64_t)];
} nodes[WH_TYPE_IDS];

__attribute__((constructor)) static void make_nodes(void) {
    for (int id = 0; id < WH_TYPE_IDS; id++) {
        const whi_basic *basic = &whi_basics[id];
        int64_t end = basic->type_class == WHI_TYPE_CLASS_PAIR
                          ? basic->index_at + (int64_t)sizeof(int)
                          : basic->size;
        wh_type *type = (wh_type *)nodes[id].node;
        type->magic = WHI_TYPE_MAGIC;
        type->kind = WH_KIND_BASIC;
        type->id = (uint8_t)id;
        type->nargs = 1;
        type->args[0] = id;
        type->at = (whi_bounds){
            .size = basic->size,
            .basics = basic->type_class == WHI_TYPE_CLASS_PAIR ? 2 : 1,
            .external = basic->ext32,
            .ids = (uint64_t)1 << id,
            .ub = basic->extent,
            .true_ub = end,
            .align = basic->align,
        };
    }
}

const wh_type *wh_type_basic(wh_type_id id) {
    return (unsigned)id < WH_TYPE_IDS ? (const wh_type *)nodes[id].node : NULL;
}
