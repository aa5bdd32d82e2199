// SPDX-License-Identifier: BSD-3-Clause
//
// The normal form of a type: loops around a leaf.
//
// A layout is an offset, up to WHI_DIMS loops (outermost first) and what they repeat: one dense run,
// a table of runs, or a table of other layouts.  The functions below build it from the inside out
// and keep it normal: loops of one pass vanish, loops that continue each other become one, dense
// neighbours merge, tables in arithmetic progression become loops.  They never reorder: the leaf
// visits bytes in type map order.  So the many ways to describe a vector give one layout.
//
// Layouts are values; their tables live in an arena that belongs to a plan (plan.h), or in the plan
// of a child type, which the parent type keeps alive.
#ifndef WHI_TYPE_LAYOUT_H
#define WHI_TYPE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/status.h>

enum {
    WHI_DIMS = 12,       // loops in one layout; what nests deeper continues in a child layout
    WHI_LIST_STEP = 32,  // a list knows the packed position of every 32nd run
    WHI_EXPAND = 64,     // a struct of no more runs than this becomes one list
    WHI_TAG_NONE = 255,  // the tag of bytes whose type class does not matter
};

typedef struct whi_layout whi_layout;
typedef struct whi_leaf whi_leaf;

// A kernel moves n1 x n0 leaves, s1 and s0 bytes apart, between memory from `base` on and the packed
// bytes at `packed`; returns where these go on.
typedef char *whi_kernel_fn(const whi_leaf *leaf, char *packed, char *base, int64_t n1, int64_t s1,
                            int64_t n0, int64_t s0);

typedef enum whi_leaf_kind {
    WHI_RUN,     // `size` dense bytes at 0
    WHI_BLOCKS,  // n >= 2 runs of `len` bytes each
    WHI_LIST,    // n >= 2 runs of different lengths
    WHI_INDEX,   // n >= 1 copies of one layout
    WHI_SEQ,     // n >= 2 different layouts
} whi_leaf_kind;

struct whi_leaf {
    uint8_t kind;  // whi_leaf_kind
    uint8_t tag;   // wh_type_id of its elements in a typed layout, WHI_TAG_NONE for bytes
    int64_t size;  // packed bytes
    int64_t n;
    int64_t len;
    // Where run or copy i begins: low + off32[i] when all fit, or off[i].
    int64_t low;
    const uint32_t *off32;
    const int64_t *off;
    // LIST: bytes of run i, len8 or lens; their tags when they differ.
    const uint8_t *len8;
    const int64_t *lens;
    const uint8_t *tags;
    // LIST: packed position of run i * WHI_LIST_STEP.  SEQ: of child i.  Ends with the total.
    const int64_t *pos;
    // INDEX and SEQ: merged runs that begin before child i.  Ends with the total.
    const int64_t *rpos;
    const whi_layout *child;        // INDEX: one; SEQ: n, each with its own offset
    whi_kernel_fn *move[2];         // pack, unpack; chosen when the plan is made
    whi_kernel_fn *cross[2];        // the same for loops whose inner stride is the larger, or NULL
    whi_kernel_fn *nontemporal[2];  // the first with stores around the cache, or NULL
    whi_kernel_fn *cross_nontemporal;  // the second so, for pack only, or NULL
};

typedef struct whi_dim {
    int64_t count, stride;
    int64_t size;  // packed bytes of one pass
    int64_t runs;  // merged runs of one pass
    bool join;     // a pass begins where the one before it ended
} whi_dim;

struct whi_layout {
    int64_t off;         // where the first leaf's zero lies
    int64_t size;        // packed bytes; 0: empty, and nothing else counts
    int64_t runs;        // maximal runs, counting neighbours in packed order as one
    int64_t start, end;  // address of the first packed byte, and behind the last
    int ndims;
    whi_leaf leaf;
    whi_dim dim[WHI_DIMS];
};

// Memory for tables, freed all at once; and scratch memory, freed as soon as a layout is made.
typedef struct whi_arena {
    struct whi_chunk *kept, *scratch;
} whi_arena;

// whi_arena_take returns `n` times `size` bytes, or NULL; whi_arena_scratch the same for a while.
void *whi_arena_take(whi_arena *arena, size_t n, size_t size);
void *whi_arena_scratch(whi_arena *arena, size_t n, size_t size);
void whi_arena_free_scratch(whi_arena *arena);
void whi_arena_free(whi_arena *arena);

// Offset and length of run `i` of a BLOCKS or LIST leaf; offset of copy `i` of an INDEX leaf.
static inline int64_t whi_leaf_off(const whi_leaf *leaf, int64_t i) {
    return leaf->off32 ? leaf->low + leaf->off32[i] : leaf->off[i];
}
static inline int64_t whi_leaf_len(const whi_leaf *leaf, int64_t i) {
    return leaf->kind != WHI_LIST ? leaf->len : leaf->len8 ? leaf->len8[i] : leaf->lens[i];
}
static inline uint8_t whi_leaf_tag(const whi_leaf *leaf, int64_t i) {
    return leaf->tags ? leaf->tags[i] : leaf->tag;
}

// whi_layout_run makes `size` dense bytes.
void whi_layout_run(whi_layout *layout, int64_t size, uint8_t tag);

// whi_layout_shift moves a layout by `offset` bytes.
void whi_layout_shift(whi_layout *layout, int64_t offset);

// whi_layout_loop repeats a layout `count` times, `stride` bytes apart.
WH_CHECK wh_status whi_layout_loop(whi_layout *layout, int64_t count, int64_t stride,
                                   whi_arena *arena);

// whi_layout_inner leaves of a layout with loops the first pass of the outermost.
void whi_layout_inner(whi_layout *layout);

// whi_layout_index repeats a layout once per offset.  The offsets are borrowed for the call.
WH_CHECK wh_status whi_layout_index(whi_layout *layout, int64_t n, const int64_t *offsets,
                                    whi_arena *arena);

// A list of runs while it is being made, in scratch memory.
typedef struct whi_runs {
    int64_t n;
    int64_t *off, *len;
    uint8_t *tag;
} whi_runs;

// whi_runs_take makes an empty list with space for `space` runs.
WH_CHECK wh_status whi_runs_take(whi_runs *runs, int64_t space, whi_arena *arena);

// whi_layout_list makes a layout of runs, after merging neighbours of one tag.  It changes the list.
WH_CHECK wh_status whi_layout_list(whi_layout *layout, whi_runs *runs, whi_arena *arena);

// whi_layout_seq places layouts one after the other in packed order.  It may change and keep
// `parts`, which whi_arena_take gave.
WH_CHECK wh_status whi_layout_seq(whi_layout *layout, int64_t n, whi_layout *parts,
                                  whi_arena *arena);

// whi_layout_shape readies a layout of bytes for moving: short inner loops become a table of blocks,
// and kernels are chosen for the leaf.  Children are shaped when they become children.
WH_CHECK wh_status whi_layout_shape(whi_layout *layout, whi_arena *arena);

// whi_layout_pieces counts the runs of a layout without merging, up to `max`: more is max + 1.
int64_t whi_layout_pieces(const whi_layout *layout, int64_t max);

// whi_layout_expand appends all pieces of a layout, moved by `base`, to `runs`, which has space.
void whi_layout_expand(const whi_layout *layout, int64_t base, whi_runs *runs);

#endif
