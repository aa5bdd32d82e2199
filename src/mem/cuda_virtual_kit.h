// SPDX-License-Identifier: BSD-3-Clause
//
// For tests: virtual memory of CUDA, as others make it.
#ifndef WHI_MEM_CUDA_VIRTUAL_KIT_H
#define WHI_MEM_CUDA_VIRTUAL_KIT_H

#include <stdlib.h>

#include "mem/cuda_driver.h"

#define VIRTUAL_CHECK(call)                                                                        \
    do {                                                                                           \
        if ((call) != 0)                                                                           \
            abort();                                                                               \
    } while (0)

// reserve_range reserves addresses for blocks.
__attribute__((unused)) static whi_cuda_ptr reserve_range(size_t size) {
    whi_cuda_ptr ptr = 0;
    VIRTUAL_CHECK(whi_cuda.cuMemAddressReserve(&ptr, size, 0, 0, 0));
    return ptr;
}

// put_block makes a block and maps it.  The handle is given back at once: the mapping keeps it.
__attribute__((unused)) static void put_block(
    int (*create)(whi_cuda_block *, size_t, const whi_cuda_block_properties *, unsigned long long),
    whi_cuda_ptr at, size_t size, int device, int handle_types) {
    whi_cuda_block_properties p = {
        .type = 1, .handle_types = handle_types, .location = {WHI_CUDA_LOCATION_DEVICE, device}};
    whi_cuda_access access = {.location = p.location, .rights = WHI_CUDA_READ_AND_WRITE};
    whi_cuda_block block;
    VIRTUAL_CHECK(create(&block, size, &p, 0));
    VIRTUAL_CHECK(whi_cuda.cuMemMap(at, size, 0, block, 0));
    VIRTUAL_CHECK(whi_cuda.cuMemSetAccess(at, size, &access, 1));
    VIRTUAL_CHECK(whi_cuda.cuMemRelease(block));
}

#endif
