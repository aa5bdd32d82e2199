// SPDX-License-Identifier: BSD-3-Clause
//
// Numbers on the command line and in what the command says.  Pure functions, but for cli_read_line.
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// cli_parse_uint reads a decimal number within [low, high].  Functions that return false write
// nothing.
bool cli_parse_uint(const char *text, uint64_t low, uint64_t high, uint64_t *value);

// cli_parse_seconds reads "30", "30s" or "500ms".
bool cli_parse_seconds(const char *text, double *seconds);

// cli_format_bytes writes about three digits, such as "1.50 GiB"; it returns `text`.
char *cli_format_bytes(double bytes, char *text, size_t size);

// cli_read_line reads the first line of a file, such as one in /proc, without its end.
bool cli_read_line(const char *path, char *text, size_t size);

#endif
