// SPDX-License-Identifier: BSD-3-Clause
//
// wh_pack and wh_unpack: a walk whose visitor is a kernel.
//
// Packing around the cache has kernels of its own for rows of whole words and for transposes; for all
// else, when the caller wants it, a chunk at a time is packed into a buffer in the nearest cache and
// goes from there to its place in whole lines.
#include "type/pack.h"

#include <inttypes.h>
#include <string.h>

#include "type/kernels/kernels.h"
#include "type/policy.h"
#include "type/walk.h"

enum {
    LINE = 64,
    CHUNK = 4096,         // packed at once on its way around the cache
    STREAM_LEAST = 4096,  // whatever the caller says, less is not worth a chunk
};

typedef struct mover {
    whi_visitor visitor;
    char *packed;
    whi_direction way;
    bool stream;  // stores go around the cache
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
    whi_kernel_fn *kernel = leaf->move[self->way];
    if (leaf->cross[self->way] && crosses(n1, s1, n0, s0))
        kernel = self->stream && leaf->cross_stream ? leaf->cross_stream : leaf->cross[self->way];
    else if (self->stream && leaf->kind == WHI_RUN && leaf->stream)
        kernel = leaf->stream;
    self->packed = kernel(leaf, self->packed, (char *)at, n1, s1, n0, s0);
    return true;
}

static bool move_bytes(whi_visitor *visitor, uintptr_t at, int64_t size, uint8_t tag) {
    (void)tag;
    mover *self = (mover *)visitor;
    if (self->way == WHI_PACK)
        memcpy(self->packed, (const char *)at, (size_t)size);
    else
        memcpy((char *)at, self->packed, (size_t)size);
    self->packed += size;
    return true;
}

static const char *const names[] = {"wh_pack", "wh_unpack"};

// One call: elements, and the plan that says how.
typedef struct elements {
    uintptr_t buf;
    int64_t count, extent;
    const whi_layout *layout;
} elements;

static void move(const elements *e, int64_t from, int64_t to, char *packed, whi_direction way,
                 bool stream) {
    mover self = {{move_grid, move_bytes}, packed, way, stream};
    (void)whi_walk(&self.visitor, e->layout, e->count, e->extent, e->buf, from, to);
}

// The two innermost loops, of which the count of elements may be one.
static void inner_loops(const elements *e, whi_dim *outer, whi_dim *inner) {
    const whi_layout *layout = e->layout;
    const whi_dim element = {.count = e->count, .stride = e->extent};
    int n = layout->ndims;
    *inner = n ? layout->dim[n - 1] : element;
    *outer = n > 1 ? layout->dim[n - 2] : n ? element : (whi_dim){.count = 1};
}

// Whether the layout is a transpose, which must be seen as a whole to use its lines.
static bool is_transpose(const elements *e) {
    whi_dim outer, inner;
    inner_loops(e, &outer, &inner);
    return e->layout->leaf.cross_stream &&
           crosses(outer.count, outer.stride, inner.count, inner.stride);
}

// Whether a kernel streams all of the layout by itself.
static bool streams_directly(const elements *e) {
    return e->layout->leaf.kind == WHI_RUN && (e->layout->leaf.stream || is_transpose(e));
}

static void pack_around_cache(const elements *e, int64_t from, int64_t to, char *packed) {
    if (streams_directly(e)) {
        move(e, from, to, packed, WHI_PACK, true);
        return;
    }
    _Alignas(LINE) char chunk[CHUNK];
    while (from < to) {
        // Up to where a line begins, so that all but the first and the last chunk are whole lines.
        int64_t size = CHUNK - (int64_t)((uintptr_t)packed % LINE);
        size = size < to - from ? size : to - from;
        move(e, from, from + size, chunk, WHI_PACK, false);
        whi_stream_copy(packed, chunk, size);
        packed += size;
        from += size;
    }
}

// Unless told, only what a kernel streams directly goes around the cache: a copy in between loses
// what the stores gain.
static bool wants_stream(const elements *e, int64_t size, unsigned flags, whi_direction way) {
    if (way == WHI_UNPACK || flags & WH_PACK_CACHED || size < STREAM_LEAST)
        return false;
    return flags & WH_PACK_STREAM ||
           (streams_directly(e) && (size_t)size >= whi_stream_min((size_t)size));
}

wh_status whi_stream_check(const char *function, const void *buf, int64_t count,
                           const wh_type *type, int64_t *total) {
    wh_status status = whi_type_check(type, function, "type");
    if (status != WH_OK)
        return status;
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

static wh_status stream(const void *buf, int64_t count, const wh_type *type, size_t offset,
                        char *packed, size_t max, unsigned flags, size_t *actual,
                        whi_direction way) {
    const char *name = names[way];
    int64_t total = 0;
    wh_status status = whi_stream_check(name, buf, count, type, &total);
    if (status != WH_OK)
        return status;
    if (offset > (size_t)total)
        return whi_type_fail(WH_EINVAL, "%s: offset is %zu, but the stream has %" PRId64 " bytes",
                             name, offset, total);
    if (flags & ~(WH_PACK_CACHED | WH_PACK_STREAM))
        return whi_type_fail(WH_EINVAL, "%s: flags is 0x%x, it has unknown bits", name, flags);
    size_t size = (size_t)total - offset;
    size = size < max ? size : max;
    if (!actual || (!packed && size))
        return whi_type_fail(WH_EINVAL, "%s: %s is NULL", name, !actual ? "actual" : "packed");
    const whi_plan *plan;
    status = whi_plan_get(type, WHI_BYTES, &plan);
    if (status != WH_OK)
        return status;
    elements e = {(uintptr_t)buf, count, type->at.ub - type->at.lb, &plan->exec};
    int64_t from = (int64_t)offset, to = (int64_t)(offset + size);
    if (wants_stream(&e, (int64_t)size, flags, way)) {
        pack_around_cache(&e, from, to, packed);
        whi_stream_fence();
    } else {
        move(&e, from, to, packed, way, false);
    }
    *actual = size;
    return WH_OK;
}

wh_status wh_pack(const void *buf, int64_t count, const wh_type *type, size_t offset, void *packed,
                  size_t max, unsigned flags, size_t *actual) {
    return stream(buf, count, type, offset, packed, max, flags, actual, WHI_PACK);
}

wh_status wh_unpack(const void *packed, size_t size, void *buf, int64_t count, const wh_type *type,
                    size_t offset, unsigned flags, size_t *actual) {
    return stream(buf, count, type, offset, (char *)(uintptr_t)packed, size, flags, actual,
                  WHI_UNPACK);
}
