// SPDX-License-Identifier: BSD-3-Clause
//
// Streaming copies for x86: whole lines of non-temporal stores.
//
// Sixteen bytes per store are enough, since the processor gathers the stores of a line; what counts is
// that they are consecutive and that no line is left half written, so the ends go the usual way.
#include <emmintrin.h>
#include <string.h>

#include "type/kernels/kernels.h"

void whi_stream_copy(char *to, const char *from, int64_t size) {
    enum { LINE = 64 };
    int64_t head = (int64_t)(-(uintptr_t)to % LINE);
    head = head < size ? head : size;
    memcpy(to, from, (size_t)head);
    int64_t at = head;
    for (; at + LINE <= size; at += LINE) {
        const __m128i *in = (const __m128i *)(const void *)(from + at);
        __m128i *out = (__m128i *)(void *)(to + at);
        __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1);
        __m128i c = _mm_loadu_si128(in + 2), d = _mm_loadu_si128(in + 3);
        _mm_stream_si128(out, a);
        _mm_stream_si128(out + 1, b);
        _mm_stream_si128(out + 2, c);
        _mm_stream_si128(out + 3, d);
    }
    memcpy(to + at, from + at, (size_t)(size - at));
}

void whi_stream_fence(void) {
    _mm_sfence();
}
