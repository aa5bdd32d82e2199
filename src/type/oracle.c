// SPDX-License-Identifier: BSD-3-Clause
//
// The naive walk (oracle.h).  Where the MPI standard gives a definition, this is its text as loops:
// a subarray visits every index of the array and asks whether it is inside, a darray whether the
// rank owns it.
#include "type/oracle.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct visit {
    whi_oracle_fn element;                           // each predefined element, or NULL
    void (*node)(int64_t, const wh_type *, void *);  // each copy of a child, or NULL
    void *arg;
} visit;

static void walk(const wh_type *type, int64_t at, const visit *show);

// A copy of a child: walked, or only shown.
static void copy(const wh_type *child, int64_t at, const visit *show) {
    if (show->node)
        show->node(at, child, show->arg);
    else
        walk(child, at, show);
}

static int64_t naive_extent(const wh_type *type) {
    whi_oracle_bounds b = whi_oracle_measure(type);
    return b.ub - b.lb;
}

static void block(const wh_type *child, int64_t at, int64_t length, int64_t extent,
                  const visit *show) {
    for (int64_t i = 0; i < length; i++)
        copy(child, at + i * extent, show);
}

static bool owns(const wh_type *type, int64_t dim, int64_t index, int64_t coordinate) {
    int64_t n = type->args[0];
    int64_t size = type->args[4 + dim], distrib = type->args[4 + n + dim];
    int64_t darg = type->args[4 + 2 * n + dim], procs = type->args[4 + 3 * n + dim];
    if (distrib == WH_DIST_NONE)
        return true;
    if (distrib == WH_DIST_BLOCK)
        return index / (darg == WH_DIST_DEFAULT ? (size + procs - 1) / procs : darg) == coordinate;
    return index / (darg == WH_DIST_DEFAULT ? 1 : darg) % procs == coordinate;
}

static bool inside(const wh_type *type, int64_t dim, int64_t index) {
    int64_t n = type->args[0];
    if (type->kind == WH_KIND_SUBARRAY) {
        int64_t subsize = type->args[2 + n + dim], start = type->args[2 + 2 * n + dim];
        return index >= start && index < start + subsize;
    }
    int64_t rank = type->args[3];
    for (int64_t d = n - 1; d > dim; d--)
        rank /= type->args[4 + 3 * n + d];
    return owns(type, dim, index, rank % type->args[4 + 3 * n + dim]);
}

// All indices of an array, in the order of memory.
static void array(const wh_type *type, int64_t at, const visit *show) {
    int64_t n = type->args[0], total = 1, extent = naive_extent(type->children[0]);
    const int64_t *sizes = type->args + (type->kind == WH_KIND_SUBARRAY ? 2 : 4);
    for (int64_t d = 0; d < n; d++)
        total *= sizes[d];
    for (int64_t linear = 0; linear < total; linear++) {
        int64_t rest = linear;
        bool in = true;
        for (int64_t i = 0; i < n; i++) {
            int64_t dim = type->args[1] == WH_ORDER_C ? n - 1 - i : i;
            in &= inside(type, dim, rest % sizes[dim]);
            rest /= sizes[dim];
        }
        if (in)
            copy(type->children[0], at + linear * extent, show);
    }
}

static void strided(const wh_type *type, int64_t at, const visit *show) {
    int64_t n = type->args[0], total = 1;
    const int64_t *shape = type->args + 1, *strides = shape + n;
    for (int64_t d = 0; d < n; d++)
        total *= shape[d];
    for (int64_t linear = 0; linear < total; linear++) {
        int64_t rest = linear, offset = 0;
        for (int64_t d = n - 1; d >= 0; d--) {
            offset += rest % shape[d] * strides[d];
            rest /= shape[d];
        }
        copy(type->children[0], at + offset, show);
    }
}

static void walk(const wh_type *type, int64_t at, const visit *show) {
    const int64_t *args = type->args;
    const wh_type *child = type->nchildren ? type->children[0] : NULL;
    int64_t extent = child ? naive_extent(child) : 0;
    switch ((wh_type_kind)type->kind) {
    case WH_KIND_BASIC:
        if (show->element)
            show->element(at, (wh_type_id)type->id, show->arg);
        return;
    case WH_KIND_DUP:
    case WH_KIND_RESIZED: copy(child, at, show); return;
    case WH_KIND_CONTIG: block(child, at, args[0], extent, show); return;
    case WH_KIND_VECTOR:
        for (int64_t i = 0; i < args[0]; i++)
            block(child, at + i * args[2] * extent, args[1], extent, show);
        return;
    case WH_KIND_HVECTOR:
        for (int64_t i = 0; i < args[0]; i++)
            block(child, at + i * args[2], args[1], extent, show);
        return;
    case WH_KIND_INDEXED:
        for (int64_t i = 0; i < args[0]; i++)
            block(child, at + args[1 + args[0] + i] * extent, args[1 + i], extent, show);
        return;
    case WH_KIND_HINDEXED:
        for (int64_t i = 0; i < args[0]; i++)
            block(child, at + args[1 + args[0] + i], args[1 + i], extent, show);
        return;
    case WH_KIND_INDEXED_BLOCK:
        for (int64_t i = 0; i < args[0]; i++)
            block(child, at + args[2 + i] * extent, args[1], extent, show);
        return;
    case WH_KIND_HINDEXED_BLOCK:
        for (int64_t i = 0; i < args[0]; i++)
            block(child, at + args[2 + i], args[1], extent, show);
        return;
    case WH_KIND_STRUCT:
        for (int64_t i = 0; i < args[0]; i++)
            block(type->children[i], at + args[1 + args[0] + i], args[1 + i],
                  naive_extent(type->children[i]), show);
        return;
    case WH_KIND_SUBARRAY:
    case WH_KIND_DARRAY: array(type, at, show); return;
    case WH_KIND_STRIDED: strided(type, at, show); return;
    }
}

void whi_oracle_walk(const wh_type *type, int64_t count, whi_oracle_fn fn, void *arg) {
    visit show = {fn, NULL, arg};
    int64_t extent = naive_extent(type);
    for (int64_t i = 0; i < count; i++)
        walk(type, i * extent, &show);
}

// Entries of the type map: of data with its padding, of markers, and the bytes of data.
typedef struct measuring {
    whi_oracle_bounds b;
    bool any, marked;
    int64_t align, low, high, mark_low, mark_high;
} measuring;

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static measuring measure(const wh_type *type);

static void measure_copy(int64_t at, const wh_type *child, void *arg) {
    measuring *m = arg;
    measuring c = measure(child);
    if (c.marked) {
        m->mark_low = m->marked ? least(m->mark_low, at + c.b.lb) : at + c.b.lb;
        m->mark_high = m->marked ? most(m->mark_high, at + c.b.ub) : at + c.b.ub;
        m->marked = true;
    } else if (c.any) {
        m->low = least(m->low, at + c.b.lb);
        m->high = most(m->high, at + c.b.ub);
    }
    if (!c.any)
        return;
    m->b.true_lb = m->any ? least(m->b.true_lb, at + c.b.true_lb) : at + c.b.true_lb;
    m->b.true_ub = m->any ? most(m->b.true_ub, at + c.b.true_ub) : at + c.b.true_ub;
    m->any = true;
    m->align = most(m->align, c.align);
    m->b.size += c.b.size;
    m->b.basics += c.b.basics;
}

static measuring measure_basic(const whi_basic *basic) {
    bool pair = basic->type_class == WHI_TYPE_CLASS_PAIR;
    measuring m = {.any = true, .align = basic->align};
    m.b = (whi_oracle_bounds){.size = basic->size,
                              .ub = basic->extent,
                              .true_ub = pair ? basic->index_at + 4 : basic->size,
                              .basics = pair ? 2 : 1};
    return m;
}

static void mark(measuring *m, int64_t low, int64_t high) {
    m->mark_low = low;
    m->mark_high = high;
    m->marked = true;
}

static measuring measure(const wh_type *type) {
    if (type->kind == WH_KIND_BASIC)
        return measure_basic(&whi_basics[type->id]);
    measuring m = {.align = 1, .low = INT64_MAX, .high = INT64_MIN};
    visit show = {NULL, measure_copy, &m};
    walk(type, 0, &show);
    if (type->kind == WH_KIND_RESIZED)
        mark(&m, type->args[0], type->args[0] + type->args[1]);
    if (type->kind == WH_KIND_SUBARRAY || type->kind == WH_KIND_DARRAY) {
        int64_t full = naive_extent(type->children[0]);
        for (int64_t d = 0; d < type->args[0]; d++)
            full *= type->args[(type->kind == WH_KIND_SUBARRAY ? 2 : 4) + d];
        mark(&m, 0, full);
    }
    if (m.marked) {
        m.b.lb = m.mark_low;
        m.b.ub = m.mark_high;
    } else if (m.any) {
        m.b.lb = m.low;
        m.b.ub = m.high;
        while ((m.b.ub - m.b.lb) % m.align)
            m.b.ub++;
    }
    return m;
}

whi_oracle_bounds whi_oracle_measure(const wh_type *type) {
    return measure(type).b;
}

static void map_element(int64_t offset, wh_type_id id, void *arg) {
    int64_t **next = arg;
    const whi_basic *basic = &whi_basics[id];
    for (int i = 0; i < basic->size; i++)
        *(*next)++ = offset + (i < basic->value ? i : basic->index_at + i - basic->value);
}

void whi_oracle_map(const wh_type *type, int64_t count, int64_t *map) {
    whi_oracle_walk(type, count, map_element, &map);
}

static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

bool whi_oracle_span(const int64_t *map, int64_t n, int64_t *low, int64_t *span) {
    *low = *span = 0;
    if (n == 0)
        return false;
    int64_t *sorted = malloc((size_t)n * sizeof(*sorted));
    if (!sorted)
        abort();
    memcpy(sorted, map, (size_t)n * sizeof(*sorted));
    qsort(sorted, (size_t)n, sizeof(*sorted), ascending);
    bool twice = false;
    for (int64_t i = 1; i < n; i++)
        twice |= sorted[i] == sorted[i - 1];
    *low = sorted[0];
    *span = sorted[n - 1] - sorted[0] + 1;
    free(sorted);
    return twice;
}
