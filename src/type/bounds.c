// SPDX-License-Identifier: BSD-3-Clause
//
// Bounds: size, extent and true extent of a type, from those of its children.
//
// Wide is a 128-bit number.  One product of two 64-bit numbers fits into it, and every result is
// brought back below 2^61 before it is used in another, so nothing here overflows silently: a
// layout that is too large is refused.
#include "type/type.h"

typedef __int128 wide;

static bool fits(wide value) {
    return value >= -WHI_TYPE_SPAN && value <= WHI_TYPE_SPAN;
}

// Where copies of an element lie: displacements from `low` to `high`, `copies` in all.
typedef struct spread {
    wide low, high, copies;
} spread;

// The bounds of what has been placed so far.
typedef struct hull {
    wide lb, ub, true_lb, true_ub, size, basics;
    bool any, any_data;
} hull;

static wide least(wide a, wide b) {
    return a < b ? a : b;
}

static wide most(wide a, wide b) {
    return a > b ? a : b;
}

// Every copy counts for lb and ub, also one without data; only data counts for the true bounds.
static void place(hull *all, const spread *at, const whi_bounds *element) {
    if (at->copies == 0)
        return;
    wide lb = at->low + element->lb, ub = at->high + element->ub;
    all->lb = all->any ? least(all->lb, lb) : lb;
    all->ub = all->any ? most(all->ub, ub) : ub;
    all->any = true;
    if (element->size == 0)
        return;
    wide true_lb = at->low + element->true_lb, true_ub = at->high + element->true_ub;
    all->true_lb = all->any_data ? least(all->true_lb, true_lb) : true_lb;
    all->true_ub = all->any_data ? most(all->true_ub, true_ub) : true_ub;
    all->any_data = true;
    all->size += at->copies * element->size;
    all->basics += at->copies * element->basics;
}

static bool hull_fits(const hull *all) {
    return fits(all->lb) && fits(all->ub) && fits(all->true_lb) && fits(all->true_ub) &&
           fits(all->size);
}

// Repeats what is there `count` times, `stride` apart.
static bool repeat(spread *at, int64_t count, int64_t stride) {
    if (count == 0) {
        at->copies = 0;
        return true;
    }
    wide reach = (wide)(count - 1) * stride;
    at->low += least(reach, 0);
    at->high += most(reach, 0);
    // Copies of elements without data may be as many as one likes: stop counting above the limit.
    at->copies = least(at->copies * count, (wide)WHI_TYPE_SPAN + 1);
    return fits(reach) && fits(at->low) && fits(at->high);
}

static int64_t extent_of(const whi_bounds *at) {
    return at->ub - at->lb;
}

// A displacement in `unit`s (an extent, or single bytes).
static bool scale(int64_t value, int64_t unit, int64_t *bytes) {
    wide product = (wide)value * unit;
    *bytes = (int64_t)product;
    return fits(product);
}

static bool place_vector(const wh_type *node, int64_t unit, hull *all) {
    const whi_bounds *element = &node->children[0]->at;
    spread at = {0, 0, 1};
    int64_t stride;
    if (node->args[0] <= 1)  // the stride plays no part, and may be anything
        stride = 0;
    else if (!scale(node->args[2], unit, &stride))
        return node->args[1] == 0;
    if (!repeat(&at, node->args[1], extent_of(element)) || !repeat(&at, node->args[0], stride))
        return false;
    place(all, &at, element);
    return true;
}

static bool place_block(const whi_bounds *element, int64_t length, int64_t displacement,
                        int64_t unit, hull *all) {
    if (length == 0)
        return true;
    int64_t bytes;
    if (!scale(displacement, unit, &bytes))
        return false;
    spread at = {bytes, bytes, 1};
    if (!repeat(&at, length, extent_of(element)))
        return false;
    place(all, &at, element);
    return hull_fits(all);
}

static bool place_blocks(const wh_type *node, int64_t unit, hull *all) {
    const whi_bounds *element = &node->children[0]->at;
    int64_t count = node->args[0];
    bool equal = node->kind == WH_KIND_INDEXED_BLOCK || node->kind == WH_KIND_HINDEXED_BLOCK;
    const int64_t *lengths = node->args + 1;
    const int64_t *displacements = equal ? node->args + 2 : lengths + count;
    for (int64_t i = 0; i < count; i++)
        if (!place_block(element, lengths[equal ? 0 : i], displacements[i], unit, all))
            return false;
    return true;
}

static bool place_struct(const wh_type *node, hull *all) {
    int64_t count = node->args[0];
    const int64_t *lengths = node->args + 1, *displacements = lengths + count;
    for (int64_t i = 0; i < count; i++)
        if (!place_block(&node->children[i]->at, lengths[i], displacements[i], 1, all))
            return false;
    // Hand-set bounds are obeyed to the letter; otherwise pad as a C compiler would.
    if (all->any && !node->at.set) {
        wide over = (all->ub - all->lb) % node->at.align;
        all->ub += over > 0 ? node->at.align - over : 0;
    }
    return true;
}

static bool place_strided(const wh_type *node, hull *all) {
    const whi_bounds *element = &node->children[0]->at;
    int64_t n = node->args[0];
    spread at = {0, 0, 1};
    for (int64_t i = 0; i < n; i++)
        if (node->args[1 + i] == 0)
            at.copies = 0;
    for (int64_t i = 0; i < n && at.copies; i++)
        if (!repeat(&at, node->args[1 + i], node->args[1 + n + i]))
            return false;
    place(all, &at, element);
    return true;
}

void whi_type_share(const wh_type *node, int dim, whi_share *share) {
    int64_t n = node->args[0], rank = node->args[3];
    const int64_t *gsizes = node->args + 4, *distribs = gsizes + n, *dargs = distribs + n,
                  *psizes = dargs + n;
    for (int64_t i = n - 1; i > dim; i--)
        rank /= psizes[i];
    int64_t size = gsizes[dim], procs = psizes[dim], me = rank % procs;
    *share = (whi_share){.step = size, .block = size};
    if (distribs[dim] == WH_DIST_NONE) {
        share->blocks = 1;
        return;
    }
    int64_t block = dargs[dim];
    if (block == WH_DIST_DEFAULT)
        block = distribs[dim] == WH_DIST_CYCLIC ? 1 : size / procs + (size % procs != 0);
    // Blocks are dealt out in turn, number `me` first; BLOCK is a deal with one round.  A block
    // longer than the array is the array.
    if (block > size || block == 0)
        block = size;
    if (block == 0 || me > (size - 1) / block)
        return;
    int64_t whole = size / block, tail = size % block;
    share->start = me * block;
    share->block = block;
    share->blocks = me < whole ? (whole - 1 - me) / procs + 1 : 0;
    share->tail = whole % procs == me ? tail : 0;
    // The step matters only when there is a second block, and then it lies within the array.
    share->step = share->blocks + (share->tail != 0) > 1 ? block * procs : block;
}

// Spreads `at` over `copies` indices from `first` to `last` of a dimension of `stride`.
static bool take(spread *at, int64_t first, int64_t last, int64_t copies, int64_t stride) {
    if (copies == 0) {
        at->copies = 0;
        return true;
    }
    wide a = (wide)first * stride, b = (wide)last * stride;
    at->low += least(a, b);
    at->high += most(a, b);
    at->copies = least(at->copies * copies, (wide)WHI_TYPE_SPAN + 1);
    return fits(a) && fits(b) && fits(at->low) && fits(at->high);
}

static bool take_share(const wh_type *node, int dim, int64_t stride, spread *at) {
    whi_share share;
    whi_type_share(node, dim, &share);
    int64_t copies = share.blocks * share.block + share.tail;
    int64_t last = share.start + (share.tail ? share.blocks * share.step + share.tail - 1
                                             : (share.blocks - 1) * share.step + share.block - 1);
    return take(at, share.start, last, copies, stride);
}

// Subarray and darray: a part of each dimension of a full array, whose bounds the type has.
static bool place_array(const wh_type *node, hull *all) {
    const whi_bounds *element = &node->children[0]->at;
    bool sub = node->kind == WH_KIND_SUBARRAY;
    int64_t n = node->args[0];
    const int64_t *sizes = node->args + (sub ? 2 : 4);
    wide stride = extent_of(element);
    spread at = {0, 0, 1};
    for (int64_t i = 0; i < n; i++) {
        int64_t dim = node->args[1] == WH_ORDER_C ? n - 1 - i : i;
        int64_t count = sub ? sizes[n + dim] : 0, start = sub ? sizes[2 * n + dim] : 0;
        if (!(sub ? take(&at, start, start + count - 1, count, (int64_t)stride)
                  : take_share(node, (int)dim, (int64_t)stride, &at)))
            return false;
        stride *= sizes[dim];
        if (!fits(stride))
            return false;
    }
    place(all, &at, element);
    all->lb = 0;
    all->ub = stride;
    return true;
}

static bool place_all(const wh_type *node, hull *all) {
    static const whi_bounds nothing;  // a struct may have no member
    const whi_bounds *element = node->nchildren ? &node->children[0]->at : &nothing;
    switch ((wh_type_kind)node->kind) {
    case WH_KIND_DUP:
    case WH_KIND_RESIZED: place(all, &(spread){0, 0, 1}, element); return true;
    case WH_KIND_CONTIG: return place_block(element, node->args[0], 0, 1, all);
    case WH_KIND_VECTOR: return place_vector(node, extent_of(element), all);
    case WH_KIND_HVECTOR: return place_vector(node, 1, all);
    case WH_KIND_INDEXED:
    case WH_KIND_INDEXED_BLOCK: return place_blocks(node, extent_of(element), all);
    case WH_KIND_HINDEXED:
    case WH_KIND_HINDEXED_BLOCK: return place_blocks(node, 1, all);
    case WH_KIND_STRUCT: return place_struct(node, all);
    case WH_KIND_SUBARRAY:
    case WH_KIND_DARRAY: return place_array(node, all);
    case WH_KIND_STRIDED: return place_strided(node, all);
    case WH_KIND_BASIC: break;
    }
    return false;
}

wh_status whi_type_bounds_set(wh_type *node) {
    node->at.align = 1;
    node->at.set = node->kind == WH_KIND_RESIZED || node->kind == WH_KIND_SUBARRAY ||
                   node->kind == WH_KIND_DARRAY;
    for (size_t i = 0; i < node->nchildren; i++) {
        const whi_bounds *child = &node->children[i]->at;
        node->at.set |= child->set;
        if (child->align > node->at.align)
            node->at.align = child->align;
    }
    hull all = {0};
    if (!place_all(node, &all))
        return whi_type_overflow(node);
    if (node->kind == WH_KIND_RESIZED) {
        all.lb = node->args[0];
        all.ub = (wide)node->args[0] + node->args[1];
    }
    if (!hull_fits(&all))
        return whi_type_overflow(node);
    node->at.lb = (int64_t)all.lb;
    node->at.ub = (int64_t)all.ub;
    node->at.true_lb = (int64_t)all.true_lb;
    node->at.true_ub = (int64_t)all.true_ub;
    node->at.size = (int64_t)all.size;
    node->at.basics = (int64_t)all.basics;
    return WH_OK;
}
