// SPDX-License-Identifier: BSD-3-Clause
//
// From tree to normal form: one function per shape of constructor.
//
// A node's layout is made from the normal forms of its children, which their own plans hold: a
// child shared by many parents is lowered once, so hostile types cannot make this exponential.
#include <string.h>

#include "base/alloc.h"
#include "type/plan.h"

// How many elements of all blocks together are listed one by one.  It goes by the number of blocks,
// so that no description, not even a stranger's, makes a table out of proportion to its length.
enum { ELEMENTS = 64, ELEMENTS_EACH = 8 };

typedef struct lowering {
    const wh_type *node;
    whi_mode mode;
    whi_arena *arena;
} lowering;

static int64_t extent_of(const wh_type *type) {
    return type->at.ub - type->at.lb;
}

static wh_status child_layout(const lowering *low, size_t i, whi_layout *layout) {
    const whi_plan *plan;
    wh_status status = whi_plan_get(low->node->children[i], low->mode, &plan);
    if (status == WH_OK)
        *layout = plan->normal;
    return status;
}

static void lower_basic(const lowering *low, whi_layout *layout, wh_status *status) {
    const whi_basic *basic = &whi_basics[low->node->id];
    uint8_t tag = low->mode == WHI_TYPED ? low->node->id : WHI_TAG_NONE;
    int64_t index_size = basic->size - basic->value;
    // In a typed layout a pair stays one run, tagged; whoever walks it knows of the padding.
    if (low->mode == WHI_TYPED || basic->type_class != WHI_TYPE_CLASS_PAIR ||
        basic->index_at == basic->value) {
        whi_layout_run(layout, basic->size, tag);
        return;
    }
    whi_runs runs;
    *status = whi_runs_take(&runs, 2, low->arena);
    if (*status != WH_OK)
        return;
    runs.n = 2;
    runs.off[0] = 0;
    runs.len[0] = basic->value;
    runs.off[1] = basic->index_at;
    runs.len[1] = index_size;
    runs.tag[0] = runs.tag[1] = tag;
    *status = whi_layout_list(layout, &runs, low->arena);
}

// `outer` blocks of `inner` elements.
static wh_status lower_loops(const lowering *low, int64_t inner, int64_t outer, int64_t stride,
                             whi_layout *layout) {
    wh_status status = child_layout(low, 0, layout);
    if (status == WH_OK)
        status = whi_layout_loop(layout, inner, extent_of(low->node->children[0]), low->arena);
    return status == WH_OK ? whi_layout_loop(layout, outer, stride, low->arena) : status;
}

static wh_status lower_vector(const lowering *low, int64_t unit, whi_layout *layout) {
    const int64_t *args = low->node->args;
    // With one block the stride plays no part and may be beyond all bounds.
    int64_t stride = args[0] > 1 && args[1] > 0 ? args[2] * unit : 0;
    return lower_loops(low, args[1], args[0], stride, layout);
}

static wh_status lower_equal_blocks(const lowering *low, int64_t unit, whi_layout *layout) {
    const int64_t *args = low->node->args;
    int64_t count = args[0], length = args[1];
    if (count == 0 || length == 0 || low->node->at.size == 0)
        return WH_OK;
    int64_t *offsets = whi_arena_scratch(low->arena, (size_t)count, sizeof(*offsets));
    if (!offsets)
        return WH_ENOMEM;
    for (int64_t i = 0; i < count; i++)
        offsets[i] = args[2 + i] * unit;
    wh_status status = lower_loops(low, length, 1, 0, layout);
    return status == WH_OK ? whi_layout_index(layout, count, offsets, low->arena) : status;
}

// Blocks of dense elements are runs.
static wh_status lower_dense_blocks(const lowering *low, int64_t unit, const whi_layout *element,
                                    whi_layout *layout) {
    int64_t count = low->node->args[0];
    const int64_t *lengths = low->node->args + 1, *displacements = lengths + count;
    whi_runs runs;
    wh_status status = whi_runs_take(&runs, count, low->arena);
    if (status != WH_OK)
        return status;
    for (int64_t i = 0; i < count; i++) {
        if (lengths[i] == 0)
            continue;
        runs.off[runs.n] = displacements[i] * unit + element->off;
        runs.len[runs.n] = lengths[i] * element->size;
        runs.tag[runs.n++] = element->leaf.tag;
    }
    return whi_layout_list(layout, &runs, low->arena);
}

// Blocks of few elements with holes: one offset per element gives one flat table.
static wh_status lower_elements(const lowering *low, int64_t unit, int64_t elements,
                                const whi_layout *element, whi_layout *layout) {
    int64_t count = low->node->args[0], extent = extent_of(low->node->children[0]), n = 0;
    const int64_t *lengths = low->node->args + 1, *displacements = lengths + count;
    int64_t *offsets = whi_arena_scratch(low->arena, (size_t)elements, sizeof(*offsets));
    if (!offsets)
        return WH_ENOMEM;
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < lengths[i]; j++)
            offsets[n++] = displacements[i] * unit + j * extent;
    *layout = *element;
    return whi_layout_index(layout, n, offsets, low->arena);
}

// The blocks of a struct, or long blocks of elements with holes: one layout each.
static wh_status lower_members(const lowering *low, int64_t unit, whi_layout *layout) {
    const wh_type *node = low->node;
    int64_t count = node->args[0], n = 0;
    const int64_t *lengths = node->args + 1, *displacements = lengths + count;
    whi_layout *parts = whi_arena_take(low->arena, (size_t)count, sizeof(*parts));
    if (!parts)
        return WH_ENOMEM;
    for (int64_t i = 0; i < count; i++) {
        size_t child = node->kind == WH_KIND_STRUCT ? (size_t)i : 0;
        if (lengths[i] == 0 || node->children[child]->at.size == 0)
            continue;
        wh_status status = child_layout(low, child, &parts[n]);
        if (status == WH_OK)
            status = whi_layout_loop(&parts[n], lengths[i], extent_of(node->children[child]),
                                     low->arena);
        if (status != WH_OK)
            return status;
        whi_layout_shift(&parts[n++], displacements[i] * unit);
    }
    return whi_layout_seq(layout, n, parts, low->arena);
}

static wh_status lower_blocks(const lowering *low, int64_t unit, whi_layout *layout) {
    if (low->node->at.size == 0)
        return WH_OK;
    whi_layout element;
    wh_status status = child_layout(low, 0, &element);
    if (status != WH_OK)
        return status;
    int64_t count = low->node->args[0], elements = 0, max = ELEMENTS_EACH * count + ELEMENTS;
    for (int64_t i = 0; i < count && elements <= max; i++)
        elements = low->node->args[1 + i] > max ? max + 1 : elements + low->node->args[1 + i];
    if (element.ndims == 0 && element.leaf.kind == WHI_RUN &&
        element.size == extent_of(low->node->children[0]))
        return lower_dense_blocks(low, unit, &element, layout);
    if (elements <= max)
        return lower_elements(low, unit, elements, &element, layout);
    return lower_members(low, unit, layout);
}

// Every `step`-th block of a dimension, and the shorter one that the end of the array cuts off.
static wh_status lower_share(const lowering *low, const whi_share *share, int64_t stride,
                             whi_layout *layout) {
    whi_layout tail = *layout;
    wh_status status = whi_layout_loop(layout, share->block, stride, low->arena);
    if (status == WH_OK)
        status = whi_layout_loop(layout, share->blocks,
                                 share->blocks > 1 ? share->step * stride : 0, low->arena);
    whi_layout_shift(layout, share->start * stride);
    if (status != WH_OK || share->tail == 0)
        return status;
    status = whi_layout_loop(&tail, share->tail, stride, low->arena);
    whi_layout *parts = whi_arena_take(low->arena, 2, sizeof(*parts));
    if (status != WH_OK || !parts)
        return WH_ENOMEM;
    whi_layout_shift(&tail, (share->start + share->blocks * share->step) * stride);
    parts[0] = *layout;
    parts[1] = tail;
    return whi_layout_seq(layout, 2, parts, low->arena);
}

// Subarray and darray, from the dimension that runs fastest outwards.
static wh_status lower_array(const lowering *low, whi_layout *layout) {
    const wh_type *node = low->node;
    bool sub = node->kind == WH_KIND_SUBARRAY;
    int64_t n = node->args[0], stride = extent_of(node->children[0]);
    const int64_t *sizes = node->args + (sub ? 2 : 4);
    whi_share share = {0};
    wh_status status = child_layout(low, 0, layout);
    for (int64_t i = 0; i < n && status == WH_OK; i++) {
        int64_t dim = node->args[1] == WH_ORDER_C ? n - 1 - i : i;
        if (sub) {
            status = whi_layout_loop(layout, sizes[n + dim], stride, low->arena);
            whi_layout_shift(layout, sizes[2 * n + dim] * stride);
        } else {
            whi_type_share(node, i, &share);
            status = lower_share(low, &share, stride, layout);
        }
        stride *= sizes[dim];
    }
    return status;
}

static wh_status lower_strided(const lowering *low, whi_layout *layout) {
    int64_t n = low->node->args[0];
    const int64_t *shape = low->node->args + 1, *strides = shape + n;
    wh_status status = child_layout(low, 0, layout);
    for (int64_t i = n - 1; i >= 0 && status == WH_OK; i--)
        status = whi_layout_loop(layout, shape[i], strides[i], low->arena);
    return status;
}

wh_status whi_lower(const wh_type *type, whi_mode mode, whi_layout *layout, whi_arena *arena) {
    lowering low = {type, mode, arena};
    wh_status status = WH_OK;
    memset(layout, 0, sizeof(*layout));
    if (type->at.size == 0)
        return WH_OK;  // and no product below can overflow, since there is data within bounds
    int64_t unit = type->nchildren ? extent_of(type->children[0]) : 0;
    switch ((wh_type_kind)type->kind) {
    case WH_KIND_BASIC: lower_basic(&low, layout, &status); return status;
    case WH_KIND_DUP:
    case WH_KIND_RESIZED: return child_layout(&low, 0, layout);
    case WH_KIND_CONTIG: return lower_loops(&low, type->args[0], 1, 0, layout);
    case WH_KIND_VECTOR: return lower_vector(&low, unit, layout);
    case WH_KIND_HVECTOR: return lower_vector(&low, 1, layout);
    case WH_KIND_INDEXED: return lower_blocks(&low, unit, layout);
    case WH_KIND_HINDEXED: return lower_blocks(&low, 1, layout);
    case WH_KIND_INDEXED_BLOCK: return lower_equal_blocks(&low, unit, layout);
    case WH_KIND_HINDEXED_BLOCK: return lower_equal_blocks(&low, 1, layout);
    case WH_KIND_STRUCT: return lower_members(&low, 1, layout);
    case WH_KIND_SUBARRAY:
    case WH_KIND_DARRAY: return lower_array(&low, layout);
    case WH_KIND_STRIDED: return lower_strided(&low, layout);
    }
    return WH_EINVAL;
}
