// SPDX-License-Identifier: BSD-3-Clause
//
// Bounds: size, extent and true extent of a type, from those of its children.
//
// The rule is the MPI standard's.  A type map is a list of predefined elements and of markers, which
// resized, subarray and darray set and which replication copies.  Where there is a marker, markers
// alone decide: the lowest one is lb, the highest ub.  Otherwise lb is the lowest byte, and ub the
// highest rounded up so that the extent suits the strictest alignment, in every kind of type.
// Zero copies and copies of nothing leave no entry, and so neither bounds nor alignment.
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

typedef struct span {
    wide low, high;
    bool any;
} span;

// What has been placed so far: copies with data by the bounds that their own types have, so that
// padding inside stays; of those with markers only the markers; and the bytes themselves.
typedef struct hull {
    span data, marks, bytes;
    wide size, basics, external;
    uint64_t ids;
    uint32_t align;
} hull;

static wide least(wide a, wide b) {
    return a < b ? a : b;
}

static wide most(wide a, wide b) {
    return a > b ? a : b;
}

static void cover(span *all, wide low, wide high) {
    all->low = all->any ? least(all->low, low) : low;
    all->high = all->any ? most(all->high, high) : high;
    all->any = true;
}

static bool is_nothing(const whi_bounds *element) {
    return element->size == 0 && !element->marked;
}

static void place(hull *all, const spread *at, const whi_bounds *element) {
    if (at->copies == 0 || is_nothing(element))
        return;
    cover(element->marked ? &all->marks : &all->data, at->low + element->lb,
          at->high + element->ub);
    if (element->size == 0)
        return;
    cover(&all->bytes, at->low + element->true_lb, at->high + element->true_ub);
    all->size += at->copies * element->size;
    all->basics += at->copies * element->basics;
    all->external += at->copies * element->external;
    all->ids |= element->ids;
    all->align = element->align > all->align ? element->align : all->align;
}

static void set_marks(hull *all, wide low, wide high) {
    all->marks = (span){low, high, true};
}

static bool span_fits(const span *all) {
    return fits(all->low) && fits(all->high);
}

static bool spans_fit(const hull *all) {
    return span_fits(&all->data) && span_fits(&all->marks) && span_fits(&all->bytes);
}

static bool hull_fits(const hull *all) {
    return spans_fit(all) && fits(all->size);
}

static wh_status too_large(const wh_type *node, const hull *all) {
    return whi_type_overflow(node, spans_fit(all) && !fits(all->size));
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
    if (length == 0 || is_nothing(element))
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

// Ranks are in C order whatever the order of the array is; step by step, since a stranger's darray may
// have a hundred thousand dimensions.
static int64_t processes_below(const wh_type *node, int64_t i, int64_t dim, int64_t before) {
    const int64_t *psizes = node->args + 4 + 3 * node->args[0];
    if (node->args[1] == WH_ORDER_C)
        return i == 0 ? 1 : before * psizes[dim + 1];
    return (i == 0 ? node->args[2] : before) / psizes[dim];
}

void whi_type_share(const wh_type *node, int64_t i, whi_share *share) {
    int64_t n = node->args[0], dim = node->args[1] == WH_ORDER_C ? n - 1 - i : i;
    const int64_t *gsizes = node->args + 4, *distribs = gsizes + n, *dargs = distribs + n,
                  *psizes = dargs + n;
    int64_t below = processes_below(node, i, dim, share->below);
    int64_t size = gsizes[dim], procs = psizes[dim], me = node->args[3] / below % procs;
    *share = (whi_share){.step = size, .block = size, .below = below};
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

static bool take_share(const whi_share *share, int64_t stride, spread *at) {
    int64_t copies = share->blocks * share->block + share->tail;
    int64_t last =
        share->start + (share->tail ? share->blocks * share->step + share->tail - 1
                                    : (share->blocks - 1) * share->step + share->block - 1);
    return take(at, share->start, last, copies, stride);
}

// Subarray and darray: a part of each dimension of a full array, whose bounds the type has.
static bool place_array(const wh_type *node, hull *all) {
    const whi_bounds *element = &node->children[0]->at;
    bool sub = node->kind == WH_KIND_SUBARRAY;
    int64_t n = node->args[0];
    const int64_t *sizes = node->args + (sub ? 2 : 4);
    wide stride = extent_of(element);
    spread at = {0, 0, 1};
    whi_share share = {0};
    for (int64_t i = 0; i < n; i++) {
        if (!sub)
            whi_type_share(node, i, &share);
        int64_t dim = node->args[1] == WH_ORDER_C ? n - 1 - i : i;
        int64_t count = sub ? sizes[n + dim] : 0, start = sub ? sizes[2 * n + dim] : 0;
        if (!(sub ? take(&at, start, start + count - 1, count, (int64_t)stride)
                  : take_share(&share, (int64_t)stride, &at)))
            return false;
        stride *= sizes[dim];
        if (!fits(stride))
            return false;
    }
    place(all, &at, element);
    set_marks(all, 0, stride);
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

// Rounds the extent of data up to what its strictest alignment asks for.
static void pad(span *data, uint32_t align) {
    wide over = (data->high - data->low) % align;
    data->high += over > 0 ? align - over : 0;
}

wh_status whi_type_bounds_set(wh_type *node) {
    hull all = {.align = 1};
    if (!place_all(node, &all))
        return too_large(node, &all);
    if (node->kind == WH_KIND_RESIZED)
        set_marks(&all, node->args[0], (wide)node->args[0] + node->args[1]);
    pad(&all.data, all.align);
    if (!hull_fits(&all))
        return too_large(node, &all);
    const span *bounds = all.marks.any ? &all.marks : &all.data;
    node->at = (whi_bounds){
        .size = (int64_t)all.size,
        .basics = (int64_t)all.basics,
        .external = (int64_t)all.external,
        .ids = all.ids,
        .lb = (int64_t)bounds->low,
        .ub = (int64_t)bounds->high,
        .true_lb = (int64_t)all.bytes.low,
        .true_ub = (int64_t)all.bytes.high,
        .align = all.align,
        .marked = all.marks.any,
    };
    return WH_OK;
}
