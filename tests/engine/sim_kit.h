// SPDX-License-Identifier: BSD-3-Clause
//
// For the tests of comm with memory of the simulated device: making it, looking at it, passing it on.
#ifndef WHI_COMM_SIM_KIT_H
#define WHI_COMM_SIM_KIT_H

#include "test_kit.h"

enum { SIM_KIT_MAX = 4 << 20 };  // bytes that can be looked at

// device makes memory of device 1 with this content, for `give`.
__attribute__((unused)) static unsigned char *device(const void *content, size_t size) {
    void *ptr = NULL;
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_SIM, 1, size, &ptr), WH_OK);
    CHECK_EQ_INT(wh_mem_copy(ptr, WH_MEM_SIM, content, WH_MEM_HOST, size), WH_OK);
    return ptr;
}

__attribute__((unused)) static void give(void *ptr) {
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, ptr), WH_OK);
}

__attribute__((unused)) static const unsigned char *content_of(const void *ptr, size_t size) {
    static unsigned char copy[SIM_KIT_MAX];
    CHECK(size <= sizeof(copy));
    CHECK_EQ_INT(wh_mem_copy(copy, WH_MEM_HOST, ptr, WH_MEM_SIM, size), WH_OK);
    return copy;
}

__attribute__((unused)) static void check_device(const void *ptr, const void *expected,
                                                 size_t size) {
    CHECK_MEM(content_of(ptr, size), expected, size);
}

#endif
