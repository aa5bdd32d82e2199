// SPDX-License-Identifier: BSD-3-Clause
//
// Operands and windows in a device's memory where only the CPU computes: functions of the program, types that the engine has no kernels
// for, compare and swap.  Any number of ranks.
#include <dlfcn.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wherry/mem.h>

enum { N = 50000 };

static int rank, ranks;

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            printf("%s:%d: rank %d: %s\n", __FILE__, __LINE__, rank, #what);                       \
            fflush(stdout);                                                                        \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                          \
        }                                                                                          \
    } while (0)
#define OK(call) CHECK((call) == MPI_SUCCESS)

static void *on_device(const void *from, size_t size) {
    void *ptr;
    CHECK(wh_mem_alloc_kind(WH_MEM_CUDA, 0, size, &ptr) == WH_OK);
    CHECK(wh_mem_copy(ptr, WH_MEM_CUDA, from, WH_MEM_HOST, size) == WH_OK);
    return ptr;
}

static void off_device(void *ptr, void *to, size_t size) {
    CHECK(wh_mem_copy(to, WH_MEM_HOST, ptr, WH_MEM_CUDA, size) == WH_OK);
    CHECK(wh_mem_free_kind(WH_MEM_CUDA, ptr) == WH_OK);
}

// A library brings the driver when all ranks know each other, as when cupy is imported behind mpi4py.  Wherry is not asked for such memory: the
// first that it hears of it is a call with it, which `first` names.  The pause stands for what a real driver takes to initialise.
#define CUDA(name, types, ...)                                                                     \
    CHECK(((int(*) types)dlsym(dlopen("libcuda.so.1", RTLD_NOW), name))(__VA_ARGS__) == 0)

enum { SOME = 100 };
static char here[N], back[N], room[N + MPI_BSEND_OVERHEAD];
static int right, left;

static void expect_left(int count) {
    for (int i = 0; i < count; i++)
        CHECK(back[i] == (char)(i * 7 + left));
}

static void late_send(void *device, MPI_Win win) {
    (void)win;
    for (int count = SOME; count <= N; count += N - SOME) {
        MPI_Request sent;
        OK(MPI_Isend(device, count, MPI_CHAR, right, 2, MPI_COMM_WORLD, &sent));
        OK(MPI_Recv(back, count, MPI_CHAR, left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&sent, MPI_STATUS_IGNORE));
        expect_left(count);
    }
}

static void late_bsend(void *device, MPI_Win win) {
    (void)win;
    OK(MPI_Bsend(device, SOME, MPI_CHAR, right, 2, MPI_COMM_WORLD));
    OK(MPI_Recv(back, SOME, MPI_CHAR, left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    expect_left(SOME);
}

static void late_replace(void *device, MPI_Win win) {
    (void)win;
    OK(MPI_Sendrecv_replace(device, SOME, MPI_CHAR, right, 2, left, 2, MPI_COMM_WORLD,
                            MPI_STATUS_IGNORE));
    CHECK(wh_mem_copy(back, WH_MEM_HOST, device, WH_MEM_AUTO, SOME) == WH_OK);
    expect_left(SOME);
}

static void late_put(void *device, MPI_Win win) {
    OK(MPI_Put(device, SOME, MPI_CHAR, right, 0, SOME, MPI_CHAR, win));
    OK(MPI_Win_fence(0, win));
    expect_left(SOME);
}

static void late_reduce(void *device, MPI_Win win) {
    (void)win;
    memset(back, 0, SOME);
    OK(MPI_Reduce_local(device, back, SOME, MPI_SIGNED_CHAR, MPI_SUM));
    for (int i = 0; i < SOME; i++)
        CHECK(back[i] == here[i]);
}

static void driver_that_comes_late(const char *first) {
    static const struct {
        const char *name;
        void (*call)(void *device, MPI_Win win);
    } calls[] = {{"send", late_send},
                 {"bsend", late_bsend},
                 {"replace", late_replace},
                 {"put", late_put},
                 {"reduce", late_reduce}};
    MPI_Win win;
    void *context;
    unsigned long long ptr;
    right = (rank + 1) % ranks;
    left = (rank + ranks - 1) % ranks;
    for (int i = 0; i < N; i++)
        here[i] = (char)(i * 7 + rank);
    OK(MPI_Buffer_attach(room, sizeof(room)));
    OK(MPI_Win_create(back, N, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Sendrecv(here, N, MPI_CHAR, right, 1, back, N, MPI_CHAR, left, 1, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
    OK(MPI_Reduce_local(here, back, SOME, MPI_SIGNED_CHAR, MPI_MAX));
    CUDA("cuInit", (unsigned), 0);
    CUDA("cuDevicePrimaryCtxRetain", (void **, int), &context, 0);
    CUDA("cuCtxPushCurrent_v2", (void *), context);
    CUDA("cuMemAlloc_v2", (unsigned long long *, size_t), &ptr, N);
    CUDA("cuMemcpyAsync", (unsigned long long, unsigned long long, size_t, void *), ptr,
         (unsigned long long)(uintptr_t)here, N, NULL);
    CUDA("cuStreamSynchronize", (void *), NULL);
    usleep(50000);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (strcmp(calls[i].name, first) == 0)
            calls[i].call((void *)(uintptr_t)ptr, win);
    CUDA("cuMemFree_v2", (unsigned long long), ptr);
    OK(MPI_Win_free(&win));
}

static void larger(void *in, void *inout, int *n, MPI_Datatype *type) {
    const int *a = in;
    int *b = inout;
    (void)type;
    for (int i = 0; i < *n; i++)
        b[i] = a[i] > b[i] ? a[i] : b[i];
}

// Wants every other int: the type of its elements has gaps.
static void larger_apart(void *in, void *inout, int *n, MPI_Datatype *type) {
    const int *a = in;
    int *b = inout;
    (void)type;
    for (int i = 0; i < 2 * *n; i += 2)
        b[i] = a[i] > b[i] ? a[i] : b[i];
}

static void own_function(void) {
    static int mine[N], all[N];
    MPI_Op op;
    OK(MPI_Op_create(larger, 1, &op));
    for (int i = 0; i < N; i++)
        mine[i] = (i * 7 + rank * 13) % 101;
    void *in = on_device(mine, sizeof(mine)), *out = on_device(all, sizeof(all));
    OK(MPI_Allreduce(in, out, N, MPI_INT, op, MPI_COMM_WORLD));
    off_device(in, mine, sizeof(mine));
    off_device(out, all, sizeof(all));
    for (int i = 0; i < N; i++) {
        int most = 0;
        for (int k = 0; k < ranks; k++)
            most = (i * 7 + k * 13) % 101 > most ? (i * 7 + k * 13) % 101 : most;
        CHECK(all[i] == most);
    }
    OK(MPI_Op_free(&op));
}

static void own_function_with_gaps(void) {
    static int mine[2 * N], other[2 * N];
    MPI_Op op;
    MPI_Datatype apart;
    OK(MPI_Op_create(larger_apart, 1, &op));
    OK(MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &apart));
    OK(MPI_Type_commit(&apart));
    for (int i = 0; i < 2 * N; i++) {
        mine[i] = i % 11;
        other[i] = 5;
    }
    void *in = on_device(mine, sizeof(mine)), *inout = on_device(other, sizeof(other));
    OK(MPI_Reduce_local(in, inout, N, apart, op));
    off_device(in, mine, sizeof(mine));
    off_device(inout, other, sizeof(other));
    for (int i = 0; i < 2 * N; i++)
        CHECK(other[i] == (i % 2 || i % 11 < 5 ? 5 : i % 11));
    OK(MPI_Type_free(&apart));
    OK(MPI_Op_free(&op));
}

static void no_kernels(void) {
    static long double mine[N], sum[N];
    for (int i = 0; i < N; i++)
        mine[i] = i + rank;
    void *in = on_device(mine, sizeof(mine)), *out = on_device(sum, sizeof(sum));
    OK(MPI_Allreduce(in, out, N, MPI_LONG_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    off_device(in, mine, sizeof(mine));
    off_device(out, sum, sizeof(sum));
    for (int i = 0; i < N; i++)
        CHECK(sum[i] == (long double)i * ranks + (long double)ranks * (ranks - 1) / 2);
}

// Each rank adds one to a number of rank 0's, by compare and swap and by fetch and op.
static void window(void) {
    long zero[2] = {0, 0}, end[2];
    void *memory = on_device(zero, sizeof(zero));
    MPI_Win win;
    OK(MPI_Win_create(memory, sizeof(zero), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < 20; i++) {
        long seen = 0, was = -1, one = 1, before;
        while (was != seen) {
            seen = was < 0 ? 0 : was;
            long next = seen + 1;
            OK(MPI_Compare_and_swap(&next, &seen, &was, MPI_LONG, 0, 0, win));
            OK(MPI_Win_flush(0, win));
        }
        OK(MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, 1, MPI_SUM, win));
        OK(MPI_Win_flush(0, win));
        CHECK(before >= i && before < 20L * ranks);
    }
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
    off_device(memory, end, sizeof(end));
    CHECK(rank != 0 || (end[0] == 20L * ranks && end[1] == 20L * ranks));
}

// The portable representation of every other int, with both buffers, or one of them, on the device.
static void external(bool elements, bool bytes) {
    enum { PAIRS = 1000 };
    static int host[2 * PAIRS], got[2 * PAIRS];
    static unsigned char packed[4 * PAIRS];
    MPI_Datatype odd;
    MPI_Aint position = 0;
    OK(MPI_Type_vector(PAIRS, 1, 2, MPI_INT, &odd));
    OK(MPI_Type_commit(&odd));
    for (int i = 0; i < 2 * PAIRS; i++)
        host[i] = (int)((unsigned)i * 1234567u & 0x7FFFFFFF);
    memset(got, 0, sizeof(got));
    memset(packed, 0, sizeof(packed));
    void *from = elements ? on_device(host, sizeof(host)) : host;
    void *to = elements ? on_device(got, sizeof(got)) : got;
    void *at = bytes ? on_device(packed, sizeof(packed)) : packed;
    OK(MPI_Pack_external("external32", from, 1, odd, at, sizeof(packed), &position));
    CHECK(position == sizeof(packed));
    position = 0;
    OK(MPI_Unpack_external("external32", at, sizeof(packed), &position, to, 1, odd));
    CHECK(position == sizeof(packed));
    if (bytes)
        off_device(at, packed, sizeof(packed));
    if (elements) {
        off_device(to, got, sizeof(got));
        CHECK(wh_mem_free_kind(WH_MEM_CUDA, from) == WH_OK);
    }
    for (int i = 0; i < PAIRS; i++) {
        const unsigned char *p = packed + 4 * i;
        CHECK((int)((unsigned)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3]) == host[2 * i]);
        CHECK(got[2 * i] == host[2 * i] && got[2 * i + 1] == 0);
    }
    OK(MPI_Type_free(&odd));
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    driver_that_comes_late(argc > 1 ? argv[1] : "send");
    own_function();
    own_function_with_gaps();
    no_kernels();
    window();
    external(true, true);
    external(true, false);
    external(false, true);
    if (rank == 0)
        printf("all right on %d ranks\n", ranks);
    MPI_Finalize();
    return 0;
}
