// SPDX-License-Identifier: BSD-3-Clause
//
// A driver that lacks what is needed: the kind does not exist, and pointers stay what they are.
#include "mem/cuda_kit.h"

TEST(an_entry_point_is_missing) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    CHECK(library);
    if (dlsym(library, "cuInit"))
        SKIP("this driver is not the old one of the tests");
    whi_mem_notice();
    whi_mem_notice();
    CHECK(!whi_mem_devices());
    CHECK(!(wh_mem_kinds() & 1u << WH_MEM_CUDA));
    CHECK(strstr(wh_mem_kind_reason(WH_MEM_CUDA), "has no cuInit"));
    char here;
    wh_mem_info info = {.size = sizeof(info)};
    CHECK_EQ_INT(wh_mem_query(&here, &info), WH_OK);
    CHECK_EQ_INT(info.kind, WH_MEM_HOST);
}

TEST_MAIN()
