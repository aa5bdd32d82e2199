// SPDX-License-Identifier: BSD-3-Clause
//
// Virtual memory of another process.  A child makes it, and does what comes by a pipe.
#include "mem/cuda_virtual.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fdshare.h"
#include "mem/cuda_kit.h"
#include "mem/cuda_virtual_kit.h"

enum { SIZE = 64 << 10, DESCRIPTOR = WHI_CUDA_HANDLE_DESCRIPTOR };

static const whi_mem_sharing *const sharing = &whi_cuda_sharing;
static int to_child[2], from_child[2];
static pid_t child;

static void *pointer(whi_cuda_ptr at) {
    return (void *)(uintptr_t)at;
}

static void fill(unsigned char *host, int seed) {
    for (size_t i = 0; i < SIZE; i++)
        host[i] = (unsigned char)(i * 7 + i / 256 + (size_t)seed);
}

static void put_piece(whi_cuda_ptr at, int seed, int handle_types) {
    static unsigned char host[SIZE];
    put_block(entry("cuMemCreate"), at, SIZE, 0, handle_types);
    fill(host, seed);
    CHECK_EQ_INT(ops->copy(WHI_MEM_FROM_HOST, pointer(at), host, SIZE), WH_OK);
}

static void check_bytes(const void *ptr, int seed) {
    static unsigned char expected[SIZE], found[SIZE];
    fill(expected, seed);
    CHECK_EQ_INT(ops->copy(WHI_MEM_TO_HOST, found, ptr, SIZE), WH_OK);
    CHECK_MEM(found, expected, SIZE);
}

static whi_mem_handle export_at(whi_cuda_ptr at) {
    whi_mem_handle handle;
    CHECK_EQ_INT(sharing->export(pointer(at), &handle), WH_OK);
    CHECK(handle.descriptor);
    return handle;
}

static long blocks(void) {
    return ENTRY(long, "cutest_blocks", (void));
}

static long allocations(void) {
    return ENTRY(long, "cutest_allocations", (void));
}

static int open_files(void) {
    int count = 0;
    for (int fd = 0; fd < 512; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void unmap_piece(whi_cuda_ptr at) {
    CHECK_EQ_INT(whi_cuda.cuMemUnmap(at, SIZE), 0);
}

// ---- Of another process.

static void send_handle(whi_cuda_ptr at) {
    whi_mem_handle handle = export_at(at);
    CHECK_EQ_INT(write(from_child[1], &handle, sizeof(handle)), sizeof(handle));
}

static void be_child(void) {
    char order;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    (void)device_count();
    whi_cuda_ptr at = reserve_range(4 * SIZE);
    put_piece(at, 1, DESCRIPTOR);
    put_piece(at + SIZE, 2, DESCRIPTOR);
    while (read(to_child[0], &order, 1) == 1) {
        if (order == '1' || order == '2')
            send_handle(at + (order == '2' ? SIZE : 0));
        if (order == 'm') {  // another block at the second place
            unmap_piece(at + SIZE);
            put_piece(at + SIZE, 3, DESCRIPTOR);
            send_handle(at + SIZE);
        }
    }
    _exit(0);
}

static void begin(void) {
    listen();
    (void)entry("cutest_fail");
    CHECK(pipe(to_child) == 0 && pipe(from_child) == 0);
    fflush(NULL);
    child = fork();
    CHECK(child >= 0);
    if (!child) {
        close(to_child[1]);
        be_child();
    }
    close(from_child[1]);
}

static whi_mem_handle ask(char order) {
    whi_mem_handle handle;
    CHECK_EQ_INT(write(to_child[1], &order, 1), 1);
    CHECK_EQ_INT(read(from_child[0], &handle, sizeof(handle)), sizeof(handle));
    return handle;
}

static void need_right(const whi_mem_handle *handle) {
    whi_fdshare_name name;
    int fd;
    memcpy(&name, handle->bytes, sizeof(name));
    if (whi_fdshare_take(&name, &fd) != WH_OK)
        SKIP("the kernel does not let this process copy another's descriptors");
    close(fd);
}

// All in one case, and the first: a process that has opened the driver can fork no more.
TEST(blocks_of_another_process) {
    begin();
    whi_mem_handle first = ask('1'), second = ask('2');
    need_right(&first);
    (void)device_count();
    (void)primary(0);
    whi_mem_mapping mapping = {.length = 1}, other;
    long before = allocations();
    int files = open_files();
    CHECK_EQ_INT(sharing->open(&first, 0, &mapping), WH_OK);
    CHECK_EQ_INT(sharing->open(&second, 0, &other), WH_OK);
    CHECK_EQ_INT(mapping.length, SIZE);
    CHECK_EQ_INT(mapping.device, 0);
    check_bytes(mapping.base, 1);
    check_bytes(other.base, 2);
    // Another block at the place: the old mapping has the old memory, and its handle is out of date.
    whi_mem_handle third = ask('m');
    CHECK(third.id != second.id && third.base == second.base);
    check_bytes(other.base, 2);
    sharing->close(&other);
    other.length = 1;
    CHECK_EQ_INT(sharing->open(&second, 0, &other), WH_ENOTFOUND);
    CHECK_EQ_INT(other.length, 1);
    CHECK_EQ_INT(sharing->open(&third, 0, &other), WH_OK);
    check_bytes(other.base, 3);
    sharing->close(&other);
    sharing->close(&mapping);

    // Handles that lie: of more than there is, of an id that is not the descriptor's, of a file that is no block, nonsense.
    for (int lie = 0; lie < 5; lie++) {
        whi_mem_handle bad = first;
        whi_fdshare_name name;
        memcpy(&name, bad.bytes, sizeof(name));
        switch (lie) {
        case 0: bad.length = 2 * SIZE; break;
        case 1: bad.length = (uint64_t)-1; break;
        case 2: bad.id = third.id; break;
        case 3: name.fd = name.board; break;
        default: memset(&name, 0x77, sizeof(name)); bad.id = name.id;
        }
        memcpy(bad.bytes, &name, sizeof(name));
        CHECK_EQ_INT(sharing->open(&bad, 0, &other), WH_ENOTSUP);
    }
    // Each call can fail, and nothing is left of what was begun.
    static const char *const calls[] = {"cuMemImportFromShareableHandle",
                                        "cuMemGetAllocationPropertiesFromHandle",
                                        "cuMemAddressReserve",
                                        "cuMemMap",
                                        "cuMemSetAccess",
                                        "cuMemGetAddressRange_v2"};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        fail_at(calls[i], 1, 999);
        CHECK_EQ_INT(sharing->open(&first, 0, &other), WH_ENOTSUP);
        CHECK_EQ_INT(blocks(), 0);
    }
    CHECK_EQ_INT(allocations(), before);
    CHECK_EQ_INT(blocks(), 0);
    CHECK_EQ_INT(open_files(), files);
    CHECK_EQ_INT(depth(), 0);
    CHECK_EQ_INT(heard_count, 0);  // there is another way: no errors
    // A peer that was killed.
    CHECK_EQ_INT(sharing->open(&first, 0, &mapping), WH_OK);
    kill(child, SIGKILL);
    CHECK_EQ_INT(waitpid(child, NULL, 0), child);
    check_bytes(mapping.base, 1);
    CHECK_EQ_INT(sharing->open(&third, 0, &other), WH_ENOTSUP);
    sharing->close(&mapping);
    CHECK_EQ_INT(blocks(), 0);
}

// ---- Of this process, which has forked.

// begin_here leaves one block in the table, which its owner has unmapped, so that the next one takes its place.
static whi_cuda_ptr begin_here(size_t size) {
    listen();
    (void)entry("cutest_fail");
    (void)device_count();
    (void)primary(0);
    whi_cuda_ptr at = reserve_range(SIZE);
    put_piece(at, 0, DESCRIPTOR);
    (void)export_at(at);
    unmap_piece(at);
    CHECK_EQ_INT(whi_cuda.cuMemAddressFree(at, SIZE), 0);
    return reserve_range(size);
}

static void end_here(whi_cuda_ptr at, int pieces) {
    for (int i = pieces - 1; i >= 0; i--)
        unmap_piece(at + (size_t)i * SIZE);
    CHECK_EQ_INT(depth(), 0);
    CHECK_EQ_INT(heard_count, 0);
}

TEST(a_piece_of_a_range) {
    whi_cuda_ptr at = begin_here(4 * SIZE);
    put_piece(at, 1, DESCRIPTOR);
    put_piece(at + SIZE, 2, DESCRIPTOR);
    whi_mem_handle first = export_at(at + 100), second = export_at(at + SIZE + 5);
    CHECK_EQ_INT(first.base, at);
    CHECK_EQ_INT(first.length, SIZE);
    CHECK_EQ_INT(second.base, at + SIZE);
    CHECK(first.id != second.id);
    // Again it is the same one, and nothing more is open.
    int files = open_files();
    whi_mem_handle again = export_at(at);
    CHECK_EQ_INT(again.id, first.id);
    CHECK_MEM(again.bytes, first.bytes, sizeof(first.bytes));
    CHECK_EQ_INT(open_files(), files);
    whi_fdshare_name name;
    memcpy(&name, first.bytes, sizeof(name));
    CHECK(fcntl(name.fd, F_GETFD) & FD_CLOEXEC);
    // Another block at the address, of the same handle for all one knows, is another one; and the old one is let go.
    unmap_piece(at + SIZE);
    CHECK_EQ_INT(blocks(), 2);  // what was exported is kept, so its handle is nobody else's
    put_piece(at + SIZE, 3, DESCRIPTOR);
    whi_mem_handle third = export_at(at + SIZE);
    CHECK(third.base == second.base && third.id != second.id);
    CHECK_EQ_INT(blocks(), 2);
    CHECK_EQ_INT(open_files(), files);
    end_here(at, 2);
}

TEST(no_more_than_so_many) {
    enum { MANY = WHI_FDSHARE_MAX + 20 };
    whi_cuda_ptr at = begin_here((size_t)MANY * SIZE);
    int files = open_files();
    uint64_t ids[MANY];
    for (int i = 0; i < MANY; i++) {
        put_piece(at + (size_t)i * SIZE, i, DESCRIPTOR);
        ids[i] = export_at(at + (size_t)i * SIZE).id;
        CHECK_EQ_INT(export_at(at).id, ids[0]);  // used all the time, so it stays
    }
    // Each block of the test driver's has a file, too; there was one block, whose place is another's.
    CHECK_EQ_INT(open_files(), files - 2 + MANY + WHI_FDSHARE_MAX);
    CHECK_EQ_INT(export_at(at + (size_t)(MANY - 1) * SIZE).id, ids[MANY - 1]);
    CHECK(export_at(at + SIZE).id != ids[1]);
    // What is unmapped is let go when another one comes.
    for (int i = MANY - 1; i > 0; i--)
        unmap_piece(at + (size_t)i * SIZE);
    put_piece(at + SIZE, 1, DESCRIPTOR);
    (void)export_at(at + SIZE);
    CHECK_EQ_INT(blocks(), 2);
    end_here(at, 2);
}

TEST(what_cannot_be_exported) {
    whi_mem_handle handle;
    whi_cuda_ptr at = begin_here(4 * SIZE);
    long before = blocks();
    put_piece(at, 1, DESCRIPTOR);
    put_piece(at + SIZE, 1, 0);  // its maker has not asked for descriptors
    int files = open_files();
    CHECK_EQ_INT(sharing->export(pointer(at + SIZE), &handle), WH_ENOTSUP);
    static const char *const calls[] = {"cuMemRetainAllocationHandle", "cuMemGetAddressRange_v2",
                                        "cuMemGetAllocationPropertiesFromHandle",
                                        "cuMemExportToShareableHandle"};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        fail_at(calls[i], 1, 999);
        CHECK_EQ_INT(sharing->export(pointer(at), &handle), WH_ENOTSUP);
        CHECK_EQ_INT(depth(), 0);
    }
    CHECK_EQ_INT(open_files(), files);
    // None of these has kept a handle.
    unmap_piece(at + SIZE);
    unmap_piece(at);
    CHECK_EQ_INT(blocks(), before);
    // A driver that lacks one of the calls.
    put_piece(at, 1, DESCRIPTOR);
    whi_cuda.virtual_memory = false;
    CHECK_EQ_INT(sharing->export(pointer(at), &handle), WH_ENOTSUP);
    whi_mem_handle descriptor = {.descriptor = true};
    whi_mem_mapping mapping;
    CHECK_EQ_INT(sharing->open(&descriptor, 0, &mapping), WH_ENOTSUP);
    whi_cuda.virtual_memory = true;
    end_here(at, 1);
}

TEST_MAIN()
