// SPDX-License-Identifier: BSD-3-Clause
//
// Sizes as people write them: 8, 1K, 64M.
//
// Pure functions; any thread may call them.
#ifndef BENCH_TEXT_H
#define BENCH_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// bench_parse_size reads "64K": digits and one of K, M, G, T (powers of 1024, any case), with an
// optional B or iB behind it.  False, and nothing written, for anything else or an overflow.
bool bench_parse_size(const char *text, uint64_t *size);

// bench_format_size writes the shortest exact form, such as "64K" or "1000"; it returns `text`.
char *bench_format_size(uint64_t size, char *text, size_t text_size);

#endif
