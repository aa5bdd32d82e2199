// SPDX-License-Identifier: BSD-3-Clause
//
// Numbers as people write them: sizes (8, 1K, 64M), durations (0.3s, 50ms), rates.
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

// bench_parse_uint reads a decimal number within [low, high].
bool bench_parse_uint(const char *text, uint64_t low, uint64_t high, uint64_t *value);

// bench_parse_seconds reads "0.3", "0.3s" or "300ms".
bool bench_parse_seconds(const char *text, double *seconds);

// bench_format_size writes the shortest exact form, such as "64K" or "1000"; it returns `text`.
char *bench_format_size(uint64_t size, char *text, size_t text_size);

// bench_format_bytes writes about three digits for reading, such as "1.5 GiB"; it returns `text`.
char *bench_format_bytes(double bytes, char *text, size_t text_size);

#endif
