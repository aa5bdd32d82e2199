// SPDX-License-Identifier: BSD-3-Clause
//
// Numbers that stand for bytes: FNV-1a (Fowler, Noll, Vo), 64 bits.
#ifndef WHM_BASE_HASH_H
#define WHM_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define WHM_HASH_BEGIN UINT64_C(0xCBF29CE484222325)

// whm_hash_more returns that of what `h` stands for and these bytes behind it.
static inline uint64_t whm_hash_more(uint64_t h, const void *data, size_t size) {
    const unsigned char *byte = data;
    for (size_t i = 0; i < size; i++)
        h = (h ^ byte[i]) * UINT64_C(0x100000001B3);
    return h;
}

#endif
