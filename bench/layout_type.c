// SPDX-License-Identifier: BSD-3-Clause
//
// See layout_type.h.  The MPI peers make the same types with calls of the same names (peers/mpi.c).
#include "bench/layout_type.h"

#include <stdlib.h>

static const wh_type *word_of(const bench_shape *shape) {
    wh_type_id id = shape->word == 8   ? WH_TYPE_DOUBLE
                    : shape->word == 4 ? WH_TYPE_INT32
                    : shape->word == 2 ? WH_TYPE_INT16
                                       : WH_TYPE_BYTE;
    return wh_type_basic(id);
}

static wh_status make_subarray(const bench_shape *shape, wh_type **type) {
    const int64_t sizes[] = {shape->outer, shape->inner + 2, shape->stride};
    const int64_t parts[] = {shape->outer, shape->inner, shape->block};
    const int64_t starts[] = {0, 1, 0};
    return wh_type_create_subarray(3, sizes, parts, starts, WH_ORDER_C, word_of(shape), type);
}

static wh_status make_struct(wh_type **type) {
    const int64_t lengths[] = {1, 1, 1}, places[] = {0, 8, 16};
    const wh_type *types[] = {wh_type_basic(WH_TYPE_INT32), wh_type_basic(WH_TYPE_DOUBLE),
                              wh_type_basic(WH_TYPE_INT32)};
    return wh_type_create_struct(3, lengths, places, types, type);
}

static wh_status make_indexed(const bench_shape *shape, wh_type **type) {
    int64_t *places = malloc((size_t)shape->blocks * sizeof *places);
    if (!places)
        return WH_ENOMEM;
    for (int64_t i = 0; i < shape->blocks; i++)
        places[i] = bench_layout_place(shape, i);
    wh_status status =
        wh_type_create_indexed_block(shape->blocks, shape->block, places, word_of(shape), type);
    free(places);
    return status;
}

// A column of a matrix of outer rows, whose extent is one element, so that the next begins beside it.
static wh_status make_column(const bench_shape *shape, wh_type **type) {
    wh_type *column;
    wh_status status = wh_type_create_vector(shape->outer, shape->block,
                                             shape->inner * shape->block, word_of(shape), &column);
    if (status != WH_OK)
        return status;
    status = wh_type_create_resized(column, 0, shape->block * shape->word, type);
    wh_type_release(column);
    return status;
}

wh_status bench_layout_type(const bench_layout *layout, uint64_t size, wh_type **type,
                            uint64_t *count) {
    bench_shape shape = bench_layout_shape(layout, size);
    wh_status status = WH_EINVAL;
    *count = 1;
    switch (layout->kind) {
    case BENCH_VECTOR:
        status =
            wh_type_create_vector(shape.blocks, shape.block, shape.stride, word_of(&shape), type);
        break;
    case BENCH_SUBARRAY: status = make_subarray(&shape, type); break;
    case BENCH_INDEXED: status = make_indexed(&shape, type); break;
    case BENCH_STRUCT:
        *count = (uint64_t)shape.blocks;
        status = make_struct(type);
        break;
    case BENCH_TRANSPOSED:
        *count = (uint64_t)shape.inner;
        status = make_column(&shape, type);
        break;
    default: break;
    }
    if (status != WH_OK)
        return status;
    status = wh_type_commit(*type);
    if (status != WH_OK)
        wh_type_release(*type);
    return status;
}
