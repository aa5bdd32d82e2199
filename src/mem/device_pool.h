// SPDX-License-Identifier: BSD-3-Clause
//
// Blocks of device memory for what is on its way, of one owner.
//
// Blocks are made when they are first needed and kept until the pool ends, because freeing device memory waits for the whole
// device; all together have a bound.  Nobody waits for a block: where none is to be had there is none.  One thread.
#ifndef WHI_MEM_DEVICE_POOL_H
#define WHI_MEM_DEVICE_POOL_H

#include "base/list.h"
#include "mem/mem.h"

typedef struct whi_device_pool {
    whi_list free;
    uint64_t size, max;  // bytes of all blocks, free ones or not
} whi_device_pool;

typedef struct whi_device_block {
    whi_list link;  // among the free ones
    const whi_mem_ops *ops;
    int device;
    char *memory;
    uint64_t size;
} whi_device_block;

void whi_device_pool_init(whi_device_pool *pool, uint64_t max);

// whi_device_pool_fini frees the blocks; all have been put back.  A pool of zeros needs none.
void whi_device_pool_fini(whi_device_pool *pool);

// whi_device_pool_take returns a block for up to `wanted` bytes, which may have fewer, or NULL.
whi_device_block *whi_device_pool_take(whi_device_pool *pool, const whi_mem_ops *ops, int device,
                                       uint64_t wanted);

// whi_device_pool_put gives a block back that nothing is copied to; NULL is none.
void whi_device_pool_put(whi_device_pool *pool, whi_device_block *block);

#endif
