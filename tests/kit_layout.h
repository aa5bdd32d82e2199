// SPDX-License-Identifier: BSD-3-Clause
//
// Memory that is laid out, for cases of the conformance suite: a message of so many words in any shape and kind of memory, with
// what no message holds in between and around it.
#ifndef WHERRY_TESTS_KIT_LAYOUT_H
#define WHERRY_TESTS_KIT_LAYOUT_H

#include "kit.h"

enum { KIT_WORD = 8 };

typedef enum kit_shape {
    KIT_DENSE,
    KIT_VECTOR,
    KIT_BLOCKS,
    KIT_SUBARRAY,
    KIT_INDEXED,
    KIT_STRUCT,
    KIT_TRANSPOSED,
    KIT_REVERSED,
    KIT_SPREAD,
    KIT_SHAPES,
    // Of so long runs that the largest messages can be copied run by run.
    KIT_ROWS = KIT_SHAPES,
    KIT_BOX,
    KIT_PIECES,
    KIT_PARTS,
} kit_shape;

// `count` elements of a type, which is the words of one message.
typedef struct kit_layout {
    wh_type *type;
    size_t count;
    wh_mem_kind kind;
    char *base;    // of the allocation
    size_t space;  // its bytes
    void *origin;  // what the operation gets
} kit_layout;

// kit_type makes a type for `n` words, n being a multiple of 24.
wh_type *kit_type(kit_side *me, kit_shape s, int64_t n);

// kit_lay_out allocates memory for `n` words, filled with what no message holds; kit_layout_fill writes a message of `words`
// words, and kit_layout_check requires that they are there and that nothing else has changed.
kit_layout kit_lay_out(kit_side *me, kit_shape s, size_t n, wh_mem_kind kind);
void kit_layout_fill(kit_side *me, kit_layout *l, size_t words, uint64_t seed);
void kit_layout_check(kit_side *me, const kit_layout *l, size_t words, uint64_t seed);
void kit_layout_drop(kit_side *me, kit_layout *l);

// kit_opts_typed makes the options of an operation on it.
const wh_op_opts *kit_opts_typed(kit_op *op, const kit_layout *l, uint32_t flags);

#endif
