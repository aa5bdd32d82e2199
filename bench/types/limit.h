// SPDX-License-Identifier: BSD-3-Clause
//
// The limit loop: what the memory allows.  It loads each distinct cache line of a layout once, in the
// order of first use, and stores the packed bytes, but never arranges them.
#ifndef BENCH_TYPES_LIMIT_H
#define BENCH_TYPES_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include <wherry/type.h>

typedef struct bench_limit {
    uint32_t *line;  // number of each distinct line, counted from the memory's first
    int64_t lines;
    int64_t stores;  // packed lines
} bench_limit;

enum { BENCH_LIMITS = 4 };  // plain or nontemporal stores, without or with prefetch
extern const char *const bench_limit_names[BENCH_LIMITS];

// bench_limit_make lists the lines of `count` elements in `memory`, which must be 64-byte aligned.
bool bench_limit_make(const wh_type *type, int64_t count, const char *memory, int64_t packed,
                      bench_limit *limit);
void bench_limit_run(const bench_limit *limit, int kind, const char *memory, char *packed);
void bench_limit_free(bench_limit *limit);

#endif
