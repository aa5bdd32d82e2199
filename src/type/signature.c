// SPDX-License-Identifier: BSD-3-Clause
//
// Signatures and equality.
//
// A signature is the sequence of type classes and widths.  Its hash is a polynomial over it modulo
// the prime 2^61 - 1, which composes: the hash of two sequences in a row follows from their hashes
// and lengths, and that of n repetitions takes log n steps.  So no type is ever walked for it, and
// each node remembers its own.
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "type/pack.h"
#include "type/walk.h"

static const uint64_t PRIME = ((uint64_t)1 << 61) - 1;
static const uint64_t BASE = 0x0b5a7e1d3c9f2846;  // any number well inside the field

static uint64_t reduce(unsigned __int128 x) {
    uint64_t sum = (uint64_t)(x & PRIME) + (uint64_t)(x >> 61);
    return sum >= PRIME ? sum - PRIME : sum;
}

// A sequence: its hash, and BASE to the power of its length.
typedef struct sequence {
    uint64_t hash, power;
} sequence;

static sequence join(sequence a, sequence b) {
    return (sequence){reduce((unsigned __int128)a.hash * b.power + b.hash),
                      reduce((unsigned __int128)a.power * b.power)};
}

static sequence repeat(sequence one, int64_t n) {
    sequence all = {0, 1};
    for (; n; n >>= 1) {
        if (n & 1)
            all = join(all, one);
        one = join(one, one);
    }
    return all;
}

static sequence token(unsigned type_class, unsigned size) {
    return (sequence){1 + type_class * 256 + size, BASE};
}

static sequence of_type(const wh_type *type);

static sequence compute(const wh_type *type) {
    if (type->kind == WH_KIND_BASIC) {
        const whi_basic *basic = &whi_basics[type->id];
        if (basic->type_class != WHI_TYPE_CLASS_PAIR)
            return token(basic->type_class, basic->size);
        return join(token(basic->value_class, basic->value),
                    token(WHI_TYPE_CLASS_INT, sizeof(int)));
    }
    sequence all = {0, 1};
    if (type->kind == WH_KIND_STRUCT) {
        for (size_t i = 0; i < type->nchildren; i++)
            if (type->args[1 + i] && type->children[i]->at.size)
                all = join(all, repeat(of_type(type->children[i]), type->args[1 + i]));
    } else if (type->at.basics) {
        const wh_type *child = type->children[0];
        all = repeat(of_type(child), type->at.basics / child->at.basics);
    }
    return all;
}

static sequence of_type(const wh_type *type) {
    _Atomic uint64_t *memo = &whi_type_mutable(type)->hash;
    uint64_t kept = atomic_load_explicit(memo, memory_order_relaxed);
    if (kept)
        return (sequence){kept - 1, repeat((sequence){0, BASE}, type->at.basics).power};
    sequence own = compute(type);
    atomic_store_explicit(memo, own.hash + 1, memory_order_relaxed);
    return own;
}

wh_status wh_type_signature(const wh_type *type, int64_t count, uint64_t *hash, int64_t *basics) {
    int64_t total = 0, n;
    wh_status status = whi_packed_check("wh_type_signature", "", count, type, &total);
    if (status != WH_OK)
        return status;
    if (!hash || !basics)
        return whi_type_fail(WH_EINVAL, "wh_type_signature: %s is NULL", hash ? "basics" : "hash");
    n = count * type->at.basics;  // not more than the bytes, which have been checked
    *hash = repeat(of_type(type), count).hash;
    *basics = n;
    return WH_OK;
}

// one_kind returns the token of the only kind of element that a type has; 0: it has several.
static uint64_t one_kind(const wh_type *type) {
    uint64_t kind = 0;
    for (uint64_t ids = type->at.ids; ids; ids &= ids - 1) {
        const whi_basic *basic = &whi_basics[__builtin_ctzll(ids)];
        uint64_t hash = token(basic->type_class, basic->size).hash;
        if (kind && kind != hash)
            return 0;
        kind = hash;
    }
    return kind;
}

uint16_t whi_signature_code(int64_t count, const wh_type *type) {
    uint64_t kind = one_kind(type);
    if (kind == token(WHI_TYPE_CLASS_BYTE, 1).hash)
        return 0;
    uint64_t hash = kind ? kind : repeat(of_type(type), count).hash;
    return (uint16_t)(kind ? hash : WHI_SIGNATURE_MIXED | (hash % WHI_SIGNATURE_MIXED));
}

static bool same_form(const whi_layout *a, const whi_layout *b) {
    const whi_leaf *x = &a->leaf, *y = &b->leaf;
    if (a->off != b->off || a->ndims != b->ndims || x->kind != WHI_RUN || y->kind != WHI_RUN ||
        x->size != y->size)
        return false;
    for (int d = 0; d < a->ndims; d++)
        if (a->dim[d].count != b->dim[d].count || a->dim[d].stride != b->dim[d].stride)
            return false;
    return true;
}

// Compares run by run, a batch at a time, after leaving out loops that both have.
static wh_status same_runs(const whi_layout *a, const whi_layout *b, bool *same) {
    enum { BATCH = 64, MOST = 1 << 26 };
    whi_layout inner_a = *a, inner_b = *b;
    while (inner_a.ndims && inner_b.ndims && inner_a.dim[0].count == inner_b.dim[0].count &&
           inner_a.dim[0].stride == inner_b.dim[0].stride) {
        whi_layout_inner(&inner_a);
        whi_layout_inner(&inner_b);
    }
    *same = inner_a.runs == inner_b.runs;
    // An origin in the middle of the address space; nothing is read there.
    const uintptr_t origin = UINTPTR_MAX / 2;
    for (int64_t first = 0; *same && first < inner_a.runs; first += BATCH) {
        struct iovec x[BATCH], y[BATCH];
        if (first >= MOST)
            return whi_type_fail(WH_ELIMIT,
                                 "wh_type_equal: the types agree in %d runs and have %" PRId64,
                                 MOST, inner_a.runs);
        int64_t n = whi_iov_runs(&inner_a, origin, first, x, BATCH);
        *same = whi_iov_runs(&inner_b, origin, first, y, BATCH) == n;
        for (int64_t i = 0; i < n && *same; i++)
            *same = x[i].iov_base == y[i].iov_base && x[i].iov_len == y[i].iov_len;
    }
    return WH_OK;
}

// Whether two types were made by the same calls: then they are equal however many runs they have.
static wh_status same_calls(const wh_type *a, const wh_type *b, bool *same) {
    size_t n = 0, m = 0;
    *same = false;
    wh_status status = wh_type_flatten(a, NULL, 0, &n);
    if (status == WH_ETRUNCATED)
        status = wh_type_flatten(b, NULL, 0, &m);
    if (status != WH_ETRUNCATED)
        return status;
    if (n != m)
        return WH_OK;
    unsigned char *x = whi_malloc(2 * n);
    if (!x)
        return whi_type_fail(WH_ENOMEM, "wh_type_equal: out of memory");
    unsigned char *y = x + n;
    status = wh_type_flatten(a, x, n, &n);
    if (status == WH_OK)
        status = wh_type_flatten(b, y, n, &n);
    if (status == WH_OK)
        *same = memcmp(x, y, n) == 0;
    whi_free(x);
    return status;
}

wh_status wh_type_equal(const wh_type *a, const wh_type *b, bool *equal) {
    const whi_plan *p, *q;
    wh_status status = whi_type_check(a, "wh_type_equal", "a");
    if (status == WH_OK)
        status = whi_type_check(b, "wh_type_equal", "b");
    if (status != WH_OK)
        return status;
    if (!equal)
        return whi_type_fail(WH_EINVAL, "wh_type_equal: equal is NULL");
    if (a->at.size != b->at.size || a->at.lb != b->at.lb || a->at.ub != b->at.ub) {
        *equal = false;
        return WH_OK;
    }
    status = whi_plan_get(a, WHI_BYTES, &p);
    if (status == WH_OK)
        status = whi_plan_get(b, WHI_BYTES, &q);
    if (status != WH_OK)
        return status;
    if (a->at.size == 0 || same_form(&p->normal, &q->normal) || p->normal.runs != q->normal.runs) {
        *equal = a->at.size == 0 || p->normal.runs == q->normal.runs;
        return WH_OK;
    }
    bool same;
    status = same_calls(a, b, &same);
    if (status != WH_OK)
        return status;
    if (same) {
        *equal = true;
        return WH_OK;
    }
    return same_runs(&p->normal, &q->normal, equal);
}
