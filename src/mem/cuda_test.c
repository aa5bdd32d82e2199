// SPDX-License-Identifier: BSD-3-Clause
//
// Memory of CUDA devices: what is ours, what other libraries of the process have allocated, and what
// an address was before it became something else.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "base/test_child.h"
#include "mem/cuda_kit.h"

enum { SIZE = 10000 };

static void put(void *dst, const void *src, size_t size) {
    CHECK_EQ_INT(ops->copy(WHI_MEM_FROM_HOST, dst, src, size), WH_OK);
}

static void get(void *dst, const void *src, size_t size) {
    CHECK_EQ_INT(ops->copy(WHI_MEM_TO_HOST, dst, src, size), WH_OK);
}

static void fill(char *host, size_t size, int seed) {
    for (size_t i = 0; i < size; i++)
        host[i] = (char)(i * 7 + i / 256 + (size_t)seed);
}

static wh_mem_kind kind_of(const void *ptr) {
    wh_mem_info info = {.size = sizeof(info)};
    CHECK_EQ_INT(wh_mem_query(ptr, &info), WH_OK);
    return info.kind;
}

TEST(it_exists) {
    CHECK(wh_mem_kinds() & 1u << WH_MEM_CUDA);
    CHECK(strstr(wh_mem_kind_reason(WH_MEM_CUDA), "driver of CUDA"));
    CHECK(whi_mem_ops_of(WH_MEM_CUDA) == ops);
    CHECK(whi_mem_devices());
}

TEST(the_cpu_cannot_touch_it) {
    char *ptr = make(0, SIZE);
    CHECK_EQ_INT(signal_of(touch_read, ptr), SIGSEGV);
    CHECK_EQ_INT(signal_of(touch_write, ptr + SIZE - 1), SIGSEGV);
    unmake(ptr);
}

TEST(alloc_arguments) {
    listen();
    void *ptr = &ptr;
    int count = device_count();
    CHECK_EQ_INT(ops->alloc(-1, 1, &ptr), WH_ENOTFOUND);
    CHECK_EQ_STR(heard_id, "E-CUDA-02");
    CHECK_EQ_INT(ops->alloc(count, 1, &ptr), WH_ENOTFOUND);
    CHECK(strstr(heard_text, "no device"));
    CHECK_EQ_INT(ops->alloc(0, SIZE_MAX / 2, &ptr), WH_ENOMEM);
    CHECK(strstr(heard_text, "cuMemAlloc_v2 failed with CUDA_ERROR_OUT_OF_MEMORY (2"));
    CHECK(ptr == &ptr);
    char *none = make(0, 0);
    CHECK(none);
    CHECK_EQ_INT(kind_of(none), WH_MEM_CUDA);
    unmake(none);
}

TEST(every_allocation_may_fail) {
    for (uint64_t n = 1; n <= 2; n++) {
        void *ptr;
        whi_alloc_fail_at(n);
        wh_status status = ops->alloc(0, SIZE, &ptr);
        bool reached = whi_alloc_count() >= n;
        whi_alloc_fail_at(0);
        CHECK_EQ_INT(status, reached ? WH_ENOMEM : WH_OK);
        if (status == WH_OK)
            unmake(ptr);
    }
}

TEST(query_knows_exactly_its_ranges) {
    enum { COUNT = 20 };
    char *ptrs[COUNT];
    size_t sizes[COUNT];
    int count = device_count();
    whi_rng rng;
    whi_rng_init(&rng, 5);
    for (int i = 0; i < COUNT; i++) {
        sizes[i] = 1 + whi_rng_below(&rng, 20000);
        ptrs[i] = make(i % count, sizes[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        wh_mem_info info;
        CHECK(ops->query(ptrs[i] + whi_rng_below(&rng, sizes[i]), &info));
        CHECK_EQ_INT(info.kind, WH_MEM_CUDA);
        CHECK_EQ_INT(info.device, i % count);
        CHECK(info.base == ptrs[i]);
        CHECK_EQ_INT(info.length, sizes[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        wh_mem_info info;
        unmake(ptrs[i]);
        CHECK(!ops->query(ptrs[i], &info));
    }
    wh_mem_info info;
    char here;
    CHECK(!ops->query(&here, &info));
    CHECK(!ops->query(NULL, &info));
}

TEST(copies_within_and_between_devices) {
    char here[SIZE], back[SIZE];
    int count = device_count();
    for (int s = 0; s < count && s < 2; s++)
        for (int d = 0; d < count && d < 2; d++) {
            char *src = make(s, SIZE), *dst = make(d, SIZE);
            fill(here, SIZE, s * 2 + d);
            memset(back, 0, SIZE);
            put(src, here, SIZE);
            CHECK_EQ_INT(ops->copy(WHI_MEM_WITHIN, dst, src, SIZE), WH_OK);
            get(back, dst, SIZE);
            CHECK_MEM(back, here, SIZE);
            unmake(src);
            unmake(dst);
        }
    CHECK_EQ_INT(ops->copy(WHI_MEM_TO_HOST, NULL, NULL, 0), WH_OK);
}

TEST(overlapping_copies) {
    enum { LARGE = 1 << 20 };  // several pieces
    char *here = malloc(LARGE + 5), *back = malloc(LARGE + 5), *ptr = make(0, LARGE + 5);
    CHECK(here && back);
    for (int i = 0; i < 4; i++) {
        size_t from = i % 2 ? 5 : 0, to = i % 2 ? 0 : 5, size = i < 2 ? LARGE : 1000;
        fill(here, LARGE + 5, i);
        put(ptr, here, LARGE + 5);
        CHECK_EQ_INT(ops->copy(WHI_MEM_WITHIN, ptr + to, ptr + from, size), WH_OK);
        get(back, ptr, LARGE + 5);
        memmove(here + to, here + from, size);
        CHECK_MEM(back, here, LARGE + 5);
    }
    whi_alloc_fail_at(1);
    wh_status status = ops->copy(WHI_MEM_WITHIN, ptr + 1, ptr, 10);
    whi_alloc_fail_at(0);
    CHECK_EQ_INT(status, WH_ENOMEM);
    unmake(ptr);
    free(here);
    free(back);
}

TEST(copies_between_kinds) {
    void *sim;
    char here[SIZE], back[SIZE] = {0}, *ptr = make(0, SIZE);
    fill(here, SIZE, 3);
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_SIM, 0, SIZE, &sim), WH_OK);
    CHECK_EQ_INT(wh_mem_copy(ptr, WH_MEM_AUTO, here, WH_MEM_AUTO, SIZE), WH_OK);
    CHECK_EQ_INT(wh_mem_copy(sim, WH_MEM_AUTO, ptr, WH_MEM_AUTO, SIZE), WH_OK);
    CHECK_EQ_INT(wh_mem_copy(back, WH_MEM_AUTO, sim, WH_MEM_AUTO, SIZE), WH_OK);
    CHECK_MEM(back, here, SIZE);
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, sim), WH_OK);
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_CUDA, ptr), WH_OK);
}

TEST(ranges_that_cross_the_end) {
    listen();
    char *ptr = make(0, 100), here[200] = {0};
    put(ptr, here, 100);
    put(ptr + 99, here, 1);
    CHECK_EQ_STR(heard_id, "");
    CHECK_EQ_INT(ops->copy(WHI_MEM_FROM_HOST, ptr, here, 101), WH_EINVAL);
    CHECK_EQ_STR(heard_id, "E-CUDA-04");
    CHECK(strstr(heard_text, "101 bytes") && strstr(heard_text, "by 1"));
    CHECK_EQ_INT(ops->copy(WHI_MEM_TO_HOST, here, ptr + 60, 50), WH_EINVAL);
    CHECK(strstr(heard_text, "by 10"));
    CHECK_EQ_INT(ops->copy(WHI_MEM_WITHIN, ptr + 90, ptr, 20), WH_EINVAL);
    CHECK_EQ_INT(ops->copy(WHI_MEM_WITHIN, ptr, ptr + 90, 20), WH_EINVAL);
    CHECK_EQ_INT(ops->copy(WHI_MEM_TO_HOST, here, ptr + 1, SIZE_MAX), WH_EINVAL);
    CHECK_EQ_INT(ops->copy_async(WHI_MEM_TO_HOST, here, ptr + 60, 50, NULL), WH_EINVAL);
    unmake(ptr);
}

TEST(foreign_and_freed_pointers) {
    listen();
    char here[8] = {0};
    CHECK_EQ_INT(ops->copy(WHI_MEM_FROM_HOST, here, here, 1), WH_EINVAL);
    CHECK_EQ_STR(heard_id, "E-CUDA-03");
    CHECK_EQ_INT(ops->free(here), WH_EINVAL);
    CHECK_EQ_STR(heard_id, "E-CUDA-05");
    char *ptr = make(0, 100);
    CHECK_EQ_INT(ops->free(ptr + 10), WH_EINVAL);
    CHECK_EQ_STR(heard_id, "E-CUDA-06");
    CHECK(strstr(heard_text, "10 bytes into"));
    unmake(ptr);
    CHECK_EQ_INT(ops->free(ptr), WH_EINVAL);
    CHECK_EQ_STR(heard_id, "E-CUDA-05");
    CHECK_EQ_INT(ops->copy(WHI_MEM_TO_HOST, here, ptr, 1), WH_EINVAL);
    CHECK(strstr(heard_text, "was freed"));
}

// What other libraries allocate.

static whi_cuda_ptr foreign(const char *how) {
    whi_cuda_ptr ptr = 0;
    enter(0);
    if (!strcmp(how, "cuMemAlloc_v2"))
        CHECK_EQ_INT(ENTRY(int, how, (whi_cuda_ptr *, size_t), &ptr, SIZE), 0);
    else if (!strcmp(how, "cuMemAllocManaged"))
        CHECK_EQ_INT(ENTRY(int, how, (whi_cuda_ptr *, size_t, unsigned), &ptr, SIZE, 1), 0);
    else
        CHECK_EQ_INT(ENTRY(int, how, (whi_cuda_ptr *, size_t, void *), &ptr, SIZE, NULL), 0);
    whi_cuda_leave();
    return ptr;
}

static void free_foreign(whi_cuda_ptr ptr) {
    enter(0);
    CHECK_EQ_INT(ENTRY(int, "cuMemFree_v2", (whi_cuda_ptr), ptr), 0);
    whi_cuda_leave();
}

TEST(device_memory_of_others_is_recognised) {
    static const char *const hows[] = {"cuMemAlloc_v2", "cuMemAllocManaged", "cuMemAllocAsync"};
    char here[SIZE], back[SIZE];
    for (int i = 0; i < 3; i++) {
        whi_cuda_ptr address = foreign(hows[i]);
        char *ptr = (char *)(uintptr_t)address;
        wh_mem_info info = {.size = sizeof(info)};
        CHECK_EQ_INT(wh_mem_query(ptr + 77, &info), WH_OK);
        CHECK_EQ_INT(info.kind, WH_MEM_CUDA);
        CHECK_EQ_INT(info.device, 0);
        CHECK(info.base == ptr);
        CHECK(info.length >= SIZE);
        fill(here, SIZE, i);
        put(ptr, here, SIZE);
        get(back, ptr, SIZE);
        CHECK_MEM(back, here, SIZE);
        listen();
        CHECK_EQ_INT(ops->free(ptr), WH_EINVAL);
        CHECK_EQ_STR(heard_id, "E-CUDA-07");
        free_foreign(address);
    }
}

TEST(memory_of_a_context_that_is_not_the_primary_one) {
    whi_cuda_context other, popped;
    whi_cuda_ptr address;
    char here = 'x', back = 0;
    CHECK_EQ_INT(whi_cuda_open(), WH_OK);
    CHECK_EQ_INT(ENTRY(int, "cuCtxCreate_v2", (whi_cuda_context *, unsigned, int), &other, 0, 0),
                 0);
    CHECK_EQ_INT(whi_cuda.cuMemAlloc_v2(&address, SIZE), 0);
    CHECK_EQ_INT(whi_cuda.cuCtxPopCurrent_v2(&popped), 0);
    put((void *)(uintptr_t)address, &here, 1);
    get(&back, (void *)(uintptr_t)address, 1);
    CHECK_EQ_INT(back, 'x');
    free_foreign(address);
    CHECK_EQ_INT(ENTRY(int, "cuCtxDestroy_v2", (whi_cuda_context), other), 0);
}

TEST(pinned_memory_is_the_hosts) {
    void *pinned;
    static _Alignas(4096) char registered[8192];
    wh_mem_info info;
    enter(0);
    CHECK_EQ_INT(ENTRY(int, "cuMemAllocHost_v2", (void **, size_t), &pinned, SIZE), 0);
    CHECK_EQ_INT(ENTRY(int, "cuMemHostRegister_v2", (void *, size_t, unsigned), registered,
                       sizeof(registered), 0),
                 0);
    whi_cuda_leave();
    CHECK(!ops->query(pinned, &info));
    CHECK(!ops->query(registered, &info));
    CHECK_EQ_INT(kind_of(pinned), WH_MEM_HOST);
    listen();
    CHECK_EQ_INT(ops->copy(WHI_MEM_FROM_HOST, pinned, "x", 1), WH_EINVAL);
    CHECK(strstr(heard_text, "pinned"));
    enter(0);
    CHECK_EQ_INT(ENTRY(int, "cuMemFreeHost", (void *), pinned), 0);
    CHECK_EQ_INT(ENTRY(int, "cuMemHostUnregister", (void *), registered), 0);
    whi_cuda_leave();
}

// An allocator that grows its range piece by piece: the range counts, since what lies across two of
// its pieces is one buffer.
TEST(virtual_memory) {
    enum { PIECE = 8192 };
    whi_cuda_ptr base;
    char here[2 * PIECE], back[2 * PIECE], more[PIECE + 1] = {0};
    wh_mem_info info;
    (void)entry("cutest_back");
    CHECK_EQ_INT(whi_cuda_open(), WH_OK);
    CHECK_EQ_INT(ENTRY(int, "cuMemAddressReserve",
                       (whi_cuda_ptr *, size_t, size_t, whi_cuda_ptr, unsigned long long), &base,
                       4 * PIECE, 0, 0, 0),
                 0);
    char *ptr = (char *)(uintptr_t)base;
    CHECK(!ops->query(ptr, &info));
    for (size_t i = 0; i < 2; i++)
        CHECK_EQ_INT(
            ENTRY(int, "cutest_back", (whi_cuda_ptr, size_t, int), base + i * PIECE, PIECE, 1), 0);
    CHECK(ops->query(ptr + PIECE, &info));
    CHECK_EQ_INT(info.device, 1);
    CHECK(info.base == ptr);
    CHECK_EQ_INT(info.length, 4 * PIECE);
    fill(here, sizeof(here), 9);
    put(ptr, here, sizeof(here));
    get(back, ptr, sizeof(back));
    CHECK_MEM(back, here, sizeof(back));
    listen();  // where nothing is mapped only the driver can tell
    CHECK_EQ_INT(ops->copy(WHI_MEM_TO_HOST, more, ptr + PIECE, PIECE + 1), WH_EINVAL);
    CHECK_EQ_STR(heard_id, "E-CUDA-01");
    CHECK_EQ_INT(ENTRY(int, "cuMemAddressFree", (whi_cuda_ptr, size_t), base, 4 * PIECE), 0);
}

// An address that was freed and is given out again.

static void place(void *at) {
    ENTRY(void, "cutest_place", (void *), at);
}

TEST(an_address_is_used_again_for_another_kind) {
    (void)entry("cutest_place");
    char *ptr = make(1, SIZE);
    CHECK_EQ_INT(kind_of(ptr), WH_MEM_CUDA);
    unmake(ptr);
    CHECK_EQ_INT(kind_of(ptr), WH_MEM_HOST);
    char *host = mmap(ptr, SIZE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(host == ptr);
    CHECK_EQ_INT(kind_of(ptr), WH_MEM_HOST);
    CHECK_EQ_INT(wh_mem_copy(host, WH_MEM_AUTO, "host", WH_MEM_AUTO, 5), WH_OK);
    CHECK_EQ_STR(host, "host");
    munmap(host, SIZE);
    place(ptr);
    whi_cuda_ptr managed = foreign("cuMemAllocManaged");
    CHECK(managed == (uintptr_t)ptr);
    wh_mem_info info;
    CHECK(ops->query(ptr, &info));
    CHECK_EQ_INT(info.device, 0);
    free_foreign(managed);
    place(ptr);
    CHECK(make(1, SIZE / 2) == ptr);
    CHECK(ops->query(ptr, &info));
    CHECK_EQ_INT(info.device, 1);
    CHECK_EQ_INT(info.length, SIZE / 2);
    unmake(ptr);
}

// Somebody frees what is ours, and gets its address: that is not ours to free.
TEST(what_others_have_freed_is_theirs) {
    (void)entry("cutest_place");
    listen();
    char *ptr = make(0, SIZE);
    free_foreign((uintptr_t)ptr);
    place(ptr);
    whi_cuda_ptr again = foreign("cuMemAlloc_v2");
    CHECK(again == (uintptr_t)ptr);
    CHECK_EQ_INT(ops->free(ptr), WH_EINVAL);
    CHECK_EQ_STR(heard_id, "E-CUDA-07");
    CHECK_EQ_INT(kind_of(ptr), WH_MEM_CUDA);
    free_foreign(again);
    ptr = make(0, SIZE);
    free_foreign((uintptr_t)ptr);
    CHECK_EQ_INT(ops->free(ptr), WH_EINVAL);
    CHECK_EQ_STR(heard_id, "E-CUDA-05");
}

// A copy waits for nothing but itself, so that a kernel that waits for what the copy brings does not
// hang.
TEST(a_copy_waits_for_no_kernel) {
    static gate g = GATE;
    char here = 'x', back = 0, *ptr = make(0, SIZE);
    void *blocking = make_stream(0, 0);
    alarm(20);  // if it does wait, nobody opens the gate
    launch(0, NULL, pass_gate, &g);
    launch(0, blocking, pass_gate, &g);
    put(ptr, &here, 1);
    get(&back, ptr, 1);
    CHECK_EQ_INT(back, 'x');
    alarm(0);
    CHECK(!g.open);
    open_gate(&g);
    unmake(ptr);
}

static void *use_much(void *arg) {
    int n = (int)(uintptr_t)arg, device = n % device_count();
    char here[64], back[64];
    memset(here, n, sizeof(here));
    for (int i = 0; i < 200; i++) {
        void *ptr;
        wh_mem_info info;
        if (ops->alloc(device, 64, &ptr) != WH_OK ||
            ops->copy(WHI_MEM_FROM_HOST, ptr, here, 64) != WH_OK ||
            ops->copy(WHI_MEM_TO_HOST, back, ptr, 64) != WH_OK || memcmp(here, back, 64) != 0 ||
            !ops->query(ptr, &info) || info.device != device || info.base != ptr ||
            ops->free(ptr) != WH_OK)
            return arg;
    }
    return NULL;
}

// It ends with objects that it has from its parent, without a word about their memory.
TEST(a_forked_child_frees_nothing) {
    void *ptr, *more;
    int status;
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_CUDA, 0, 100, &ptr), WH_OK);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        listen();
        bool quiet = wh_mem_free_kind(WH_MEM_CUDA, ptr) == WH_OK && !heard_count;
        bool told = wh_mem_alloc_kind(WH_MEM_CUDA, 0, 100, &more) == WH_ENOTSUP && heard_count == 1;
        _exit(quiet && told ? 0 : 1);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_EQ_INT(status, 0);
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_CUDA, ptr), WH_OK);
}

TEST(many_threads) {
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, use_much, (void *)(i + 1));
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        CHECK(!failed);
    }
}

TEST(nothing_is_left) {
    CHECK_EQ_INT(ENTRY(long, "cutest_allocations", (void)), 0);
    CHECK_EQ_INT(depth(), 0);
}

TEST_MAIN()
