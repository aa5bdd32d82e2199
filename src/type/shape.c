// SPDX-License-Identifier: BSD-3-Clause
//
// Shaping: the last step between a normal form and its kernels.
//
// A kernel covers two loops around a leaf; where those are short (a 4 x 4 face of doubles) the price
// of starting it shows.  Short inner loops are therefore written out as a table of blocks, which one
// kernel call walks for many passes of the loops further out.
#include "type/kernels/kernels.h"
#include "type/layout.h"

enum {
    SHORT_LOOP = 16,    // an inner loop from here on pays for itself
    TABLE_BLOCKS = 64,  // a table of this many offsets stays in the nearest cache
    TABLE_BYTES = 128,  // longer blocks hide the price of a loop
};

// How many inner loops to write out.
static int loops_to_fold(const whi_layout *layout) {
    int n = layout->ndims;
    if (layout->leaf.kind != WHI_RUN || layout->leaf.size > TABLE_BYTES || n < 2 ||
        layout->dim[n - 1].count >= SHORT_LOOP)
        return 0;
    int64_t blocks = 1;
    int folded = 0;
    while (folded < n && blocks * layout->dim[n - 1 - folded].count <= TABLE_BLOCKS)
        blocks *= layout->dim[n - 1 - folded++].count;
    return folded;
}

static wh_status fold(whi_layout *layout, int loops, whi_arena *arena) {
    whi_layout inner = *layout, table;
    int outer = layout->ndims - loops;
    inner.ndims = loops;
    inner.off = 0;
    for (int d = 0; d < loops; d++)
        inner.dim[d] = layout->dim[outer + d];
    whi_runs runs;
    wh_status status = whi_runs_take(&runs, TABLE_BLOCKS, arena);
    if (status != WH_OK)
        return status;
    whi_layout_expand(&inner, 0, &runs);
    status = whi_layout_list(&table, &runs, arena);
    // Blocks that adjoin only across passes give unequal runs: then the loops are the better form.
    if (status == WH_OK && table.leaf.kind == WHI_BLOCKS) {
        layout->leaf = table.leaf;
        layout->ndims = outer;
    }
    return status;
}

wh_status whi_layout_shape(whi_layout *layout, whi_arena *arena) {
    if (layout->size == 0 || layout->leaf.tag != WHI_TAG_NONE)
        return WH_OK;
    int loops = loops_to_fold(layout);
    if (loops) {
        wh_status status = fold(layout, loops, arena);
        if (status != WH_OK)
            return status;
    }
    whi_kernels_pick(&layout->leaf);
    return WH_OK;
}
