// SPDX-License-Identifier: BSD-3-Clause
//
// See json.h.
#include "bench/json.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>

static void write_text(bench_json *json, const char *text) {
    fputc('"', json->file);
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(json->file, "\\%c", *c);
        else if ((unsigned char)*c < 0x20)
            fprintf(json->file, "\\u%04x", (unsigned)(unsigned char)*c);
        else
            fputc(*c, json->file);
    }
    fputc('"', json->file);
}

static void new_line(bench_json *json) {
    if (json->inside[json->depth])
        return;
    fprintf(json->file, "\n%*s", 2 * json->depth, "");
}

// What stands before a value: a comma, a new line, its key.
static void begin(bench_json *json, const char *key) {
    if (json->more[json->depth])
        fputs(json->inside[json->depth] ? ", " : ",", json->file);
    if (json->depth > 0)
        new_line(json);
    json->more[json->depth] = true;
    if (key) {
        write_text(json, key);
        fputs(": ", json->file);
    }
}

void bench_json_open(bench_json *json, const char *key, char open, bool one_line) {
    assert(json->depth < BENCH_JSON_DEPTH);
    begin(json, key);
    fputc(open, json->file);
    bool inside = one_line || json->inside[json->depth];
    json->depth++;
    json->more[json->depth] = false;
    json->inside[json->depth] = inside;
}

void bench_json_close(bench_json *json, char close) {
    assert(json->depth > 0);
    bool line = json->more[json->depth] && !json->inside[json->depth];
    json->depth--;
    if (line)
        fprintf(json->file, "\n%*s", 2 * json->depth, "");
    fputc(close, json->file);
    if (json->depth == 0)
        fputc('\n', json->file);
}

void bench_json_string(bench_json *json, const char *key, const char *value) {
    begin(json, key);
    if (value)
        write_text(json, value);
    else
        fputs("null", json->file);
}

void bench_json_int(bench_json *json, const char *key, int64_t value) {
    begin(json, key);
    fprintf(json->file, "%" PRId64, value);
}

void bench_json_bool(bench_json *json, const char *key, bool value) {
    begin(json, key);
    fputs(value ? "true" : "false", json->file);
}

void bench_json_null(bench_json *json, const char *key) {
    begin(json, key);
    fputs("null", json->file);
}

void bench_json_number(bench_json *json, const char *key, double value) {
    begin(json, key);
    if (isfinite(value))
        fprintf(json->file, "%.6g", value);
    else
        fputs("null", json->file);
}
