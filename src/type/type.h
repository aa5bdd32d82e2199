// SPDX-License-Identifier: BSD-3-Clause
//
// The node of a type tree, as the files of this folder see it.
//
// A node keeps its constructor's arguments as one row of numbers and its children, nothing else
// that could not be computed from them; so contents, flatten and unflatten need no code per kind.
// The rows:
//   basic           id
//   dup             -
//   contig          count
//   vector, hvector count, blocklength, stride
//   (h)indexed      count, blocklengths..., displacements...
//   (h)indexed_block count, blocklength, displacements...
//   struct          count, blocklengths..., displacements...         (count children)
//   subarray        ndims, order, sizes..., subsizes..., starts...
//   darray          ndims, order, size, rank, gsizes..., distribs..., dargs..., psizes...
//   resized         lb, extent
//   strided         ndims, shape..., strides...
// A node is immutable once sealed, except for its reference count, its memoised hash and its plans,
// which are made at first use and published by compare-and-swap.
#ifndef WHI_TYPE_TYPE_H
#define WHI_TYPE_TYPE_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/type.h>

enum {
    WHI_TYPE_MAGIC = 0x57685479,  // tells a handle from a stale or foreign pointer, mostly
    WHI_TYPE_DEPTH = 100,         // bounds every recursion over types, also of hostile ones
};

// Bounds beyond this are refused, so that the difference of any two fits into 64 bits.
#define WHI_TYPE_SPAN ((int64_t)1 << 61)

// A set of predefined types is one word.
static_assert(WH_TYPE_IDS <= 64, "whi_bounds.ids");

typedef struct whi_plan whi_plan;

typedef struct whi_bounds {
    int64_t size, basics;
    int64_t external;  // bytes in external32
    uint64_t ids;      // a bit for each predefined type among its elements
    int64_t lb, ub, true_lb, true_ub;
    uint32_t align;  // the strictest of its elements, 1 when it has none
    bool marked;     // lb and ub were set by hand, here or below
} whi_bounds;

// A plan per purpose: dense bytes for moving, runs of one type class for computing.
typedef enum whi_mode { WHI_BYTES, WHI_TYPED, WHI_MODES } whi_mode;

struct wh_type {
    uint32_t magic;
    uint8_t kind;   // wh_type_kind
    uint8_t id;     // of a basic type
    uint8_t depth;  // 0 for basic types
    _Atomic uint32_t refs;
    whi_bounds at;
    _Atomic(whi_plan *) plan[WHI_MODES];
    _Atomic uint64_t hash;  // of the signature of one element; 0: not computed
    size_t nargs, nchildren;
    wh_type **children;  // behind args, in the same allocation
    int64_t args[];
};

// What a predefined element is to arithmetic.  Part of a signature, so numbers are fixed.
typedef enum whi_type_class {
    WHI_TYPE_CLASS_BYTE = 0,
    WHI_TYPE_CLASS_BOOL = 1,
    WHI_TYPE_CLASS_INT = 2,
    WHI_TYPE_CLASS_UINT = 3,
    WHI_TYPE_CLASS_FLOAT = 4,
    WHI_TYPE_CLASS_COMPLEX = 5,
    WHI_TYPE_CLASS_PAIR = 6,
    WHI_TYPE_CLASS_BFLOAT = 7,
    WHI_TYPE_CLASS_E4M3 = 8,
    WHI_TYPE_CLASS_E5M2 = 9,
} whi_type_class;

typedef struct whi_basic {
    const char *name;
    uint8_t type_class;   // whi_type_class
    uint8_t value_class;  // of a pair's value
    uint8_t size;         // packed bytes: for a pair value and index, no padding
    uint8_t extent, align;
    uint8_t value;     // bytes of a pair's value, otherwise size
    uint8_t index_at;  // where a pair's index lies in memory
    uint8_t ext32;     // bytes in external32
} whi_basic;

extern const whi_basic whi_basics[WH_TYPE_IDS];

// whi_type_fail keeps the sentence for wh_type_error and returns `status`.
__attribute__((format(printf, 2, 3))) wh_status whi_type_fail(wh_status status, const char *format,
                                                              ...);

// whi_type_valid says whether `type` is a living handle; whi_type_check also keeps the sentence.
static inline bool whi_type_valid(const wh_type *type) {
    return type && type->magic == WHI_TYPE_MAGIC;
}
WH_CHECK wh_status whi_type_check(const wh_type *type, const char *function, const char *argument);

// whi_type_mutable takes the const off a handle: nodes are never const objects, and the hash, the
// plans and the count of references change behind the constant face.
static inline wh_type *whi_type_mutable(const wh_type *type) {
    return (wh_type *)(uintptr_t)type;
}

// whi_type_new makes a node with space for its arguments and children, to be filled and sealed.
// A `kind` that does not exist is the caller's mistake.
WH_CHECK wh_status whi_type_new(wh_type_kind kind, size_t nargs, size_t nchildren, wh_type **type);

// whi_type_seal checks arguments and children, computes the bounds and retains the children.  It
// takes the node: on failure it is freed.  *type is written on WH_OK only.
WH_CHECK wh_status whi_type_seal(wh_type *node, wh_type **type);

// whi_type_args_check checks the row of numbers against the kind, as untrusted as any.
WH_CHECK wh_status whi_type_args_check(const wh_type *node);

// whi_type_bounds_set computes node->at from arguments that have been checked.
WH_CHECK wh_status whi_type_bounds_set(wh_type *node);

// The part of one dimension of a darray that a rank owns: `blocks` blocks of `block` elements,
// `step` apart, and then `tail` elements `step` after the last; the first begins at `start`.
typedef struct whi_share {
    int64_t start, block, blocks, step, tail;
    int64_t below;  // processes that differ only in the dimensions after this one
} whi_share;

// whi_type_share computes the share in the dimension that runs `i`-th fastest of a darray node whose
// arguments are checked.  For i > 0 *share is the one of the dimension before.
void whi_type_share(const wh_type *node, int64_t i, whi_share *share);

// whi_type_overflow fails with the sentence for a layout too large to address or, `packed`, only to pack.
WH_CHECK wh_status whi_type_overflow(const wh_type *node, bool packed);

// whi_type_maker names the constructor of a kind, for messages.
const char *whi_type_maker(unsigned kind);

#endif
