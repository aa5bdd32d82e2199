// SPDX-License-Identifier: BSD-3-Clause
//
// Host memory through its vtable: what is asynchronous elsewhere is done at once.
#include "base/alloc.h"
#include "base/test.h"
#include "mem/mem.h"

static const whi_mem_ops *const ops = &whi_mem_host;

TEST(allocation) {
    void *ptr;
    for (size_t size = 0; size < 300; size += 100) {
        CHECK_EQ_INT(ops->alloc(-5, size, &ptr), WH_OK);  // the device means nothing
        CHECK(ptr);
        CHECK_EQ_INT((uintptr_t)ptr % 64, 0);
        memset(ptr, 1, size);
        CHECK_EQ_INT(ops->free(ptr), WH_OK);
    }
}

TEST(allocation_may_fail) {
    void *ptr = NULL;
    whi_alloc_fail_at(1);
    wh_status status = ops->alloc(0, 10, &ptr);
    whi_alloc_fail_at(0);
    CHECK_EQ_INT(status, WH_ENOMEM);
    CHECK(!ptr);
}

TEST(everything_is_host_memory) {
    int here = 0;
    wh_mem_info info;
    CHECK(ops->query(&here, &info));
    CHECK_EQ_INT(info.kind, WH_MEM_HOST);
    CHECK(ops->query(NULL, &info));
}

TEST(copies_in_every_direction) {
    static const whi_mem_direction directions[] = {WHI_MEM_TO_HOST, WHI_MEM_FROM_HOST,
                                                   WHI_MEM_WITHIN};
    for (int i = 0; i < 3; i++) {
        char to[4] = "...";
        CHECK_EQ_INT(ops->copy(directions[i], to, "abc", 2), WH_OK);
        CHECK_EQ_STR(to, "ab.");
        CHECK_EQ_INT(ops->copy(directions[i], NULL, NULL, 0), WH_OK);
    }
}

TEST(asynchronous_is_at_once) {
    char to[4] = "...";
    void *stream = to;  // any
    whi_mem_event event;
    CHECK_EQ_INT(ops->copy_async(WHI_MEM_WITHIN, to, "abc", 3, stream), WH_OK);
    CHECK_EQ_STR(to, "abc");
    CHECK_EQ_INT(ops->record(stream, &event), WH_OK);
    CHECK(event.ops == ops);
    CHECK_EQ_INT(ops->wait(stream, &event), WH_OK);
    CHECK_EQ_INT(whi_mem_event_query(&event), WH_OK);
    whi_mem_event_release(&event);
    CHECK(!event.ops);
}

TEST_MAIN()
