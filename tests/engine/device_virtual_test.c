// SPDX-License-Identifier: BSD-3-Clause
//
// Virtual device memory (cuMemCreate, cuMemMap) from process to process, over the driver of tests/cuda.
#include <sys/syscall.h>

#include "device_process_kit.h"
#include "mem/cuda_virtual_kit.h"

enum { PIECE = 384 << 10, PIECES = 3, DESCRIPTOR = WHI_CUDA_HANDLE_DESCRIPTOR };

// need_right skips where the kernel lets nobody copy descriptors.
static void need_right(void) {
    int process = (int)syscall(SYS_pidfd_open, getpid(), 0);
    int copy = process < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, process, 1, 0);
    if (copy < 0)
        SKIP("the kernel does not let processes copy each other's descriptors");
    close(copy);
    close(process);
}

// may_be_read lets the receiver do so where only a parent may.
static void may_be_read(void) {
    (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
}

static void *pointer(whi_cuda_ptr at) {
    return (void *)(uintptr_t)at;
}

static void put_pieces(whi_cuda_ptr at, int handle_types, int seed) {
    for (int i = 0; i < PIECES; i++)
        put_block(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemCreate"), at + (size_t)i * PIECE,
                  PIECE, 0, handle_types);
    fill(seed);
    CHECK_EQ_INT(wh_mem_copy(pointer(at), WH_MEM_CUDA, pattern, WH_MEM_HOST, SIZE), WH_OK);
}

// make_range is a range of several pieces, as allocators make it that let it grow.
static whi_cuda_ptr make_range(int handle_types, int seed) {
    may_be_read();
    give(device(0, 0));  // the driver is open
    whi_cuda_ptr at = reserve_range(PIECES * PIECE);
    put_pieces(at, handle_types, seed);
    return at;
}

static long blocks(void) {
    return CUTEST(long, "cutest_blocks", (void));
}

// ---- A message across pieces; and the same addresses with other memory behind them.

static void send_across(void) {
    whi_cuda_ptr at = make_range(DESCRIPTOR, 1);
    for (int i = 0; i < 2; i++)
        CHECK_EQ_INT(ends(send(pointer(at), SIZE)), WH_OK);
    CHECK_EQ_INT(counters().device_sent, 2 * PIECES);
    CHECK_EQ_INT(room()->stage.count, 0);
    CHECK_EQ_INT(calls("cuMemExportToShareableHandle"), PIECES);
    // Memory of cuMemAlloc goes beside it; to the driver it is allocation 3, and there is a block 3.
    CHECK_EQ_INT(ends(send(device(0, 3), SIZE)), WH_OK);
    CHECK_EQ_INT(counters().device_sent, 2 * PIECES + 1);
    for (int i = PIECES - 1; i >= 0; i--)
        CHECK_EQ_INT(whi_cuda.cuMemUnmap(at + (size_t)i * PIECE, PIECE), 0);
    put_pieces(at, DESCRIPTOR, 2);
    CHECK_EQ_INT(ends(send(pointer(at), SIZE)), WH_OK);
    CHECK_EQ_INT(blocks(), PIECES);  // nothing keeps the old ones
    // One within a piece, and one that begins in the middle of one.
    CHECK_EQ_INT(ends(send(pointer(at + PIECE + 1000), PIECE / 2)), WH_OK);
    CHECK_EQ_INT(counters().device_sent, 3 * PIECES + 2);
    come_to(0, 1);
    wait_for(1, 1);
}

static void receive_across(void) {
    unsigned char *into = device(0, 0);
    long before = allocations();
    for (int i = 0; i < 2; i++) {
        CHECK_EQ_INT(ends(receive(into, SIZE)), WH_OK);
        check_device(into, SIZE, 1);
        CHECK_EQ_INT(calls("cuMemImportFromShareableHandle"), PIECES);
    }
    CHECK_EQ_INT(ends(receive(into, SIZE)), WH_OK);
    check_device(into, SIZE, 3);
    CHECK_EQ_INT(ends(receive(into, SIZE)), WH_OK);
    check_device(into, SIZE, 2);
    CHECK_EQ_INT(allocations(), before + PIECES + 1);
    CHECK_EQ_INT(blocks(), PIECES);
    CHECK_EQ_INT(ends(receive(into, SIZE)), WH_OK);
    fill(2);
    CHECK_EQ_INT(wh_mem_copy(found, WH_MEM_HOST, into, WH_MEM_CUDA, PIECE / 2), WH_OK);
    CHECK_MEM(found, pattern + PIECE + 1000, PIECE / 2);
    CHECK_EQ_INT(counters().device_received, 3 * PIECES + 2);
    wait_for(0, 1);
    wh_endpoint_abort(ep);
    come_to(1, 1);
    PROGRESS_UNTIL(allocations() == before);
    CHECK_EQ_INT(blocks(), 0);
}

TEST(a_message_across_pieces) {
    need_right();
    run(send_across, receive_across);
}

// ---- Where descriptors cannot be taken over it goes through the host, and other memory does not.

static void send_refused(void) {
    whi_cuda_ptr at = make_range(DESCRIPTOR, 1);
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(ends(send(pointer(at), SIZE)), WH_OK);
    CHECK_EQ_INT(counters().device_sent, 0);
    CHECK(room()->stage.count);
    CHECK(whi_messages_on(ep->link)->descriptors_never);  // it was told
    CHECK_EQ_INT(ends(send(device(0, 2), SIZE)), WH_OK);
    CHECK_EQ_INT(counters().device_sent, 1);
    come_to(0, 1);
    wait_for(1, 1);
}

static void receive_refused(void) {
    CUTEST(void, "cutest_fail", (const char *, long, int), "cuMemImportFromShareableHandle", -1,
           801);
    unsigned char *into = device(0, 0);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ_INT(ends(receive(into, SIZE)), WH_OK);
        check_device(into, SIZE, i < 3 ? 1 : 2);
        give(into);
        into = device(0, 0);
    }
    CHECK(calls("cuMemImportFromShareableHandle") <= 1);
    CHECK_EQ_INT(lines_of("W-MEM-02"), 1);
    CHECK_EQ_INT(lines_of("W-MEM-01"), 0);
    CHECK_EQ_INT(lines_of("answer"), 0);
    wait_for(0, 1);
    come_to(1, 1);
}

TEST(descriptors_that_cannot_be_taken) {
    run(send_refused, receive_refused);
}

// One whose maker has not asked for descriptors.
static void send_closed(void) {
    whi_cuda_ptr at = make_range(0, 1);
    CHECK_EQ_INT(ends(send(pointer(at), SIZE)), WH_OK);
    CHECK_EQ_INT(counters().device_sent, 0);
    CHECK_EQ_INT(calls("cuMemExportToShareableHandle"), 0);
    come_to(0, 1);
    wait_for(1, 1);
}

static void receive_closed(void) {
    unsigned char *into = device(0, 0);
    CHECK_EQ_INT(ends(receive(into, SIZE)), WH_OK);
    check_device(into, SIZE, 1);
    wait_for(0, 1);
    come_to(1, 1);
}

TEST(memory_that_is_not_exported) {
    run(send_closed, receive_closed);
}

// ---- Death in the middle.

static void send_and_wait(void) {
    CHECK_EQ_INT(ends(send(pointer(make_range(DESCRIPTOR, 1)), SIZE)), WH_EPEER);
    CHECK_EQ_INT(worker->counters.pending, 0);
}

static void receive_slowly(void) {
    unsigned char *into = device(0, 0);
    long before = allocations();
    slow();
    wh_request *req = receive(into, SIZE);
    PROGRESS_UNTIL(!whi_list_empty(&room()->stage.under_way));
    come_to(1, 1);
    CHECK_EQ_INT(ends(req), WH_EPEER);
    CHECK_EQ_INT(worker->counters.pending, 0);
    PROGRESS_UNTIL(allocations() == before);
    CHECK_EQ_INT(blocks(), 0);
}

TEST(the_sender_dies) {
    need_right();
    one_dies(0, send_and_wait, receive_slowly);
}

TEST(the_receiver_dies) {
    need_right();
    one_dies(1, send_and_wait, receive_slowly);
}

TEST_MAIN()
