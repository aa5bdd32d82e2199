// SPDX-License-Identifier: BSD-3-Clause
//
// Device memory from process to process: CUDA's, over the driver of tests/cuda.
#include "device_process_kit.h"

// ---- One mapping for all messages of an allocation.

enum { MESSAGES = 4 };

static void send_some(void) {
    unsigned char *from = device(1, 1);
    for (int i = 0; i < MESSAGES; i++)
        CHECK_EQ_INT(ends(send(from + i * 1000, SIZE - i * 1000)), WH_OK);
    CHECK_EQ_INT(counters().device_sent, MESSAGES);
    CHECK_EQ_INT(room()->stage.count, 0);
    // Freed, and the address used again: another allocation.
    give(from);
    CUTEST(void, "cutest_place", (void *), from);
    unsigned char *next = device(1, 2);
    CHECK(next == from);
    CHECK_EQ_INT(ends(send(next, SIZE)), WH_OK);
    come_to(0, 1);
    wait_for(1, 1);
}

static void receive_some(void) {
    unsigned char *into = device(0, 0);
    long before = allocations();
    for (int i = 0; i < MESSAGES; i++) {
        CHECK_EQ_INT(ends(receive(into, SIZE)), WH_OK);
        fill(1);
        CHECK_EQ_INT(wh_mem_copy(found, WH_MEM_HOST, into, WH_MEM_CUDA, SIZE), WH_OK);
        CHECK_MEM(found, pattern + i * 1000, (size_t)(SIZE - i * 1000));
    }
    CHECK_EQ_INT(counters().device_received, MESSAGES);
    CHECK_EQ_INT(calls("cuIpcOpenMemHandle_v2"), 1);
    CHECK_EQ_INT(ends(receive(into, SIZE)), WH_OK);
    check_device(into, SIZE, 2);
    CHECK_EQ_INT(calls("cuIpcOpenMemHandle_v2"), 2);
    CHECK_EQ_INT(allocations(), before + 1);  // the freed one is not mapped any more
    wait_for(0, 1);
    wh_endpoint_abort(ep);
    come_to(1, 1);
    PROGRESS_UNTIL(allocations() == before);  // nor is any after the link
}

TEST(messages_of_one_allocation) {
    run(send_some, receive_some);
}

// ---- Many allocations: no more than so many are mapped.

enum { ALLOCATIONS = 40, MAPPED_MOST = 32 };

static void send_many(void) {
    for (int i = 0; i < ALLOCATIONS; i++)
        CHECK_EQ_INT(ends(send(device(0, i), SIZE)), WH_OK);
    come_to(0, 1);
    wait_for(1, 1);
}

static void receive_many(void) {
    unsigned char *into = device(0, 0);
    long before = allocations();
    for (int i = 0; i < ALLOCATIONS; i++) {
        CHECK_EQ_INT(ends(receive(into, SIZE)), WH_OK);
        check_device(into, SIZE, i);
        CHECK(allocations() <= before + MAPPED_MOST);
    }
    CHECK_EQ_INT(counters().device_received, ALLOCATIONS);
    wait_for(0, 1);
    come_to(1, 1);
}

TEST(many_allocations) {
    run(send_many, receive_many);
}

// ---- What cannot be opened goes through the host, and is not tried again.

static void send_three(void) {
    unsigned char *from = device(0, 1);
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(ends(send(from, SIZE)), WH_OK);
    CHECK_EQ_INT(counters().device_sent, 0);
    CHECK(room()->stage.count);
    come_to(0, 1);
    wait_for(1, 1);
}

static void receive_three(void) {
    CUTEST(void, "cutest_fail", (const char *, long, int), "cuIpcOpenMemHandle_v2", -1, 201);
    unsigned char *into = device(0, 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ_INT(ends(receive(into, SIZE)), WH_OK);
        check_device(into, SIZE, 1);
        give(into);
        into = device(0, 0);
    }
    CHECK_EQ_INT(calls("cuIpcOpenMemHandle_v2"), 1);
    CHECK_EQ_INT(lines_of("W-MEM-01"), 1);
    wait_for(0, 1);
    come_to(1, 1);
}

TEST(handles_that_cannot_be_opened) {
    run(send_three, receive_three);
}

// One that fails later concerns its message only.
static void send_good_bad_good(void) {
    unsigned char *from[3] = {device(0, 1), device(0, 2), device(0, 3)};
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(ends(send(from[i], SIZE)), WH_OK);
    CHECK_EQ_INT(counters().device_sent, 2);
    come_to(0, 1);
    wait_for(1, 1);
}

static void receive_good_bad_good(void) {
    unsigned char *into = device(0, 0);
    CUTEST(void, "cutest_fail", (const char *, long, int), "cuIpcOpenMemHandle_v2", 2, 1);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ_INT(ends(receive(into, SIZE)), WH_OK);
        check_device(into, SIZE, i + 1);
    }
    CHECK_EQ_INT(counters().device_received, 2);
    CHECK_EQ_INT(lines_of("W-MEM-01"), 0);
    wait_for(0, 1);
    come_to(1, 1);
}

TEST(one_handle_that_cannot_be_opened) {
    run(send_good_bad_good, receive_good_bad_good);
}

// Managed memory has no handle.
static void send_managed(void) {
    void *context;
    unsigned long long ptr;
    CHECK_EQ_INT(CUTEST(int, "cuInit", (unsigned), 0), 0);
    CHECK_EQ_INT(CUTEST(int, "cuDevicePrimaryCtxRetain", (void **, int), &context, 0), 0);
    CHECK_EQ_INT(CUTEST(int, "cuCtxPushCurrent_v2", (void *), context), 0);
    CHECK_EQ_INT(
        CUTEST(int, "cuMemAllocManaged", (unsigned long long *, size_t, unsigned), &ptr, SIZE, 1),
        0);
    fill(1);
    memcpy((void *)(uintptr_t)ptr, pattern, SIZE);
    wh_request *req = NULL;
    CHECK_EQ_INT(
        wh_tag_send(ep, (void *)(uintptr_t)ptr, SIZE, 1, WH_OP_OPTS(.mem = WH_MEM_CUDA), &req),
        WH_PENDING);
    CHECK_EQ_INT(ends(req), WH_OK);
    CHECK_EQ_INT(calls("cuIpcGetMemHandle"), 0);
    CHECK_EQ_INT(ends(send(device(0, 2), SIZE)), WH_OK);
    CHECK_EQ_INT(counters().device_sent, 1);
    come_to(0, 1);
    wait_for(1, 1);
}

static void receive_managed(void) {
    unsigned char *into = device(0, 0);
    for (int i = 1; i < 3; i++) {
        CHECK_EQ_INT(ends(receive(into, SIZE)), WH_OK);
        check_device(into, SIZE, i);
    }
    wait_for(0, 1);
    come_to(1, 1);
}

TEST(memory_without_a_handle) {
    run(send_managed, receive_managed);
}

// ---- Death in the middle.  The copy takes long, and one side is killed while it is under way.

static void send_and_wait(void) {
    wh_status st = ends(send(device(0, 1), SIZE));
    CHECK_EQ_INT(st, WH_EPEER);
    CHECK_EQ_INT(worker->counters.pending, 0);
}

static void receive_slowly(void) {
    unsigned char *into = device(0, 0);
    slow();
    wh_request *req = receive(into, SIZE);
    PROGRESS_UNTIL(!whi_list_empty(&room()->stage.under_way));
    come_to(1, 1);
    wh_status st = ends(req);
    CHECK_EQ_INT(st, WH_EPEER);
    CHECK_EQ_INT(worker->counters.pending, 0);
    CHECK(whi_list_empty(&room()->stage.under_way));
    // Nothing is written to it any more.
    CUTEST(void, "cutest_delay", (uint64_t, unsigned), 7, 0);
    fill(5);
    CHECK_EQ_INT(wh_mem_copy(into, WH_MEM_CUDA, pattern, WH_MEM_HOST, SIZE), WH_OK);
    usleep(2 * SLOW_US);
    check_device(into, SIZE, 5);
}

TEST(the_sender_dies) {
    one_dies(0, send_and_wait, receive_slowly);
}

TEST(the_receiver_dies) {
    one_dies(1, send_and_wait, receive_slowly);
}

// ---- A sender that gives its memory back without an answer: what the receiver copies then does not count.

static void send_and_go(void) {
    unsigned char *from = device(0, 1);
    wh_request *req = send(from, SIZE);
    wait_for(1, 1);
    wh_worker_destroy(worker);
    CHECK(wh_request_status(req) != WH_PENDING && wh_request_status(req) != WH_OK);
    fill(9);
    CHECK_EQ_INT(wh_mem_copy(from, WH_MEM_CUDA, pattern, WH_MEM_HOST, SIZE), WH_OK);
    come_to(0, 1);
    while (atomic_load(&page->step[1]) < 2)
        usleep(1000);
}

static void receive_too_late(void) {
    unsigned char *into = device(0, 0);
    slow();
    wh_request *req = receive(into, SIZE);
    PROGRESS_UNTIL(!whi_list_empty(&room()->stage.under_way));
    come_to(1, 1);
    while (atomic_load(&page->step[0]) < 1)
        usleep(1000);
    usleep(2 * SLOW_US);  // the copy has passed, and nobody has looked
    CHECK_EQ_INT(ends(req), WH_EPEER);
    come_to(1, 2);
}

TEST(the_sender_gives_its_memory_back) {
    run(send_and_go, receive_too_late);
}

TEST_MAIN()
