// SPDX-License-Identifier: BSD-3-Clause
//
// Wherry as an engine of bench-types.
#include "bench/types/engine_wherry.h"

#include <stdio.h>
#include <stdlib.h>

#include <wherry/pack.h>

static void must(wh_status status) {
    if (status == WH_OK)
        return;
    fprintf(stderr, "bench-types: %s\n", wh_type_error());
    exit(1);
}

static int64_t *widen(int64_t n, const int *values) {
    int64_t *wide = malloc((size_t)n * sizeof(*wide));
    for (int64_t i = 0; wide && i < n; i++)
        wide[i] = values[i];
    return wide;
}

static int w_open(void) {
    return 0;
}

static bench_type w_basic(char c) {
    wh_type_id id = c == 'd' ? WH_TYPE_DOUBLE : c == 'i' ? WH_TYPE_INT : WH_TYPE_CHAR;
    return (bench_type)(uintptr_t)wh_type_basic(id);
}

static bench_type w_contig(int64_t n, bench_type old) {
    wh_type *type;
    must(wh_type_create_contig(n, old, &type));
    return type;
}

static bench_type w_vector(int64_t n, int64_t blocklength, int64_t stride, bench_type old) {
    wh_type *type;
    must(wh_type_create_vector(n, blocklength, stride, old, &type));
    return type;
}

static bench_type w_hvector(int64_t n, int64_t blocklength, int64_t stride, bench_type old) {
    wh_type *type;
    must(wh_type_create_hvector(n, blocklength, stride, old, &type));
    return type;
}

static bench_type w_indexed(int64_t n, const int *blocklengths, const int *displacements,
                            bench_type old) {
    wh_type *type;
    int64_t *lengths = widen(n, blocklengths), *displs = widen(n, displacements);
    must(wh_type_create_indexed(n, lengths, displs, old, &type));
    free(lengths);
    free(displs);
    return type;
}

static bench_type w_indexed_block(int64_t n, int64_t blocklength, const int *displacements,
                                  bench_type old) {
    wh_type *type;
    int64_t *displs = widen(n, displacements);
    must(wh_type_create_indexed_block(n, blocklength, displs, old, &type));
    free(displs);
    return type;
}

static bench_type w_structure(int64_t n, const int *blocklengths, const int64_t *displacements,
                              const bench_type *types) {
    wh_type *type;
    int64_t *lengths = widen(n, blocklengths);
    must(wh_type_create_struct(n, lengths, displacements, (const wh_type *const *)types, &type));
    free(lengths);
    return type;
}

static bench_type w_subarray(int n, const int *sizes, const int *subsizes, const int *starts,
                             bench_type old) {
    wh_type *type;
    int64_t *a = widen(n, sizes), *b = widen(n, subsizes), *c = widen(n, starts);
    must(wh_type_create_subarray(n, a, b, c, WH_ORDER_C, old, &type));
    free(a);
    free(b);
    free(c);
    return type;
}

static bench_type w_resized(bench_type old, int64_t lb, int64_t extent) {
    wh_type *type;
    must(wh_type_create_resized(old, lb, extent, &type));
    return type;
}

static void w_commit(bench_type type) {
    must(wh_type_commit(type));
}

static void w_pack(const void *buf, int64_t count, bench_type type, void *packed, size_t size) {
    size_t actual;
    must(wh_pack(buf, count, type, 0, packed, size, 0, &actual));
}

static void w_unpack(const void *packed, size_t size, void *buf, int64_t count, bench_type type) {
    size_t actual;
    must(wh_unpack(packed, size, buf, count, type, 0, 0, &actual));
}

const bench_engine bench_engine_wherry = {
    "wherry",        w_open,      w_basic,    w_contig,  w_vector, w_hvector, w_indexed,
    w_indexed_block, w_structure, w_subarray, w_resized, w_commit, w_pack,    w_unpack,
};
