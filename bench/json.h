// SPDX-License-Identifier: BSD-3-Clause
//
// A writer of JSON: it puts commas and line ends where they belong, and escapes strings.
//
// Calls nest as the values do.  Inside an object each value takes a key, inside a list the key is
// NULL.  One thread uses a writer; the file stays the caller's.
#ifndef BENCH_JSON_H
#define BENCH_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { BENCH_JSON_DEPTH = 15 };

typedef struct bench_json {
    FILE *file;
    int depth;
    bool more[BENCH_JSON_DEPTH + 1];    // whether the level has a value already
    bool inside[BENCH_JSON_DEPTH + 1];  // whether the level stands on one line
} bench_json;

static inline bench_json bench_json_to(FILE *file) {
    return (bench_json){.file = file};
}

// open: '{' or '['; one_line keeps the level and all below it on a line.
void bench_json_open(bench_json *json, const char *key, char open, bool one_line);
void bench_json_close(bench_json *json, char close);
void bench_json_string(bench_json *json, const char *key, const char *value);  // NULL: null
void bench_json_int(bench_json *json, const char *key, int64_t value);
void bench_json_bool(bench_json *json, const char *key, bool value);
void bench_json_null(bench_json *json, const char *key);

// bench_json_number writes six significant digits; what is no finite number is null.
void bench_json_number(bench_json *json, const char *key, double value);

#endif
