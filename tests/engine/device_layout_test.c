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

// ---- Memory for packed layouts is bounded: what is longer goes in parts, and what finds none waits for it.

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
    // Three at once: two blocks fit into what it may have, and the third message waits for one.
    wh_request *reqs[3];
    for (int i = 0; i < 3; i++)
        reqs[i] = send_long(from, LONG);
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(ends(reqs[i]), WH_OK);
    CHECK_EQ_INT(counters().device_sent, 16);
    CHECK_EQ_INT(room()->stage.count, 0);
    CHECK_EQ_INT(room()->device.packed.size, 2 << 20);
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

// Both have more under way than there is memory for, and each needs what the other one has taken.
enum { BOTH = 5, EACH = 2 };  // elements of a message: one block's

static void exchange(int role) {
    make_layout();
    unsigned char *from = long_device(3);
    wh_request *sent[BOTH], *received[BOTH];
    void *into[BOTH];
    for (int i = 0; i < BOTH; i++) {
        CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_CUDA, 0, (size_t)EACH * PACKED, &into[i]), WH_OK);
        received[i] = receive(into[i], (size_t)EACH * PACKED);
        sent[i] = send_long(from, EACH);
    }
    for (int i = 0; i < BOTH; i++) {
        CHECK_EQ_INT(ends(received[i]), WH_OK);
        for (int k = 0; k < EACH; k++)
            check_dense((char *)into[i] + (size_t)k * PACKED, 3);
    }
    for (int i = 0; i < BOTH; i++)
        CHECK_EQ_INT(ends(sent[i]), WH_OK);
    CHECK_EQ_INT(counters().device_sent, BOTH);
    CHECK_EQ_INT(room()->stage.count, 0);
    CHECK_EQ_INT(room()->device.packed.used, 0);
    until_over(role);
}

static void exchange_first(void) {
    exchange(0);
}

static void exchange_second(void) {
    exchange(1);
}

TEST(both_wait_for_memory) {
    set("WHERRY_DEVICE_PACK_MAX", "2M");
    run(exchange_first, exchange_second);
    unsetenv("WHERRY_DEVICE_PACK_MAX");
}

// What goes to one peer while another one has all memory; here to the worker itself.
enum { HALF = LONG / 2, STANDING = 3 };  // a message of two blocks, and how many of them
static wh_endpoint *own, *self;

static void on_own(wh_endpoint *accepted, void *arg) {
    (void)arg;
    own = accepted;
}

static void connect_self(void) {
    wh_listener *listener = NULL;
    char address[64];
    CHECK_EQ_INT(wh_listener_open(worker, "127.0.0.1:0", NULL, on_own, NULL, &listener), WH_OK);
    snprintf(address, sizeof(address), "127.0.0.1:%d", wh_listener_port(listener));
    CHECK_EQ_INT(wh_endpoint_connect(worker, address, NULL, &self), WH_OK);
    PROGRESS_UNTIL(wh_endpoint_status(self) == WH_OK && own);
}

static void send_to_self(const void *from) {
    void *into = NULL;
    wh_request *received = NULL;
    wh_endpoint *peer = ep;
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_CUDA, 0, (size_t)HALF * PACKED, &into), WH_OK);
    CHECK(wh_tag_recv(own, into, (size_t)HALF * PACKED, 1, WH_TAG_MASK_ALL, NULL, &received) >= 0);
    ep = self;
    wh_request *sent = send_long(from, HALF);
    ep = peer;
    CHECK_EQ_INT(ends(received), WH_OK);
    CHECK_EQ_INT(ends(sent), WH_OK);
    for (int k = 0; k < HALF; k++)
        check_dense((char *)into + (size_t)k * PACKED, 3);
    give(into);
}

static void send_past_others(void) {
    make_layout();
    unsigned char *from = long_device(3);
    connect_self();
    wh_request *reqs[STANDING];
    whi_device_room *device = &whi_messages_of(worker)->device;
    // As long as the peer takes what it is offered, others wait for that.
    device->patience_ns = KIT_PATIENCE_S * WHI_NS_PER_S;
    for (int i = 0; i < STANDING; i++)
        reqs[i] = send_long(from, HALF);
    PROGRESS_UNTIL(!whi_list_empty(&device->waiting));
    send_to_self(from);
    for (int i = 0; i < STANDING; i++)
        CHECK_EQ_INT(ends(reqs[i]), WH_OK);
    CHECK_EQ_INT(counters().device_sent, 2 * (STANDING + 1));
    CHECK_EQ_INT(room()->stage.count, 0);

    // When it reads nothing they go through the host, and what goes to itself waits.
    come_to(0, 1);
    wait_for(1, 1);
    whi_timers_remove(&worker->timers, &device->patience);
    device->patience_ns = 10 * WHI_NS_PER_MS;
    for (int i = 0; i < STANDING; i++)
        reqs[i] = send_long(from, HALF);
    PROGRESS_UNTIL(!whi_list_empty(&device->waiting));
    wait_for(1, 2);
    for (int i = 0; i < 2; i++)
        send_to_self(from);
    CHECK_EQ_INT(device->packed.used, 2 << 20);
    CHECK(room()->stage.count);
    come_to(0, 2);
    for (int i = 0; i < STANDING; i++)
        CHECK_EQ_INT(ends(reqs[i]), WH_OK);
    CHECK_EQ_INT(counters().device_sent, 2 * (2 * STANDING + 1));
    until_over(0);
    wh_endpoint_abort(self);
    wh_endpoint_abort(own);
}

static void receive_standing(void *into[STANDING], wh_request *reqs[STANDING]) {
    for (int i = 0; i < STANDING; i++) {
        CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_CUDA, 0, (size_t)HALF * PACKED, &into[i]), WH_OK);
        reqs[i] = receive(into[i], (size_t)HALF * PACKED);
    }
}

static void stand(void) {
    make_layout();
    void *into[STANDING];
    wh_request *reqs[STANDING];
    receive_standing(into, reqs);
    for (int i = 0; i < STANDING; i++)
        CHECK_EQ_INT(ends(reqs[i]), WH_OK);
    wait_for(0, 1);
    unsigned long before = counters().device_received;
    come_to(1, 1);
    receive_standing(into, reqs);
    PROGRESS_UNTIL(counters().device_received > before);
    come_to(1, 2);
    while (atomic_load(&page->step[0]) < 2)
        usleep(100);
    for (int i = 0; i < STANDING; i++)
        CHECK_EQ_INT(ends(reqs[i]), WH_OK);
    until_over(1);
}

TEST(a_peer_that_reads_nothing_holds_up_no_other_one) {
    set("WHERRY_DEVICE_PACK_MAX", "2M");
    run(send_past_others, stand);
    unsetenv("WHERRY_DEVICE_PACK_MAX");
}

// Sends that wait for memory when the link ends, end with it; and one whose endpoint ends leaves the others waiting.
static void send_and_end(void) {
    make_layout();
    unsigned char *from = long_device(3);
    wh_request *reqs[3];
    for (int i = 0; i < 3; i++)
        reqs[i] = send_long(from, HALF);
    PROGRESS_UNTIL(!whi_list_empty(&room()->device.waiting));
    come_to(0, 1);
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(ends(reqs[i]), WH_EPEER);
    CHECK_EQ_INT(worker->counters.pending, 0);
    CHECK_EQ_INT(room()->device.packed.used, 0);
    CHECK(whi_list_empty(&room()->device.waiting));
}

static void receive_and_go(void) {
    void *into = NULL;
    for (int i = 0; i < 3; i++) {
        CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_CUDA, 0, (size_t)HALF * PACKED, &into), WH_OK);
        (void)!receive(into, (size_t)HALF * PACKED);
    }
    PROGRESS_UNTIL(counters().device_received);
    while (!atomic_load(&page->step[0]))
        usleep(100);
}

TEST(the_end_while_some_wait_for_memory) {
    set("WHERRY_DEVICE_PACK_MAX", "2M");
    run(send_and_end, receive_and_go);
    unsetenv("WHERRY_DEVICE_PACK_MAX");
}

// Where memory for it cannot be offered it is not tried again.
static void send_what_cannot_be_offered(void) {
    make_layout();
    unsigned char *from = device(0, 2);
    CUTEST(void, "cutest_fail", (const char *, long, int), "cuIpcGetMemHandle", -1, 801);
    unsigned long before = calls("cuIpcGetMemHandle");
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(ends(send_typed(from)), WH_OK);
    CHECK_EQ_INT(calls("cuIpcGetMemHandle"), before + 1);
    CHECK_EQ_INT(counters().device_sent, 0);
    CHECK_EQ_INT(room()->device.packed.used, 0);
    until_over(0);
}

static void receive_what_was_not_offered(void) {
    make_layout();
    unsigned char *into = device(0, 5);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ_INT(ends(receive_typed(into)), WH_OK);
        check_spread(into, 2, 5);
    }
    until_over(1);
}

TEST(memory_that_cannot_be_offered) {
    run(send_what_cannot_be_offered, receive_what_was_not_offered);
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
    CHECK_EQ_INT(room()->device.packed.used, 0);
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
    CHECK_EQ_INT(room()->device.packed.used, 0);
    until_over(0);
}

TEST(a_layout_whose_kernel_fails) {
    run(send_what_fails, receive_nothing);
}

TEST_MAIN()
