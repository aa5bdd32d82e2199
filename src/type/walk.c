// SPDX-License-Identifier: BSD-3-Clause
//
// The traversal (walk.h): a cut head, whole passes, a cut tail, at each level of loops.
//
// Finding a byte costs one division per loop and one search per table, so a segment anywhere in the
// bytes begins in O(depth) or O(log n).  The whole of a layout takes no division at all.
#include "type/walk.h"

#include <string.h>

static bool walk_whole(whi_visitor *visitor, const whi_layout *layout, uintptr_t at);
static bool walk_part(whi_visitor *visitor, const whi_layout *layout, uintptr_t at, int64_t from,
                      int64_t to);

static uintptr_t move(uintptr_t at, int64_t count, int64_t stride) {
    return at + (uintptr_t)count * (uintptr_t)stride;
}

static bool leaf_children(whi_visitor *visitor, const whi_leaf *leaf, uintptr_t at) {
    for (int64_t i = 0; i < leaf->n; i++)
        if (!(leaf->kind == WHI_INDEX
                  ? walk_whole(visitor, leaf->child, at + (uintptr_t)leaf->off[i])
                  : walk_whole(visitor, &leaf->child[i], at)))
            return false;
    return true;
}

static bool grid(whi_visitor *visitor, const whi_leaf *leaf, uintptr_t at, int64_t n1, int64_t s1,
                 int64_t n0, int64_t s0) {
    if (leaf->kind < WHI_INDEX)
        return visitor->grid(visitor, leaf, at, n1, s1, n0, s0);
    for (int64_t i = 0; i < n1; i++)
        for (int64_t j = 0; j < n0; j++)
            if (!leaf_children(visitor, leaf, move(move(at, i, s1), j, s0)))
                return false;
    return true;
}

// Passes `n` of the first loop, whole.
static bool loops_whole(whi_visitor *visitor, const whi_leaf *leaf, const whi_dim *dim, int ndims,
                        int64_t n, uintptr_t at) {
    if (ndims == 0)
        return grid(visitor, leaf, at, 1, 0, 1, 0);
    if (ndims == 1)
        return grid(visitor, leaf, at, 1, 0, n, dim[0].stride);
    if (ndims == 2)
        return grid(visitor, leaf, at, n, dim[0].stride, dim[1].count, dim[1].stride);
    for (int64_t i = 0; i < n; i++)
        if (!loops_whole(visitor, leaf, dim + 1, ndims - 1, dim[1].count,
                         move(at, i, dim[0].stride)))
            return false;
    return true;
}

// The run of a list that holds packed position `from`, and where it begins there.  Run `near` is one
// not behind it: the search begins there with growing steps, since segments are short.
static int64_t find_run(const whi_leaf *leaf, int64_t from, int64_t near, int64_t *begin) {
    int64_t end = (leaf->n - 1) / WHI_LIST_STEP + 1, low = near / WHI_LIST_STEP, high = low + 1;
    while (high < end && leaf->pos[high] <= from) {
        int64_t step = 2 * (high - low);
        low = high;
        high = step < end - low ? low + step : end;
    }
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (leaf->pos[middle] <= from)
            low = middle;
        else
            high = middle;
    }
    int64_t i = low * WHI_LIST_STEP, at = leaf->pos[low];
    while (at + whi_leaf_len(leaf, i) <= from)
        at += whi_leaf_len(leaf, i++);
    *begin = at;
    return i;
}

// Runs [i, j) of a table, whole: the same table seen through a smaller window.
static bool table_whole(whi_visitor *visitor, const whi_leaf *leaf, uintptr_t at, int64_t i,
                        int64_t j, int64_t size) {
    if (i == j)
        return true;
    whi_leaf window = *leaf;
    window.n = j - i;
    window.size = size;
    if (leaf->off32)
        window.off32 += i;
    else
        window.off += i;
    if (leaf->kind == WHI_LIST && leaf->len8)
        window.len8 += i;
    else if (leaf->kind == WHI_LIST)
        window.lens += i;
    if (leaf->tags)
        window.tags += i;
    window.pos = NULL;  // it counts from the table's first run
    return visitor->grid(visitor, &window, at, 1, 0, 1, 0);
}

static bool table_run(whi_visitor *visitor, const whi_leaf *leaf, uintptr_t at, int64_t i,
                      int64_t from, int64_t to) {
    return from == to || visitor->bytes(visitor, at + (uintptr_t)(whi_leaf_off(leaf, i) + from),
                                        to - from, whi_leaf_tag(leaf, i));
}

static bool table_part(whi_visitor *visitor, const whi_leaf *leaf, uintptr_t at, int64_t from,
                       int64_t to) {
    int64_t i, j, i_begin, j_begin;
    if (leaf->kind == WHI_BLOCKS) {
        i = from / leaf->len;
        j = to / leaf->len;
        i_begin = i * leaf->len;
        j_begin = j * leaf->len;
    } else {
        i = find_run(leaf, from, 0, &i_begin);
        j = to < leaf->size ? find_run(leaf, to, i, &j_begin) : (j_begin = to, leaf->n);
    }
    if (i == j)
        return table_run(visitor, leaf, at, i, from - i_begin, to - j_begin);
    if (from > i_begin) {
        int64_t len = whi_leaf_len(leaf, i);
        if (!table_run(visitor, leaf, at, i, from - i_begin, len))
            return false;
        i_begin += len;
        i++;
    }
    return table_whole(visitor, leaf, at, i, j, j_begin - i_begin) &&
           (to == j_begin || table_run(visitor, leaf, at, j, 0, to - j_begin));
}

static bool index_part(whi_visitor *visitor, const whi_leaf *leaf, uintptr_t at, int64_t from,
                       int64_t to) {
    int64_t size = leaf->child->size;
    for (int64_t i = from / size; i * size < to; i++) {
        int64_t first = from > i * size ? from - i * size : 0;
        int64_t last = to < (i + 1) * size ? to - i * size : size;
        if (!walk_part(visitor, leaf->child, at + (uintptr_t)leaf->off[i], first, last))
            return false;
    }
    return true;
}

// The last i with table[i] <= value; table[0] <= value < table[n].
static int64_t search(const int64_t *table, int64_t n, int64_t value) {
    int64_t low = 0, high = n;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (table[middle] <= value)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static bool seq_part(whi_visitor *visitor, const whi_leaf *leaf, uintptr_t at, int64_t from,
                     int64_t to) {
    for (int64_t i = search(leaf->pos, leaf->n, from); i < leaf->n && leaf->pos[i] < to; i++) {
        int64_t first = from > leaf->pos[i] ? from - leaf->pos[i] : 0;
        int64_t last = to < leaf->pos[i + 1] ? to - leaf->pos[i] : leaf->child[i].size;
        if (!walk_part(visitor, &leaf->child[i], at, first, last))
            return false;
    }
    return true;
}

// A cut leaf.
static bool leaf_part(whi_visitor *visitor, const whi_leaf *leaf, uintptr_t at, int64_t from,
                      int64_t to) {
    switch ((whi_leaf_kind)leaf->kind) {
    case WHI_RUN: return visitor->bytes(visitor, at + (uintptr_t)from, to - from, leaf->tag);
    case WHI_BLOCKS:
    case WHI_LIST: return table_part(visitor, leaf, at, from, to);
    case WHI_INDEX: return index_part(visitor, leaf, at, from, to);
    case WHI_SEQ: return seq_part(visitor, leaf, at, from, to);
    }
    return false;
}

static bool loops_part(whi_visitor *visitor, const whi_leaf *leaf, const whi_dim *dim, int ndims,
                       uintptr_t at, int64_t from, int64_t to) {
    if (ndims == 0)
        return leaf_part(visitor, leaf, at, from, to);
    int64_t size = dim->size, stride = dim->stride;
    int64_t i = from / size, head = from % size, j = to / size, tail = to % size;
    if (i == j)
        return loops_part(visitor, leaf, dim + 1, ndims - 1, move(at, i, stride), head, tail);
    if (head) {
        if (!loops_part(visitor, leaf, dim + 1, ndims - 1, move(at, i, stride), head, size))
            return false;
        i++;
    }
    if (i < j && !loops_whole(visitor, leaf, dim, ndims, j - i, move(at, i, stride)))
        return false;
    return !tail || loops_part(visitor, leaf, dim + 1, ndims - 1, move(at, j, stride), 0, tail);
}

static bool walk_whole(whi_visitor *visitor, const whi_layout *layout, uintptr_t at) {
    return loops_whole(visitor, &layout->leaf, layout->dim, layout->ndims,
                       layout->ndims ? layout->dim[0].count : 1, at + (uintptr_t)layout->off);
}

static bool walk_part(whi_visitor *visitor, const whi_layout *layout, uintptr_t at, int64_t from,
                      int64_t to) {
    return loops_part(visitor, &layout->leaf, layout->dim, layout->ndims,
                      at + (uintptr_t)layout->off, from, to);
}

int whi_walk_loops(const whi_layout *layout, int64_t count, int64_t extent, whi_dim *dims) {
    const whi_dim *dim = layout->dim;
    int n = layout->ndims, more = count > 1;
    if (more && n && dim[0].count * dim[0].stride == extent) {
        memcpy(dims, dim, (size_t)n * sizeof(*dim));
        dims[0].count *= count;
        return n;
    }
    dims[0] = (whi_dim){.count = count, .stride = extent, .size = layout->size};
    memcpy(dims + more, dim, (size_t)n * sizeof(*dim));
    return n + more;
}

bool whi_walk(whi_visitor *visitor, const whi_layout *layout, int64_t count, int64_t extent,
              uintptr_t at, int64_t from, int64_t to) {
    const whi_leaf *leaf = &layout->leaf;
    whi_dim absorbed[WHI_DIMS + 1];
    const whi_dim *dim = layout->dim;
    int ndims = layout->ndims;
    if (from == to)
        return true;
    at += (uintptr_t)layout->off;
    if (ndims == 0 && leaf->kind == WHI_RUN && (count == 1 || leaf->size == extent))
        return visitor->bytes(visitor, at + (uintptr_t)from, to - from, leaf->tag);
    if (count > 1) {
        ndims = whi_walk_loops(layout, count, extent, absorbed);
        dim = absorbed;
    }
    if (from == 0 && to == count * layout->size)
        return loops_whole(visitor, leaf, dim, ndims, ndims ? dim[0].count : 1, at);
    return loops_part(visitor, leaf, dim, ndims, at, from, to);
}

bool whi_walk_grid(whi_visitor *visitor, const whi_leaf *leaf, uintptr_t at, int64_t n1, int64_t s1,
                   int64_t n0, int64_t s0) {
    for (int64_t i = 0; i < n1; i++)
        for (int64_t j = 0; j < n0; j++) {
            uintptr_t here = move(move(at, i, s1), j, s0);
            if (leaf->kind == WHI_RUN) {
                if (!visitor->bytes(visitor, here, leaf->size, leaf->tag))
                    return false;
                continue;
            }
            for (int64_t k = 0; k < leaf->n; k++)
                if (!table_run(visitor, leaf, here, k, 0, whi_leaf_len(leaf, k)))
                    return false;
        }
    return true;
}

bool whi_walk_runs(const whi_layout *layout, int64_t count, int64_t extent, int64_t *runs) {
    if (count == 0 || layout->size == 0) {
        *runs = 0;
        return true;
    }
    bool join = layout->start + extent == layout->end;
    int64_t more;
    return !__builtin_mul_overflow(count - 1, layout->runs - join, &more) &&
           !__builtin_add_overflow(layout->runs, more, runs);
}

// In passes of `runs` runs each, the first run of every later pass continues the one before when
// they join: finds the pass in which run `*run` begins and makes *run count within it.
static int64_t find_pass(int64_t runs, bool join, int64_t *run) {
    if (*run < runs)
        return 0;
    int64_t later = *run - runs, fresh = runs - join;
    *run = later % fresh + join;
    return 1 + later / fresh;
}

static int64_t run_start(const whi_layout *layout, int64_t run);

static int64_t leaf_run_start(const whi_leaf *leaf, int64_t run) {
    if (leaf->kind == WHI_RUN)
        return 0;
    if (leaf->kind == WHI_BLOCKS)
        return run * leaf->len;
    if (leaf->kind == WHI_LIST) {
        int64_t i = run / WHI_LIST_STEP * WHI_LIST_STEP, at = leaf->pos[run / WHI_LIST_STEP];
        while (i < run)
            at += whi_leaf_len(leaf, i++);
        return at;
    }
    int64_t i = search(leaf->rpos, leaf->n, run);
    bool index = leaf->kind == WHI_INDEX;
    const whi_layout *child = index ? leaf->child : &leaf->child[i];
    bool join = i && (index ? leaf->off[i - 1] + child->end == leaf->off[i] + child->start
                            : child[-1].end == child->start);
    int64_t at = index ? i * child->size : leaf->pos[i];
    return at + run_start(child, run - leaf->rpos[i] + join);
}

static int64_t run_start(const whi_layout *layout, int64_t run) {
    int64_t at = 0;
    for (int d = 0; d < layout->ndims; d++)
        at += find_pass(layout->dim[d].runs, layout->dim[d].join, &run) * layout->dim[d].size;
    return at + leaf_run_start(&layout->leaf, run);
}

int64_t whi_walk_run_start(const whi_layout *layout, int64_t extent, int64_t run) {
    bool join = layout->start + extent == layout->end;
    if (layout->runs - join == 0)
        return 0;
    int64_t at = find_pass(layout->runs, join, &run) * layout->size;
    return at + run_start(layout, run);
}
