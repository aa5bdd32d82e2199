// SPDX-License-Identifier: BSD-3-Clause
//
// The templates of all kernels, for one file per instruction set to compile with its own flags.
//
// There are no intrinsics here: fixed-size moves and GCC's vector types become the best instructions
// the flags allow, on any processor.  A template is an always-inline function whose last arguments
// are constants; WHI_DEFINE_KERNELS(set) at the end expands it for each size class and makes the
// table.  An instruction set that can do better in one place replaces that entry (avx512.c).
#ifndef WHI_TYPE_KERNELS_BODY_H
#define WHI_TYPE_KERNELS_BODY_H

#include <string.h>

#include "type/kernels/kernels.h"

#define WHI_INLINE static inline __attribute__((always_inline))
#define WHI_UNROLL _Pragma("GCC unroll 8")

enum {
    WHI_FAR = 2048,  // bytes; prefetchers of processors see no pattern beyond, or stop at a page
    WHI_ROWS_AHEAD = 32,  // runs: as many misses as a core keeps in flight, and some
};

typedef unsigned char whi_v16 __attribute__((vector_size(16), aligned(1), may_alias));
typedef unsigned char whi_v32 __attribute__((vector_size(32), aligned(1), may_alias));
typedef unsigned char whi_v64 __attribute__((vector_size(64), aligned(1), may_alias));

// The address `offset` bytes from `base`.  Integers, because a loop steps once past its last run, and
// that may lie beyond the address space.
WHI_INLINE char *whi_at(char *base, int64_t offset) {
    return (char *)((uintptr_t)base + (uintptr_t)offset);
}

// Asks for a line of the layout's side, to be read or to be written.
WHI_INLINE void whi_prefetch(const char *at, whi_direction direction) {
    if (direction == WHI_PACK)
        __builtin_prefetch(at, 0);
    else
        __builtin_prefetch(at, 1);
}

// Moves `n` bytes, a constant power of two up to 64.
WHI_INLINE void whi_move(char *to, const char *from, int n) {
    switch (n) {
    case 1: *to = *from; return;
    case 2: memcpy(to, from, 2); return;
    case 4: memcpy(to, from, 4); return;
    case 8: memcpy(to, from, 8); return;
    case 16: *(whi_v16 *)to = *(const whi_v16 *)from; return;
    case 32: *(whi_v32 *)to = *(const whi_v32 *)from; return;
    default: *(whi_v64 *)to = *(const whi_v64 *)from; return;
    }
}

// Moves 64 bytes or more by whole lines and a last one that overlaps.
WHI_INLINE void whi_move_lines(char *to, const char *from, int64_t len) {
    int64_t at = 0;
    for (; at + 64 <= len; at += 64)
        whi_move(to + at, from + at, 64);
    if (at < len)
        whi_move(to + len - 64, from + len - 64, 64);
}

// Moves a run of `len` bytes, which is of the size class (bytes, exact).
WHI_INLINE void whi_move_size_class(char *to, const char *from, int64_t len, whi_size_class size,
                                    int bytes, bool exact) {
    if (size == WHI_SIZE_lines) {
        whi_move_lines(to, from, len);
    } else {
        whi_move(to, from, bytes);
        if (!exact)
            whi_move(to + len - bytes, from + len - bytes, bytes);
    }
}

// Moves a run of any length.
WHI_INLINE void whi_move_any(char *to, const char *from, int64_t len) {
    if (len >= 64)
        whi_move_lines(to, from, len);
    else if (len >= 32)
        whi_move_size_class(to, from, len, WHI_SIZE_33to63, 32, false);
    else if (len >= 16)
        whi_move_size_class(to, from, len, WHI_SIZE_17to31, 16, false);
    else if (len >= 8)
        whi_move_size_class(to, from, len, WHI_SIZE_9to15, 8, false);
    else if (len >= 4)
        whi_move_size_class(to, from, len, WHI_SIZE_5to7, 4, false);
    else if (len >= 2)
        whi_move_size_class(to, from, len, WHI_SIZE_3, 2, false);
    else
        *to = *from;
}

// `ahead` is how many runs a prefetch goes in front of the move; 0: none.
WHI_INLINE char *whi_rows_ahead(char *packed, char *base, int64_t n1, int64_t s1, int64_t n0,
                                int64_t s0, int64_t len, whi_direction direction,
                                whi_size_class size, int bytes, bool exact, int64_t ahead) {
    for (int64_t i = 0; i < n1; i++) {
        char *row = whi_at(base, i * s1);
        WHI_UNROLL for (int64_t j = 0; j < n0; j++) {
            char *to = direction == WHI_PACK ? packed : row,
                 *from = direction == WHI_PACK ? row : packed;
            if (ahead)  // beyond the last run it asks in vain, but never faults
                whi_prefetch(whi_at(row, ahead * s0), direction);
            whi_move_size_class(to, from, len, size, bytes, exact);
            row = whi_at(row, s0);
            packed += len;
        }
    }
    return packed;
}

typedef uint64_t whi_pair __attribute__((vector_size(16), aligned(1), may_alias));

WHI_INLINE uint64_t whi_word(const char *at) {
    uint64_t word;
    memcpy(&word, at, sizeof(word));
    return word;
}

// Packs runs of 8 bytes: two of them make a store, because stores are what limits the loop.
WHI_INLINE char *whi_rows_in_pairs(char *packed, char *base, int64_t n1, int64_t s1, int64_t n0,
                                   int64_t s0) {
    for (int64_t i = 0; i < n1; i++) {
        char *row = whi_at(base, i * s1);
        WHI_UNROLL for (int64_t j = 0; j < n0 / 2; j++) {
            *(whi_pair *)packed = (whi_pair){whi_word(row), whi_word(whi_at(row, s0))};
            row = whi_at(row, 2 * s0);
            packed += sizeof(whi_pair);
        }
        if (n0 % 2) {
            whi_move(packed, row, 8);
            packed += 8;
        }
    }
    return packed;
}

// Whether steps of `stride` are so long that the processor does not look ahead by itself.  Then misses,
// and the walks through page tables, begin early only when a prefetch asks; it need not ask for more
// than the first line of a run, because the rest follows without gaps.
WHI_INLINE bool whi_is_far(int64_t stride) {
    return stride >= WHI_FAR || stride <= -WHI_FAR;
}

WHI_INLINE char *whi_rows(const whi_leaf *leaf, char *packed, char *base, int64_t n1, int64_t s1,
                          int64_t n0, int64_t s0, whi_direction direction, whi_size_class size,
                          int bytes, bool exact) {
    int64_t len = exact ? bytes : leaf->size;
    const int64_t ahead = size == WHI_SIZE_lines ? 1 : WHI_ROWS_AHEAD;
    if (whi_is_far(s0) && n0 > ahead)
        return whi_rows_ahead(packed, base, n1, s1, n0, s0, len, direction, size, bytes, exact,
                              ahead);
    if (direction == WHI_PACK && size == WHI_SIZE_8)
        return whi_rows_in_pairs(packed, base, n1, s1, n0, s0);
    return whi_rows_ahead(packed, base, n1, s1, n0, s0, len, direction, size, bytes, exact, 0);
}

WHI_INLINE char *whi_blocks(const whi_leaf *leaf, char *packed, char *base, int64_t n1, int64_t s1,
                            int64_t n0, int64_t s0, whi_direction direction, whi_size_class size,
                            int bytes, bool exact) {
    int64_t len = exact ? bytes : leaf->len, n = leaf->n;
    const uint32_t *off32 = leaf->off32;
    const int64_t *off = leaf->off;
    base = whi_at(base, leaf->low);
    for (int64_t i = 0; i < n1; i++) {
        for (int64_t j = 0; j < n0; j++) {
            char *here = whi_at(base, i * s1 + j * s0);
            WHI_UNROLL for (int64_t k = 0; k < n; k++) {
                char *run = whi_at(here, off32 ? (int64_t)off32[k] : off[k]);
                char *to = direction == WHI_PACK ? packed : run,
                     *from = direction == WHI_PACK ? run : packed;
                whi_move_size_class(to, from, len, size, bytes, exact);
                packed += len;
            }
        }
    }
    return packed;
}

WHI_INLINE char *whi_list(const whi_leaf *leaf, char *packed, char *base, int64_t n1, int64_t s1,
                          int64_t n0, int64_t s0, whi_direction direction, bool wide) {
    int64_t n = leaf->n;
    base = whi_at(base, leaf->low);
    for (int64_t i = 0; i < n1; i++) {
        for (int64_t j = 0; j < n0; j++) {
            char *here = whi_at(base, i * s1 + j * s0);
            for (int64_t k = 0; k < n; k++) {
                char *run = whi_at(here, wide ? leaf->off[k] : (int64_t)leaf->off32[k]);
                int64_t len = wide ? leaf->lens[k] : leaf->len8[k];
                char *to = direction == WHI_PACK ? packed : run,
                     *from = direction == WHI_PACK ? run : packed;
                whi_move_any(to, from, len);
                packed += len;
            }
        }
    }
    return packed;
}

// One field of `n` consecutive structs.
WHI_INLINE void whi_field(char *packed, int64_t packed_step, char *base, int64_t step, int64_t len,
                          int64_t n, whi_direction direction, whi_size_class size, int bytes,
                          bool exact) {
    WHI_UNROLL for (int64_t i = 0; i < n; i++) {
        char *to = direction == WHI_PACK ? packed : base,
             *from = direction == WHI_PACK ? base : packed;
        whi_move_size_class(to, from, len, size, bytes, exact);
        packed += packed_step;
        base = whi_at(base, step);
    }
}

WHI_INLINE void whi_field_any(char *packed, int64_t packed_step, char *base, int64_t step,
                              int64_t len, int64_t n, whi_direction direction) {
#define WHI_FIELD_CASE(name, bytes, exact)                                                         \
    case WHI_SIZE_##name:                                                                          \
        whi_field(packed, packed_step, base, step, len, n, direction, WHI_SIZE_##name, bytes,      \
                  exact);                                                                          \
        return;
    switch (whi_size_class_of(len)) {
        WHI_SIZE_CLASSES(WHI_FIELD_CASE)
    case WHI_SIZES: return;
    }
#undef WHI_FIELD_CASE
}

// A list of few runs, repeated: field by field over a batch that stays in the nearest cache, so that
// the size of a move is decided once per batch and not once per run.
WHI_INLINE char *whi_fields(const whi_leaf *leaf, char *packed, char *base, int64_t n1, int64_t s1,
                            int64_t n0, int64_t s0, whi_direction direction) {
    enum { BATCH = 32 };
    base = whi_at(base, leaf->low);
    for (int64_t i = 0; i < n1; i++) {
        for (int64_t j = 0; j < n0; j += BATCH) {
            int64_t n = n0 - j < BATCH ? n0 - j : BATCH, at = 0;
            char *here = whi_at(base, i * s1 + j * s0);
            for (int64_t k = 0; k < leaf->n; k++) {
                whi_field_any(packed + at, leaf->size, whi_at(here, leaf->off32[k]), s0,
                              leaf->len8[k], n, direction);
                at += leaf->len8[k];
            }
            packed += n * leaf->size;
        }
    }
    return packed;
}

// Moves a part of a transpose, `rows` x `columns` runs, run by run; a few columns at a time, so that
// their lines are still near when the next row wants them.
WHI_INLINE void whi_cross_edge(char *packed, int64_t pitch, char *base, int64_t s1, int64_t s0,
                               int64_t rows, int64_t columns, whi_direction direction, int bytes) {
    enum { NEAR = 8 };
    for (int64_t k = 0; k < columns; k += NEAR)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = k; j < columns && j < k + NEAR; j++) {
                char *there = whi_at(base, i * s1 + j * s0), *here = packed + i * pitch + j * bytes;
                whi_move(direction == WHI_PACK ? here : there, direction == WHI_PACK ? there : here,
                         bytes);
            }
}

// Asks for the lines of a tile some tiles ahead.  Worth it only for columns twice as far apart as rows
// have to be: the lines of nearer ones stay near from band to band.
WHI_INLINE void whi_cross_ahead(char *base, int64_t s0, int64_t n, whi_direction direction) {
    enum { TILES = 4 };
    for (int64_t j = 0; j < n; j++)
        whi_prefetch(whi_at(base, (TILES * n + j) * s0), direction);
}

// A square tile whose packed rows are one line each, through a buffer: the scattered side is touched
// run by run, the packed side in whole lines, so that neither evicts the other.
WHI_INLINE void whi_cross_tile(char *packed, int64_t pitch, char *base, int64_t s1, int64_t s0,
                               whi_direction direction, int bytes) {
    enum { LINE = 64 };
    const int n = LINE / bytes;
    char tile[LINE * LINE] __attribute__((aligned(64)));
    if (direction == WHI_UNPACK)
        for (int i = 0; i < n; i++)
            whi_move(tile + i * LINE, packed + i * pitch, LINE);
    for (int j = 0; j < n; j++)
        WHI_UNROLL for (int i = 0; i < n; i++) {
            char *there = whi_at(base, i * s1 + j * s0), *here = tile + i * LINE + j * bytes;
            whi_move(direction == WHI_PACK ? here : there, direction == WHI_PACK ? there : here,
                     bytes);
        }
    if (direction == WHI_PACK)
        for (int i = 0; i < n; i++)
            whi_move(packed + i * pitch, tile + i * LINE, LINE);
}

typedef void whi_cross_tile_fn(char *packed, int64_t pitch, char *base, int64_t s1, int64_t s0,
                               whi_direction direction, int bytes);

// Transposes in bands of tiles.  A band covers the rows that share the lines of the scattered side;
// the first is cut short so that the others begin where a line does.
WHI_INLINE char *whi_cross(char *packed, char *base, int64_t n1, int64_t s1, int64_t n0, int64_t s0,
                           whi_direction direction, int bytes, whi_cross_tile_fn *tile) {
    const int64_t n = 64 / bytes;
    int64_t pitch = n0 * bytes, i = 0, j;
    if (s1 == bytes) {
        int64_t past = (int64_t)((uintptr_t)base % 64) / bytes;
        i = past ? n - past : 0;
        i = i > n1 ? n1 : i;
        whi_cross_edge(packed, pitch, base, s1, s0, i, n0, direction, bytes);
    }
    for (; i + n <= n1; i += n) {
        for (j = 0; j + n <= n0; j += n) {
            char *corner = whi_at(base, i * s1 + j * s0);
            if (whi_is_far(s0 / 2))
                whi_cross_ahead(corner, s0, n, direction);
            tile(packed + i * pitch + j * bytes, pitch, corner, s1, s0, direction, bytes);
        }
        whi_cross_edge(packed + i * pitch + j * bytes, pitch, whi_at(base, i * s1 + j * s0), s1, s0,
                       n, n0 - j, direction, bytes);
    }
    whi_cross_edge(packed + i * pitch, pitch, whi_at(base, i * s1), s1, s0, n1 - i, n0, direction,
                   bytes);
    return packed + n1 * pitch;
}

#define WHI_KERNEL(name)                                                                           \
    static char *name(const whi_leaf *leaf, char *packed, char *base, int64_t n1, int64_t s1,      \
                      int64_t n0, int64_t s0)

#define WHI_KERNELS_OF_SIZE(name, bytes, exact)                                                    \
    WHI_KERNEL(rows_##name##_pack) {                                                               \
        return whi_rows(leaf, packed, base, n1, s1, n0, s0, WHI_PACK, WHI_SIZE_##name, bytes,      \
                        exact);                                                                    \
    }                                                                                              \
    WHI_KERNEL(rows_##name##_unpack) {                                                             \
        return whi_rows(leaf, packed, base, n1, s1, n0, s0, WHI_UNPACK, WHI_SIZE_##name, bytes,    \
                        exact);                                                                    \
    }                                                                                              \
    WHI_KERNEL(blocks_##name##_pack) {                                                             \
        return whi_blocks(leaf, packed, base, n1, s1, n0, s0, WHI_PACK, WHI_SIZE_##name, bytes,    \
                          exact);                                                                  \
    }                                                                                              \
    WHI_KERNEL(blocks_##name##_unpack) {                                                           \
        return whi_blocks(leaf, packed, base, n1, s1, n0, s0, WHI_UNPACK, WHI_SIZE_##name, bytes,  \
                          exact);                                                                  \
    }

#define WHI_CROSS_OF_SIZE(size, tile)                                                              \
    WHI_KERNEL(cross_##size##_pack) {                                                              \
        (void)leaf;                                                                                \
        return whi_cross(packed, base, n1, s1, n0, s0, WHI_PACK, size, tile);                      \
    }                                                                                              \
    WHI_KERNEL(cross_##size##_unpack) {                                                            \
        (void)leaf;                                                                                \
        return whi_cross(packed, base, n1, s1, n0, s0, WHI_UNPACK, size, tile);                    \
    }

#define WHI_LISTS                                                                                  \
    WHI_KERNEL(list_pack) {                                                                        \
        return whi_list(leaf, packed, base, n1, s1, n0, s0, WHI_PACK, false);                      \
    }                                                                                              \
    WHI_KERNEL(list_unpack) {                                                                      \
        return whi_list(leaf, packed, base, n1, s1, n0, s0, WHI_UNPACK, false);                    \
    }                                                                                              \
    WHI_KERNEL(fields_pack) {                                                                      \
        return whi_fields(leaf, packed, base, n1, s1, n0, s0, WHI_PACK);                           \
    }                                                                                              \
    WHI_KERNEL(fields_unpack) {                                                                    \
        return whi_fields(leaf, packed, base, n1, s1, n0, s0, WHI_UNPACK);                         \
    }

// The first line overlaps, so that all others are stored where a line of memory begins.
#define WHI_COPY                                                                                   \
    static void copy(char *to, const char *from, int64_t size) {                                   \
        int64_t head = 64 - (int64_t)((uintptr_t)to % 64);                                         \
        whi_move(to, from, 64);                                                                    \
        whi_move_lines(to + head, from + head, size - head);                                       \
    }

#define WHI_WIDE_LISTS                                                                             \
    WHI_KERNEL(list_wide_pack) {                                                                   \
        return whi_list(leaf, packed, base, n1, s1, n0, s0, WHI_PACK, true);                       \
    }                                                                                              \
    WHI_KERNEL(list_wide_unpack) {                                                                 \
        return whi_list(leaf, packed, base, n1, s1, n0, s0, WHI_UNPACK, true);                     \
    }

#define WHI_ROWS_PACK(name, bytes, exact) [WHI_SIZE_##name] = rows_##name##_pack,
#define WHI_ROWS_UNPACK(name, bytes, exact) [WHI_SIZE_##name] = rows_##name##_unpack,
#define WHI_BLOCKS_PACK(name, bytes, exact) [WHI_SIZE_##name] = blocks_##name##_pack,
#define WHI_BLOCKS_UNPACK(name, bytes, exact) [WHI_SIZE_##name] = blocks_##name##_unpack,
#define WHI_CROSS_ENTRIES(direction)                                                               \
    {                                                                                              \
        [WHI_SIZE_1] = cross_1_##direction, [WHI_SIZE_2] = cross_2_##direction,                    \
        [WHI_SIZE_4] = cross_4_##direction, [WHI_SIZE_8] = cross_8_##direction,                    \
        [WHI_SIZE_16] = cross_16_##direction                                                       \
    }

// The table of a set from the functions that the macros above have made; `nontemporal_8` may be NULL.
#define WHI_KERNEL_SET(set, nontemporal_8)                                                         \
    const whi_kernels whi_kernels_##set = {                                                        \
        .isa = #set,                                                                               \
        .rows = {{WHI_SIZE_CLASSES(WHI_ROWS_PACK)}, {WHI_SIZE_CLASSES(WHI_ROWS_UNPACK)}},          \
        .blocks = {{WHI_SIZE_CLASSES(WHI_BLOCKS_PACK)}, {WHI_SIZE_CLASSES(WHI_BLOCKS_UNPACK)}},    \
        .cross = {WHI_CROSS_ENTRIES(pack), WHI_CROSS_ENTRIES(unpack)},                             \
        .cross_8_nontemporal = nontemporal_8,                                                      \
        .copy = copy,                                                                              \
        .list = {list_pack, list_unpack},                                                          \
        .list_wide = {list_wide_pack, list_wide_unpack},                                           \
        .fields = {fields_pack, fields_unpack},                                                    \
    }

#endif
