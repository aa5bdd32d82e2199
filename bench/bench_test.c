// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of the measuring library's pure parts: a benchmark that computes its figures wrongly is worse
// than none.
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

int main(void) {
    test_sizes();
    test_histogram();
    test_summaries();
    test_json();
    printf("%s\n", failures ? "failed" : "passed");
    return failures != 0;
}
