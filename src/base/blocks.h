// SPDX-License-Identifier: BSD-3-Clause
//
// Memory for large things that come and go: blocks that are given back are kept for the next one of about that size.
//
// To the heap, large blocks return their pages at once, and the next one is paid for with a page fault for each, which takes
// longer than the copy into it.  What is kept is bounded, and the oldest goes first.  A keeper belongs to one thread; a block may be
// given back to another keeper than it is from.  Under the address sanitizer, kept blocks are poisoned.
#ifndef WHI_BASE_BLOCKS_H
#define WHI_BASE_BLOCKS_H

#include <stddef.h>

#include "base/list.h"

enum {
    WHI_BLOCK_ALIGN = 64,
    WHI_BLOCK_MIN = 2 << 10,    // smaller ones take less than a page each
    WHI_BLOCKS_KEPT = 8 << 20,  // bytes that a keeper keeps at most
};

typedef struct whi_blocks {
    whi_list kept;  // the last given back first
    size_t bytes;   // of them
} whi_blocks;

void whi_blocks_init(whi_blocks *blocks);

// whi_blocks_get returns `size` bytes of undefined content, aligned to WHI_BLOCK_ALIGN, for whi_blocks_put.  NULL: memory is out.
void *whi_blocks_get(whi_blocks *blocks, size_t size);

// whi_blocks_put takes a block back; NULL is allowed.
void whi_blocks_put(whi_blocks *blocks, void *memory);

// whi_blocks_fini frees what is kept.
void whi_blocks_fini(whi_blocks *blocks);

#endif
