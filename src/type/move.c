// SPDX-License-Identifier: BSD-3-Clause
//
// Moving bytes: a walk whose visitor is a kernel.
//
// Going around the cache has kernels of its own for dense bytes, for rows and for transposes.  For all
// else, when the caller wants it, a chunk at a time is packed into a buffer in the nearest cache and
// goes from there to its place in whole lines; what scatters when unpacked has no whole lines.
#include "type/move.h"

#include <inttypes.h>
#include <string.h>

#include "type/pack.h"
#include "type/policy.h"
#include "type/walk.h"

enum {
    LINE = 64,
    CHUNK = 4096,             // packed at once on its way around the cache
    NONTEMPORAL_LEAST = 256,  // less of a run is mostly cut lines
    OWN_COPY =
        1 << 12,  // beyond the nearest cache a loop of lines beats the string moves of memcpy
};

typedef struct mover {
    whi_visitor visitor;
    char *packed;
    whi_direction direction;
    bool nontemporal;
} mover;

static int64_t distance(int64_t stride) {
    return stride < 0 ? -stride : stride;
}

// A transpose pays when a line that one row touches is wanted by the next rows too.
static bool crosses(int64_t n1, int64_t s1, int64_t n0, int64_t s0) {
    return n1 >= 4 && n0 >= 4 && distance(s0) >= LINE && distance(s1) < LINE;
}

static bool move_grid(whi_visitor *visitor, const whi_leaf *leaf, uintptr_t at, int64_t n1,
                      int64_t s1, int64_t n0, int64_t s0) {
    mover *self = (mover *)visitor;
    whi_kernel_fn *kernel = leaf->move[self->direction];
    if (leaf->cross[self->direction] && crosses(n1, s1, n0, s0))
        kernel = self->nontemporal && self->direction == WHI_PACK && leaf->cross_nontemporal
                     ? leaf->cross_nontemporal
                     : leaf->cross[self->direction];
    else if (self->nontemporal && leaf->kind == WHI_RUN && leaf->nontemporal[self->direction])
        kernel = leaf->nontemporal[self->direction];
    self->packed = kernel(leaf, self->packed, (char *)at, n1, s1, n0, s0);
    return true;
}

static bool move_bytes(whi_visitor *visitor, uintptr_t at, int64_t size, uint8_t tag) {
    (void)tag;
    mover *self = (mover *)visitor;
    char *to = self->direction == WHI_PACK ? self->packed : (char *)at;
    const char *from = self->direction == WHI_PACK ? (const char *)at : self->packed;
    if (self->nontemporal && size >= NONTEMPORAL_LEAST)
        whi_nontemporal_copy(to, from, size);
    else if (size < OWN_COPY)
        memcpy(to, from, (size_t)size);
    else
        whi_kernels_here()->copy(to, from, size);
    self->packed += size;
    return true;
}

static void move(const whi_elements *e, int64_t from, int64_t to, char *packed,
                 whi_direction direction, bool nontemporal) {
    mover self = {{move_grid, move_bytes}, packed, direction, nontemporal};
    (void)whi_walk(&self.visitor, e->layout, e->count, e->extent, e->buf, from, to);
}

// The two innermost loops, of which the count of elements may be one.
static void inner_loops(const whi_elements *e, whi_dim *outer, whi_dim *inner) {
    const whi_layout *layout = e->layout;
    const whi_dim element = {.count = e->count, .stride = e->extent};
    int n = layout->ndims;
    *inner = n ? layout->dim[n - 1] : element;
    *outer = n > 1 ? layout->dim[n - 2] : n ? element : (whi_dim){.count = 1};
}

static bool is_transpose(const whi_elements *e) {
    whi_dim outer, inner;
    if (!e->layout->leaf.cross[WHI_PACK])
        return false;
    inner_loops(e, &outer, &inner);
    return crosses(outer.count, outer.stride, inner.count, inner.stride);
}

static bool is_dense(const whi_elements *e) {
    return e->layout->ndims == 0 && (e->count == 1 || e->layout->size == e->extent);
}

// Whether a kernel moves all of the layout around the cache by itself.
static bool nontemporal_directly(const whi_elements *e, whi_direction direction) {
    const whi_leaf *leaf = &e->layout->leaf;
    return leaf->kind == WHI_RUN &&
           (is_transpose(e) ? direction == WHI_PACK && leaf->cross_nontemporal
                            : leaf->nontemporal[direction] || is_dense(e));
}

// The lines of each run, but no more than there are.
int64_t whi_elements_touched(const whi_elements *e, int64_t size) {
    int64_t len = e->layout->leaf.size;
    double lines = (double)size / (double)len * (double)((len + LINE - 1) & -(int64_t)LINE);
    double span = (double)size / (double)e->total * (double)e->span;
    double touched = span < lines ? span : lines;
    return touched < (double)WHI_TYPE_SPAN ? (int64_t)touched : WHI_TYPE_SPAN;
}

// Unless told, only what a kernel moves so by itself goes around the cache: a copy in between loses
// what the stores gain.
bool whi_elements_choose_nontemporal(const whi_elements *e, int64_t size, unsigned flags,
                                     whi_direction direction) {
    bool wanted = flags & WH_PACK_STREAM, direct = nontemporal_directly(e, direction);
    return direct
               ? wanted || whi_nontemporal_pays((size_t)size, (size_t)whi_elements_touched(e, size))
               : wanted && direction == WHI_PACK;
}

static void move_around_cache(const whi_order *o) {
    const whi_elements *e = &o->elements;
    if (nontemporal_directly(e, o->direction)) {
        move(e, o->from, o->to, o->packed, o->direction, true);
        return;
    }
    _Alignas(LINE) char chunk[CHUNK];
    char *packed = o->packed;
    for (int64_t from = o->from, size; from < o->to; from += size, packed += size) {
        // Up to where a line begins, so that all but the first and the last chunk are whole lines.
        size = CHUNK - (int64_t)((uintptr_t)packed % LINE);
        size = size < o->to - from ? size : o->to - from;
        move(e, from, from + size, chunk, WHI_PACK, false);
        whi_nontemporal_copy(packed, chunk, size);
    }
}

// All of one element with one loop at most: the kernel itself, for small messages feel every call.
static bool move_simply(const whi_order *o) {
    const whi_layout *layout = o->elements.layout;
    const whi_leaf *leaf = &layout->leaf;
    if (o->elements.count != 1 || o->to - o->from != layout->size || layout->ndims > 1 ||
        leaf->kind >= WHI_INDEX || o->nontemporal || layout->size == 0)
        return false;
    int64_t n = layout->ndims ? layout->dim[0].count : 1;
    char *base = (char *)(o->elements.buf + (uintptr_t)layout->off);
    (void)leaf->move[o->direction](leaf, o->packed, base, 1, 0, n, layout->dim[0].stride);
    return true;
}

void whi_order_run(const whi_order *o) {
    if (move_simply(o))
        return;
    if (!o->nontemporal) {
        move(&o->elements, o->from, o->to, o->packed, o->direction, false);
        return;
    }
    move_around_cache(o);
    whi_nontemporal_fence();
}

// A transpose, and the matrix of it in which a position lies.
typedef struct matrix {
    whi_dim rows, columns;
    int64_t begin;    // of the matrix in the packed bytes
    uintptr_t place;  // and in memory
} matrix;

static matrix find_matrix(const whi_elements *e, int64_t at) {
    whi_dim dim[WHI_DIMS + 1];
    int outer = whi_walk_loops(e->layout, e->count, e->extent, dim) - 2;
    matrix found = {.rows = dim[outer], .columns = dim[outer + 1]};
    found.place = e->buf + (uintptr_t)e->layout->off;
    int64_t left = at;
    for (int d = 0; d < outer; d++) {
        found.place += (uintptr_t)(left / dim[d].size) * (uintptr_t)dim[d].stride;
        left %= dim[d].size;
    }
    found.begin = at - left;
    return found;
}

// The rows that share the lines of the columns.
static int64_t rows_of_band(const matrix *m) {
    return m->rows.stride ? LINE / distance(m->rows.stride) : 1;
}

int64_t whi_elements_window_max(const whi_elements *e) {
    if (e->total == 0 || !is_transpose(e))
        return 0;
    const matrix m = find_matrix(e, 0);
    int64_t band = rows_of_band(&m);
    return (band < m.rows.count ? band : m.rows.count) * m.rows.size;
}

// A window is a band of rows; kernels begin a band where a line does, so the first may be
// shorter.
whi_window whi_elements_window(const whi_elements *e, int64_t at) {
    if (e->total == 0 || !is_transpose(e))
        return (whi_window){at, at};
    const matrix m = find_matrix(e, at);
    int64_t band = rows_of_band(&m), past = 0;
    if (m.rows.stride == e->layout->leaf.size)
        past = (int64_t)(m.place % LINE) / m.rows.stride;
    int64_t row = (at - m.begin) / m.rows.size, first = (row + past) / band * band - past;
    int64_t last = first + band < m.rows.count ? first + band : m.rows.count;
    first = first > 0 ? first : 0;
    return (whi_window){m.begin + first * m.rows.size, m.begin + last * m.rows.size};
}

wh_status whi_packed_check(const char *function, const void *buf, int64_t count,
                           const wh_type *type, int64_t *total) {
    if (!whi_type_valid(type))
        return whi_type_check(type, function, "type");
    if (count < 0)
        return whi_type_fail(WH_EINVAL, "%s: count is %" PRId64 ", it must not be negative",
                             function, count);
    int64_t reach;
    if (__builtin_mul_overflow(count, type->at.size, total) ||
        __builtin_mul_overflow(count, type->at.ub - type->at.lb, &reach))
        return whi_type_fail(WH_EINVAL, "%s: count is %" PRId64 ", too many elements to address",
                             function, count);
    // A layout may lie at absolute addresses, with NULL as its origin, but hardly at true_lb 0.
    if (!buf && *total && type->at.true_lb == 0)
        return whi_type_fail(WH_EINVAL, "%s: buf is NULL", function);
    return WH_OK;
}

// From the lowest byte to the highest; more than 64 bits tell is as good as the most they tell.
static int64_t span_of(int64_t count, const whi_bounds *at) {
    int64_t steps, span;
    if (count == 0)
        return 0;
    if (__builtin_mul_overflow(distance(at->ub - at->lb), count - 1, &steps) ||
        __builtin_add_overflow(steps, at->true_ub - at->true_lb, &span))
        return INT64_MAX;
    return span;
}

wh_status whi_elements_open(const char *function, const void *buf, int64_t count,
                            const wh_type *type, unsigned flags, whi_elements *elements) {
    int64_t total = 0;
    wh_status status = whi_packed_check(function, buf, count, type, &total);
    if (status != WH_OK)
        return status;
    if (flags & ~(WH_PACK_CACHED | WH_PACK_STREAM))
        return whi_type_fail(WH_EINVAL, "%s: flags is 0x%x, it has unknown bits", function, flags);
    const whi_plan *plan;
    status = whi_plan_get(type, WHI_BYTES, &plan);
    if (status != WH_OK)
        return status;
    *elements = (whi_elements){
        .buf = (uintptr_t)buf,
        .count = count,
        .extent = type->at.ub - type->at.lb,
        .span = span_of(count, &type->at),
        .total = total,
        .layout = &plan->exec,
    };
    return WH_OK;
}
