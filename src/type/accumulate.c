// SPDX-License-Identifier: BSD-3-Clause
//
// Reductions through a layout: a walk over the typed normal form, whose runs hold elements of one
// predefined type each.
//
// REPLACE and NO_OP never look at elements and go the way of unpack.  For the others a call must
// begin and end between elements; the accumulator adds what that leaves out, by keeping the pieces
// of cut elements in a map from the element's place in the packed bytes to its bytes so far.
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/list.h"
#include "type/on_device.h"
#include "type/op.h"
#include "type/pack.h"
#include "type/walk.h"

enum { ELEMENT_MAX = 32 };  // packed bytes of the largest predefined type
static_assert(sizeof(long double _Complex) <= ELEMENT_MAX, "the largest element");

typedef struct reducer {
    whi_visitor visitor;
    const char *name;  // of the user's call
    char *packed;
    wh_reduce op;
    wh_reduce_fn fn;  // instead of op
    void *arg;
    bool to_packed;  // packed = packed op memory, not the other way
    char *copy;      // packed bytes of the memory, which stand for it; NULL: it is here
    bool on_stream;  // see whi_device_call
    void *stream;
} reducer;

static void combine(const reducer *self, const char *in, char *inout, size_t n, uint8_t tag) {
    if (self->fn)
        self->fn(in, inout, n, wh_type_basic((wh_type_id)tag), self->arg);
    else
        whi_op_find(self->op, (wh_type_id)tag)(in, inout, n);
}

// Elements with padding inside (a pair of short and int) are combined in their packed form.
static void combine_padded(const reducer *self, char *at, size_t n, uint8_t tag) {
    const whi_basic *basic = &whi_basics[tag];
    size_t index_size = basic->size - basic->value;
    char *packed = self->packed;
    for (size_t i = 0; i < n; i++, at += basic->size, packed += basic->size) {
        char element[ELEMENT_MAX];
        memcpy(element, at, basic->value);
        memcpy(element + basic->value, at + basic->index_at, index_size);
        if (self->to_packed) {
            combine(self, element, packed, 1, tag);
            continue;
        }
        combine(self, packed, element, 1, tag);
        memcpy(at, element, basic->value);
        memcpy(at + basic->index_at, element + basic->value, index_size);
    }
}

static bool padded(const whi_basic *basic) {
    return basic->type_class == WHI_TYPE_CLASS_PAIR && basic->index_at != basic->value;
}

static bool reduce_bytes(whi_visitor *visitor, uintptr_t at, int64_t size, uint8_t tag) {
    reducer *self = (reducer *)visitor;
    const whi_basic *basic = &whi_basics[tag];
    size_t n = (size_t)size / basic->size;
    if (self->copy) {
        combine(self, self->to_packed ? self->copy : self->packed,
                self->to_packed ? self->packed : self->copy, n, tag);
        self->copy += size;
    } else if (padded(basic))
        combine_padded(self, (char *)at, n, tag);
    else if (self->to_packed)
        combine(self, (const char *)at, self->packed, n, tag);
    else
        combine(self, self->packed, (char *)at, n, tag);
    self->packed += size;
    return true;
}

bool wh_reduce_defined(wh_reduce op, const wh_type *type) {
    if (!whi_type_valid(type) || (unsigned)op >= WH_REDUCES)
        return false;
    if (op == WH_REDUCE_REPLACE || op == WH_REDUCE_NO_OP)
        return true;
    for (uint64_t ids = type->at.ids; ids; ids &= ids - 1)
        if (!whi_op_find(op, (wh_type_id)__builtin_ctzll(ids)))
            return false;
    return true;
}

// The element that holds packed position `at`: where it begins and ends, and what it is.
typedef struct element {
    whi_visitor visitor;
    int64_t at, begin, end;
    uint8_t tag;
} element;

// The first piece of a walk from `at` to the end of the packed bytes reaches to the end of a run.
static bool find_in_run(whi_visitor *visitor, uintptr_t at, int64_t size, uint8_t tag) {
    element *self = (element *)visitor;
    int64_t width = whi_basics[tag].size, rest = size % width;
    (void)at;
    self->tag = tag;
    self->end = self->at + (rest ? rest : width);
    self->begin = self->end - width;
    return false;
}

static bool find_in_grid(whi_visitor *visitor, const whi_leaf *leaf, uintptr_t at, int64_t n1,
                         int64_t s1, int64_t n0, int64_t s0) {
    (void)n1;
    (void)s1;
    (void)n0;
    (void)s0;
    return whi_walk_grid(visitor, leaf, at, 1, 0, 1, 0);
}

typedef struct target {
    uintptr_t buf;
    int64_t count, total;
    const wh_type *type;
    const whi_plan *plan;  // typed
} target;

static element find_element(const target *to, int64_t at) {
    element found = {{find_in_grid, find_in_run}, at, at, at, 0};
    (void)whi_walk(&found.visitor, &to->plan->normal, to->count, to->type->at.ub - to->type->at.lb,
                   0, at, to->total);
    return found;
}

static void reduce_here(const target *to, reducer how, int64_t from, int64_t until) {
    how.visitor = (whi_visitor){whi_walk_grid, reduce_bytes};
    (void)whi_walk(&how.visitor, &to->plan->normal, to->count, to->type->at.ub - to->type->at.lb,
                   to->buf, from, until);
}

// ---- On devices.

typedef struct device_reduction {
    whi_device_call call;
    const target *to;
    const reducer *how;
} device_reduction;

static wh_status reduce_on_host(const whi_device_call *call, int64_t from, int64_t until,
                                char *packed, char *copy) {
    const device_reduction *self = whi_container_of(call, const device_reduction, call);
    reducer how = *self->how;
    how.packed = packed;
    how.copy = copy;
    reduce_here(self->to, how, from, until);
    return WH_OK;
}

static int64_t border_before(const whi_device_call *call, int64_t at) {
    return find_element(whi_container_of(call, const device_reduction, call)->to, at).begin;
}

static unsigned common_divisor(unsigned a, unsigned b) {
    while (b) {
        unsigned rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

// The largest number that divides the sizes of all elements; 0 when devices lack the arithmetic of some, or of the user's.
static unsigned grain_of(const target *to, const reducer *how) {
    unsigned grain = 0;
    for (uint64_t ids = to->type->at.ids; ids; ids &= ids - 1) {
        wh_type_id id = (wh_type_id)__builtin_ctzll(ids);
        if (how->fn || !whi_device_knows(id))
            return 0;
        grain = common_divisor(grain, whi_basics[id].size);
    }
    return grain;
}

static wh_status reduce_on_device(const target *to, const reducer *how, int64_t from,
                                  int64_t until) {
    const device_reduction self = {
        .call = {.function = how->name,
                 .type = to->type,
                 .plan = to->plan,
                 .buf = to->buf,
                 .count = to->count,
                 .from = from,
                 .to = until,
                 .packed = how->packed,
                 .unpack = !how->to_packed,
                 .reads_packed = true,
                 .on_stream = how->on_stream,
                 .stream = how->stream,
                 .op = how->op,
                 .grain = grain_of(to, how),
                 .host = reduce_on_host,
                 .border = border_before},
        .to = to,
        .how = how,
    };
    return whi_device_run(&self.call);
}

static wh_status reduce(const target *to, const reducer *how, int64_t from, int64_t until) {
    if (how->on_stream || whi_device_has(to->buf, to->count, to->type, how->packed))
        return reduce_on_device(to, how, from, until);
    reduce_here(to, *how, from, until);
    return WH_OK;
}

static wh_status prepare(const char *name, const void *buf, int64_t count, const wh_type *type,
                         wh_reduce op, target *to) {
    *to = (target){.buf = (uintptr_t)buf, .count = count, .type = type};
    wh_status status = whi_packed_check(name, buf, count, type, &to->total);
    if (status != WH_OK)
        return status;
    if ((unsigned)op >= WH_REDUCES)
        return whi_type_fail(WH_EINVAL, "%s: op is %d, there is no such operation", name, op);
    if (!wh_reduce_defined(op, type))
        return whi_type_fail(WH_ENOTSUP, "%s: op %d is not defined on all elements of the type",
                             name, op);
    return whi_plan_get(type, WHI_TYPED, &to->plan);
}

static wh_status check_border(const char *name, const char *what, const target *to, int64_t at) {
    if (at == to->total || find_element(to, at).begin == at)
        return WH_OK;
    return whi_type_fail(WH_EINVAL, "%s: %s at byte %" PRId64 " cuts an element", name, what, at);
}

static wh_status check_borders(const char *name, const target *to, int64_t from, int64_t until) {
    wh_status status = check_border(name, "offset", to, from);
    return status == WH_OK ? check_border(name, "the end", to, until) : status;
}

// The common part of all one-shot calls.
static wh_status run(const target *to, size_t offset, size_t size, const reducer *how,
                     size_t *actual) {
    const char *name = how->name;
    if (offset > (size_t)to->total)
        return whi_type_fail(WH_EINVAL, "%s: offset is %zu, but there are %" PRId64 " packed bytes",
                             name, offset, to->total);
    size_t left = (size_t)to->total - offset;
    size = size < left ? size : left;
    if (!actual || (!how->packed && size))
        return whi_type_fail(WH_EINVAL, "%s: %s is NULL", name, actual ? "packed" : "actual");
    int64_t from = (int64_t)offset, until = (int64_t)(offset + size);
    if (how->fn || how->op != WH_REDUCE_NO_OP) {
        wh_status status = check_borders(name, to, from, until);
        if (status == WH_OK)
            status = reduce(to, how, from, until);
        if (status != WH_OK)
            return status;
    }
    *actual = size;
    return WH_OK;
}

// Whole elements of a predefined type without padding lie as they are packed, and need no walk; false: it is for the walk, or wrong.
static bool combine_alike(const void *packed, size_t size, void *buf, int64_t count,
                          const wh_type *type, wh_reduce op) {
    if (!whi_type_valid(type) || type->depth > 0 || (unsigned)op >= WH_REDUCE_REPLACE || !buf ||
        !packed)
        return false;
    const whi_basic *basic = &whi_basics[type->id];
    size_t total;
    if (basic->extent != basic->size || count < 0 ||
        __builtin_mul_overflow((size_t)count, basic->size, &total) || size != total ||
        whi_device_has((uintptr_t)buf, count, type, packed))
        return false;
    whi_op_fn *fn = whi_op_find(op, (wh_type_id)type->id);
    if (fn)
        fn(packed, buf, (size_t)count);
    return fn != NULL;
}

wh_status wh_accumulate(const void *packed, size_t size, void *buf, int64_t count,
                        const wh_type *type, size_t offset, wh_reduce op, size_t *actual) {
    if (actual && offset == 0 && combine_alike(packed, size, buf, count, type, op)) {
        *actual = size;
        return WH_OK;
    }
    if (op == WH_REDUCE_REPLACE)
        return wh_unpack(packed, size, buf, count, type, offset, 0, actual);
    target to;
    wh_status status = prepare("wh_accumulate", buf, count, type, op, &to);
    if (status != WH_OK)
        return status;
    reducer how = {.name = "wh_accumulate", .packed = (char *)(uintptr_t)packed, .op = op};
    return run(&to, offset, size, &how, actual);
}

wh_status wh_accumulate_on(const void *packed, size_t size, void *buf, int64_t count,
                           const wh_type *type, size_t offset, wh_reduce op, void *stream,
                           size_t *actual) {
    if (op == WH_REDUCE_REPLACE)
        return wh_unpack_on(packed, size, buf, count, type, offset, stream, actual);
    target to;
    whi_mem_notice();
    wh_status status = prepare("wh_accumulate_on", buf, count, type, op, &to);
    if (status != WH_OK)
        return status;
    reducer how = {.name = "wh_accumulate_on",
                   .packed = (char *)(uintptr_t)packed,
                   .op = op,
                   .on_stream = true,
                   .stream = stream};
    return run(&to, offset, size, &how, actual);
}

wh_status wh_accumulate_fn(const void *packed, size_t size, void *buf, int64_t count,
                           const wh_type *type, size_t offset, wh_reduce_fn fn, void *arg,
                           size_t *actual) {
    target to;
    wh_status status = prepare("wh_accumulate_fn", buf, count, type, WH_REDUCE_REPLACE, &to);
    if (status != WH_OK)
        return status;
    if (!fn)
        return whi_type_fail(WH_EINVAL, "wh_accumulate_fn: fn is NULL");
    reducer how = {.name = "wh_accumulate_fn",
                   .packed = (char *)(uintptr_t)packed,
                   .op = WH_REDUCE_SUM,
                   .fn = fn,
                   .arg = arg};
    return run(&to, offset, size, &how, actual);
}

wh_status wh_pack_accumulate(const void *buf, int64_t count, const wh_type *type, size_t offset,
                             void *packed, size_t max, wh_reduce op, size_t *actual) {
    if (op == WH_REDUCE_REPLACE)
        return wh_pack(buf, count, type, offset, packed, max, 0, actual);
    target to;
    wh_status status = prepare("wh_pack_accumulate", buf, count, type, op, &to);
    if (status != WH_OK)
        return status;
    reducer how = {.name = "wh_pack_accumulate", .packed = packed, .op = op, .to_packed = true};
    return run(&to, offset, max, &how, actual);
}

wh_status wh_accumulate_packed(const void *in, void *inout, size_t size, int64_t count,
                               const wh_type *type, size_t offset, wh_reduce op, wh_reduce_fn fn,
                               void *arg) {
    static const char name[] = "wh_accumulate_packed";
    target to;
    wh_status status = prepare(name, "", count, type, fn ? WH_REDUCE_REPLACE : op, &to);
    if (status != WH_OK)
        return status;
    if (offset > (size_t)to.total || size > (size_t)to.total - offset)
        return whi_type_fail(WH_EINVAL,
                             "%s: %zu bytes from %zu on, but there are %" PRId64 " packed bytes",
                             name, size, offset, to.total);
    if ((!in || !inout) && size)
        return whi_type_fail(WH_EINVAL, "%s: %s is NULL", name, in ? "inout" : "in");
    int64_t from = (int64_t)offset, until = (int64_t)(offset + size);
    status = check_borders(name, &to, from, until);
    if (status != WH_OK || !size)
        return status;
    if (!fn && op == WH_REDUCE_REPLACE)
        memmove(inout, in, size);
    if (!fn && (op == WH_REDUCE_REPLACE || op == WH_REDUCE_NO_OP))
        return WH_OK;
    reduce_here(&to,
                (reducer){.name = name,
                          .packed = (char *)(uintptr_t)in,
                          .op = op,
                          .fn = fn,
                          .arg = arg,
                          .copy = inout},
                from, until);
    return WH_OK;
}

// An element of which some bytes have come.
typedef struct piece {
    uint8_t have;
    char bytes[ELEMENT_MAX];
} piece;

struct wh_accumulator {
    target to;
    wh_reduce op;
    size_t pending;
    whi_hash pieces;  // begin + 1 -> piece
};

wh_status wh_accumulator_create(void *buf, int64_t count, const wh_type *type, wh_reduce op,
                                wh_accumulator **acc) {
    target to;
    wh_status status = prepare("wh_accumulator_create", buf, count, type, op, &to);
    if (status != WH_OK)
        return status;
    if (!acc)
        return whi_type_fail(WH_EINVAL, "wh_accumulator_create: acc is NULL");
    wh_accumulator *made = whi_calloc(1, sizeof(*made));
    if (!made)
        return whi_type_fail(WH_ENOMEM, "wh_accumulator_create: out of memory");
    made->to = to;
    made->op = op;
    whi_hash_init(&made->pieces);
    (void)wh_type_retain(whi_type_mutable(type));
    *acc = made;
    return WH_OK;
}

// A part of a segment that belongs to a cut element; size 0 when there is none.
typedef struct cut {
    element whole;
    int64_t at, size;
} cut;

static cut find_cut(const wh_accumulator *acc, int64_t at, int64_t until) {
    cut found = {.at = at};
    if (at == until)
        return found;
    found.whole = find_element(&acc->to, at);
    if (found.whole.begin != at || found.whole.end > until)
        found.size = (found.whole.end < until ? found.whole.end : until) - at;
    return found;
}

static uint64_t key_of(const cut *part) {
    return (uint64_t)part->whole.begin + 1;
}

// Makes sure that a cut element has its piece, so that nothing can fail once elements change.
static wh_status ready_cut(wh_accumulator *acc, const cut *part) {
    if (!part->size)
        return WH_OK;
    piece *kept = whi_hash_get(&acc->pieces, key_of(part));
    if (!kept) {
        kept = whi_calloc(1, sizeof(*kept));
        wh_status status = kept ? whi_hash_put(&acc->pieces, key_of(part), kept) : WH_ENOMEM;
        if (status != WH_OK) {
            whi_free(kept);
            return whi_type_fail(WH_ENOMEM, "wh_accumulator_add: out of memory");
        }
    }
    if (kept->have + part->size <= part->whole.end - part->whole.begin)
        return WH_OK;
    return whi_type_fail(WH_EINVAL, "wh_accumulator_add: bytes at %" PRId64 " came before",
                         part->at);
}

// Segments may lie in a device's memory.
static wh_status copy_piece(char *to, const char *packed, size_t size) {
    if (whi_mem_devices())
        return wh_mem_copy(to, WH_MEM_HOST, packed, WH_MEM_AUTO, size);
    memcpy(to, packed, size);
    return WH_OK;
}

// Adds a part to its element, and combines the element when it is whole.
static wh_status add_cut(wh_accumulator *acc, const cut *part, const char *packed) {
    piece *kept = part->size ? whi_hash_get(&acc->pieces, key_of(part)) : NULL;
    if (!kept)
        return WH_OK;  // nothing is cut here: ready_cut made a piece for whatever is
    int64_t width = part->whole.end - part->whole.begin;
    wh_status status =
        copy_piece(kept->bytes + (part->at - part->whole.begin), packed, (size_t)part->size);
    if (status != WH_OK)
        return status;
    kept->have = (uint8_t)(kept->have + part->size);
    acc->pending += (size_t)part->size;
    if (kept->have < width)
        return WH_OK;
    reducer how = {.name = "wh_accumulator_add", .packed = kept->bytes, .op = acc->op};
    status = reduce(&acc->to, &how, part->whole.begin, part->whole.end);
    acc->pending -= (size_t)width;
    (void)whi_hash_remove(&acc->pieces, key_of(part));
    whi_free(kept);
    return status;
}

static wh_status add_segment(wh_accumulator *acc, int64_t from, int64_t until, const char *packed) {
    cut head = find_cut(acc, from, until);
    int64_t begin = from + head.size, end = until;
    if (until < acc->to.total) {
        int64_t last = find_element(&acc->to, until).begin;
        end = last > begin ? last : begin;
    }
    cut tail = find_cut(acc, end, until);
    wh_status status = ready_cut(acc, &head);
    if (status == WH_OK)
        status = ready_cut(acc, &tail);
    if (status != WH_OK)
        return status;
    status = add_cut(acc, &head, packed);
    reducer how = {.name = "wh_accumulator_add",
                   .packed = (char *)(uintptr_t)packed + head.size,
                   .op = acc->op};
    if (status == WH_OK)
        status = reduce(&acc->to, &how, begin, end);
    return status == WH_OK ? add_cut(acc, &tail, packed + (end - from)) : status;
}

wh_status wh_accumulator_add(wh_accumulator *acc, size_t offset, const void *packed, size_t size) {
    if (!acc || (!packed && size))
        return whi_type_fail(WH_EINVAL, "wh_accumulator_add: %s is NULL", acc ? "packed" : "acc");
    size_t total = (size_t)acc->to.total, actual;
    if (offset > total || size > total - offset)
        return whi_type_fail(
            WH_EINVAL,
            "wh_accumulator_add: offset %zu and size %zu pass the end %zu of the packed bytes",
            offset, size, total);
    if (acc->op == WH_REDUCE_NO_OP || size == 0)
        return WH_OK;
    if (acc->op == WH_REDUCE_REPLACE)
        return wh_unpack(packed, size, (void *)acc->to.buf, acc->to.count, acc->to.type, offset, 0,
                         &actual);
    return add_segment(acc, (int64_t)offset, (int64_t)(offset + size), packed);
}

size_t wh_accumulator_pending(const wh_accumulator *acc) {
    return acc ? acc->pending : 0;
}

void wh_accumulator_destroy(wh_accumulator *acc) {
    if (!acc)
        return;
    size_t cursor = 0;
    uint64_t key;
    for (piece *kept; (kept = whi_hash_next(&acc->pieces, &cursor, &key));)
        whi_free(kept);
    whi_hash_fini(&acc->pieces);
    wh_type_release(whi_type_mutable(acc->to.type));
    whi_free(acc);
}
