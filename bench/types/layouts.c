// SPDX-License-Identifier: BSD-3-Clause
//
// The table of layouts.  Random ones come from a fixed generator, so every run measures the same.
#include "bench/types/layouts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX = 80, STRUCT_EXTENT = 24, STRUCT_SIZE = 15 };

// What the user would write without a library.  Compiled with the best flags for this machine.
static void loop_nest(const bench_layout *l, const char *memory, char *packed) {
    const double *from = (const double *)memory + l->start;
    double *to = (double *)packed;
    int64_t n[4] = {1, 1, 1, 1}, s[4] = {0, 0, 0, 0};
    const int64_t b = l->block;
    for (int d = 0; d < l->ndims; d++) {
        n[4 - l->ndims + d] = l->n[d];
        s[4 - l->ndims + d] = l->stride[d];
    }
    for (int64_t i = 0; i < n[0]; i++)
        for (int64_t j = 0; j < n[1]; j++)
            for (int64_t k = 0; k < n[2]; k++) {
                const double *row = from + i * s[0] + j * s[1] + k * s[2];
                if (b == 1)
                    for (int64_t m = 0; m < n[3]; m++)
                        *to++ = row[m * s[3]];
                else
                    for (int64_t m = 0; m < n[3]; m++)
                        for (int64_t x = 0; x < b; x++)
                            *to++ = row[m * s[3] + x];
            }
}

static void loop_blocks(const bench_layout *l, const char *memory, char *packed) {
    const double *from = (const double *)memory;
    double *to = (double *)packed;
    if (!l->lengths) {
        for (int64_t i = 0; i < l->blocks; i++)
            *to++ = from[l->displacements[i]];
        return;
    }
    for (int64_t i = 0; i < l->blocks; i++)
        for (int j = 0; j < l->lengths[i]; j++)
            *to++ = from[l->displacements[i] + j];
}

static void loop_struct(const bench_layout *l, const char *memory, char *packed) {
    for (int64_t i = 0; i < l->blocks; i++, memory += STRUCT_EXTENT, packed += STRUCT_SIZE) {
        memcpy(packed, memory, 4);
        memcpy(packed + 4, memory + 8, 8);
        memcpy(packed + 12, memory + 16, 3);
    }
}

static bench_type build_subarray(const bench_layout *l, const bench_engine *e, int64_t *count) {
    int n = 0;
    while (n < BENCH_DIMS && l->sizes[n])
        n++;
    *count = 1;
    return e->subarray(n, l->sizes, l->subsizes, l->starts, e->basic('d'));
}

static bench_type build_vector(const bench_layout *l, const bench_engine *e, int64_t *count) {
    *count = 1;
    return e->vector(l->n[0], l->block, l->stride[0], e->basic('d'));
}

static bench_type build_hv(const bench_layout *l, const bench_engine *e, int64_t *count) {
    *count = 1;
    int64_t inner = 1;
    while (inner * inner < l->n[0])
        inner *= 2;
    return e->hvector(l->n[0] / inner, 1, inner * l->stride[0] * 8,
                      e->vector(inner, l->block, l->stride[0], e->basic('d')));
}

static bench_type build_count(const bench_layout *l, const bench_engine *e, int64_t *count) {
    *count = l->n[0];
    bench_type block = l->block == 1 ? e->basic('d') : e->contig(l->block, e->basic('d'));
    return e->resized(block, 0, l->stride[0] * 8);
}

static bench_type build_nest(const bench_layout *l, const bench_engine *e, int64_t *count) {
    bench_type type = e->basic('d');
    *count = 1;
    for (int d = l->ndims - 1; d >= 0; d--)
        type = e->hvector(l->n[d], 1, l->stride[d] * 8, type);
    return type;
}

// The columns of a matrix as elements: the outer loop is the count.
static bench_type build_columns(const bench_layout *l, const bench_engine *e, int64_t *count) {
    *count = l->n[0];
    return e->resized(e->vector(l->n[1], 1, l->stride[1], e->basic('d')), 0, 8);
}

static bench_type build_indexed(const bench_layout *l, const bench_engine *e, int64_t *count) {
    *count = 1;
    return e->indexed(l->blocks, l->lengths, l->displacements, e->basic('d'));
}

static bench_type build_indexed_block(const bench_layout *l, const bench_engine *e,
                                      int64_t *count) {
    *count = 1;
    return e->indexed_block(l->blocks, 1, l->displacements, e->basic('d'));
}

static bench_type build_struct(const bench_layout *l, const bench_engine *e, int64_t *count) {
    const int lengths[] = {1, 1, 3};
    const int64_t displacements[] = {0, 8, 16};
    const bench_type types[] = {e->basic('i'), e->basic('d'), e->basic('c')};
    *count = l->blocks;
    return e->structure(3, lengths, displacements, types);
}

static bench_type build_contig(const bench_layout *l, const bench_engine *e, int64_t *count) {
    *count = 1;
    return e->contig(l->block, e->basic('d'));
}

typedef struct table {
    bench_layout *rows;
    int n;
} table;

static bench_layout *add(table *t, const char *name) {
    bench_layout *l = &t->rows[t->n++];
    if (t->n > MAX)
        abort();
    memset(l, 0, sizeof(*l));
    l->name = name;
    return l;
}

static void finish_nest(bench_layout *l) {
    size_t packed = (size_t)l->block * 8, span = (size_t)(l->start + l->block) * 8;
    for (int d = 0; d < l->ndims; d++) {
        packed *= (size_t)l->n[d];
        span += (size_t)(l->n[d] - 1) * (size_t)l->stride[d] * 8;
    }
    l->packed = packed;
    l->span = span;
    l->loop = loop_nest;
}

// Of `n` dimensions of doubles the part [start, start + sub) of each.
static void subarray(table *t, const char *name, int n, const int *sizes, const int *subs,
                     const int *starts) {
    bench_layout *l = add(t, name);
    l->build = build_subarray;
    int64_t stride = 1;
    l->block = subs[n - 1];
    l->start = starts[n - 1];
    for (int d = n - 1; d >= 0; d--) {
        l->sizes[d] = sizes[d];
        l->subsizes[d] = subs[d];
        l->starts[d] = starts[d];
        if (d < n - 1) {
            stride *= sizes[d + 1];
            l->start += starts[d] * stride;
            l->n[d] = subs[d];
            l->stride[d] = stride;
        }
    }
    l->ndims = n - 1;
    finish_nest(l);
}

static void cube(table *t, const char *name, int n, int z, int y, int x) {
    subarray(t, name, 3, (int[]){n, n, n}, (int[]){z, y, x}, (int[]){0, 0, 0});
}

static bench_layout *vector(table *t, const char *name, int64_t n, int64_t block, int64_t stride) {
    bench_layout *l = add(t, name);
    l->build = build_vector;
    l->ndims = 1;
    l->n[0] = n;
    l->stride[0] = stride;
    l->block = block;
    finish_nest(l);
    l->large = l->packed > (size_t)1 << 25;
    return l;
}

static void nest(table *t, const char *name, int n, const int64_t *counts, const int64_t *strides,
                 bool columns) {
    bench_layout *l = add(t, name);
    l->build = columns ? build_columns : build_nest;
    l->ndims = n;
    l->block = 1;
    memcpy(l->n, counts, (size_t)n * sizeof(*counts));
    memcpy(l->stride, strides, (size_t)n * sizeof(*strides));
    finish_nest(l);
}

static uint64_t random_state = 1;

static int draw(int low, int high) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return low + (int)((random_state >> 33) % (uint64_t)(high - low + 1));
}

static int *numbers(int64_t n) {
    int *values = malloc((size_t)n * sizeof(*values));
    if (!values)
        abort();
    return values;
}

static void indexed(table *t, const char *name, size_t bytes) {
    bench_layout *l = add(t, name);
    int64_t room = (int64_t)bytes / 8, at = 0, packed = 0;
    l->lengths = numbers(room);
    l->displacements = numbers(room);
    while (packed < (int64_t)bytes / 8) {
        int length = draw(1, 16);
        l->displacements[l->blocks] = (int)at;
        l->lengths[l->blocks++] = length;
        at += length + draw(1, 16);
        packed += length;
    }
    l->packed = (size_t)packed * 8;
    l->span = (size_t)at * 8;
    l->build = build_indexed;
    l->loop = loop_blocks;
    l->large = bytes > (size_t)1 << 25;
}

static void single(table *t, const char *name, size_t bytes, bool permuted) {
    bench_layout *l = add(t, name);
    l->blocks = (int64_t)bytes / 8;
    l->displacements = numbers(l->blocks);
    int at = 0;
    for (int64_t i = 0; i < l->blocks; i++) {
        l->displacements[i] = at;
        at += permuted ? 2 : draw(2, 16);
    }
    for (int64_t i = l->blocks - 1; permuted && i > 0; i--) {
        int j = draw(0, (int)i), kept = l->displacements[i];
        l->displacements[i] = l->displacements[j];
        l->displacements[j] = kept;
    }
    l->packed = bytes;
    l->span = (size_t)(at + 1) * 8;
    l->build = build_indexed_block;
    l->loop = loop_blocks;
}

static void structs(table *t, const char *name, size_t bytes) {
    bench_layout *l = add(t, name);
    l->blocks = (int64_t)(bytes / STRUCT_SIZE);
    l->packed = (size_t)l->blocks * STRUCT_SIZE;
    l->span = (size_t)l->blocks * STRUCT_EXTENT;
    l->build = build_struct;
    l->loop = loop_struct;
    l->large = bytes > (size_t)1 << 25;
}

static void planes(table *t) {
    static const char *const names[3][3] = {{"a.XY.64", "a.XZ.64", "a.YZ.64"},
                                            {"a.XY.256", "a.XZ.256", "a.YZ.256"},
                                            {"a.XY.512", "a.XZ.512", "a.YZ.512"}};
    const int sizes[] = {64, 256, 512};
    for (int i = 0; i < 3; i++) {
        int n = sizes[i];
        cube(t, names[i][0], n, 1, n, n);
        cube(t, names[i][1], n, n, 1, n);
        cube(t, names[i][2], n, n, n, 1);
    }
    vector(t, "a.YZ.256.vector", 65536, 1, 256);
    vector(t, "a.YZ.256.hv", 65536, 1, 256)->build = build_hv;
    vector(t, "a.YZ.256.count", 65536, 1, 256)->build = build_count;
    bench_layout *l = vector(t, "a.YZ.256.idxblk", 65536, 1, 256);
    l->build = build_indexed_block;
    l->blocks = 65536;
    l->displacements = numbers(65536);
    for (int i = 0; i < 65536; i++)
        l->displacements[i] = i * 256;
    cube(t, "f.xface2.256", 256, 256, 256, 2);
    cube(t, "f.xface4.256", 256, 256, 256, 4);
}

static void vectors(table *t) {
    static const char *const names[2][7] = {{"b.vec1.1M", "b.vec2.1M", "b.vec4.1M", "b.vec8.1M",
                                             "b.vec16.1M", "b.vec64.1M", "b.vec256.1M"},
                                            {"b.vec1.64M", "b.vec2.64M", "b.vec4.64M", "b.vec8.64M",
                                             "b.vec16.64M", "b.vec64.64M", "b.vec256.64M"}};
    const int64_t blocks[] = {1, 2, 4, 8, 16, 64, 256};
    for (int size = 0; size < 2; size++)
        for (int i = 0; i < 7; i++)
            vector(t, names[size][i], ((int64_t)1 << (size ? 23 : 17)) / blocks[i], blocks[i],
                   2 * blocks[i]);
    vector(t, "b.vec1cnt.1M", 1 << 17, 1, 2)->build = build_count;
}

static void nests(table *t) {
    subarray(t, "c.sub5.6-4", 5, (int[]){4096, 6, 6, 6, 6}, (int[]){4096, 4, 4, 4, 4},
             (int[]){0, 1, 1, 1, 1});
    subarray(t, "c.sub5.4-2", 5, (int[]){65536, 4, 4, 4, 4}, (int[]){65536, 2, 2, 2, 2},
             (int[]){0, 1, 1, 1, 1});
    const int64_t counts[] = {32, 32, 32, 32};
    nest(t, "c.nest4.collapsible", 4, counts, (int64_t[]){65536, 2048, 64, 2}, false);
    nest(t, "c.nest4.padded", 4, counts, (int64_t[]){32 * 32 * 80, 32 * 76, 72, 2}, false);
}

static void transposes(table *t) {
    nest(t, "e.transp.256", 2, (int64_t[]){256, 256}, (int64_t[]){1, 256}, false);
    nest(t, "e.transp.256.resz", 2, (int64_t[]){256, 256}, (int64_t[]){1, 256}, true);
    nest(t, "e.transp.2048", 2, (int64_t[]){2048, 2048}, (int64_t[]){1, 2048}, false);
    nest(t, "e.transp.2048.resz", 2, (int64_t[]){2048, 2048}, (int64_t[]){1, 2048}, true);
}

static void interior(table *t, const char *name, int n) {
    int all = n + 4;
    subarray(t, name, 3, (int[]){all, all, all}, (int[]){n, n, n}, (int[]){2, 2, 2});
    t->rows[t->n - 1].large = n > 100;
}

bench_layout *bench_layouts(int *n) {
    table t = {calloc(MAX, sizeof(bench_layout)), 0};
    if (!t.rows)
        abort();
    planes(&t);
    vectors(&t);
    nests(&t);
    indexed(&t, "d.indexed.1M", (size_t)1 << 20);
    single(&t, "d.idxblk1.inc.1M", (size_t)1 << 20, false);
    single(&t, "d.idxblk1.perm.1M", (size_t)1 << 20, true);
    structs(&t, "d.struct.1M", (size_t)1 << 20);
    indexed(&t, "d.indexed.64M", (size_t)1 << 26);
    single(&t, "d.idxblk1.inc.16M", (size_t)1 << 24, false);
    single(&t, "d.idxblk1.perm.16M", (size_t)1 << 24, true);
    structs(&t, "d.struct.64M", (size_t)1 << 26);
    transposes(&t);
    interior(&t, "f.interior.32", 32);
    interior(&t, "f.interior.64", 64);
    interior(&t, "f.interior.256", 256);
    vector(&t, "g.tiny.vec8", 8, 1, 2);
    subarray(&t, "g.tiny.sub3", 3, (int[]){4, 4, 4}, (int[]){4, 4, 1}, (int[]){0, 0, 0});
    vector(&t, "g.tiny.contig8", 1, 8, 8)->build = build_contig;
    *n = t.n;
    return t.rows;
}

void bench_layouts_free(bench_layout *layouts, int n) {
    for (int i = 0; i < n; i++) {
        free(layouts[i].lengths);
        free(layouts[i].displacements);
    }
    free(layouts);
}
