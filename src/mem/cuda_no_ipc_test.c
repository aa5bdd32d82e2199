// SPDX-License-Identifier: BSD-3-Clause
//
// A driver that makes no handles for other processes, as in some containers and on some devices.
#include "mem/cuda_kit.h"

TEST(what_people_read_then) {
    setenv("CUTEST_FAIL", "cuIpcGetMemHandle=801", 1);  // the driver reads it when it is loaded
    (void)entry("cutest_fail");
    const char *words = wh_mem_sharing_reason(WH_MEM_CUDA);
    CHECK(strstr(words, "cuIpcGetMemHandle failed with") && strstr(words, "801"));
    whi_mem_handle handle;
    char *mine = make(0, 100);
    listen();
    CHECK_EQ_INT(whi_cuda_sharing.export(mine, &handle), WH_ENOTSUP);
    CHECK_EQ_INT(heard_count, 0);
    CHECK_EQ_INT(depth(), 0);
    unmake(mine);
}

TEST_MAIN()
