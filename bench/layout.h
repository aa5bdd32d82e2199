// SPDX-License-Identifier: BSD-3-Clause
//
// Layouts of messages to measure: where the bytes of a message of a given size lie in memory.
//
// Only names and numbers: how they become a type is the affair of whoever measures, Wherry
// (layout_type.h) or an MPI (peers/mpi.c), so that all measure the same.  Pure functions.
#ifndef BENCH_LAYOUT_H
#define BENCH_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// X(symbol, name, block, stride): bytes of a block, and from one to the next, unless others are asked
// for; 0: it has none to ask for.
#define BENCH_LAYOUTS(X)                                                                           \
    X(DENSE, "dense", 0, 0)                                                                        \
    X(VECTOR, "vector", 8, 16)        /* blocks at equal distances */                              \
    X(SUBARRAY, "subarray", 64, 128)  /* the inside of a three-dimensional array */                \
    X(STRUCT, "struct", 0, 0)         /* an int, a double and an int, 24 bytes apart */            \
    X(INDEXED, "indexed", 64, 128)    /* blocks at irregular distances */                          \
    X(TRANSPOSED, "transposed", 8, 0) /* a matrix in rows, sent column by column */

typedef enum bench_layout_kind {
#define BENCH_LAYOUT_ENUM(symbol, name, block, stride) BENCH_##symbol,
    BENCH_LAYOUTS(BENCH_LAYOUT_ENUM)
#undef BENCH_LAYOUT_ENUM
        BENCH_LAYOUT_KINDS
} bench_layout_kind;

enum {
    BENCH_LAYOUT_NAME = 40,  // room for the longest name
    BENCH_STRUCT_SIZE = 16,
    BENCH_STRUCT_EXTENT = 24,
};

typedef struct bench_layout {  // all zero: dense
    bench_layout_kind kind;
    uint32_t block, stride;  // bytes
} bench_layout;

// A layout of one message, in words of 8, 4, 2 or 1 bytes.
typedef struct bench_shape {
    int64_t word;           // bytes
    int64_t blocks;         // outer x inner
    int64_t outer, inner;   // about the same
    int64_t block, stride;  // words
    uint64_t span;          // bytes of memory from the first to the last
} bench_shape;

// bench_layout_parse reads "vector", "vector:8" (with twice that as its stride) or "vector:8:16".
bool bench_layout_parse(const char *text, bench_layout *layout);

// bench_layout_format writes the name with all its numbers and returns `text`.
char *bench_layout_format(const bench_layout *layout, char *text, size_t size);

// bench_layout_fits says whether `size` packed bytes are whole blocks, and not too far apart.
bool bench_layout_fits(const bench_layout *layout, uint64_t size);

// bench_layout_shape returns the shape of a message whose size fits.
bench_shape bench_layout_shape(const bench_layout *layout, uint64_t size);

// bench_layout_place returns where block `i` of an indexed layout lies, in words.
int64_t bench_layout_place(const bench_shape *shape, int64_t i);

#endif
