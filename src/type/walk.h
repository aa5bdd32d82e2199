// SPDX-License-Identifier: BSD-3-Clause
//
// Walking a layout: the one traversal behind pack, unpack, iov, reductions and conversions.
//
// A walk visits the packed bytes [from, to) of `count` elements in packed order and hands them to a
// visitor: whole leaves in grids of two loops, and pieces of runs at the cut ends.  Addresses are
// integers, because a walk may also be made without memory.
#ifndef WHI_TYPE_WALK_H
#define WHI_TYPE_WALK_H

#include "type/layout.h"

typedef struct whi_visitor whi_visitor;

// Both return false to end the walk.
struct whi_visitor {
    // n1 x n0 whole leaves, s1 and s0 bytes apart, the first at `at`.  The leaf is a RUN, BLOCKS or
    // LIST.
    bool (*grid)(whi_visitor *visitor, const whi_leaf *leaf, uintptr_t at, int64_t n1, int64_t s1,
                 int64_t n0, int64_t s0);
    // `size` dense bytes at `at`.
    bool (*bytes)(whi_visitor *visitor, uintptr_t at, int64_t size, uint8_t tag);
};

// whi_walk_loops writes the loops of `count` elements, the count being one more where it does not
// continue the first, to dims[WHI_DIMS + 1]; returns how many.
int whi_walk_loops(const whi_layout *layout, int64_t count, int64_t extent, whi_dim *dims);

// whi_walk visits [from, to) of `count` elements, `extent` bytes apart, of `layout`.  Returns false
// when the visitor ended it.
bool whi_walk(whi_visitor *visitor, const whi_layout *layout, int64_t count, int64_t extent,
              uintptr_t at, int64_t from, int64_t to);

// whi_walk_grid cuts a grid into runs for a visitor that knows only `bytes`; it fits as its `grid`.
bool whi_walk_grid(whi_visitor *visitor, const whi_leaf *leaf, uintptr_t at, int64_t n1, int64_t s1,
                   int64_t n0, int64_t s0);

// whi_walk_runs counts the maximal runs of `count` elements; false when they are beyond 64 bits.
bool whi_walk_runs(const whi_layout *layout, int64_t count, int64_t extent, int64_t *runs);

// whi_walk_run_start returns the packed position at which run `run` begins; the run must exist.
int64_t whi_walk_run_start(const whi_layout *layout, int64_t extent, int64_t run);

#endif
