// SPDX-License-Identifier: BSD-3-Clause
//
// Blocks of device memory, see device_pool.h.
//
// Sizes are few, powers of two, so that a block suits many messages: who asks gets the smallest free one that is large enough,
// or the largest that there is.
#include "mem/device_pool.h"

#include "base/alloc.h"

enum {
    LEAST = 1 << 20,  // bytes of a block
    BLOCKS =
        2,  // so many of the largest fit into a pool, so that two users go on beside each other
};

static whi_device_block *block_of(whi_list *node) {
    return whi_container_of(node, whi_device_block, link);
}

// find returns the free block of a device that suits `wanted` bytes best, or NULL.
static whi_device_block *find(const whi_device_pool *pool, const whi_mem_ops *ops, int device,
                              uint64_t wanted) {
    whi_device_block *best = NULL;
    whi_list_foreach(node, &pool->free) {
        whi_device_block *block = block_of(node);
        if (block->ops != ops || block->device != device)
            continue;
        bool better = !best || block->size > best->size;
        if (best && best->size >= wanted)
            better = block->size >= wanted && block->size < best->size;
        if (better)
            best = block;
    }
    return best;
}

static uint64_t block_size(const whi_device_pool *pool, uint64_t wanted) {
    uint64_t size = LEAST;
    while (size < wanted && size * 2 <= pool->max / BLOCKS)
        size *= 2;
    return size;
}

static whi_device_block *make(whi_device_pool *pool, const whi_mem_ops *ops, int device,
                              uint64_t size) {
    if (size > pool->max - pool->size)
        return NULL;
    whi_device_block *block = whi_calloc(1, sizeof(*block));
    void *memory = NULL;
    if (!block)
        return NULL;
    if (ops->alloc(device, size, &memory) != WH_OK) {
        whi_free(block);
        pool->max = pool->size;  // a full device is not asked each time
        return NULL;
    }
    *block = (whi_device_block){.ops = ops, .device = device, .memory = memory, .size = size};
    whi_list_init(&block->link);
    pool->size += size;
    return block;
}

void whi_device_pool_init(whi_device_pool *pool, uint64_t max) {
    *pool = (whi_device_pool){.max = max};
    whi_list_init(&pool->free);
}

void whi_device_pool_fini(whi_device_pool *pool) {
    whi_list *node;
    while (pool->size && (node = whi_list_pop_front(&pool->free))) {
        whi_device_block *block = block_of(node);
        (void)!block->ops->free(block->memory);
        pool->size -= block->size;
        whi_free(block);
    }
}

whi_device_block *whi_device_pool_take(whi_device_pool *pool, const whi_mem_ops *ops, int device,
                                       uint64_t wanted) {
    uint64_t size = block_size(pool, wanted);
    whi_device_block *block = find(pool, ops, device, size), *made = NULL;
    if (!block || block->size < size)
        made = make(pool, ops, device, size);
    if (made)
        return made;
    if (block)
        whi_list_remove(&block->link);
    return block;
}

void whi_device_pool_put(whi_device_pool *pool, whi_device_block *block) {
    if (block)
        whi_list_push_front(&pool->free, &block->link);
}
