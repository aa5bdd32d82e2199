// SPDX-License-Identifier: BSD-3-Clause
//
// CUDA memory of another process: handles travel by a pipe between this process and one that it has forked before either
// has opened the driver.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "mem/cuda_kit.h"

enum { SIZE = 300000 };

static const whi_mem_sharing *const sharing = &whi_cuda_sharing;
static int to_child[2], from_child[2];
static pid_t child;

static void put(int fd, const void *bytes, size_t size) {
    CHECK_EQ_INT(write(fd, bytes, size), (ssize_t)size);
}

static void get(int fd, void *bytes, size_t size) {
    CHECK_EQ_INT(read(fd, bytes, size), (ssize_t)size);
}

static void fill(unsigned char *host, int seed) {
    for (size_t i = 0; i < SIZE; i++)
        host[i] = (unsigned char)(i * 7 + i / 256 + (size_t)seed);
}

static unsigned char *filled(int device, int seed) {
    static unsigned char host[SIZE];
    unsigned char *made = (unsigned char *)make(device, SIZE);
    fill(host, seed);
    CHECK_EQ_INT(ops->copy(WHI_MEM_FROM_HOST, made, host, SIZE), WH_OK);
    return made;
}

static void check_bytes(const void *ptr, int seed) {
    static unsigned char expected[SIZE], found[SIZE];
    fill(expected, seed);
    CHECK_EQ_INT(ops->copy(WHI_MEM_TO_HOST, found, ptr, SIZE), WH_OK);
    CHECK_MEM(found, expected, SIZE);
}

static void send_handle(const void *ptr) {
    whi_mem_handle handle;
    CHECK_EQ_INT(sharing->export(ptr, &handle), WH_OK);
    put(from_child[1], &handle, sizeof(handle));
}

// What the other process does at each byte that comes.
static void be_child(void) {
    unsigned char *first = NULL, *second = NULL;
    char order;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    setenv("CUTEST_FIRST", "1", 1);  // it sees other devices: its 0 is this process's 1
    while (read(to_child[0], &order, 1) == 1) {
        if (order == 'm') {  // handles of an address within an allocation, and of another one
            first = filled(0, 1);
            second = filled(1, 2);
            send_handle(first + SIZE / 2);
            send_handle(second);
        } else if (order == 'w') {
            static unsigned char host[SIZE];
            fill(host, 3);
            CHECK_EQ_INT(ops->copy(WHI_MEM_FROM_HOST, first, host, SIZE), WH_OK);
            put(from_child[1], "", 1);
        } else {
            unmake(first);
            put(from_child[1], "", 1);
        }
    }
    _exit(0);
}

// begin starts the other process, which all cases use: after the first of them this one cannot fork any more.
static void begin(void) {
    listen();
    if (child)
        return;
    (void)entry(
        "cutest_fail");  // or the driver is a real one, which does not do all that is tested here
    CHECK(pipe(to_child) == 0 && pipe(from_child) == 0);
    fflush(NULL);
    child = fork();
    CHECK(child >= 0);
    if (!child) {
        close(to_child[1]);
        close(from_child[0]);
        be_child();
    }
    close(to_child[0]);
    close(from_child[1]);
}

static void order(char what) {
    put(to_child[1], &what, 1);
}

static void wait_done(void) {
    char byte;
    get(from_child[0], &byte, 1);
}

static long allocations(void) {
    return ENTRY(long, "cutest_allocations", (void));
}

TEST(memory_of_another_process) {
    begin();
    order('m');
    whi_mem_handle handle, other;
    whi_mem_mapping mapping, again, second;
    get(from_child[0], &handle, sizeof(handle));
    get(from_child[0], &other, sizeof(other));
    CHECK(handle.id && other.id && handle.id != other.id);
    CHECK_EQ_INT(handle.length, SIZE);

    long before = allocations();
    CHECK_EQ_INT(sharing->open(&handle, 0, &mapping), WH_OK);
    CHECK_EQ_INT(mapping.length, SIZE);
    CHECK_EQ_INT(mapping.device, device_count() > 1 ? 1 : 0);
    check_bytes(mapping.base, 1);
    // Opened again it is the same mapping, which stays until each opening was closed.
    CHECK_EQ_INT(sharing->open(&handle, 0, &again), WH_OK);
    CHECK(again.base == mapping.base);
    sharing->close(&again);
    order('w');
    wait_done();
    check_bytes(mapping.base, 3);
    CHECK_EQ_INT(allocations(), before + 1);
    // Of a device that this process does not see.
    CHECK_EQ_INT(sharing->open(&other, 0, &second), WH_OK);
    CHECK_EQ_INT(second.device, 0);
    check_bytes(second.base, 2);
    sharing->close(&second);
    sharing->close(&mapping);
    CHECK_EQ_INT(allocations(), before);
    CHECK_EQ_INT(depth(), 0);
    CHECK_EQ_INT(heard_count, 0);
}

TEST(what_cannot_be_opened) {
    begin();
    order('m');
    whi_mem_handle handle, other;
    whi_mem_mapping mapping = {.length = 1};
    get(from_child[0], &handle, sizeof(handle));
    get(from_child[0], &other, sizeof(other));
    // What was freed, bytes of nonsense, what the driver refuses, and memory of this process.
    order('f');
    wait_done();
    CHECK_EQ_INT(sharing->open(&handle, 0, &mapping), WH_ENOTSUP);
    memset(handle.bytes, 0x77, sizeof(handle.bytes));
    CHECK_EQ_INT(sharing->open(&handle, 0, &mapping), WH_ENOTSUP);
    fail_at("cuIpcOpenMemHandle_v2", 1, 201);
    CHECK_EQ_INT(sharing->open(&other, 0, &mapping), WH_ENOTSUP);
    char *mine = make(0, SIZE);
    CHECK_EQ_INT(sharing->export(mine, &handle), WH_OK);
    CHECK_EQ_INT(sharing->open(&handle, 0, &mapping), WH_ENOTSUP);
    unmake(mine);
    CHECK_EQ_INT(mapping.length, 1);  // written on success only
    CHECK_EQ_INT(depth(), 0);
    CHECK_EQ_INT(heard_count, 0);  // there is another way: no errors
}

static unsigned long handles_made(void) {
    return ENTRY(unsigned long, "cutest_calls", (const char *), "cuIpcGetMemHandle");
}

TEST(what_cannot_be_exported) {
    whi_mem_handle handle;
    (void)device_count();
    unsigned long before = handles_made();
    listen();
    int here = 0;
    CHECK_EQ_INT(sharing->export(&here, &handle), WH_ENOTSUP);
    enter(0);
    whi_cuda_ptr managed, pooled;
    CHECK_EQ_INT(
        ENTRY(int, "cuMemAllocManaged", (whi_cuda_ptr *, size_t, unsigned), &managed, SIZE, 1), 0);
    CHECK_EQ_INT(
        ENTRY(int, "cuMemAllocAsync", (whi_cuda_ptr *, size_t, void *), &pooled, SIZE, NULL), 0);
    whi_cuda_leave();
    CHECK_EQ_INT(sharing->export((void *)(uintptr_t)managed, &handle), WH_ENOTSUP);
    CHECK_EQ_INT(sharing->export((void *)(uintptr_t)pooled, &handle), WH_ENOTSUP);
    CHECK_EQ_INT(handles_made(), before);
    char *mine = make(0, SIZE);
    static const char *const calls[] = {"cuPointerGetAttributes", "cuDeviceGetUuid",
                                        "cuIpcGetMemHandle"};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        fail_at(calls[i], 1, 999);
        CHECK_EQ_INT(sharing->export(mine, &handle), WH_ENOTSUP);
        CHECK_EQ_INT(depth(), 0);
    }
    CHECK_EQ_INT(sharing->export(mine, &handle), WH_OK);
    CHECK_EQ_INT(handle.base, (uintptr_t)mine);
    // Another allocation at the same address has another id.
    uint64_t id = handle.id;
    unmake(mine);
    ENTRY(void, "cutest_place", (void *), mine);
    char *next = make(0, SIZE);
    CHECK_EQ_INT(sharing->export(next, &handle), WH_OK);
    CHECK(next == mine && handle.id != id);
    unmake(next);
    CHECK_EQ_INT(heard_count, 0);
}

TEST(words_for_people) {
    CHECK(strstr(wh_mem_sharing_reason(WH_MEM_HOST), "host"));
    CHECK(strstr(wh_mem_sharing_reason(WH_MEM_SIM), "one process"));
    (void)entry("cutest_fail");
    const char *words = wh_mem_sharing_reason(WH_MEM_CUDA);
    CHECK(strstr(words, "handles") && strstr(words, "2 of 2 pairs"));
    CHECK_EQ_INT(depth(), 0);
}

TEST_MAIN()
