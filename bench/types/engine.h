// SPDX-License-Identifier: BSD-3-Clause
//
// A datatype engine as a plug-in: one table of functions, found in a shared object as `bench_engine_plugin`.
//
// Engines are loaded side by side into one process (an MPI by dlopen with RTLD_LOCAL, so that two
// may live together), because only measurements that alternate within one process compare.
#ifndef BENCH_TYPES_ENGINE_H
#define BENCH_TYPES_ENGINE_H

#include <stddef.h>
#include <stdint.h>

typedef void *bench_type;

typedef struct bench_engine {
    const char *name;
    int (*open)(void);            // 0: ready
    bench_type (*basic)(char c);  // 'd' double, 'i' int, 'c' char
    bench_type (*contig)(int64_t n, bench_type old);
    bench_type (*vector)(int64_t n, int64_t blocklength, int64_t stride, bench_type old);
    bench_type (*hvector)(int64_t n, int64_t blocklength, int64_t stride, bench_type old);
    bench_type (*indexed)(int64_t n, const int *blocklengths, const int *displacements,
                          bench_type old);
    bench_type (*indexed_block)(int64_t n, int64_t blocklength, const int *displacements,
                                bench_type old);
    bench_type (*structure)(int64_t n, const int *blocklengths, const int64_t *displacements,
                            const bench_type *types);
    bench_type (*subarray)(int n, const int *sizes, const int *subsizes, const int *starts,
                           bench_type old);
    bench_type (*resized)(bench_type old, int64_t lb, int64_t extent);
    void (*commit)(bench_type type);
    void (*pack)(const void *buf, int64_t count, bench_type type, void *packed, size_t size);
    void (*unpack)(const void *packed, size_t size, void *buf, int64_t count, bench_type type);
} bench_engine;

#endif
