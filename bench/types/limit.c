// SPDX-License-Identifier: BSD-3-Clause
//
// The limit loop (limit.h).
#include "bench/types/limit.h"

#include <stdlib.h>
#include <wherry/pack.h>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

enum { LINE = 64, AHEAD = 32, BATCH = 512 };

typedef unsigned char line_bytes __attribute__((vector_size(64), aligned(64), may_alias));

const char *const bench_limit_names[BENCH_LIMITS] = {"st", "st+pf", "nt", "nt+pf"};

static bool add_lines(bench_limit *limit, unsigned char *seen, int64_t *room, uint64_t first,
                      uint64_t last) {
    for (uint64_t line = first; line <= last; line++) {
        if (seen[line / 8] & 1u << line % 8)
            continue;
        seen[line / 8] |= (unsigned char)(1u << line % 8);
        if (limit->lines == *room) {
            *room = *room ? 2 * *room : 1024;
            uint32_t *more = realloc(limit->line, (size_t)*room * sizeof(*more));
            if (!more)
                return false;
            limit->line = more;
        }
        limit->line[limit->lines++] = (uint32_t)line;
    }
    return true;
}

bool bench_limit_make(const wh_type *type, int64_t count, const char *memory, int64_t packed,
                      bench_limit *limit) {
    *limit = (bench_limit){.stores = (packed + LINE - 1) / LINE};
    struct iovec iov[BATCH];
    int64_t n, room = 0;
    unsigned char *seen =
        calloc((size_t)1 << 29, 1);  // for 2^32 lines; untouched pages cost nothing
    if (!seen)
        return false;
    bool ok = true;
    for (int64_t first = 0; ok; first += n) {
        ok = wh_iov(memory, count, type, first, iov, BATCH, &n) == WH_OK;
        for (int64_t i = 0; ok && i < n; i++) {
            uint64_t at = (uint64_t)((const char *)iov[i].iov_base - memory);
            ok = add_lines(limit, seen, &room, at / LINE, (at + iov[i].iov_len - 1) / LINE);
        }
        if (n == 0)
            break;
    }
    free(seen);
    return ok;
}

static inline __attribute__((always_inline)) void
run(const bench_limit *limit, const char *memory, char *packed, bool nontemporal, bool prefetch) {
    const line_bytes *from = (const void *)memory;
    line_bytes *to = (void *)packed;
    line_bytes sum = {0};
    (void)nontemporal;  // needs instructions that not every processor has
    int64_t done = 0, lines = limit->lines, stores = limit->stores;
    // Lines per store as a fixed-point number: no division inside.
    uint64_t step = ((uint64_t)lines << 24) / (uint64_t)stores, due = 0;
    for (int64_t i = 0; i < stores; i++) {
        due += step;
        int64_t until = i + 1 < stores ? (int64_t)(due >> 24) : lines;
        for (; done < until; done++) {
            if (prefetch && done + AHEAD < lines)
                __builtin_prefetch(&from[limit->line[done + AHEAD]]);
            sum += from[limit->line[done]];
        }
#if defined(__AVX512F__)
        if (nontemporal) {
            _mm512_stream_si512((void *)&to[i], (__m512i)sum);
            continue;
        }
#endif
        to[i] = sum;
    }
#if defined(__AVX512F__)
    if (nontemporal)
        _mm_sfence();
#endif
}

void bench_limit_run(const bench_limit *limit, int kind, const char *memory, char *packed) {
    switch (kind) {
    case 0: run(limit, memory, packed, false, false); return;
    case 1: run(limit, memory, packed, false, true); return;
    case 2: run(limit, memory, packed, true, false); return;
    default: run(limit, memory, packed, true, true); return;
    }
}

void bench_limit_free(bench_limit *limit) {
    free(limit->line);
    *limit = (bench_limit){0};
}
