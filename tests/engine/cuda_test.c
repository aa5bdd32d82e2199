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

// Each entry point of a staged transfer fails once: both sides end, with an error or without, and nothing is left in use.
TEST(the_driver_fails_in_the_middle) {
    enum { LARGE = 1 << 20, ILLEGAL_ADDRESS = 700 };
    static const char *const entries[] = {"cuMemcpyAsync",      "cuEventCreate",  "cuEventRecord",
                                          "cuEventQuery",       "cuMemHostAlloc", "cuStreamCreate",
                                          "cuStreamSynchronize"};
    void (*fail)(const char *, long, int) = NULL;
    if (dlopen("libcuda.so.1", RTLD_NOW))
        *(void **)&fail = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cutest_fail");
    if (!fail)
        SKIP("this driver does not fail when it is told to");
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        for (long nth = 1; nth <= 40; nth += 3) {
            void *from = NULL, *to = NULL;
            CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_CUDA, 0, LARGE, &from), WH_OK);
            CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_CUDA, 0, LARGE, &to), WH_OK);
            duo_begin(&d, NULL, NULL);
            duo_connect(&d);
            wh_request *sent = NULL, *received = NULL;
            CHECK(wh_tag_recv(d.from, to, LARGE, 1, WH_TAG_MASK_ALL, NULL, &received) >= 0);
            CHECK(wh_tag_send(d.to, from, LARGE, 1, NULL, &sent) >= 0);
            fail(entries[i], nth, ILLEGAL_ADDRESS);
            UNTIL(&d, wh_request_status(sent) != WH_PENDING &&
                          wh_request_status(received) != WH_PENDING);
            fail(entries[i], 0, 0);
            CHECK(wh_request_status(received) == WH_OK || logged("E-CUDA"));
            wh_request_free(sent);
            wh_request_free(received);
            CHECK(all_free(d.server) && all_free(d.client));
            CHECK_EQ_INT(wh_endpoint_status(d.to), WH_OK);
            duo_end(&d);
            CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_CUDA, from), WH_OK);
            CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_CUDA, to), WH_OK);
        }
    }
}

TEST_MAIN()
