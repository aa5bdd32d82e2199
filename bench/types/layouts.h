// SPDX-License-Identifier: BSD-3-Clause
//
// The layouts that bench-types measures: planes, faces, vectors, nests, irregular blocks, structs,
// transposes, interiors, and tiny ones; each as a recipe for any engine and as a plain C loop.
#ifndef BENCH_TYPES_LAYOUTS_H
#define BENCH_TYPES_LAYOUTS_H

#include <stdbool.h>

#include "bench/types/engine.h"

enum { BENCH_DIMS = 5 };

typedef struct bench_layout bench_layout;

struct bench_layout {
    const char *name;
    // Makes the type; *count tells how many elements of it are packed.
    bench_type (*build)(const bench_layout *layout, const bench_engine *engine, int64_t *count);
    void (*loop)(const bench_layout *layout, const char *memory, char *packed);
    // A nest of doubles, outermost first: counts and strides in doubles, and `block` doubles inside.
    int ndims;
    int64_t n[BENCH_DIMS], stride[BENCH_DIMS];
    int64_t block, start;
    int sizes[BENCH_DIMS], subsizes[BENCH_DIMS], starts[BENCH_DIMS];  // when it is a subarray
    // Irregular blocks, in doubles.
    int64_t blocks;
    int *lengths, *displacements;
    size_t packed, span;  // bytes
    bool large;           // too long for a quick look
};

// bench_layouts makes the table; *n is its length.  Ends the program when memory is out.
bench_layout *bench_layouts(int *n);

// bench_layouts_free frees it.
void bench_layouts_free(bench_layout *layouts, int n);

#endif
