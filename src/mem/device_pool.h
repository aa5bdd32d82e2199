// SPDX-License-Identifier: BSD-3-Clause
//
// Blocks of device memory for what is on its way, of one owner.
//
// They are parts of a few large allocations, which other processes need to map once only.  Those are made when they are first
// needed, each about as large as all before it, and kept until the pool ends, because freeing device memory waits for the whole
// device; all together have a bound.  One thread.
#ifndef WHI_MEM_DEVICE_POOL_H
#define WHI_MEM_DEVICE_POOL_H

#include "base/list.h"
#include "mem/mem.h"

typedef struct whi_device_pool {
    whi_list slabs;      // the allocations
    uint64_t size, max;  // bytes of them
    uint64_t used;       // bytes of the blocks that were taken
} whi_device_pool;

typedef struct whi_device_block {
    whi_list link;  // among those of its slab, free ones or not, by their addresses
    struct whi_device_slab *slab;
    char *memory;
    uint64_t size;
    bool used;
} whi_device_block;

void whi_device_pool_init(whi_device_pool *pool, uint64_t max);

// whi_device_pool_fini frees the memory; all has been put back.  A pool of zeros needs none.
void whi_device_pool_fini(whi_device_pool *pool);

// whi_device_pool_take takes a block for `wanted` bytes; it may have fewer, though not less than a quarter of them or of the
// pool's half.  WH_EAGAIN: there will be one when others have been put back.  WH_ELIMIT: there will be none.
WH_CHECK wh_status whi_device_pool_take(whi_device_pool *pool, const whi_mem_ops *ops, int device,
                                        uint64_t wanted, whi_device_block **block);

// whi_device_pool_put gives a block back that nothing is copied to.
void whi_device_pool_put(whi_device_pool *pool, whi_device_block *block);

#endif
