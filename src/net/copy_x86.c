// SPDX-License-Identifier: BSD-3-Clause
//
// Copying with 32-byte moves, two cache lines a turn.
//
// The destination is aligned first: a store that crosses cache lines costs two, and nontemporal
// stores must not cross any.  Prefetching by hand was measured and made it slower.
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#include "net/copy.h"

enum { VECTOR = 32, BLOCK = 4 * VECTOR };

__attribute__((target("avx2"), always_inline)) static inline void store(__m256i *to, __m256i value,
                                                                        bool nontemporal) {
    if (nontemporal)
        _mm256_stream_si256(to, value);
    else
        _mm256_store_si256(to, value);
}

// `nontemporal` is a constant in both callers.
__attribute__((target("avx2"), always_inline)) static inline void
copy(unsigned char *to, const unsigned char *from, size_t size, bool nontemporal) {
    size_t head = -(uintptr_t)to % VECTOR;
    if (head > size)
        head = size;
    memcpy(to, from, head);
    to += head, from += head, size -= head;
    for (; size >= BLOCK; to += BLOCK, from += BLOCK, size -= BLOCK) {
        const __m256i_u *in = (const __m256i_u *)from;
        __m256i *out = (__m256i *)(void *)to;
        __m256i a = _mm256_loadu_si256(in), b = _mm256_loadu_si256(in + 1);
        __m256i c = _mm256_loadu_si256(in + 2), d = _mm256_loadu_si256(in + 3);
        store(out, a, nontemporal);
        store(out + 1, b, nontemporal);
        store(out + 2, c, nontemporal);
        store(out + 3, d, nontemporal);
    }
    memcpy(to, from, size);
}

__attribute__((target("avx2"))) static void copy_cached(void *to, const void *from, size_t size) {
    copy(to, from, size, false);
}

__attribute__((target("avx2"))) static void copy_past(void *to, const void *from, size_t size) {
    copy(to, from, size, true);
    // Nontemporal stores are ordered by nothing else, and a release store may follow.
    _mm_sfence();
}

static bool has_avx2(void) {
    return __builtin_cpu_supports("avx2");
}

void whi_copy_large(void *to, const void *from, size_t size) {
    if (has_avx2())
        copy_cached(to, from, size);
    else
        memcpy(to, from, size);
}

void whi_copy_nontemporal(void *to, const void *from, size_t size) {
    if (has_avx2())
        copy_past(to, from, size);
    else
        memcpy(to, from, size);
}
