// SPDX-License-Identifier: BSD-3-Clause
//
// Nontemporal stores for x86: copies and rows that go around the cache.
//
// Each run goes from its place straight into nontemporal stores; a window in between, tried first,
// takes turns between reading and writing and loses a third.  Stores of 16 bytes are enough (of 8 they
// are not), since the processor gathers the stores of a line as long as they are consecutive, and
// they are: the packed side has no gaps.  For long runs a prefetch follows the stride, because nothing else asks for
// the next run while stores drain.
#include <emmintrin.h>
#include <string.h>

#include "type/kernels/kernels.h"

enum {
    LINE = 64,
    AHEAD = 2048,         // packed bytes by which a prefetch runs ahead
    SCATTER_LEAST = 512,  // a shorter run is mostly the lines at its ends
};

static inline void nontemporal_line(char *to, const char *from) {
    const __m128i *in = (const __m128i *)(const void *)from;
    __m128i *out = (__m128i *)(void *)to;
    __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1);
    __m128i c = _mm_loadu_si128(in + 2), d = _mm_loadu_si128(in + 3);
    _mm_stream_si128(out, a);
    _mm_stream_si128(out + 1, b);
    _mm_stream_si128(out + 2, c);
    _mm_stream_si128(out + 3, d);
}

void whi_nontemporal_copy(char *to, const char *from, int64_t size) {
    int64_t head = (int64_t)(-(uintptr_t)to % LINE);
    head = head < size ? head : size;
    memcpy(to, from, (size_t)head);
    int64_t at = head;
    for (; at + LINE <= size; at += LINE)
        nontemporal_line(to + at, from + at);
    memcpy(to + at, from + at, (size_t)(size - at));
}

void whi_nontemporal_fence(void) {
    _mm_sfence();
}

static inline void nontemporal_word(char *to, const char *from) {
    long long word;
    memcpy(&word, from, sizeof(word));
    _mm_stream_si64((long long *)(void *)to, word);
}

// Runs of a multiple of 8 bytes.
static char *rows_8(const whi_leaf *leaf, char *packed, char *base, int64_t n1, int64_t s1,
                    int64_t n0, int64_t s0) {
    int64_t len = leaf->size;
    if ((uintptr_t)packed % 8)
        return leaf->move[WHI_PACK](leaf, packed, base, n1, s1, n0, s0);
    for (int64_t i = 0; i < n1; i++) {
        uintptr_t row = (uintptr_t)base + (uintptr_t)(i * s1);
        for (int64_t j = 0; j < n0; j++, row += (uintptr_t)s0, packed += len) {
            const char *from = (const char *)row;
            int64_t k = 0;
            if ((uintptr_t)packed % 16) {
                nontemporal_word(packed, from);
                k = 8;
            }
            for (; k + 16 <= len; k += 16)
                _mm_stream_si128((__m128i *)(void *)(packed + k),
                                 _mm_loadu_si128((const __m128i *)(const void *)(from + k)));
            if (k < len)
                nontemporal_word(packed + k, from + k);
        }
    }
    return packed;
}

// Runs of 8 bytes: two of them make a store, because stores of 8 are what limits the loop.
static char *rows_of_8(const whi_leaf *leaf, char *packed, char *base, int64_t n1, int64_t s1,
                       int64_t n0, int64_t s0) {
    if ((uintptr_t)packed % 8)
        return leaf->move[WHI_PACK](leaf, packed, base, n1, s1, n0, s0);
    for (int64_t i = 0; i < n1; i++) {
        uintptr_t run = (uintptr_t)base + (uintptr_t)(i * s1);
        int64_t j = 0;
        if ((uintptr_t)packed % 16) {
            nontemporal_word(packed, (const char *)run);
            run += (uintptr_t)s0;
            packed += 8;
            j = 1;
        }
        for (; j + 2 <= n0; j += 2, run += 2 * (uintptr_t)s0, packed += 16) {
            __m128d pair = _mm_load_sd((const double *)run);
            pair = _mm_loadh_pd(pair, (const double *)(run + (uintptr_t)s0));
            _mm_stream_pd((double *)(void *)packed, pair);
        }
        if (j < n0) {
            nontemporal_word(packed, (const char *)run);
            packed += 8;
        }
    }
    return packed;
}

// Runs of a multiple of 16 bytes.
static char *rows_16(const whi_leaf *leaf, char *packed, char *base, int64_t n1, int64_t s1,
                     int64_t n0, int64_t s0) {
    int64_t len = leaf->size;
    if ((uintptr_t)packed % 16)
        return rows_8(leaf, packed, base, n1, s1, n0, s0);
    for (int64_t i = 0; i < n1; i++) {
        uintptr_t row = (uintptr_t)base + (uintptr_t)(i * s1);
        for (int64_t j = 0; j < n0; j++, row += (uintptr_t)s0)
            for (int64_t k = 0; k < len; k += 16, packed += 16)
                _mm_stream_si128((__m128i *)(void *)packed,
                                 _mm_loadu_si128((const __m128i *)((const char *)row + k)));
    }
    return packed;
}

// Runs of whole lines.
static char *rows_64(const whi_leaf *leaf, char *packed, char *base, int64_t n1, int64_t s1,
                     int64_t n0, int64_t s0) {
    int64_t len = leaf->size;
    // Unsigned, because a stride may be so long that the distance means nothing.
    uintptr_t ahead = (uintptr_t)(len < AHEAD ? AHEAD / len : 1) * (uintptr_t)s0;
    if ((uintptr_t)packed % 16)
        return rows_8(leaf, packed, base, n1, s1, n0, s0);
    for (int64_t i = 0; i < n1; i++) {
        uintptr_t row = (uintptr_t)base + (uintptr_t)(i * s1);
        for (int64_t j = 0; j < n0; j++, row += (uintptr_t)s0)
            for (int64_t k = 0; k < len; k += LINE, packed += LINE) {
                // Beyond the last run this asks for a line in vain, or for none: it never faults.
                __builtin_prefetch((const char *)(row + ahead + (uintptr_t)k));
                nontemporal_line(packed, (const char *)row + k);
            }
    }
    return packed;
}

// Unpacks long runs: the lines at their ends, which others share, go through the cache.
static char *rows_scatter(const whi_leaf *leaf, char *packed, char *base, int64_t n1, int64_t s1,
                          int64_t n0, int64_t s0) {
    for (int64_t i = 0; i < n1; i++) {
        uintptr_t row = (uintptr_t)base + (uintptr_t)(i * s1);
        for (int64_t j = 0; j < n0; j++, row += (uintptr_t)s0, packed += leaf->size)
            whi_nontemporal_copy((char *)row, packed, leaf->size);
    }
    return packed;
}

// Unpacks short runs of whole lines, if they are lines of memory too.
static char *lines_scatter(const whi_leaf *leaf, char *packed, char *base, int64_t n1, int64_t s1,
                           int64_t n0, int64_t s0) {
    if (((uintptr_t)base | (uintptr_t)s1 | (uintptr_t)s0) % LINE)
        return leaf->move[WHI_UNPACK](leaf, packed, base, n1, s1, n0, s0);
    return rows_scatter(leaf, packed, base, n1, s1, n0, s0);
}

whi_kernel_fn *whi_nontemporal_rows(whi_direction direction, int64_t len) {
    if (direction == WHI_UNPACK)
        return len >= SCATTER_LEAST ? rows_scatter : len % LINE == 0 ? lines_scatter : NULL;
    if (len % LINE == 0)
        return rows_64;
    return len % 16 == 0 ? rows_16 : len == 8 ? rows_of_8 : len % 8 == 0 ? rows_8 : NULL;
}
