// SPDX-License-Identifier: BSD-3-Clause
//
// How the driver comes into the process: never unasked, noticed when another library has brought it, and
// useless in a forked child.  Each test is a child of its own, since it comes at most once.
#include "base/test_child.h"
#include "mem/cuda_kit.h"

// Whether libcuda is in this process.
static bool is_loaded(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (library)
        dlclose(library);
    return library;
}

static void ask_for_host_memory(void) {
    char here;
    wh_mem_info info = {.size = sizeof(info)};
    void *ptr;
    whi_mem_notice();
    CHECK_EQ_INT(wh_mem_query(&here, &info), WH_OK);
    CHECK_EQ_INT(info.kind, WH_MEM_HOST);
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_HOST, 0, 100, &ptr), WH_OK);
    CHECK_EQ_INT(wh_mem_copy(ptr, WH_MEM_AUTO, &here, WH_MEM_AUTO, 1), WH_OK);
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_HOST, ptr), WH_OK);
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_SIM, 0, 100, &ptr), WH_OK);
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, ptr), WH_OK);
    CHECK(!is_loaded());
    CHECK(!whi_mem_devices());
}

TEST(it_is_not_loaded_unasked) {
    in_child(ask_for_host_memory);
}

static void bring_driver(void) {
    whi_mem_notice();
    CHECK(!whi_mem_devices());
    unsigned long (*calls)(const char *) = entry("cutest_calls");  // loads it
    CHECK(!whi_mem_devices());
    whi_mem_notice();
    CHECK(whi_mem_devices());
    CHECK_EQ_INT(calls("cuInit"), 0);  // that is for its user to do
    char here;
    wh_mem_info info;
    CHECK(!ops->query(&here, &info));
    // The other library begins to use it.
    whi_cuda_context context;
    whi_cuda_ptr ptr;
    CHECK_EQ_INT(whi_cuda.cuInit(0), 0);
    CHECK_EQ_INT(whi_cuda.cuDevicePrimaryCtxRetain(&context, 1), 0);
    CHECK_EQ_INT(whi_cuda.cuCtxPushCurrent_v2(context), 0);
    CHECK_EQ_INT(whi_cuda.cuMemAlloc_v2(&ptr, 100), 0);
    CHECK(ops->query((void *)(uintptr_t)ptr, &info));
    CHECK_EQ_INT(info.device, 1);
    CHECK_EQ_INT(calls("cuInit"), 1);
    CHECK_EQ_INT(ops->copy(WHI_MEM_FROM_HOST, (void *)(uintptr_t)ptr, "x", 1), WH_OK);
    CHECK_EQ_INT(calls("cuInit"), 2);
}

TEST(it_is_noticed_when_others_have_loaded_it) {
    in_child(bring_driver);
}

static void expect_none(const char *says) {
    listen();
    void *ptr = &ptr;
    CHECK(!(wh_mem_kinds() & 1u << WH_MEM_CUDA));
    CHECK(strstr(wh_mem_kind_reason(WH_MEM_CUDA), says));
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_CUDA, 0, 1, &ptr), WH_ENOTSUP);
    CHECK(ptr == &ptr);
    CHECK_EQ_STR(heard_id, "E-MEM-01");
    CHECK(strstr(heard_text, says));
    CHECK_EQ_INT(heard_count, 1);
}

static void without_devices(void) {
    (void)entry("cutest_fail");
    setenv("CUTEST_DEVICES", "0", 1);
    expect_none("cuInit failed with CUDA_ERROR_NO_DEVICE (100");
    setenv("CUTEST_DEVICES", "2", 1);
    expect_none("CUDA_VISIBLE_DEVICES");  // it is tried once
    CHECK_EQ_INT(ENTRY(unsigned long, "cutest_calls", (const char *), "cuInit"), 1);
}

TEST(no_device) {
    in_child(without_devices);
}

static void with_broken_init(void) {
    fail_at("cuInit", -1, 803);
    expect_none("kernel's module");
}

TEST(init_fails) {
    in_child(with_broken_init);
}

static void with_broken_count(void) {
    fail_at("cuDeviceGetCount", 1, 999);
    expect_none("cuDeviceGetCount failed");
}

TEST(counting_fails) {
    in_child(with_broken_count);
}

static void without_names(void) {
    fail_at("cuDeviceGetName", -1, 999);
    CHECK_EQ_STR(whi_cuda_reason(), "driver of CUDA 12.4, 2 devices");
}

TEST(names_of_devices_are_not_needed) {
    in_child(without_names);
}

static void with_old_version(void) {
    (void)entry("cutest_fail");
    setenv("CUTEST_VERSION", "10020", 1);
    whi_mem_notice();
    CHECK(!whi_mem_devices());
    expect_none("CUDA 10.2 is too old");
    CHECK(!whi_mem_devices());
}

TEST(too_old) {
    in_child(with_old_version);
}

// A child of a process that has opened it.

static char *parents;
static whi_mem_event parents_event;

static void use_after_fork(void) {
    expect_none("forked");
    char here = 0;
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_CUDA, parents), WH_OK);  // there is nothing to free here
    CHECK_EQ_INT(ops->copy(WHI_MEM_FROM_HOST, parents, &here, 1), WH_EFORKED);
    CHECK_EQ_STR(heard_id, "E-CUDA-09");
    CHECK_EQ_INT(ops->copy_async(WHI_MEM_FROM_HOST, parents, &here, 1, NULL), WH_EFORKED);
    CHECK_EQ_INT(ops->free(parents), WH_EFORKED);
    CHECK_EQ_INT(ops->record(NULL, &parents_event), WH_EFORKED);
    CHECK_EQ_INT(ops->wait(NULL, &parents_event), WH_EFORKED);
    CHECK_EQ_INT(whi_mem_event_query(&parents_event), WH_EFORKED);
    whi_mem_event_release(&parents_event);
    wh_mem_info info;
    CHECK(!ops->query(parents, &info));
}

static void open_and_fork(void) {
    parents = make(0, 100);
    CHECK_EQ_INT(ops->record(NULL, &parents_event), WH_OK);
    in_child(use_after_fork);
    whi_mem_event_release(&parents_event);
    unmake(parents);
}

TEST(a_forked_child_cannot_use_it) {
    in_child(open_and_fork);
}

// Where nothing was initialised the reason stays what it was.
static void use_after_failure(void) {
    expect_none("CUDA_ERROR_NO_DEVICE");
}

static void fail_and_fork(void) {
    (void)entry("cutest_fail");
    setenv("CUTEST_DEVICES", "0", 1);
    expect_none("CUDA_ERROR_NO_DEVICE");
    in_child(use_after_failure);
}

TEST(a_forked_child_without_devices) {
    in_child(fail_and_fork);
}

// Where another library has initialised it, the driver itself refuses in the child.
static void use_after_others(void) {
    expect_none("forked");
}

static void others_open_and_fork(void) {
    (void)entry("cutest_fail");
    whi_mem_notice();
    CHECK_EQ_INT(whi_cuda.cuInit(0), 0);
    in_child(use_after_others);
    CHECK(wh_mem_kinds() & 1u << WH_MEM_CUDA);
}

TEST(a_forked_child_of_another_user) {
    in_child(others_open_and_fork);
}

// Nothing was initialised before the fork: the child may.
static void open_in_child(void) {
    unmake(make(0, 100));
}

static void load_and_fork(void) {
    (void)entry("cutest_fail");
    whi_mem_notice();
    in_child(open_in_child);
    unmake(make(0, 100));
}

TEST(a_forked_child_may_be_first) {
    in_child(load_and_fork);
}

TEST_MAIN()
