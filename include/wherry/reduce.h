// SPDX-License-Identifier: BSD-3-Clause
//
// Reductions over the elements of a collection (chare.h): each contributes a value, and what they make together goes to a callback.
//
// The k-th contributions of all elements make the k-th reduction.  Many may be under way; their callbacks are
// carried out in order.  A reduction of nothing is a barrier.
//
// Threads: as those of chare.h.
#ifndef WHERRY_REDUCE_H
#define WHERRY_REDUCE_H

#include <wherry/chare.h>
#include <wherry/pack.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum wh_reducer {
    WH_REDUCER_NOTHING,  // no value
    WH_REDUCER_OP,  // an operation on elements of a predefined type, packed (pack.h), equally many of each contributor
    WH_REDUCER_CONCAT,  // all bytes one behind the other, in any order of contributors
    WH_REDUCER_SET,  // all values with the elements that they are of, ordered by index: wh_reduction_next
    WH_REDUCER_CUSTOM,  // a function that is registered, on equally many bytes of each contributor
} wh_reducer;

typedef struct wh_contribution {  // the same in all contributors but for the value
    wh_reducer reducer;
    wh_reduce op;  // WH_REDUCER_OP: what, on elements of which type
    wh_type_id type;
    uint32_t reserved;
    uint64_t function;  // WH_REDUCER_CUSTOM: wh_reducer_id
    const void *data;   // host memory
    size_t count;       // elements of `type`, in its layout; otherwise bytes
} wh_contribution;

// wh_contribute gives this element's part in the next reduction of its collection; the data is copied.
//
// With one contribution the callback's value is what it has become; with several, a tuple, that is a sequence for
// wh_reduction_next; with none there is no value.  All elements say the same callback.  Operations are
// carried out in any order.
// WH_ENOTSUP: the element is a single chare, is of an array on demand, or was inserted into an array that is not WH_ARRAY_INSERTING;
// or the operation is not defined on the type.
//
// Elements: those of an array with WH_ARRAY_INSERTING take part from the first reduction on, and none ends before
// wh_array_done.  An element that ends takes part no more in those that it has not contributed to.
WH_API WH_CHECK wh_status wh_contribute(wh_chare *self, const wh_contribution *parts, size_t count,
                                        size_t part_size, const wh_callback *callback);

// wh_reduction_next goes through the values of a set or a tuple.  *cursor is 0 at first; false: there are no more.
typedef struct wh_reduction_item {
    wh_proxy element;  // of a set
    const void *data;  // aligned to 16, where the value is
    size_t size;
} wh_reduction_item;
WH_API bool wh_reduction_next(const void *value, size_t size, size_t *cursor,
                              wh_reduction_item *item);

// wh_reducer_register makes a function known under a name, like a class: it combines `size` bytes of one contributor with those
// of others, in any order.
typedef void (*wh_reducer_fn)(void *inout, const void *in, size_t size, void *arg);
WH_API WH_CHECK wh_status wh_reducer_register(wh_pe *pe, const char *name, wh_reducer_fn fn,
                                              void *arg);
WH_API uint64_t wh_reducer_id(const char *name);

#ifdef __cplusplus
}
#endif
#endif
