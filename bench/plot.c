// SPDX-License-Identifier: BSD-3-Clause
//
// See plot.h.  Rows become points of series; a series has one name, colour and mark in all panels.
//
// Colours are those that people with any colour vision tell apart; Wherry's lines are whole and
// thick, all others dashed, so that the picture also works in grey.
#include "bench/plot.h"

#include "bench/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LATENCY, BANDWIDTH, SIDES };
enum { PANELS_MAX = SIDES * BENCH_LAYOUTS_MAX };
enum { SERIES_MAX = 24, COLOURS = 8, SHAPES = 4, DASHES = 3 };
// In pixels: a panel's box, what stands left of and above it, and a line of the legend.
enum { WIDTH = 400, HEIGHT = 330, LEFT = 70, TOP = 62, GAP = 40, BELOW = 62, LINE = 20, KEY = 240 };
enum { CAPTION = 22, ROW = HEIGHT + BELOW };  // a layout's name above its box, a row of panels

typedef struct point {
    int panel, series;
    double x, y;
} point;

typedef struct series {
    char name[64];
    bool ours;
} series;

// Both axes in powers: of 2 across, of 10 upwards.
typedef struct panel {
    bench_layout layout;
    int side;          // LATENCY or BANDWIDTH
    double left, top;  // of the box
    int low_x, high_x, low_y, high_y;
} panel;

typedef struct plot {
    FILE *file;
    panel panels[PANELS_MAX];
    int panel_count, columns;
    bool sides[SIDES];  // there are figures of
    bool captions;      // there are layouts to name
    series series[SERIES_MAX];
    int series_count;
    point *points;
    size_t count;
} plot;

static const char *const colours[COLOURS] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                             "#e69f00", "#56b4e9", "#6a3d9a", "#444444"};
static const char *const dashes[DASHES] = {"6 3", "2 3", "8 3 2 3"};

static void put_text(FILE *file, const char *text) {
    for (; *text; text++) {
        if (*text == '<' || *text == '>' || *text == '&')
            fprintf(file, "&#%d;", *text);
        else
            fputc(*text, file);
    }
}

static void label(FILE *file, double x, double y, const char *style, const char *text) {
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\"%s%s>", x, y, *style ? " " : "", style);
    put_text(file, text);
    fputs("</text>\n", file);
}

// From rows to points.

static int series_of(plot *to, const char *name, bool ours) {
    for (int i = 0; i < to->series_count; i++) {
        if (strcmp(to->series[i].name, name) == 0)
            return i;
    }
    if (to->series_count == SERIES_MAX)
        return -1;
    series *one = &to->series[to->series_count];
    snprintf(one->name, sizeof one->name, "%s", name);
    one->ours = ours;
    return to->series_count++;
}

static int side_of(const bench_row *row) {
    return row->metric == BENCH_LATENCY ? LATENCY : BANDWIDTH;
}

// The panel of a layout's latency or bandwidth; -1 when there are too many.  A layout that is new gets
// all of its panels at once, so that they stand side by side.
static int panel_of(plot *to, const bench_layout *layout, int side) {
    for (int i = 0; i < to->panel_count; i++) {
        const panel *one = &to->panels[i];
        if (one->side == side && memcmp(&one->layout, layout, sizeof *layout) == 0)
            return i;
    }
    int found = -1;
    for (int one = 0; one < SIDES && to->panel_count < PANELS_MAX; one++) {
        if (!to->sides[one])
            continue;
        if (one == side)
            found = to->panel_count;
        to->panels[to->panel_count++] = (panel){.layout = *layout, .side = one};
    }
    return found;
}

// The first figure of a series and size counts: a yardstick stands in the rows of several tests.
static void add(plot *to, int which, const char *name, bool ours, double x, double y) {
    int found = series_of(to, name, ours);
    if (found < 0 || !(x > 0) || !(y > 0))
        return;
    for (size_t i = 0; i < to->count; i++) {
        const point *old = &to->points[i];
        if (old->series == found && old->panel == which && !(old->x < x) && !(old->x > x))
            return;
    }
    to->points[to->count++] = (point){which, found, x, y};
}

static void add_row(plot *to, const bench_row *row) {
    char name[64], raw[64];
    const char *ways = row->metric == BENCH_BIDIR ? ", both ways" : "";
    bool rate = row->metric == BENCH_RATE, host = row->memory.kind <= WH_MEM_HOST;
    int which = panel_of(to, &row->layout, side_of(row));
    double x = (double)row->size, scale = rate ? x * 1e6 / 1e9 : 1;
    if (which < 0)
        return;
    if (row->peer)
        snprintf(name, sizeof name, "%s%s", row->peer, ways);
    else
        snprintf(name, sizeof name, "Wherry %s%s%s%s", row->test, ways, host ? "" : ", ",
                 host ? "" : row->memory.name);
    add(to, which, name, !row->peer, x, row->stats.median * scale);
    if (!row->bare)
        return;
    // "ucx put" is a test of its own, but the better one of messages changes with the size.
    bool messages = !bench_kind_find(row->test)->remote;
    if (row->layout.kind != BENCH_DENSE)
        snprintf(raw, sizeof raw, "%s, packed by the program%s", row->test, ways);
    else if (row->ucx)
        snprintf(raw, sizeof raw, "ucx %s%s%s", row->ucx, messages ? "" : " ",
                 messages ? "" : row->test);
    else
        snprintf(raw, sizeof raw, "bare %s%s", row->bare, ways);
    add(to, which, raw, false, x, row->raw * scale);
}

static int compare_points(const void *a, const void *b) {
    const point *p = a, *q = b;
    if (p->panel != q->panel)
        return p->panel - q->panel;
    if (p->series != q->series)
        return p->series - q->series;
    return (p->x > q->x) - (p->x < q->x);
}

// Rates come last, because a bandwidth that was measured is better than one derived.
static bool gather(plot *to, const bench_row *rows, size_t count) {
    to->points = calloc(2 * count + 1, sizeof *to->points);
    if (!to->points)
        return false;
    for (size_t i = 0; i < count; i++)
        to->sides[side_of(&rows[i])] = true;
    for (int rates = 0; rates < 2; rates++) {
        for (size_t i = 0; i < count; i++) {
            if ((rows[i].metric == BENCH_RATE) == rates)
                add_row(to, &rows[i]);
        }
    }
    qsort(to->points, to->count, sizeof *to->points, compare_points);
    return true;
}

// Axes.

static panel frame_of(const plot *of, int which) {
    panel box = of->panels[which];
    int column = which % of->columns, row = which / of->columns;
    box.left = LEFT + column * (WIDTH + LEFT + GAP);
    box.top = TOP + row * (ROW + CAPTION) + (of->captions ? CAPTION : 0);
    double low_x = HUGE_VAL, high_x = 0, low_y = HUGE_VAL, high_y = 0;
    for (size_t i = 0; i < of->count; i++) {
        const point *at = &of->points[i];
        low_x = fmin(low_x, at->x);  // of both panels, so that they stand side by side
        high_x = fmax(high_x, at->x);
        if (at->panel != which)
            continue;
        low_y = fmin(low_y, at->y);
        high_y = fmax(high_y, at->y);
    }
    box.low_x = (int)floor(log2(low_x));
    box.high_x = (int)ceil(log2(high_x));
    box.low_y = (int)floor(log10(low_y));
    box.high_y = (int)ceil(log10(high_y));
    box.high_x += box.high_x == box.low_x;
    box.high_y += box.high_y == box.low_y;
    return box;
}

static double place_x(const panel *box, double x) {
    return box->left + WIDTH * (log2(x) - box->low_x) / (box->high_x - box->low_x);
}

static double place_y(const panel *box, double y) {
    return box->top + HEIGHT * (box->high_y - log10(y)) / (box->high_y - box->low_y);
}

static void draw_line(FILE *file, double x1, double y1, double x2, double y2, const char *colour) {
    fprintf(file, "<path fill=\"none\" d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"%s\"/>\n", x1, y1, x2,
            y2, colour);
}

static void draw_x_axis(FILE *file, const panel *box) {
    enum { TICKS = 9 };
    int step = (box->high_x - box->low_x + TICKS - 1) / TICKS;
    for (int power = box->low_x; power <= box->high_x; power += step) {
        char text[24];
        double x = place_x(box, exp2(power));
        draw_line(file, x, box->top, x, box->top + HEIGHT, "#dddddd");
        bench_format_size(UINT64_C(1) << power, text, sizeof text);
        label(file, x, box->top + HEIGHT + 18, "text-anchor=\"middle\"", text);
    }
    label(file, box->left + WIDTH / 2.0, box->top + HEIGHT + 40, "text-anchor=\"middle\"",
          "size (bytes)");
}

static void draw_y_axis(FILE *file, const panel *box, const char *title) {
    for (int power = box->low_y; power <= box->high_y; power++) {
        char text[24];
        double y = place_y(box, pow(10, power));
        for (int i = 2; i < 10 && power < box->high_y; i++) {
            double minor = place_y(box, i * pow(10, power));
            draw_line(file, box->left, minor, box->left + WIDTH, minor, "#f1f1f1");
        }
        draw_line(file, box->left, y, box->left + WIDTH, y, "#cccccc");
        snprintf(text, sizeof text, "%.*f", power < 0 ? -power : 0, pow(10, power));
        label(file, box->left - 8, y + 4, "text-anchor=\"end\"", text);
    }
    fprintf(
        file,
        "<text transform=\"translate(%.1f %.0f) rotate(-90)\" text-anchor=\"middle\">%s</text>\n",
        box->left - 50, box->top + HEIGHT / 2.0, title);
}

// Lines.

static const char *colour_of(int which) {
    return colours[which % COLOURS];
}

static void draw_mark(FILE *file, int which, double x, double y) {
    fprintf(file, "<path fill=\"%s\" d=\"M%.1f %.1f", colour_of(which), x, y);
    switch (which % SHAPES) {
    case 0: fputs("m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z\"/>\n", file); break;
    case 1: fputs("m-3.5 -3.5h7v7h-7z\"/>\n", file); break;
    case 2: fputs("m0 -5l4.5 8h-9z\"/>\n", file); break;
    default: fputs("m0 -5l5 5l-5 5l-5 -5z\"/>\n", file); break;
    }
}

// How the line of a series looks; the path's coordinates follow.
static void begin_stroke(const plot *of, int which) {
    fprintf(of->file, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"%s\"", colour_of(which),
            of->series[which].ours ? "2.5" : "1.5");
    if (!of->series[which].ours)
        fprintf(of->file, " stroke-dasharray=\"%s\"", dashes[which % DASHES]);
    fputs(" d=\"", of->file);
}

static void draw_series(const plot *of, const panel *box, int panel_index, int which) {
    const point *points = of->points;
    bool any = false;
    for (int marks = 0; marks < 2; marks++) {
        for (size_t i = 0; i < of->count; i++) {
            if (points[i].panel != panel_index || points[i].series != which)
                continue;
            double x = place_x(box, points[i].x), y = place_y(box, points[i].y);
            if (marks) {
                draw_mark(of->file, which, x, y);
                continue;
            }
            if (!any)
                begin_stroke(of, which);
            fprintf(of->file, "%s%.1f %.1f", any ? "L" : "M", x, y);
            any = true;
        }
        if (any && !marks)
            fputs("\"/>\n", of->file);
    }
}

static void draw_panel(const plot *of, int which) {
    static const char *const titles[] = {"latency (us), lower is better",
                                         "bandwidth (GB/s), higher is better"};
    bool any = false;
    for (size_t i = 0; i < of->count; i++)
        any |= of->points[i].panel == which;
    if (!any)
        return;
    panel box = frame_of(of, which);
    if (of->captions) {
        char layout[BENCH_LAYOUT_NAME];
        label(of->file, box.left, box.top - 8, "font-weight=\"bold\"",
              bench_layout_format(&box.layout, layout, sizeof layout));
    }
    draw_y_axis(of->file, &box, titles[box.side]);
    draw_x_axis(of->file, &box);
    for (int i = of->series_count - 1; i >= 0; i--)  // the first lie on top
        draw_series(of, &box, which, i);
}

static void draw_legend(const plot *of, int columns, double top) {
    for (int i = 0; i < of->series_count; i++) {
        double x = LEFT + (i % columns) * KEY;
        int row = i / columns;
        double y = top + LINE * row;
        begin_stroke(of, i);
        fprintf(of->file, "M%.1f %.1fh36\"/>\n", x, y);
        draw_mark(of->file, i, x + 18, y);
        label(of->file, x + 44, y + 4, "", of->series[i].name);
    }
}

// Latency and bandwidth side by side where there are both, else up to three layouts in a row.
static void place_panels(plot *of) {
    bool both = of->sides[LATENCY] && of->sides[BANDWIDTH];
    for (int i = 0; i < of->panel_count; i++)
        of->captions |= of->panels[i].layout.kind != BENCH_DENSE;
    of->columns = both || of->panel_count < 3 ? 2 : 3;
}

// Where the legend begins.
static int bottom_of(const plot *of) {
    int rows = of->panel_count ? (of->panel_count + of->columns - 1) / of->columns : 1;
    return TOP + rows * ROW + (of->captions ? rows : rows - 1) * CAPTION;
}

void bench_plot_svg(FILE *file, const bench_row *rows, size_t count, const bench_machine *machine) {
    char title[400];
    plot all = {.file = file};
    if (!gather(&all, rows, count))
        return;
    place_panels(&all);
    int across = all.columns > 2 ? all.columns : 2, columns = 2 * across;
    int width = across * (LEFT + WIDTH) + (across - 1) * GAP + 30;
    int lines = (all.series_count + columns - 1) / columns;
    int legend = bottom_of(&all), height = legend + LINE * lines + 6;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "height=\"%d\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#222222\">\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n",
            width, height, width, height, width, height);
    snprintf(title, sizeof title, "wherry perf: lane %s, mode %s", count ? rows[0].lane : "none",
             count ? rows[0].mode : "none");
    label(file, LEFT, 24, "font-size=\"16\"", title);
    snprintf(title, sizeof title, "%s, %d cores (%s), %s", machine->cpu, machine->cores,
             machine->caches, machine->kernel);
    label(file, LEFT, 44, "font-size=\"11\" fill=\"#666666\"", title);
    for (int which = 0; which < all.panel_count; which++)
        draw_panel(&all, which);
    draw_legend(&all, columns, legend);
    fputs("</svg>\n", file);
    free(all.points);
}
