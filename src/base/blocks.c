// SPDX-License-Identifier: BSD-3-Clause
//
// The size of a block stands in front of it.
#include "base/blocks.h"

#include <assert.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/pool.h"

enum { LOOKS = 16 };  // blocks that are looked at for one that fits

typedef struct block {
    _Alignas(WHI_BLOCK_ALIGN) whi_list link;
    size_t size;
} block;

static_assert(sizeof(block) == WHI_BLOCK_ALIGN, "what follows is aligned");

void whi_blocks_init(whi_blocks *blocks) {
    whi_list_init(&blocks->kept);
    blocks->bytes = 0;
}

static block *take(whi_blocks *blocks, block *b) {
    whi_pool_unpoison(b + 1, b->size);
    whi_list_remove(&b->link);
    blocks->bytes -= b->size;
    return b;
}

// A much larger block would be missed by those who need it.
static bool fits(const block *b, size_t size) {
    return b->size >= size && b->size / 2 <= size;
}

static block *find(whi_blocks *blocks, size_t size) {
    int looks = 0;
    if (size < WHI_BLOCK_MIN)
        return NULL;
    for (whi_list *node = blocks->kept.next; node != &blocks->kept && looks < LOOKS; looks++) {
        block *b = whi_container_of(node, block, link);
        if (fits(b, size))
            return take(blocks, b);
        node = node->next;
    }
    return NULL;
}

void *whi_blocks_get(whi_blocks *blocks, size_t size) {
    size_t all;
    block *b = find(blocks, size);
    if (b)
        return b + 1;
    if (__builtin_add_overflow(size, sizeof(*b), &all) ||
        !(b = whi_aligned_alloc(WHI_BLOCK_ALIGN, all)))
        return NULL;
    b->size = size;
    return b + 1;
}

void whi_blocks_put(whi_blocks *blocks, void *memory) {
    block *b = memory ? (block *)memory - 1 : NULL;
    if (!b || b->size < WHI_BLOCK_MIN || b->size > WHI_BLOCKS_KEPT) {
        whi_free(b);
        return;
    }
    whi_list_push_front(&blocks->kept, &b->link);
    blocks->bytes += b->size;
    whi_pool_poison(b + 1, b->size);
    while (blocks->bytes > WHI_BLOCKS_KEPT)
        whi_free(take(blocks, whi_container_of(whi_list_last(&blocks->kept), block, link)));
}

void whi_blocks_fini(whi_blocks *blocks) {
    while (!whi_list_empty(&blocks->kept))
        whi_free(take(blocks, whi_container_of(whi_list_first(&blocks->kept), block, link)));
}
