// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of the measuring library's pure parts: a benchmark that computes its figures wrongly is worse
// than none.
#include "bench/buffers.h"
#include "bench/expect.h"
#include "bench/json.h"
#include "bench/stats.h"
#include "bench/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool near(double a, double b) {
    double difference = a > b ? a - b : b - a;
    return difference <= 0.002 * (b > 0 ? b : 1);
}

static void test_sizes(void) {
    uint64_t size = 99;
    char text[32];
    EXPECT(bench_parse_size("8", &size) && size == 8);
    EXPECT(bench_parse_size("64K", &size) && size == 65536);
    EXPECT(bench_parse_size("1mib", &size) && size == 1 << 20);
    EXPECT(bench_parse_size("3GB", &size) && size == UINT64_C(3) << 30);
    size = 99;
    EXPECT(!bench_parse_size("", &size) && !bench_parse_size("-1", &size));
    EXPECT(!bench_parse_size("1KK", &size) && !bench_parse_size("1.5M", &size));
    EXPECT(!bench_parse_size("99999999999999T", &size) && size == 99);
    EXPECT(strcmp(bench_format_size(65536, text, sizeof text), "64K") == 0);
    EXPECT(strcmp(bench_format_size(1000, text, sizeof text), "1000") == 0);
    EXPECT(strcmp(bench_format_size(0, text, sizeof text), "0") == 0);
}

// Percentiles of 1..n are known; the bins must not be further off than they promise.
static void test_histogram(void) {
    bench_hist *hist = calloc(1, sizeof *hist);
    for (uint64_t value = 1; value <= 1000000; value++)
        bench_hist_add(hist, value);
    bench_stats stats = bench_hist_stats(hist, 2);
    EXPECT(near(stats.median, 1000000) && near(stats.p99, 1980000) && near(stats.min, 2));
    bench_hist_clear(hist);
    bench_hist_add(hist, UINT64_MAX);
    EXPECT(near(bench_hist_stats(hist, 1).median, 18446744073709551615.0));
    bench_hist_clear(hist);
    EXPECT(bench_hist_stats(hist, 1).median <= 0);
    free(hist);
}

static void test_summaries(void) {
    double rates[] = {5, 1, 4, 2, 3};
    bench_stats stats = bench_stats_of_rates(rates, 5);
    EXPECT(near(stats.median, 3) && near(stats.p99, 1) && near(stats.min, 1));
    bench_stats runs[] = {{1, 9, 0.5}, {2, 8, 0.7}, {90, 99, 80}};  // the last was disturbed
    stats = bench_stats_of_runs(runs, 3);
    EXPECT(near(stats.median, 2) && near(stats.p99, 9) && near(stats.min, 0.5));
    double even[] = {4, 1, 2, 3};
    EXPECT(near(bench_median(even, 4), 2.5));
}

static void test_json(void) {
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    bench_json json = bench_json_to(file);
    bench_json_open(&json, NULL, '[', false);
    bench_json_open(&json, NULL, '{', true);
    bench_json_string(&json, "a\"\n", "x\\");
    bench_json_number(&json, "n", 0.5);
    bench_json_number(&json, "bad", HUGE_VAL);
    bench_json_close(&json, '}');
    bench_json_null(&json, NULL);
    bench_json_close(&json, ']');
    fclose(file);
    const char *want =
        "[\n  {\"a\\\"\\u000a\": \"x\\\\\", \"n\": 0.5, \"bad\": null},\n  null\n]\n";
    EXPECT(strcmp(text, want) == 0);
    free(text);
}

static void test_layout_names(void) {
    static const char *const good[][2] = {{"dense", "dense"},
                                          {"vector", "vector:8:16"},
                                          {"vector:24", "vector:24:48"},
                                          {"struct", "struct"},
                                          {"indexed:2:2", "indexed:2:2"},
                                          {"transposed", "transposed:8"},
                                          {"vector:1:9", "vector:1:9"},
                                          {"subarray", "subarray:64:128"},
                                          {"transposed:3", "transposed:3"}};
    static const char *const bad[] = {"",
                                      "none",
                                      "vector:",
                                      "vector:0:3",
                                      "vector:9:8",
                                      "vector:8:16:",
                                      "vector:8:16:1",
                                      "dense:8",
                                      "struct:8:16",
                                      "transposed:8:16",
                                      "vectorx",
                                      "vector:8:9999999",
                                      "vector:8x",
                                      "vector:8:16x",
                                      "vector:8:0",
                                      "vector: 8",
                                      "vector:+8",
                                      "vector:8,",
                                      "dense "};
    bench_layout layout;
    char text[BENCH_LAYOUT_NAME];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        EXPECT(bench_layout_parse(good[i][0], &layout));
        EXPECT(strcmp(bench_layout_format(&layout, text, sizeof text), good[i][1]) == 0);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        EXPECT(!bench_layout_parse(bad[i], &layout));
}

// Each layout has as many packed bytes as it should, inside its span; what is unpacked stands where it
// came from, and a byte that stands elsewhere is noticed.
static void test_layout(const char *name, uint64_t size) {
    bench_layout layout;
    bench_buffers buffers = {.kind = WH_MEM_HOST};
    wh_type_info info = {.size = sizeof info};
    EXPECT(bench_layout_parse(name, &layout) && bench_layout_fits(&layout, size));
    EXPECT(bench_buffers_fit(&buffers, &layout, size, true) == WH_OK);
    EXPECT(wh_type_get_info(buffers.type, &info) == WH_OK);
    EXPECT((uint64_t)info.packed_size * buffers.count == size);
    EXPECT(info.true_lb >= 0 &&
           info.true_extent + info.extent * ((int64_t)buffers.count - 1) <= (int64_t)buffers.span);
    EXPECT(bench_buffers_mark(&buffers) == WH_OK);
    EXPECT(bench_buffers_verify(&buffers) == WH_EPROTOCOL);
    EXPECT(bench_buffers_pack(&buffers) == WH_OK);
    memcpy(buffers.packed_in, buffers.packed_out, size);
    char *marked = bench_buffers_marked(&buffers);
    EXPECT(marked && memcmp(marked, buffers.packed_out, size) == 0);
    EXPECT(bench_buffers_unpack(&buffers) == WH_OK && bench_buffers_verify(&buffers) == WH_OK);
    buffers.packed_in[size / 2] ^= 1;
    EXPECT(bench_buffers_unpack(&buffers) == WH_OK);
    EXPECT(bench_buffers_verify(&buffers) == WH_EPROTOCOL);
    free(marked);
    bench_buffers_free(&buffers);
}

static void test_layouts(void) {
    static const char *const names[] = {
        "vector",       "vector:3:5", "vector:12:20",  "subarray",     "struct",      "indexed",
        "indexed:2:64", "transposed", "transposed:24", "subarray:4:6", "vector:48:48"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        test_layout(names[i], 192);
        test_layout(names[i], 3 * 65536);
    }
    bench_layout layout;
    EXPECT(bench_layout_parse("vector", &layout));
    EXPECT(!bench_layout_fits(&layout, 12) && !bench_layout_fits(&layout, 0));
    EXPECT(bench_layout_parse("vector:1:1000000", &layout));
    EXPECT(!bench_layout_fits(&layout, 1 << 20));
}

int main(void) {
    test_sizes();
    test_layout_names();
    test_layouts();
    test_histogram();
    test_summaries();
    test_json();
    printf("%s\n", failures ? "failed" : "passed");
    return failures != 0;
}
