// SPDX-License-Identifier: BSD-3-Clause
//
// See report.h.
#include "bench/report.h"

#include "bench/json.h"
#include "bench/text.h"

#include <inttypes.h>
#include <math.h>

// Others' share of one core from which figures are doubtful.
#define BUSY_SHARE 0.05

enum { BUFFERS_WIDTH = 16 };

void bench_report_machine(FILE *file, const bench_machine *machine, const int cores[2]) {
    fprintf(file, "%s, %d cores (%s), %s", machine->cpu, machine->cores, machine->caches,
            machine->kernel);
    if (cores[0] >= 0 && cores[1] >= 0)
        fprintf(file, "; on cores %d and %d", cores[0], cores[1]);
    else if (cores[0] >= 0)
        fprintf(file, "; on core %d", cores[0]);
    fputc('\n', file);
}

// Three significant digits, but never an exponent.
static void print_figure(FILE *file, double value) {
    int decimals = value >= 100 ? 1 : value >= 10 ? 2 : 3;
    fprintf(file, " %10.*f", decimals, value);
}

// Of Wherry's row: what ran in turns with it.  Of a peer's: that it is one, and how Wherry compares.
static void print_comparison(FILE *file, const bench_row *row) {
    if (row->peer) {
        fprintf(file, " %10s %6.2fx  (%s)", "", row->ratio, row->peer);
    } else if (row->bare) {
        print_figure(file, row->raw);
        fprintf(file, " %6.2fx  %s%s%s", row->ratio, row->bare, row->ucx ? " " : "",
                row->ucx ? row->ucx : "");
    }
}

// Whether the messages of any row are something else than bytes in host memory.
static bool has_buffers(const bench_row *rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (rows[i].layout.kind != BENCH_DENSE || rows[i].memory.kind > WH_MEM_HOST)
            return true;
    }
    return false;
}

static void print_buffers(FILE *file, const bench_row *row) {
    char layout[BENCH_LAYOUT_NAME], text[BENCH_LAYOUT_NAME + 16];
    bool host = row->memory.kind <= WH_MEM_HOST;
    snprintf(text, sizeof text, "%s%s%s", bench_layout_format(&row->layout, layout, sizeof layout),
             host ? "" : " ", host ? "" : row->memory.name);
    fprintf(file, "%-*s ", BUFFERS_WIDTH, text);
}

void bench_report_table(FILE *file, const bench_row *rows, size_t count) {
    bool wide = has_buffers(rows, count);
    fprintf(file, "%-7s %-9s %6s ", "test", "metric", "size");
    if (wide)
        fprintf(file, "%-*s ", BUFFERS_WIDTH, "buffers");
    fprintf(file, "%-7s %-9s %-5s %10s %10s %10s %10s %7s  %s\n", "lane", "mode", "unit", "median",
            "p99", "min", "raw", "ratio", "raw is");
    for (size_t i = 0; i < count; i++) {
        const bench_row *row = &rows[i];
        char size[24];
        fprintf(file, "%-7s %-9s %6s ", row->test, bench_metric_name(row->metric),
                bench_format_size(row->size, size, sizeof size));
        if (wide)
            print_buffers(file, row);
        fprintf(file, "%-7s %-9s %-5s", row->lane, row->mode, bench_metric_unit(row->metric));
        print_figure(file, row->stats.median);
        print_figure(file, row->stats.p99);
        print_figure(file, row->stats.min);
        print_comparison(file, row);
        fputc('\n', file);
    }
}

void bench_report_json(FILE *file, const bench_row *rows, size_t count) {
    bench_json json = bench_json_to(file);
    bench_json_open(&json, NULL, '[', false);
    for (size_t i = 0; i < count; i++) {
        const bench_row *row = &rows[i];
        char layout[BENCH_LAYOUT_NAME];
        bench_json_open(&json, NULL, '{', true);
        bench_json_string(&json, "test", row->test);
        bench_json_string(&json, "metric", bench_metric_name(row->metric));
        bench_json_int(&json, "size", (int64_t)row->size);
        bench_json_string(&json, "lane", row->lane);
        bench_json_string(&json, "mode", row->mode);
        bench_json_string(&json, "unit", bench_metric_unit(row->metric));
        bench_json_number(&json, "median", row->stats.median);
        bench_json_number(&json, "p99", row->stats.p99);
        bench_json_number(&json, "min", row->stats.min);
        bench_json_number(&json, "raw", row->bare ? row->raw : NAN);
        bench_json_number(&json, "ratio", row->ratio > 0 ? row->ratio : NAN);
        bench_json_string(&json, "ucx", row->ucx);
        bench_json_string(&json, "peer", row->peer);
        bench_json_string(&json, "layout",
                          bench_layout_format(&row->layout, layout, sizeof layout));
        bench_json_string(&json, "memory", row->memory.name);
        bench_json_int(&json, "device_parts", (int64_t)row->device_parts);
        bench_json_close(&json, '}');
    }
    bench_json_close(&json, ']');
}

void bench_report_load(FILE *file, const bench_load *from, const bench_load *to) {
    double others = bench_load_others(from, to);
    if (others > BUSY_SHARE)
        fprintf(file,
                "warning: the machine was busy: others used %.0f %% of a core during the run\n",
                100 * others);
}
