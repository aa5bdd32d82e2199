// SPDX-License-Identifier: BSD-3-Clause
//
// Errors of the driver: each becomes a status and a line that names the call, nothing is left behind, and
// the context that the caller had is current again whatever happened.
#include "base/alloc.h"
#include "mem/cuda_kit.h"

enum { SIZE = 1000, ODD = 999 };  // ODD: an error that nobody has heard of

static char *ptr;     // on device 0, where it is made before anything fails
static void *stream;  // of device 0
static char here[SIZE];

static wh_status do_alloc(void) {
    void *made;
    wh_status status = ops->alloc(0, SIZE, &made);
    if (status == WH_OK)
        unmake(made);
    return status;
}

static wh_status do_alloc_1(void) {
    void *made;
    wh_status status = ops->alloc(1, SIZE, &made);
    if (status == WH_OK)
        unmake(made);
    return status;
}

static wh_status do_free(void) {
    return ops->free(ptr);
}

static wh_status do_copy(void) {
    return ops->copy(WHI_MEM_FROM_HOST, ptr, here, SIZE);
}

static wh_status do_copy_async(void) {
    return ops->copy_async(WHI_MEM_FROM_HOST, ptr, here, SIZE, stream);
}

static wh_status do_copy_default(void) {
    return ops->copy_async(WHI_MEM_FROM_HOST, ptr, here, SIZE, NULL);
}

static wh_status do_record(void) {
    whi_mem_event event;
    wh_status status = ops->record(stream, &event);
    if (status == WH_OK)
        whi_mem_event_release(&event);
    return status;
}

// With an event that was made before the failure was armed.
static whi_mem_event event;

static wh_status do_wait(void) {
    return ops->wait(stream, &event);
}

static wh_status do_query(void) {
    wh_status status;
    while ((status = ops->query_event(&event)) == WH_PENDING)  // behind the copies of other rows
        usleep(100);
    return status;
}

static const struct {
    const char *entry;
    wh_status (*op)(void);
    int result;
    wh_status status;
} errors[] = {
    {"cuCtxPushCurrent_v2", do_alloc, 201, WH_ESYSTEM},
    {"cuMemAlloc_v2", do_alloc, 2, WH_ENOMEM},
    {"cuMemAlloc_v2", do_alloc, 900, WH_ESYSTEM},
    {"cuCtxPushCurrent_v2", do_free, 709, WH_ESYSTEM},
    {"cuMemFree_v2", do_free, 700, WH_ESYSTEM},
    {"cuCtxPushCurrent_v2", do_copy, ODD, WH_ESYSTEM},
    {"cuMemcpyAsync", do_copy, 1, WH_EINVAL},
    {"cuStreamSynchronize", do_copy, 700, WH_ESYSTEM},
    {"cuStreamGetCtx", do_copy_async, 400, WH_EINVAL},
    {"cuCtxPushCurrent_v2", do_copy_async, 201, WH_ESYSTEM},
    {"cuMemcpyAsync", do_copy_async, 719, WH_ESYSTEM},
    {"cuCtxGetCurrent", do_copy_default, 4, WH_ECLOSED},
    {"cuEventCreate", do_record, 2, WH_ENOMEM},
    {"cuEventRecord", do_record, 400, WH_EINVAL},
    {"cuCtxPushCurrent_v2", do_record, 201, WH_ESYSTEM},
    {"cuCtxPushCurrent_v2", do_wait, 201, WH_ESYSTEM},
    {"cuStreamWaitEvent", do_wait, ODD, WH_ESYSTEM},
    {"cuCtxPushCurrent_v2", do_query, 201, WH_ESYSTEM},
    {"cuEventQuery", do_query, 700, WH_ESYSTEM},
};

static long events(void) {
    return ENTRY(long, "cutest_events", (void));
}

static long allocations(void) {
    return ENTRY(long, "cutest_allocations", (void));
}

static int retained(int device) {
    return ENTRY(int, "cutest_retained", (int), device);
}

// Lets one call fail in an operation, and looks that it says so and leaves nothing behind.
static void try(const char *name, wh_status (*op)(void), int result, wh_status expected) {
    int contexts = depth();
    long events_before = events(), allocations_before = allocations();
    listen();
    fail_at(name, 1, result);
    wh_status status = op();
    fail_at(name, 0, 0);
    CHECK_EQ_INT(status, expected);
    CHECK_EQ_INT(heard_count, 1);
    CHECK_EQ_STR(heard_id, "E-CUDA-01");
    CHECK(!strncmp(heard_text, name, strlen(name)));
    CHECK_EQ_INT(depth(), contexts);
    CHECK_EQ_INT(events(), events_before);
    CHECK_EQ_INT(allocations(), allocations_before);
}

static void try_all(void) {
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        CHECK_EQ_INT(ops->record(stream, &event), WH_OK);
        try(errors[i].entry, errors[i].op, errors[i].result, errors[i].status);
        if (errors[i].op != do_free)
            CHECK_EQ_INT(errors[i].op(), WH_OK);  // and then it works
        whi_mem_event_release(&event);
    }
}

static void begin(void) {
    (void)entry("cutest_fail");
    if (ptr)
        return;
    ptr = make(0, SIZE);
    stream = make_stream(0, 1);
}

// A device is set up once, by whoever comes after the failures.
TEST(setting_up_a_device_fails) {
    begin();
    try("cuDeviceGet", do_alloc_1, 101, WH_ENOTFOUND);
    try("cuDevicePrimaryCtxRetain", do_alloc_1, 2, WH_ENOMEM);
    try("cuStreamCreate", do_alloc_1, 2, WH_ENOMEM);
    CHECK_EQ_INT(retained(1), 0);
    CHECK_EQ_INT(do_alloc_1(), WH_OK);
    CHECK_EQ_INT(do_alloc_1(), WH_OK);
    CHECK_EQ_INT(retained(1), 1);
}

TEST(each_entry_point_fails) {
    begin();
    CHECK_EQ_INT(depth(), 0);
    try_all();
}

// The same with a context of the caller's: it is what is current afterwards.
TEST(the_callers_context_stays) {
    begin();
    whi_cuda_context mine, now;
    CHECK_EQ_INT(ENTRY(int, "cuCtxCreate_v2", (whi_cuda_context *, unsigned, int), &mine, 0, 1), 0);
    try_all();
    CHECK_EQ_INT(do_copy(), WH_OK);
    CHECK_EQ_INT(do_alloc(), WH_OK);
    CHECK_EQ_INT(depth(), 1);
    CHECK_EQ_INT(whi_cuda.cuCtxGetCurrent(&now), 0);
    CHECK(now == mine);
    CHECK_EQ_INT(ENTRY(int, "cuCtxDestroy_v2", (whi_cuda_context), mine), 0);
}

TEST(a_line_says_what_to_do) {
    begin();
    static const struct {
        int result;
        const char *says;
    } lines[] = {
        {2, "CUDA_ERROR_OUT_OF_MEMORY (2, out of memory)"},
        {100, "nvidia-smi"},
        {700, "compute-sanitizer"},
        {709, "cudaDeviceReset"},
        {803, "kernel's module"},
        {901, "captured"},
        {34, "LD_LIBRARY_PATH"},
        {ODD, "an error unknown to this driver (999"},
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        listen();
        fail_at("cuMemAlloc_v2", 1, lines[i].result);
        CHECK(do_alloc() != WH_OK);
        CHECK(strstr(heard_text, lines[i].says));
        CHECK(strlen(heard_text) < 400);
    }
}

// A pop that fails is told, and no reason to fail what was done.
TEST(a_pop_that_fails) {
    begin();
    listen();
    fail_at("cuCtxPopCurrent_v2", 1, 201);
    CHECK_EQ_INT(do_copy(), WH_OK);
    CHECK_EQ_INT(heard_count, 1);
    CHECK(strstr(heard_text, "cuCtxPopCurrent_v2"));
    whi_cuda_leave();
    CHECK_EQ_INT(depth(), 0);
}

// A pointer that the driver cannot be asked about is none of its.
TEST(a_query_that_fails) {
    begin();
    wh_mem_info info;
    fail_at("cuPointerGetAttributes", 1, 201);
    CHECK(!ops->query(ptr, &info));
    CHECK(ops->query(ptr, &info));
}

TEST(an_allocation_that_cannot_be_remembered_is_freed) {
    begin();
    long before = allocations();
    listen();
    for (uint64_t n = 1; n <= 2; n++) {
        void *made = NULL;
        whi_alloc_fail_at(n);
        wh_status status = ops->alloc(0, SIZE, &made);
        whi_alloc_fail_at(0);
        if (status == WH_OK)
            unmake(made);
        CHECK_EQ_INT(allocations(), before);
    }
}

// What was not freed because of an error can be freed later.
TEST(a_free_that_failed_is_repeated) {
    begin();
    unmake(ptr);
    ptr = NULL;
    CHECK_EQ_INT(allocations(), 0);
}

TEST_MAIN()
