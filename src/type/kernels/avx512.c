// SPDX-License-Identifier: BSD-3-Clause
//
// The kernels for x86 processors with AVX-512 F, BW, VL, DQ and VBMI (servers since 2019, Zen 4).
//
// The templates with wider moves, and three places where masks and byte permutes change the
// algorithm: lists (a run of up to 64 bytes is one masked load and one store, without a branch on its
// length), small structs (a permute takes all fields of several elements out of one 64-byte window),
// and transposes of 8-byte elements (8 x 8 in registers).
//
// A masked-out byte is never touched, so no load reads outside the user's runs but for gaps of less
// than 64 bytes between two of them, which lie on the pages of their neighbours.  On the packed side,
// full stores run past a piece only as far as the same call will write anyway.
#include <immintrin.h>

#include "type/kernels/body.h"

enum { LINE = 64 };

static inline __mmask64 first_bytes(int64_t n) {
    return _bzhi_u64(~(uint64_t)0, (unsigned)n);
}

// Packs one run of a list; `left` is the room up to the end of this call's output.
WHI_INLINE void list_run_pack(char *packed, const char *run, int64_t len, int64_t left) {
    for (; len > LINE; len -= LINE, left -= LINE, packed += LINE, run += LINE)
        whi_move(packed, run, LINE);
    __m512i line = _mm512_maskz_loadu_epi8(first_bytes(len), run);
    if (left >= LINE)
        _mm512_storeu_si512(packed, line);
    else
        _mm512_mask_storeu_epi8(packed, first_bytes(len), line);
}

WHI_INLINE void list_run_unpack(const char *packed, char *run, int64_t len, int64_t left) {
    for (; len > LINE; len -= LINE, left -= LINE, packed += LINE, run += LINE)
        whi_move(run, packed, LINE);
    __m512i line = left >= LINE ? _mm512_loadu_si512(packed)
                                : _mm512_maskz_loadu_epi8(first_bytes(len), packed);
    _mm512_mask_storeu_epi8(run, first_bytes(len), line);
}

WHI_INLINE char *list_masked(const whi_leaf *leaf, char *packed, char *base, int64_t n1, int64_t s1,
                             int64_t n0, int64_t s0, whi_direction direction) {
    const uint32_t *off32 = leaf->off32;
    const uint8_t *len8 = leaf->len8;
    int64_t n = leaf->n;
    char *end = packed + n1 * n0 * leaf->size;
    base = whi_at(base, leaf->low);
    for (int64_t i = 0; i < n1; i++)
        for (int64_t j = 0; j < n0; j++) {
            char *here = whi_at(base, i * s1 + j * s0);
            WHI_UNROLL for (int64_t k = 0; k < n; k++) {
                if (direction == WHI_PACK)
                    list_run_pack(packed, whi_at(here, off32[k]), len8[k], end - packed);
                else
                    list_run_unpack(packed, whi_at(here, off32[k]), len8[k], end - packed);
                packed += len8[k];
            }
        }
    return packed;
}

WHI_KERNEL(list_pack) {
    return list_masked(leaf, packed, base, n1, s1, n0, s0, WHI_PACK);
}

WHI_KERNEL(list_unpack) {
    return list_masked(leaf, packed, base, n1, s1, n0, s0, WHI_UNPACK);
}

// Fills the tables for `n` elements in one window: of packed byte i, where it lies in the window,
// and of window byte i, where it lies when packed.
static uint64_t permute_tables(const whi_leaf *leaf, int64_t stride, int64_t n, uint8_t *pack,
                               uint8_t *unpack) {
    uint64_t used = 0;
    int64_t at = 0;
    memset(pack, 0, LINE);
    memset(unpack, 0, LINE);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < leaf->n; k++)
            for (int64_t b = 0; b < leaf->len8[k]; b++) {
                int64_t place = i * stride + leaf->off32[k] + b;
                pack[at] = (uint8_t)place;
                unpack[place] = (uint8_t)at++;
                used |= (uint64_t)1 << place;
            }
    return used;
}

// How many elements a 64-byte window holds, in memory and packed: where runs overlap, the packed
// side is the longer.
static int64_t window_elements(const whi_leaf *leaf, int64_t stride) {
    int64_t span = 0;
    for (int64_t k = 0; k < leaf->n; k++) {
        int64_t end = (int64_t)leaf->off32[k] + leaf->len8[k];
        span = end > span ? end : span;
    }
    if (span > LINE || stride < span)
        return 0;
    int64_t fit = 1 + (LINE - span) / stride, packed = LINE / leaf->size;
    return fit < packed ? fit : packed;
}

WHI_INLINE char *permute(const whi_leaf *leaf, char *packed, char *base, int64_t n1, int64_t s1,
                         int64_t n0, int64_t s0, whi_direction direction) {
    int64_t per = window_elements(leaf, s0);
    _Alignas(LINE) uint8_t pack[LINE], unpack[LINE];
    __mmask64 used = permute_tables(leaf, s0, per, pack, unpack);
    __m512i table = _mm512_load_si512(direction == WHI_PACK ? pack : unpack);
    int64_t bytes = per * leaf->size;
    char *end = packed + n1 * n0 * leaf->size;
    base = whi_at(base, leaf->low);
    for (int64_t i = 0; i < n1; i++) {
        char *here = whi_at(base, i * s1);
        int64_t j = 0;
        // While a whole line of the packed side belongs to this call it may be written or read.
        for (; j + per <= n0 && end - packed >= LINE; j += per) {
            if (direction == WHI_PACK) {
                __m512i window = _mm512_maskz_loadu_epi8(used, here);
                _mm512_storeu_si512(packed, _mm512_permutexvar_epi8(table, window));
            } else {
                __m512i window = _mm512_permutexvar_epi8(table, _mm512_loadu_si512(packed));
                _mm512_mask_storeu_epi8(here, used, window);
            }
            here = whi_at(here, per * s0);
            packed += bytes;
        }
        for (; j < n0; j++, here = whi_at(here, s0))
            for (int64_t k = 0; k < leaf->n; k++) {
                char *run = whi_at(here, leaf->off32[k]);
                whi_move_any(direction == WHI_PACK ? packed : run,
                             direction == WHI_PACK ? run : packed, leaf->len8[k]);
                packed += leaf->len8[k];
            }
    }
    return packed;
}

// A short list many times over.  The tables take longer than a few elements would, and a stride that
// leaves one element per window gains nothing over moving field by field.
WHI_KERNEL(fields_pack) {
    if (n0 >= 64 && window_elements(leaf, s0) * leaf->n >= 4)
        return permute(leaf, packed, base, n1, s1, n0, s0, WHI_PACK);
    return whi_fields(leaf, packed, base, n1, s1, n0, s0, WHI_PACK);
}

WHI_KERNEL(fields_unpack) {
    if (n0 >= 64 && window_elements(leaf, s0) * leaf->n >= 4)
        return permute(leaf, packed, base, n1, s1, n0, s0, WHI_UNPACK);
    return whi_fields(leaf, packed, base, n1, s1, n0, s0, WHI_UNPACK);
}

// Transposes 8 x 8 elements of 8 bytes.
WHI_INLINE void transpose(__m512d r[8]) {
    __m512d a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm512_unpacklo_pd(r[i], r[i + 1]);
        a[i + 1] = _mm512_unpackhi_pd(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int k = 0; k < 2; k++) {
            b[i + k] = _mm512_shuffle_f64x2(a[i + k], a[i + k + 2], 0x88);
            b[i + k + 2] = _mm512_shuffle_f64x2(a[i + k], a[i + k + 2], 0xdd);
        }
    for (int k = 0; k < 4; k++) {
        r[k] = _mm512_shuffle_f64x2(b[k], b[k + 4], 0x88);
        r[k + 4] = _mm512_shuffle_f64x2(b[k], b[k + 4], 0xdd);
    }
}

WHI_INLINE void tile_8(char *packed, int64_t pitch, char *base, int64_t s1, int64_t s0,
                       whi_direction direction, int bytes, bool nontemporal) {
    if (s1 != 8) {
        whi_cross_tile(packed, pitch, base, s1, s0, direction, bytes);
        return;
    }
    __m512d r[8];
    for (int i = 0; i < 8; i++)
        r[i] = _mm512_loadu_pd(direction == WHI_PACK ? whi_at(base, i * s0) : packed + i * pitch);
    transpose(r);
    for (int i = 0; i < 8; i++) {
        char *to = direction == WHI_PACK ? packed + i * pitch : whi_at(base, i * s0);
        if (nontemporal)
            _mm512_stream_pd((double *)(void *)to, r[i]);
        else
            _mm512_storeu_pd(to, r[i]);
    }
}

static void tile_8_cached(char *packed, int64_t pitch, char *base, int64_t s1, int64_t s0,
                          whi_direction direction, int bytes) {
    tile_8(packed, pitch, base, s1, s0, direction, bytes, false);
}

static void tile_8_nontemporal(char *packed, int64_t pitch, char *base, int64_t s1, int64_t s0,
                               whi_direction direction, int bytes) {
    tile_8(packed, pitch, base, s1, s0, direction, bytes, true);
}

// The same with stores around the cache, for packed rows that are whole lines.  The caller fences.
WHI_KERNEL(cross_8_nontemporal) {
    bool lines = s1 == 8 && (uintptr_t)packed % LINE == 0 && n0 * 8 % LINE == 0;
    (void)leaf;
    return whi_cross(packed, base, n1, s1, n0, s0, WHI_PACK, 8,
                     lines ? tile_8_nontemporal : tile_8_cached);
}

WHI_SIZE_CLASSES(WHI_KERNELS_OF_SIZE)
WHI_CROSS_OF_SIZE(1, whi_cross_tile)
WHI_CROSS_OF_SIZE(2, whi_cross_tile)
WHI_CROSS_OF_SIZE(4, whi_cross_tile)
WHI_CROSS_OF_SIZE(8, tile_8_cached)
WHI_CROSS_OF_SIZE(16, whi_cross_tile)
WHI_WIDE_LISTS
WHI_COPY

WHI_KERNEL_SET(avx512, cross_8_nontemporal);
