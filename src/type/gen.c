// SPDX-License-Identifier: BSD-3-Clause
//
// Random types (gen.h).  Each try draws a kind and its arguments; what is illegal, too large, or has
// too much memory to test quickly is thrown away and drawn again, and at last a basic type stands in.
#include "type/gen.h"

#include <stdlib.h>

#include "type/type.h"

enum { LISTS = 8 };

static int64_t between(whi_gen *gen, int64_t low, int64_t high) {
    return low + (int64_t)whi_rng_below(&gen->rng, (uint64_t)(high - low + 1));
}

static int64_t count_of(whi_gen *gen) {
    return whi_rng_chance(&gen->rng, 5) ? 0
                                        : between(gen, 1, whi_rng_chance(&gen->rng, 10) ? 40 : 5);
}

// A distance that is mostly a multiple of something an element cares about, sometimes anything.
static int64_t distance(whi_gen *gen, int64_t extent, int64_t blocks) {
    int64_t some = between(gen, 1, 4);
    switch (whi_rng_below(&gen->rng, 6)) {
    case 0: return extent * blocks;           // continues: must merge
    case 1: return extent * (blocks + some);  // a gap
    case 2: return -extent * (blocks + some);
    case 3: return extent * blocks + between(gen, -3, 9);
    case 4: return some * 8;
    default: return between(gen, -70, 200);
    }
}

static int64_t extent_of(const wh_type *type) {
    return type->at.ub - type->at.lb;
}

static wh_status try_lists(whi_gen *gen, wh_type_kind kind, wh_type *old, wh_type **type) {
    int64_t n = between(gen, whi_rng_chance(&gen->rng, 95), LISTS), lengths[LISTS],
            displacements[LISTS];
    int64_t at = between(gen, -3, 3), extent = extent_of(old);
    bool bytes = kind == WH_KIND_HINDEXED || kind == WH_KIND_HINDEXED_BLOCK;
    bool equal = kind == WH_KIND_INDEXED_BLOCK || kind == WH_KIND_HINDEXED_BLOCK;
    int64_t length = between(gen, whi_rng_chance(&gen->rng, 95), 3), step = between(gen, 0, 3);
    for (int64_t i = 0; i < n; i++) {
        lengths[i] = equal ? length : between(gen, 0, 3);
        displacements[i] = bytes ? at * extent + between(gen, 0, 2) : at;
        at += lengths[i] + (step < 3 ? step : between(gen, -4, 6));
    }
    switch (kind) {
    case WH_KIND_INDEXED: return wh_type_create_indexed(n, lengths, displacements, old, type);
    case WH_KIND_HINDEXED: return wh_type_create_hindexed(n, lengths, displacements, old, type);
    case WH_KIND_INDEXED_BLOCK:
        return wh_type_create_indexed_block(n, length, displacements, old, type);
    default: return wh_type_create_hindexed_block(n, length, displacements, old, type);
    }
}

static wh_status try_struct(whi_gen *gen, int depth, wh_type **type) {
    enum { MEMBERS = 4 };
    int64_t n = between(gen, whi_rng_chance(&gen->rng, 95), MEMBERS), lengths[MEMBERS],
            displacements[MEMBERS], at = 0;
    wh_type *types[MEMBERS];
    for (int64_t i = 0; i < n; i++) {
        bool again = i && whi_rng_chance(&gen->rng, 30);
        types[i] = again ? wh_type_retain(types[i - 1]) : whi_gen_type(gen, depth - 1);
        lengths[i] = between(gen, 0, 3);
        displacements[i] = at - types[i]->at.lb;
        at += lengths[i] * extent_of(types[i]) + between(gen, -1, 8);
    }
    wh_status status =
        wh_type_create_struct(n, lengths, displacements, (const wh_type *const *)types, type);
    for (int64_t i = 0; i < n; i++)
        wh_type_release(types[i]);
    return status;
}

static wh_status try_subarray(whi_gen *gen, wh_type *old, wh_type **type) {
    int64_t n = between(gen, 0, 4), sizes[4], subsizes[4], starts[4];
    for (int64_t i = 0; i < n; i++) {
        sizes[i] = between(gen, whi_rng_chance(&gen->rng, 95), 5);
        subsizes[i] = between(gen, sizes[i] && whi_rng_chance(&gen->rng, 95), sizes[i]);
        starts[i] = between(gen, 0, sizes[i] - subsizes[i]);
    }
    return wh_type_create_subarray((int)n, sizes, subsizes, starts,
                                   (wh_order)whi_rng_below(&gen->rng, 2), old, type);
}

static wh_status try_darray(whi_gen *gen, wh_type *old, wh_type **type) {
    int64_t n = between(gen, 1, 3), gsizes[3], distribs[3], dargs[3], psizes[3], size = 1;
    for (int64_t i = 0; i < n; i++) {
        gsizes[i] = between(gen, whi_rng_chance(&gen->rng, 95), 9);
        distribs[i] = between(gen, WH_DIST_NONE, WH_DIST_CYCLIC);
        psizes[i] = distribs[i] == WH_DIST_NONE ? 1 : between(gen, 1, 3);
        dargs[i] = whi_rng_chance(&gen->rng, 50) ? WH_DIST_DEFAULT : between(gen, 1, 9);
        size *= psizes[i];
    }
    return wh_type_create_darray(size, between(gen, 0, size - 1), (int)n, gsizes, distribs, dargs,
                                 psizes, (wh_order)whi_rng_below(&gen->rng, 2), old, type);
}

static wh_status try_strided(whi_gen *gen, wh_type *old, wh_type **type) {
    int64_t n = between(gen, 0, 4), shape[4], strides[4], step = extent_of(old);
    for (int64_t i = n - 1; i >= 0; i--) {
        shape[i] = count_of(gen);
        strides[i] = whi_rng_chance(&gen->rng, 50) ? step : distance(gen, extent_of(old), 1);
        step *= shape[i];
    }
    return wh_type_create_strided((int)n, shape, strides, old, type);
}

static wh_status try_resized(whi_gen *gen, wh_type *old, wh_type **type) {
    int64_t extent =
        whi_rng_chance(&gen->rng, 10) ? -extent_of(old) : old->at.true_ub - old->at.true_lb;
    return wh_type_create_resized(old, between(gen, -8, 8), extent + between(gen, 0, 12), type);
}

static wh_status try_kind(whi_gen *gen, wh_type_kind kind, int depth, wh_type **type) {
    if (kind == WH_KIND_STRUCT)
        return try_struct(gen, depth, type);
    wh_type *old = whi_gen_type(gen, depth - 1);
    int64_t extent = extent_of(old), blocks = between(gen, whi_rng_chance(&gen->rng, 95), 4);
    wh_status status;
    switch (kind) {
    case WH_KIND_CONTIG: status = wh_type_create_contig(count_of(gen), old, type); break;
    case WH_KIND_VECTOR:
        status =
            wh_type_create_vector(count_of(gen), blocks, blocks + between(gen, -2, 4), old, type);
        break;
    case WH_KIND_HVECTOR:
        status =
            wh_type_create_hvector(count_of(gen), blocks, distance(gen, extent, blocks), old, type);
        break;
    case WH_KIND_SUBARRAY: status = try_subarray(gen, old, type); break;
    case WH_KIND_DARRAY: status = try_darray(gen, old, type); break;
    case WH_KIND_RESIZED: status = try_resized(gen, old, type); break;
    case WH_KIND_STRIDED: status = try_strided(gen, old, type); break;
    case WH_KIND_DUP: status = wh_type_dup(old, type); break;
    default: status = try_lists(gen, kind, old, type); break;
    }
    wh_type_release(old);
    return status;
}

// Small enough to test quickly.
static bool acceptable(const whi_gen *gen, const wh_type *type) {
    int64_t span = type->at.true_ub - type->at.true_lb;
    return type->at.size <= gen->max_size && span <= gen->max_span &&
           type->at.lb > -gen->max_span && type->at.ub < gen->max_span &&
           type->at.true_lb > -gen->max_span && type->at.true_ub < gen->max_span;
}

wh_type *whi_gen_type(whi_gen *gen, int depth) {
    for (int tries = 0; tries < 8 && depth > 0 && !whi_rng_chance(&gen->rng, 10); tries++) {
        wh_type *type;
        wh_type_kind kind = (wh_type_kind)between(gen, WH_KIND_DUP, WH_KIND_STRIDED);
        if (try_kind(gen, kind, depth, &type) != WH_OK)
            continue;
        if (acceptable(gen, type))
            return type;
        wh_type_release(type);
    }
    wh_type_id id = (wh_type_id)whi_rng_below(&gen->rng, WH_TYPE_IDS);
    return whi_type_mutable(wh_type_basic(id));
}
