// SPDX-License-Identifier: BSD-3-Clause
//
// The operations that build layouts and keep them normal (layout.h).
//
// Invariants after each: a layout of size 0 is all zeros; every loop has two passes or more; no
// loop continues the one inside it; a run is never repeated at a distance of its own length.
// Arithmetic cannot overflow, because the bounds of the type were checked before.
#include "type/layout.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

struct whi_chunk {
    struct whi_chunk *next;
    _Alignas(64) unsigned char data[];
};

static void *take(struct whi_chunk **list, size_t n, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes) || bytes > SIZE_MAX / 2)
        return NULL;
    struct whi_chunk *chunk = whi_aligned_alloc(_Alignof(struct whi_chunk), sizeof(*chunk) + bytes);
    if (!chunk)
        return NULL;
    chunk->next = *list;
    *list = chunk;
    return chunk->data;
}

static void free_list(struct whi_chunk **list) {
    while (*list) {
        struct whi_chunk *chunk = *list;
        *list = chunk->next;
        whi_free(chunk);
    }
}

void *whi_arena_take(whi_arena *arena, size_t n, size_t size) {
    return take(&arena->kept, n, size);
}

void *whi_arena_scratch(whi_arena *arena, size_t n, size_t size) {
    return take(&arena->scratch, n, size);
}

void whi_arena_free_scratch(whi_arena *arena) {
    free_list(&arena->scratch);
}

void whi_arena_free(whi_arena *arena) {
    free_list(&arena->scratch);
    free_list(&arena->kept);
}

static int64_t leaf_start(const whi_leaf *leaf) {
    switch ((whi_leaf_kind)leaf->kind) {
    case WHI_RUN: return 0;
    case WHI_BLOCKS:
    case WHI_LIST: return whi_leaf_off(leaf, 0);
    case WHI_INDEX: return leaf->off[0] + leaf->child->start;
    case WHI_SEQ: return leaf->child[0].start;
    }
    return 0;
}

static int64_t leaf_end(const whi_leaf *leaf) {
    int64_t last = leaf->n - 1;
    switch ((whi_leaf_kind)leaf->kind) {
    case WHI_RUN: return leaf->size;
    case WHI_BLOCKS:
    case WHI_LIST: return whi_leaf_off(leaf, last) + whi_leaf_len(leaf, last);
    case WHI_INDEX: return leaf->off[last] + leaf->child->end;
    case WHI_SEQ: return leaf->child[last].end;
    }
    return 0;
}

static int64_t leaf_runs(const whi_leaf *leaf) {
    switch ((whi_leaf_kind)leaf->kind) {
    case WHI_RUN: return 1;
    case WHI_BLOCKS:
    case WHI_LIST: return leaf->n;
    case WHI_INDEX:
    case WHI_SEQ: return leaf->rpos[leaf->n];
    }
    return 0;
}

// Recomputes all that follows from offset, loops and leaf.
static void measure(whi_layout *layout) {
    const whi_leaf *leaf = &layout->leaf;
    int64_t size = leaf->size, runs = leaf_runs(leaf);
    int64_t start = leaf_start(leaf), end = leaf_end(leaf);
    for (int d = layout->ndims - 1; d >= 0; d--) {
        whi_dim *dim = &layout->dim[d];
        dim->size = size;
        dim->runs = runs;
        dim->join = start + dim->stride == end;
        size *= dim->count;
        runs += (dim->count - 1) * (runs - dim->join);
        end += (dim->count - 1) * dim->stride;
    }
    layout->size = size;
    layout->runs = runs;
    layout->start = layout->off + start;
    layout->end = layout->off + end;
}

static void clear(whi_layout *layout) {
    memset(layout, 0, sizeof(*layout));
}

void whi_layout_run(whi_layout *layout, int64_t size, uint8_t tag) {
    clear(layout);
    if (size == 0)
        return;
    layout->leaf = (whi_leaf){.kind = WHI_RUN, .tag = tag, .size = size, .n = 1, .len = size};
    measure(layout);
}

void whi_layout_shift(whi_layout *layout, int64_t offset) {
    if (layout->size == 0)
        return;
    layout->off += offset;
    layout->start += offset;
    layout->end += offset;
}

// Makes a layout the single child of a new one, so that there is space for loops again.
static wh_status wrap(whi_layout *layout, whi_arena *arena) {
    whi_layout *child = whi_arena_take(arena, 1, sizeof(*child));
    int64_t *tables = whi_arena_take(arena, 3, sizeof(*tables));
    if (!child || !tables)
        return WH_ENOMEM;
    int64_t off = layout->off;
    *child = *layout;
    whi_layout_shift(child, -off);
    wh_status status = whi_layout_shape(child, arena);
    if (status != WH_OK)
        return status;
    tables[0] = 0;  // off
    tables[1] = 0;  // rpos
    tables[2] = child->runs;
    clear(layout);
    layout->off = off;
    layout->leaf = (whi_leaf){.kind = WHI_INDEX,
                              .tag = WHI_TAG_NONE,
                              .size = child->size,
                              .n = 1,
                              .off = tables,
                              .rpos = tables + 1,
                              .child = child};
    measure(layout);
    return WH_OK;
}

wh_status whi_layout_loop(whi_layout *layout, int64_t count, int64_t stride, whi_arena *arena) {
    if (count == 0)
        clear(layout);
    if (layout->size == 0 || count == 1)
        return WH_OK;
    whi_dim *outer = &layout->dim[0];
    if (layout->ndims == 0 && layout->leaf.kind == WHI_RUN && layout->leaf.size == stride) {
        layout->leaf.size *= count;
        layout->leaf.len = layout->leaf.size;
    } else if (layout->ndims && outer->count * outer->stride == stride) {
        outer->count *= count;
    } else {
        if (layout->ndims == WHI_DIMS) {
            wh_status status = wrap(layout, arena);
            if (status != WH_OK)
                return status;
        }
        memmove(outer + 1, outer, (size_t)layout->ndims * sizeof(*outer));
        layout->ndims++;
        *outer = (whi_dim){.count = count, .stride = stride};
    }
    measure(layout);
    return WH_OK;
}

void whi_layout_inner(whi_layout *layout) {
    layout->ndims--;
    memmove(layout->dim, layout->dim + 1, (size_t)layout->ndims * sizeof(*layout->dim));
    measure(layout);
}

// Whether the offsets advance by one step throughout.
static bool arithmetic(int64_t n, const int64_t *offsets, int64_t *step) {
    *step = n > 1 ? offsets[1] - offsets[0] : 0;
    for (int64_t i = 2; i < n; i++)
        if (offsets[i] - offsets[i - 1] != *step)
            return false;
    return true;
}

static int64_t merge(whi_runs *runs) {
    int64_t kept = 0;
    for (int64_t i = 0; i < runs->n; i++) {
        if (runs->len[i] == 0)
            continue;
        if (kept && runs->off[kept - 1] + runs->len[kept - 1] == runs->off[i] &&
            runs->tag[kept - 1] == runs->tag[i]) {
            runs->len[kept - 1] += runs->len[i];
            continue;
        }
        runs->off[kept] = runs->off[i];
        runs->len[kept] = runs->len[i];
        runs->tag[kept] = runs->tag[i];
        kept++;
    }
    return runs->n = kept;
}

static bool fits_compact(const whi_leaf *leaf, const whi_runs *runs, int64_t *low) {
    int64_t high = INT64_MIN, longest = 0;
    *low = INT64_MAX;
    for (int64_t i = 0; i < runs->n; i++) {
        *low = runs->off[i] < *low ? runs->off[i] : *low;
        high = runs->off[i] > high ? runs->off[i] : high;
        longest = runs->len[i] > longest ? runs->len[i] : longest;
    }
    return high - *low <= UINT32_MAX && (leaf->kind == WHI_BLOCKS || longest <= UINT8_MAX);
}

static void *keep(const void *table, int64_t n, size_t size, whi_arena *arena) {
    void *copy = whi_arena_take(arena, (size_t)n, size);
    return copy ? memcpy(copy, table, (size_t)n * size) : NULL;
}

// Four-byte offsets and one-byte lengths where they fit: an index of a million runs is read once
// per pack, and its size is time.
static wh_status tables(whi_leaf *leaf, const whi_runs *runs, whi_arena *arena) {
    int64_t n = runs->n, low;
    bool list = leaf->kind == WHI_LIST;
    if (leaf->tags && !(leaf->tags = keep(runs->tag, n, sizeof(*runs->tag), arena)))
        return WH_ENOMEM;
    if (!fits_compact(leaf, runs, &low)) {
        leaf->off = keep(runs->off, n, sizeof(*runs->off), arena);
        leaf->lens = list ? keep(runs->len, n, sizeof(*runs->len), arena) : NULL;
        return leaf->off && (leaf->lens || !list) ? WH_OK : WH_ENOMEM;
    }
    uint32_t *off32 = whi_arena_take(arena, (size_t)n, sizeof(*off32));
    uint8_t *len8 = list ? whi_arena_take(arena, (size_t)n, sizeof(*len8)) : NULL;
    if (!off32 || (list && !len8))
        return WH_ENOMEM;
    for (int64_t i = 0; i < n; i++) {
        off32[i] = (uint32_t)(runs->off[i] - low);
        if (list)
            len8[i] = (uint8_t)runs->len[i];
    }
    leaf->low = low;
    leaf->off32 = off32;
    leaf->len8 = len8;
    return WH_OK;
}

static wh_status list_positions(whi_leaf *leaf, const whi_runs *runs, whi_arena *arena) {
    int64_t n = runs->n, at = 0;
    int64_t *pos = whi_arena_take(arena, (size_t)(n / WHI_LIST_STEP + 2), sizeof(*pos));
    if (!pos)
        return WH_ENOMEM;
    for (int64_t i = 0; i < n; i++) {
        if (i % WHI_LIST_STEP == 0)
            pos[i / WHI_LIST_STEP] = at;
        at += runs->len[i];
    }
    pos[(n - 1) / WHI_LIST_STEP + 1] = at;
    leaf->pos = pos;
    leaf->size = at;
    return WH_OK;
}

wh_status whi_layout_list(whi_layout *layout, whi_runs *runs, whi_arena *arena) {
    clear(layout);
    int64_t n = merge(runs), step;
    if (n == 0)
        return WH_OK;
    bool equal = true, one_tag = true;
    for (int64_t i = 1; i < n; i++) {
        equal &= runs->len[i] == runs->len[0];
        one_tag &= runs->tag[i] == runs->tag[0];
    }
    if (equal && one_tag && arithmetic(n, runs->off, &step)) {
        whi_layout_run(layout, runs->len[0], runs->tag[0]);
        whi_layout_shift(layout, runs->off[0]);
        return whi_layout_loop(layout, n, step, arena);
    }
    whi_leaf *leaf = &layout->leaf;
    leaf->kind = equal && one_tag ? WHI_BLOCKS : WHI_LIST;
    leaf->tag = runs->tag[0];
    leaf->tags = one_tag ? NULL : runs->tag;
    leaf->n = n;
    leaf->len = runs->len[0];
    if (leaf->kind == WHI_BLOCKS)
        leaf->size = n * leaf->len;
    wh_status status = tables(leaf, runs, arena);
    if (status == WH_OK && leaf->kind == WHI_LIST)
        status = list_positions(leaf, runs, arena);
    if (status != WH_OK) {
        clear(layout);
        return status;
    }
    measure(layout);
    return WH_OK;
}

wh_status whi_runs_take(whi_runs *runs, int64_t space, whi_arena *arena) {
    runs->n = 0;
    runs->off = whi_arena_scratch(arena, (size_t)space, sizeof(*runs->off));
    runs->len = whi_arena_scratch(arena, (size_t)space, sizeof(*runs->len));
    runs->tag = whi_arena_scratch(arena, (size_t)space, sizeof(*runs->tag));
    return runs->off && runs->len && runs->tag ? WH_OK : WH_ENOMEM;
}

int64_t whi_layout_pieces(const whi_layout *layout, int64_t max) {
    if (layout->size == 0)
        return 0;
    const whi_leaf *leaf = &layout->leaf;
    int64_t pieces = leaf->kind == WHI_RUN ? 1 : leaf->n;
    if (leaf->kind == WHI_INDEX && pieces <= max)
        pieces *= whi_layout_pieces(leaf->child, max / pieces);
    if (leaf->kind == WHI_SEQ) {
        pieces = 0;
        for (int64_t i = 0; i < leaf->n && pieces <= max; i++)
            pieces += whi_layout_pieces(&leaf->child[i], max - pieces);
    }
    for (int d = 0; d < layout->ndims && pieces <= max; d++)
        if (__builtin_mul_overflow(pieces, layout->dim[d].count, &pieces))
            return max + 1;
    return pieces <= max ? pieces : max + 1;
}

static void append(whi_runs *runs, int64_t off, int64_t len, uint8_t tag) {
    runs->off[runs->n] = off;
    runs->len[runs->n] = len;
    runs->tag[runs->n] = tag;
    runs->n++;
}

static void expand_leaf(const whi_leaf *leaf, int64_t base, whi_runs *runs) {
    if (leaf->kind == WHI_RUN)
        append(runs, base, leaf->size, leaf->tag);
    for (int64_t i = 0; i < leaf->n && leaf->kind != WHI_RUN; i++) {
        if (leaf->kind == WHI_INDEX)
            whi_layout_expand(leaf->child, base + leaf->off[i], runs);
        else if (leaf->kind == WHI_SEQ)
            whi_layout_expand(&leaf->child[i], base, runs);
        else
            append(runs, base + whi_leaf_off(leaf, i), whi_leaf_len(leaf, i),
                   whi_leaf_tag(leaf, i));
    }
}

static void expand_dims(const whi_layout *layout, int d, int64_t base, whi_runs *runs) {
    if (d == layout->ndims) {
        expand_leaf(&layout->leaf, base, runs);
        return;
    }
    for (int64_t i = 0; i < layout->dim[d].count; i++)
        expand_dims(layout, d + 1, base + i * layout->dim[d].stride, runs);
}

void whi_layout_expand(const whi_layout *layout, int64_t base, whi_runs *runs) {
    if (layout->size)
        expand_dims(layout, 0, base + layout->off, runs);
}

// Copies of something small: one flat list is faster than a table of tables.
static wh_status index_expanded(whi_layout *layout, int64_t n, const int64_t *offsets,
                                int64_t pieces, whi_arena *arena) {
    whi_runs runs;
    wh_status status = whi_runs_take(&runs, n * pieces, arena);
    if (status != WH_OK)
        return status;
    for (int64_t i = 0; i < n; i++)
        whi_layout_expand(layout, offsets[i], &runs);
    return whi_layout_list(layout, &runs, arena);
}

wh_status whi_layout_index(whi_layout *layout, int64_t n, const int64_t *offsets,
                           whi_arena *arena) {
    if (n == 0)
        clear(layout);
    if (layout->size == 0)
        return WH_OK;
    int64_t step, pieces = whi_layout_pieces(layout, 8);
    if (arithmetic(n, offsets, &step)) {
        whi_layout_shift(layout, offsets[0]);
        return whi_layout_loop(layout, n, step, arena);
    }
    if (pieces <= 8)
        return index_expanded(layout, n, offsets, pieces, arena);
    whi_layout *child = whi_arena_take(arena, 1, sizeof(*child));
    int64_t *off = whi_arena_take(arena, (size_t)n, sizeof(*off));
    int64_t *rpos = whi_arena_take(arena, (size_t)n + 1, sizeof(*rpos));
    if (!child || !off || !rpos)
        return WH_ENOMEM;
    *child = *layout;
    wh_status status = whi_layout_shape(child, arena);
    if (status != WH_OK)
        return status;
    memcpy(off, offsets, (size_t)n * sizeof(*off));
    rpos[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        bool join = i && off[i - 1] + child->end == off[i] + child->start;
        rpos[i + 1] = rpos[i] + child->runs - join;
    }
    clear(layout);
    layout->leaf = (whi_leaf){.kind = WHI_INDEX,
                              .tag = WHI_TAG_NONE,
                              .size = n * child->size,
                              .n = n,
                              .off = off,
                              .rpos = rpos,
                              .child = child};
    measure(layout);
    return WH_OK;
}

// Whether two layouts are the same but for their offset, sharing tables.
static bool congruent(const whi_layout *a, const whi_layout *b) {
    const whi_leaf *x = &a->leaf, *y = &b->leaf;
    if (a->size != b->size || a->ndims != b->ndims || x->kind != y->kind || x->tag != y->tag ||
        x->size != y->size || x->n != y->n || x->off != y->off || x->off32 != y->off32 ||
        x->low != y->low || x->child != y->child)
        return false;
    for (int d = 0; d < a->ndims; d++)
        if (a->dim[d].count != b->dim[d].count || a->dim[d].stride != b->dim[d].stride)
            return false;
    return true;
}

static int64_t drop_empty(int64_t n, whi_layout *parts) {
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++)
        if (parts[i].size) {
            if (kept != i)
                parts[kept] = parts[i];
            kept++;
        }
    return kept;
}

static wh_status seq_same(whi_layout *layout, int64_t n, const whi_layout *parts,
                          whi_arena *arena) {
    int64_t *offsets = whi_arena_scratch(arena, (size_t)n, sizeof(*offsets));
    if (!offsets)
        return WH_ENOMEM;
    for (int64_t i = 0; i < n; i++)
        offsets[i] = parts[i].off;
    *layout = parts[0];
    whi_layout_shift(layout, -parts[0].off);
    return whi_layout_index(layout, n, offsets, arena);
}

static wh_status seq_expanded(whi_layout *layout, int64_t n, const whi_layout *parts,
                              int64_t pieces, whi_arena *arena) {
    whi_runs runs;
    wh_status status = whi_runs_take(&runs, pieces, arena);
    if (status != WH_OK)
        return status;
    for (int64_t i = 0; i < n; i++)
        whi_layout_expand(&parts[i], 0, &runs);
    return whi_layout_list(layout, &runs, arena);
}

wh_status whi_layout_seq(whi_layout *layout, int64_t n, whi_layout *parts, whi_arena *arena) {
    clear(layout);
    n = drop_empty(n, parts);
    if (n == 0)
        return WH_OK;
    int64_t pieces = 0, max = 4 * n > WHI_EXPAND ? 4 * n : WHI_EXPAND;
    bool same = true;
    for (int64_t i = 0; i < n; i++) {
        same &= congruent(&parts[0], &parts[i]);
        if (pieces <= max)
            pieces += whi_layout_pieces(&parts[i], max);
    }
    if (same)
        return seq_same(layout, n, parts, arena);
    if (pieces <= max)
        return seq_expanded(layout, n, parts, pieces, arena);
    int64_t *pos = whi_arena_take(arena, (size_t)n + 1, sizeof(*pos));
    int64_t *rpos = whi_arena_take(arena, (size_t)n + 1, sizeof(*rpos));
    if (!pos || !rpos)
        return WH_ENOMEM;
    pos[0] = rpos[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        wh_status status = whi_layout_shape(&parts[i], arena);
        if (status != WH_OK)
            return status;
        bool join = i && parts[i - 1].end == parts[i].start;
        pos[i + 1] = pos[i] + parts[i].size;
        rpos[i + 1] = rpos[i] + parts[i].runs - join;
    }
    layout->leaf = (whi_leaf){.kind = WHI_SEQ,
                              .tag = WHI_TAG_NONE,
                              .size = pos[n],
                              .n = n,
                              .pos = pos,
                              .rpos = rpos,
                              .child = parts};
    measure(layout);
    return WH_OK;
}
