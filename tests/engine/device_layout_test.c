// SPDX-License-Identifier: BSD-3-Clause
//
// Layouts in device memory, from process to process without the host: CUDA's, over the driver of tests/cuda.
#include "device_process_kit.h"

enum { BLOCK = 8, STEP = 16, ELEMENTS = SIZE / STEP, PACKED = SIZE / 2 };

static wh_type *layout;  // every other word of a pattern's bytes

static void make_layout(void) {
    wh_type *blocks;
    CHECK_EQ_INT(
        wh_type_create_hvector(ELEMENTS, BLOCK, STEP, wh_type_basic(WH_TYPE_BYTE), &blocks), WH_OK);
    layout = blocks;
    CHECK_EQ_INT(wh_type_commit(layout), WH_OK);
}

static long launches(void) {
    return CUTEST(long, "cutest_launches", (void));
}

static wh_request *send_typed(const void *from) {
    wh_request *req = NULL;
    CHECK_EQ_INT(wh_tag_send(ep, from, 1, 1, WH_OP_OPTS(.type = layout), &req), WH_PENDING);
    return req;
}

static wh_request *receive_typed(void *into) {
    wh_request *req = NULL;
    CHECK_EQ_INT(wh_tag_recv(ep, into, 1, 1, WH_TAG_MASK_ALL, WH_OP_OPTS(.type = layout), &req),
                 WH_PENDING);
    return req;
}

// The words of pattern `seed`, one behind the other, are what its layout has.
static void pack_pattern(unsigned char *packed, int seed) {
    fill(seed);
    for (int i = 0; i < ELEMENTS; i++)
        memcpy(packed + (size_t)i * BLOCK, pattern + (size_t)i * STEP, BLOCK);
}

static unsigned char *dense_device(int seed) {
    static unsigned char packed[PACKED];
    void *ptr = NULL;
    pack_pattern(packed, seed);
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_CUDA, 0, PACKED, &ptr), WH_OK);
    CHECK_EQ_INT(wh_mem_copy(ptr, WH_MEM_CUDA, packed, WH_MEM_HOST, PACKED), WH_OK);
    return ptr;
}

static void check_dense(const void *ptr, int seed) {
    static unsigned char packed[PACKED];
    pack_pattern(packed, seed);
    CHECK_EQ_INT(wh_mem_copy(found, WH_MEM_HOST, ptr, WH_MEM_CUDA, PACKED), WH_OK);
    CHECK_MEM(found, packed, PACKED);
}

// check_spread looks at a layout's words, which are of pattern `seed`, and at those between, of pattern `around`.
static void check_spread(const void *ptr, int seed, int around) {
    static unsigned char expected[SIZE];
    fill(around);
    memcpy(expected, pattern, SIZE);
    fill(seed);
    for (int i = 0; i < ELEMENTS; i++)
        memcpy(expected + (size_t)i * STEP, pattern + (size_t)i * STEP, BLOCK);
    CHECK_EQ_INT(wh_mem_copy(found, WH_MEM_HOST, ptr, WH_MEM_CUDA, SIZE), WH_OK);
    CHECK_MEM(found, expected, SIZE);
}

// until_over lets a side go on for as long as the other one needs it.
static void until_over(int role) {
    come_to(role, 9);
    wait_for(1 - role, 9);
}

// ---- Each pair of layouts: one kernel at each end that has one, and nothing through the host.

static void send_pairs(void) {
    make_layout();
    unsigned char *dense = dense_device(1), *spread = device(0, 2);
    long before = launches();
    CHECK_EQ_INT(ends(send(dense, PACKED)), WH_OK);
    CHECK_EQ_INT(launches(), before);
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(ends(send_typed(spread)), WH_OK);
    CHECK_EQ_INT(launches(), before + 3);
    CHECK_EQ_INT(counters().device_sent, 4);
    CHECK_EQ_INT(room()->stage.count, 0);
    CHECK_EQ_INT(room()->device.packed.size, 1 << 20);  // one block, for all of them
    until_over(0);
}

static void receive_pairs(void) {
    make_layout();
    unsigned char *spread = device(0, 5), *dense = dense_device(6);
    long before = launches();
    CHECK_EQ_INT(ends(receive_typed(spread)), WH_OK);
    check_spread(spread, 1, 5);
    CHECK_EQ_INT(launches(), before + 1);
    CHECK_EQ_INT(ends(receive(dense, PACKED)), WH_OK);
    check_dense(dense, 2);
    CHECK_EQ_INT(launches(), before + 1);
    for (int i = 0; i < 2; i++) {
        give(spread);
        spread = device(0, 7);
        CHECK_EQ_INT(ends(receive_typed(spread)), WH_OK);
        check_spread(spread, 2, 7);
    }
    CHECK_EQ_INT(launches(), before + 3);
    CHECK_EQ_INT(counters().device_received, 4);
    CHECK_EQ_INT(calls("cuIpcOpenMemHandle_v2"), 2);  // the dense buffer and the block
    CHECK_EQ_INT(room()->stage.count, 0);
    until_over(1);
}

TEST(pairs_of_layouts) {
    run(send_pairs, receive_pairs);
}

// ---- Memory for packed layouts is bounded: what is longer goes in parts, and what finds none goes through the host.

static void set(const char *name, const char *value) {
    CHECK_EQ_INT(setenv(name, value, 1), 0);
}

enum { LONG = 8 };  // elements of the layout: 4 MiB of payload

static unsigned char *long_device(int seed) {
    void *ptr = NULL;
    fill(seed);
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_CUDA, 0, (size_t)LONG * SIZE, &ptr), WH_OK);
    for (int i = 0; i < LONG; i++)
        CHECK_EQ_INT(
            wh_mem_copy((char *)ptr + (size_t)i * SIZE, WH_MEM_CUDA, pattern, WH_MEM_HOST, SIZE),
            WH_OK);
    return ptr;
}

static wh_request *send_long(const void *from, int count) {
    wh_request *req = NULL;
    wh_type *whole;
    CHECK_EQ_INT(wh_type_create_resized(layout, 0, SIZE, &whole), WH_OK);
    CHECK_EQ_INT(wh_type_commit(whole), WH_OK);
    CHECK_EQ_INT(wh_tag_send(ep, from, (size_t)count, 1, WH_OP_OPTS(.type = whole), &req),
                 WH_PENDING);
    wh_type_release(whole);
    return req;
}

static void receive_long(unsigned parts) {
    void *into = NULL;
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_CUDA, 0, (size_t)LONG * PACKED, &into), WH_OK);
    CHECK_EQ_INT(ends(receive(into, (size_t)LONG * PACKED)), WH_OK);
    for (int i = 0; i < LONG; i++)
        check_dense((char *)into + (size_t)i * PACKED, 3);
    CHECK_EQ_INT(counters().device_received, parts);
    give(into);
}

static void send_in_parts(void) {
    make_layout();
    unsigned char *from = long_device(3);
    CHECK_EQ_INT(ends(send_long(from, LONG)), WH_OK);
    CHECK_EQ_INT(counters().device_sent, 4);
    CHECK_EQ_INT(room()->device.packed.size, 1 << 20);
    // Three at once: two blocks fit into what it may have, and the third message does not wait for one.
    wh_request *reqs[3];
    for (int i = 0; i < 3; i++)
        reqs[i] = send_long(from, LONG);
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(ends(reqs[i]), WH_OK);
    CHECK(room()->device.packed.size <= 2 << 20);
    until_over(0);
}

static void receive_in_parts(void) {
    make_layout();
    receive_long(4);
    void *into[3];
    wh_request *reqs[3];
    for (int i = 0; i < 3; i++) {
        CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_CUDA, 0, (size_t)LONG * PACKED, &into[i]), WH_OK);
        reqs[i] = receive(into[i], (size_t)LONG * PACKED);
    }
    for (int i = 0; i < 3; i++) {
        CHECK_EQ_INT(ends(reqs[i]), WH_OK);
        for (int k = 0; k < LONG; k++)
            check_dense((char *)into[i] + (size_t)k * PACKED, 3);
    }
    until_over(1);
}

TEST(memory_for_packed_layouts_is_bounded) {
    set("WHERRY_DEVICE_PACK_MAX", "2M");
    run(send_in_parts, receive_in_parts);
    unsetenv("WHERRY_DEVICE_PACK_MAX");
}

static void send_without(void) {
    make_layout();
    unsigned char *from = long_device(3);
    CHECK_EQ_INT(ends(send_long(from, LONG)), WH_OK);
    CHECK_EQ_INT(counters().device_sent, 0);
    CHECK_EQ_INT(room()->device.packed.size, 0);
    CHECK(room()->stage.count);
    until_over(0);
}

static void receive_staged(void) {
    make_layout();
    receive_long(0);
    until_over(1);
}

TEST(without_memory_for_it_the_host_is_the_way) {
    set("WHERRY_DEVICE_PACK_MAX", "0");
    run(send_without, receive_staged);
    unsetenv("WHERRY_DEVICE_PACK_MAX");
}

static void send_on_a_full_device(void) {
    make_layout();
    unsigned char *from = long_device(3);
    unsigned long before = calls("cuMemAlloc_v2");
    CUTEST(void, "cutest_fail", (const char *, long, int), "cuMemAlloc_v2", 1, 2);
    for (int i = 0; i < 2; i++)
        CHECK_EQ_INT(ends(send_long(from, LONG)), WH_OK);
    CHECK_EQ_INT(counters().device_sent, 0);
    CHECK_EQ_INT(calls("cuMemAlloc_v2"), before + 1);
    until_over(0);
}

static void receive_two_staged(void) {
    make_layout();
    receive_long(0);
    receive_long(0);
    until_over(1);
}

TEST(a_device_that_is_full) {
    run(send_on_a_full_device, receive_two_staged);
}

// ---- Kernels of one device do not reach another one's memory: through the host.

static void send_from_the_other(void) {
    make_layout();
    unsigned char *from = device(1, 4);
    CHECK_EQ_INT(ends(send_typed(from)), WH_OK);
    CHECK_EQ_INT(counters().device_sent, 0);
    until_over(0);
}

static void receive_on_this_one(void) {
    make_layout();
    unsigned char *into = device(0, 1);
    CHECK_EQ_INT(ends(receive_typed(into)), WH_OK);
    check_spread(into, 4, 1);
    CHECK_EQ_INT(counters().device_received, 0);
    until_over(1);
}

TEST(layouts_on_two_devices) {
    run(send_from_the_other, receive_on_this_one);
}

// ---- The end in the middle: the kernel takes long, and a side goes, or the operation ends.

static void send_slowly(void) {
    make_layout();
    unsigned char *from = device(0, 1);
    slow();
    wh_request *req = send_typed(from);
    PROGRESS_UNTIL(!whi_list_empty(&room()->stage.under_way));
    come_to(1, 1);  // for one_dies
    CHECK_EQ_INT(ends(req), WH_EPEER);
    CHECK_EQ_INT(worker->counters.pending, 0);
    CHECK(!whi_list_empty(&room()->device.packed.free));
}

static void receive_and_wait(void) {
    CHECK_EQ_INT(ends(receive(device(0, 0), PACKED)), WH_EPEER);
}

TEST(the_receiver_dies_while_a_layout_is_packed) {
    one_dies(1, send_slowly, receive_and_wait);
}

TEST(the_sender_dies_while_a_layout_is_packed) {
    one_dies(0, send_slowly, receive_and_wait);
}

static void send_and_cancel(void) {
    make_layout();
    unsigned char *from = device(0, 1);
    slow();
    wh_request *req = send_typed(from);
    PROGRESS_UNTIL(!whi_list_empty(&room()->stage.under_way));
    wh_request_cancel(req);
    wh_status st = ends(req);  // what has been granted goes on, as on every lane
    CHECK(st == WH_OK || st == WH_ECANCELLED);
    CUTEST(void, "cutest_delay", (uint64_t, unsigned), 7, 0);
    CHECK_EQ_INT(ends(send_typed(from)), WH_OK);
    CHECK_EQ_INT(room()->device.packed.size, 1 << 20);  // the block has come back
    until_over(0);
}

static void receive_either(void) {
    wh_request *req = receive(device(0, 0), PACKED);
    PROGRESS_UNTIL(wh_request_status(req) != WH_PENDING);
    wh_status st = wh_request_status(req);
    wh_request_free(req);
    unsigned char *into = device(0, 0);
    if (st == WH_OK)
        CHECK_EQ_INT(ends(receive(into, PACKED)), WH_OK);
    until_over(1);
}

TEST(a_send_that_is_cancelled_while_it_is_packed) {
    run(send_and_cancel, receive_either);
}

// ---- The bytes are those at the time of the stream: a kernel that cannot run fails the send, and the peer is told.

static void send_what_cannot_be_packed(void) {
    make_layout();
    unsigned char *from = device(0, 1);
    CUTEST(void, "cutest_fail", (const char *, long, int), "cuLaunchKernel", -1, 719);
    wh_status st = ends(send_typed(from));
    CHECK(st != WH_OK);
    CHECK_EQ_INT(counters().device_sent, 0);
    until_over(0);
}

static void receive_nothing(void) {
    wh_status st = ends(receive(device(0, 0), PACKED));
    CHECK(st != WH_OK);
    until_over(1);
}

TEST(a_layout_that_cannot_be_packed) {
    run(send_what_cannot_be_packed, receive_nothing);
}

// A kernel that fails while it runs: its event tells.
static void send_what_fails(void) {
    make_layout();
    unsigned char *from = device(0, 1);
    CUTEST(void, "cutest_fail", (const char *, long, int), "cuEventQuery", 1, 700);
    wh_status st = ends(send_typed(from));
    CHECK_EQ_INT(st, WH_ESYSTEM);
    CHECK_EQ_INT(counters().device_sent, 0);
    CHECK_EQ_INT(lines_of("E-MEM-01"), 1);
    CHECK(!whi_list_empty(&room()->device.packed.free));
    until_over(0);
}

TEST(a_layout_whose_kernel_fails) {
    run(send_what_fails, receive_nothing);
}

TEST_MAIN()
