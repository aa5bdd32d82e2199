// SPDX-License-Identifier: BSD-3-Clause
//
// A machine without the CUDA driver: the kind does not exist, and whoever asks for it is told why.
#include "mem/cuda_kit.h"

TEST(without_a_driver) {
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL))
        SKIP("this machine has a driver");
    listen();
    void *ptr = &ptr;
    char here = 0;
    CHECK(!(wh_mem_kinds() & 1u << WH_MEM_CUDA));
    CHECK(strstr(wh_mem_kind_reason(WH_MEM_CUDA), "libcuda.so.1"));
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_CUDA, 0, 1, &ptr), WH_ENOTSUP);
    CHECK_EQ_STR(heard_id, "E-MEM-01");
    CHECK(strstr(heard_text,
                 "memory kind cuda does not exist here: the CUDA driver cannot be opened"));
    CHECK_EQ_INT(wh_mem_copy(&here, WH_MEM_CUDA, &here, WH_MEM_HOST, 1), WH_ENOTSUP);
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_CUDA, &here), WH_ENOTSUP);
    CHECK(ptr == &ptr);
    CHECK(!whi_mem_devices());
}

TEST_MAIN()
