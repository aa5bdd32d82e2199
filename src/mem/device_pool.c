// SPDX-License-Identifier: BSD-3-Clause
//
// Blocks of device memory, see device_pool.h.
//
// The invariant: the blocks of a slab lie one behind the other and are all of it, and no two free ones are neighbours.
#include "mem/device_pool.h"

#include "base/alloc.h"

enum {
    UNIT = 256 << 10,  // of the blocks' sizes
    LEAST = 1 << 20,   // bytes of a slab
    BLOCKS =
        2,  // so many of the largest fit into a pool, so that two users go on beside each other
    PARTS =
        4  // a block that has fewer bytes than that part of what was wanted costs more than it carries
};

typedef struct whi_device_slab {
    whi_list link;
    const whi_mem_ops *ops;
    int device;
    uint64_t size;
    void *memory;
    whi_list blocks;
} whi_device_slab;

static whi_device_slab *slab_of(whi_list *node) {
    return whi_container_of(node, whi_device_slab, link);
}

static whi_device_block *block_of(whi_list *node) {
    return whi_container_of(node, whi_device_block, link);
}

// better says whether a free block suits `wanted` bytes better than another one: the smallest that has them, or the largest.
static bool better(const whi_device_block *block, const whi_device_block *than, uint64_t wanted) {
    if (!than)
        return true;
    return than->size >= wanted ? block->size >= wanted && block->size < than->size
                                : block->size > than->size;
}

static whi_device_block *find(const whi_device_pool *pool, const whi_mem_ops *ops, int device,
                              uint64_t wanted) {
    whi_device_block *best = NULL;
    whi_list_foreach(at, &pool->slabs) {
        const whi_device_slab *slab = slab_of(at);
        if (slab->ops != ops || slab->device != device)
            continue;
        whi_list_foreach(node, &slab->blocks) {
            whi_device_block *block = block_of(node);
            if (!block->used && better(block, best, wanted))
                best = block;
        }
    }
    return best;
}

// could says whether there will be a block of `least` bytes when all are free.
static bool could(const whi_device_pool *pool, const whi_mem_ops *ops, int device, uint64_t least) {
    whi_list_foreach(at, &pool->slabs) {
        const whi_device_slab *slab = slab_of(at);
        if (slab->ops == ops && slab->device == device && slab->size >= least)
            return true;
    }
    return false;
}

static whi_device_block *add_block(whi_device_slab *slab, whi_list *before, char *memory,
                                   uint64_t size) {
    whi_device_block *block = whi_calloc(1, sizeof(*block));
    if (!block)
        return NULL;
    *block = (whi_device_block){.slab = slab, .memory = memory, .size = size};
    whi_list_init(&block->link);
    whi_list_push_front(before, &block->link);
    return block;
}

static void free_slab(whi_device_slab *slab) {
    whi_list *node;
    while ((node = whi_list_pop_front(&slab->blocks)))
        whi_free(block_of(node));
    whi_free(slab);
}

// slab_size returns how large the next slab is, for a block of `size` bytes; 0: there is no room for one.
static uint64_t slab_size(const whi_device_pool *pool, uint64_t size, uint64_t least) {
    uint64_t left = (pool->max - pool->size) / UNIT * UNIT, slab = LEAST;
    while (slab < size || slab < pool->size)
        slab *= 2;
    slab = slab < left ? slab : left;
    return slab >= least ? slab : 0;
}

// grow makes a slab and returns its one block, or NULL.
static whi_device_block *grow(whi_device_pool *pool, const whi_mem_ops *ops, int device,
                              uint64_t size) {
    if (!size)
        return NULL;
    whi_device_slab *slab = whi_calloc(1, sizeof(*slab));
    if (!slab)
        return NULL;
    *slab = (whi_device_slab){.ops = ops, .device = device, .size = size};
    whi_list_init(&slab->blocks);
    whi_device_block *block = add_block(slab, &slab->blocks, NULL, size);
    if (!block || ops->alloc(device, size, &slab->memory) != WH_OK) {
        if (block)
            pool->max = pool->size;  // a full device is not asked each time
        free_slab(slab);
        return NULL;
    }
    block->memory = slab->memory;
    whi_list_init(&slab->link);
    whi_list_push_back(&pool->slabs, &slab->link);
    pool->size += size;
    return block;
}

void whi_device_pool_init(whi_device_pool *pool, uint64_t max) {
    *pool = (whi_device_pool){.max = max};
    whi_list_init(&pool->slabs);
}

void whi_device_pool_fini(whi_device_pool *pool) {
    whi_list *node;
    while (pool->size && (node = whi_list_pop_front(&pool->slabs))) {
        whi_device_slab *slab = slab_of(node);
        (void)!slab->ops->free(slab->memory);
        pool->size -= slab->size;
        free_slab(slab);
    }
}

wh_status whi_device_pool_take(whi_device_pool *pool, const whi_mem_ops *ops, int device,
                               uint64_t wanted, whi_device_block **taken) {
    uint64_t most = pool->max / BLOCKS / UNIT * UNIT;
    uint64_t size = wanted < most ? (wanted + UNIT - 1) / UNIT * UNIT : most, least = size / PARTS;
    if (!size)
        return WH_ELIMIT;
    whi_device_block *block = find(pool, ops, device, size), *made = NULL;
    if (!block || block->size < size)
        made = grow(pool, ops, device, slab_size(pool, size, least));
    block = made ? made : block;
    if (!block || block->size < least)
        return could(pool, ops, device, least) ? WH_EAGAIN : WH_ELIMIT;
    // Without memory to note the rest the block has all of it.
    if (block->size > size &&
        add_block(block->slab, &block->link, block->memory + size, block->size - size))
        block->size = size;
    block->used = true;
    pool->used += block->size;
    *taken = block;
    return WH_OK;
}

// join makes a block and the one behind it one, if both are free.
static void join(whi_device_block *block) {
    if (block->link.next == &block->slab->blocks)
        return;
    whi_device_block *next = block_of(block->link.next);
    if (block->used || next->used)
        return;
    block->size += next->size;
    whi_list_remove(&next->link);
    whi_free(next);
}

void whi_device_pool_put(whi_device_pool *pool, whi_device_block *block) {
    whi_device_block *before =
        block->link.prev == &block->slab->blocks ? NULL : block_of(block->link.prev);
    pool->used -= block->size;
    block->used = false;
    join(block);
    if (before)
        join(before);
}
