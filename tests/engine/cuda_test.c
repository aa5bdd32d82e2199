// SPDX-License-Identifier: BSD-3-Clause
//
// CUDA memory of another library of the process: a worker or an endpoint that is made after that library
// has loaded the driver recognises it, and whoever has no such library pays nothing.  And what becomes of a transfer when the driver
// fails in the middle of it.
#include <dlfcn.h>

#include "engine/test_kit.h"
#include "mem/mem.h"

enum { SIZE = 100000 };

static duo d;

static bool is_loaded(void) {
    return dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
}

// Calls an entry point as the other library does.
#define CUDA(name, types, ...)                                                                     \
    CHECK_EQ_INT(((int(*) types)dlsym(dlopen("libcuda.so.1", RTLD_NOW), name))(__VA_ARGS__), 0)

// Sends `size` bytes of `from` to `to`, both of unknown kind.
static void pass(const void *from, void *to, size_t size) {
    wh_request *sent = NULL, *received = NULL;
    CHECK(wh_tag_recv(d.from, to, size, 1, WH_TAG_MASK_ALL, NULL, &received) >= 0);
    CHECK(wh_tag_send(d.to, from, size, 1, NULL, &sent) >= 0);
    UNTIL(&d, (!sent || wh_request_status(sent) != WH_PENDING) &&
                  wh_request_status(received) != WH_PENDING);
    CHECK_EQ_INT(wh_request_status(received), WH_OK);
    wh_request_free(sent);
    wh_request_free(received);
}

static void fill(char *host, int seed) {
    for (size_t i = 0; i < SIZE; i++)
        host[i] = (char)(i * 7 + i / 256 + (size_t)seed);
}

// The first test of this process: nothing has asked for CUDA.
TEST(memory_of_a_library_that_comes_late) {
    static char here[SIZE], back[SIZE];
    duo_begin(&d, NULL, NULL);
    duo_connect(&d);
    fill(here, 1);
    pass(here, back, SIZE);
    CHECK_MEM(back, here, SIZE);
    CHECK(!is_loaded());
    CHECK(!whi_mem_devices());

    void *context;
    unsigned long long ptr, other;
    if (!dlopen("libcuda.so.1", RTLD_NOW))
        SKIP("there is no driver here");
    CUDA("cuInit", (unsigned), 0);
    CUDA("cuDevicePrimaryCtxRetain", (void **, int), &context, 0);
    CUDA("cuCtxPushCurrent_v2", (void *), context);
    CUDA("cuMemAlloc_v2", (unsigned long long *, size_t), &ptr, SIZE);
    CUDA("cuMemAlloc_v2", (unsigned long long *, size_t), &other, SIZE);
    wh_endpoint *server_end, *second = duo_open(&d, &server_end);
    CHECK(whi_mem_devices());

    // Both kinds on both sides, in a short message and in a long one.
    void *device = (void *)(uintptr_t)ptr, *device_too = (void *)(uintptr_t)other;
    for (size_t size = 100; size <= SIZE; size += SIZE - 100) {
        fill(here, 2);
        memset(back, 0, SIZE);
        pass(here, device, size);
        pass(device, device_too, size);
        pass(device_too, back, size);
        CHECK_MEM(back, here, size);
    }
    void *now = NULL;
    CUDA("cuCtxGetCurrent", (void **), &now);
    CHECK(now == context);
    CUDA("cuMemFree_v2", (unsigned long long), ptr);
    CUDA("cuMemFree_v2", (unsigned long long), other);
    wh_endpoint_abort(second);
    wh_endpoint_abort(server_end);
    duo_end(&d);
}

// all_free says whether no chunk of staging is in use.
static bool all_free(const wh_worker *worker) {
    const whi_stage_room *room = &whi_messages_of(worker)->stage;
    unsigned count = 0;
    for (const whi_list *node = room->free.next; node != &room->free; node = node->next)
        count++;
    return whi_list_empty(&room->under_way) && count == room->count;
}

enum { LARGE = 1 << 20, ILLEGAL_ADDRESS = 700 };
static const char *const staged[] = {"device_path=staged", NULL};

// fails_in_the_middle has the nth call of an entry point fail in a transfer.
static void fails_in_the_middle(void (*fail)(const char *, long, int), const char *entry, long nth,
                                const char *const *options) {
    void *from = NULL, *to = NULL;
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_CUDA, 0, LARGE, &from), WH_OK);
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_CUDA, 0, LARGE, &to), WH_OK);
    duo_begin(&d, options, options);
    duo_connect(&d);
    wh_request *sent = NULL, *received = NULL;
    CHECK(wh_tag_recv(d.from, to, LARGE, 1, WH_TAG_MASK_ALL, NULL, &received) >= 0);
    CHECK(wh_tag_send(d.to, from, LARGE, 1, NULL, &sent) >= 0);
    fail(entry, nth, ILLEGAL_ADDRESS);
    UNTIL(&d, wh_request_status(sent) != WH_PENDING && wh_request_status(received) != WH_PENDING);
    fail(entry, 0, 0);
    CHECK(wh_request_status(received) == WH_OK || logged("E-CUDA"));
    wh_request_free(sent);
    wh_request_free(received);
    CHECK(all_free(d.server) && all_free(d.client));
    CHECK_EQ_INT(wh_endpoint_status(d.to), WH_OK);
    duo_end(&d);
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_CUDA, from), WH_OK);
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_CUDA, to), WH_OK);
}

// Each entry point of a transfer, staged or not, fails once: both sides end, with an error or without, and nothing is left in use.
TEST(the_driver_fails_in_the_middle) {
    static const char *const entries[] = {"cuMemcpyAsync",      "cuEventCreate",  "cuEventRecord",
                                          "cuEventQuery",       "cuMemHostAlloc", "cuStreamCreate",
                                          "cuStreamSynchronize"};
    void (*fail)(const char *, long, int) = NULL;
    if (dlopen("libcuda.so.1", RTLD_NOW))
        *(void **)&fail = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cutest_fail");
    if (!fail)
        SKIP("this driver does not fail when it is told to");
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
        for (long nth = 1; nth <= 40; nth += 3) {
            fails_in_the_middle(fail, entries[i], nth, staged);
            fails_in_the_middle(fail, entries[i], nth, NULL);
        }
}

// A vector of words goes through chunks that kernels fill and empty: a launch each, and no copy.  Where one fails both sides
// end, and nothing is left in use.
TEST(layouts_are_staged_by_kernels) {
    enum { WORDS = 1 << 17, BYTES = WORDS * 16, LAUNCH_FAILED = 719 };
    static uint64_t host[WORDS * 2], back[WORDS * 2];
    void (*fail)(const char *, long, int) = NULL;
    long (*launches)(void) = NULL;
    unsigned long (*calls)(const char *) = NULL;
    if (dlopen("libcuda.so.1", RTLD_NOW)) {
        *(void **)&fail = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cutest_fail");
        *(void **)&launches = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cutest_launches");
        *(void **)&calls = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cutest_calls");
    }
    if (!fail || !launches || !calls)
        SKIP("this driver does not count");
    wh_type *type;
    void *from = NULL, *to = NULL;
    CHECK_EQ_INT(wh_type_create_vector(WORDS, 1, 2, wh_type_basic(WH_TYPE_UINT64), &type), WH_OK);
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_CUDA, 0, BYTES, &from), WH_OK);
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_CUDA, 1, BYTES, &to), WH_OK);
    for (size_t i = 0; i < WORDS * 2; i++)
        host[i] = i * 0x9e3779b97f4a7c15u;
    CHECK_EQ_INT(wh_mem_copy(from, WH_MEM_CUDA, host, WH_MEM_HOST, BYTES), WH_OK);
    for (long nth = 0; nth <= 12; nth += 4) {
        CHECK_EQ_INT(wh_mem_copy(to, WH_MEM_CUDA, back, WH_MEM_HOST, BYTES), WH_OK);
        duo_begin(&d, staged, NULL);
        duo_connect(&d);
        wh_request *sent = NULL, *received = NULL;
        const wh_op_opts *opts = WH_OP_OPTS(.type = type);
        long before = launches();
        unsigned long copies = calls("cuMemcpyAsync");
        fail("cuLaunchKernel", nth, LAUNCH_FAILED);
        CHECK(wh_tag_recv(d.from, to, 1, 1, WH_TAG_MASK_ALL, opts, &received) >= 0);
        CHECK(wh_tag_send(d.to, from, 1, 1, opts, &sent) >= 0);
        UNTIL(&d,
              wh_request_status(sent) != WH_PENDING && wh_request_status(received) != WH_PENDING);
        fail("cuLaunchKernel", 0, 0);
        CHECK(all_free(d.server) && all_free(d.client));
        if (!nth) {
            CHECK_EQ_INT(wh_request_status(received), WH_OK);
            CHECK_EQ_INT(calls("cuMemcpyAsync"), copies);
            CHECK(launches() - before >= 8 && launches() - before <= 64);
            CHECK_EQ_INT(wh_mem_copy(back, WH_MEM_HOST, to, WH_MEM_CUDA, BYTES), WH_OK);
            for (size_t i = 0; i < WORDS * 2; i++)
                CHECK(back[i] == (i % 2 ? 0 : host[i]));
            memset(back, 0, sizeof(back));
        } else {
            CHECK(wh_request_status(received) != WH_OK || logged("E-CUDA"));
        }
        wh_request_free(sent);
        wh_request_free(received);
        duo_end(&d);
    }
    wh_type_release(type);
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_CUDA, from), WH_OK);
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_CUDA, to), WH_OK);
}

static void (*driver_call(const char *name))(void) {
    void (*found)(void) = NULL;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver)
        *(void **)&found = dlsym(driver, name);
    return found;
}

typedef void (*fail_fn)(const char *entry, long nth, int code);
typedef int (*launch_fn)(void *stream, void (*kernel)(void *), void *arg);

// transfer begins a staged one of a dense buffer, either side of which may be a device's.
static void begin_staged(const void *from, void *to, wh_request **sent, wh_request **received) {
    duo_begin(&d, staged, staged);
    duo_connect(&d);
    CHECK(wh_tag_recv(d.from, to, LARGE, 1, WH_TAG_MASK_ALL, NULL, received) >= 0);
    CHECK(wh_tag_send(d.to, from, LARGE, 1, NULL, sent) >= 0);
}

// A copy of either side is submitted, and its event tells of an error.
TEST(a_copy_fails_after_it_was_submitted) {
    static char host[LARGE];
    fail_fn fail = (fail_fn)driver_call("cutest_fail");
    if (!fail)
        SKIP("this driver does not fail when it is told to");
    for (int receiving = 0; receiving < 2; receiving++) {
        void *device = NULL;
        wh_request *sent = NULL, *received = NULL;
        CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_CUDA, 0, LARGE, &device), WH_OK);
        begin_staged(receiving ? host : device, receiving ? device : host, &sent, &received);
        fail("cuEventQuery", 1, ILLEGAL_ADDRESS);
        UNTIL(&d,
              wh_request_status(sent) != WH_PENDING && wh_request_status(received) != WH_PENDING);
        fail("cuEventQuery", 0, 0);
        CHECK_EQ_INT(wh_request_status(sent), receiving ? WH_OK : WH_ESYSTEM);
        CHECK_EQ_INT(wh_request_status(received), receiving ? WH_ESYSTEM : WH_ECANCELLED);
        CHECK(logged("E-MEM-01"));
        wh_request_free(sent);
        wh_request_free(received);
        CHECK(all_free(d.server) && all_free(d.client));
        duo_end(&d);
        CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_CUDA, device), WH_OK);
    }
}

enum { HELD_US = 300 * 1000 };
static _Atomic bool released;

// hold_stream is a kernel that all on its stream waits behind.
static void hold_stream(void *arg) {
    (void)arg;
    for (uint64_t end = whi_clock_ns() + HELD_US * 1000; !released && whi_clock_ns() < end;)
        usleep(100);
}

// A copy of a receive waits on its stream when its event cannot be recorded: it is over before the receive is.
TEST(a_copy_that_cannot_be_followed) {
    static char host[LARGE], mine[LARGE], back[LARGE];
    fail_fn fail = (fail_fn)driver_call("cutest_fail");
    launch_fn launch = (launch_fn)driver_call("cutest_launch");
    if (!fail || !launch)
        SKIP("this driver does not fail when it is told to");
    memset(host, 1, LARGE);
    memset(mine, 2, LARGE);
    const whi_mem_staging *staging = whi_mem_cuda.staging;
    void *device = NULL, *stream = NULL, *context;
    CUDA("cuDevicePrimaryCtxRetain", (void **, int), &context, 0);
    CUDA("cuCtxPushCurrent_v2", (void *), context);
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_CUDA, 0, LARGE, &device), WH_OK);
    CHECK_EQ_INT(staging->stream(0, WHI_MEM_FROM_HOST, &stream), WH_OK);
    released = false;
    wh_request *sent = NULL, *received = NULL;
    begin_staged(host, device, &sent, &received);
    CHECK_EQ_INT(launch(stream, hold_stream, NULL), 0);
    fail("cuEventRecord", 1, ILLEGAL_ADDRESS);
    UNTIL(&d, wh_request_status(received) != WH_PENDING);
    CHECK_EQ_INT(wh_request_status(received), WH_ESYSTEM);
    CHECK_EQ_INT(wh_mem_copy(device, WH_MEM_CUDA, mine, WH_MEM_HOST, LARGE), WH_OK);
    released = true;
    CUDA("cuStreamSynchronize", (void *), stream);
    CHECK_EQ_INT(wh_mem_copy(back, WH_MEM_HOST, device, WH_MEM_CUDA, LARGE), WH_OK);
    CHECK_MEM(back, mine, LARGE);
    CHECK_EQ_INT(done_as(&d, sent), WH_OK);
    wh_request_free(received);
    CHECK(all_free(d.server) && all_free(d.client));
    CHECK(whi_messages_of(d.server)->stage.count > 0);  // its chunk is used again
    duo_end(&d);
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_CUDA, device), WH_OK);
}

TEST_MAIN()
