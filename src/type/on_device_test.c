// SPDX-License-Identifier: BSD-3-Clause
//
// Packing and reducing in memory of devices: which memory may be on which side, streams, errors.  That all layouts give the
// right bytes is shown by the tests of the host engine, which run over devices too (device/shadow.h).
#include <wherry/mem.h>
#include <wherry/pack.h>

#include "mem/cuda_kit.h"
#include "type/type.h"

enum { N = 64, CELLS = N * N, BYTES = CELLS * 4 };

static int32_t cells[CELLS], back[CELLS];
static wh_type *column;

static void *up(int device, const void *from, size_t size) {
    void *there = make(device, size);
    CHECK_EQ_INT(wh_mem_copy(there, WH_MEM_CUDA, from, WH_MEM_HOST, size), WH_OK);
    return there;
}

static void down(void *to, const void *there, size_t size) {
    CHECK_EQ_INT(wh_mem_copy(to, WH_MEM_HOST, there, WH_MEM_CUDA, size), WH_OK);
}

static void begin(void) {
    for (int i = 0; i < CELLS; i++)
        cells[i] = i;
    memset(back, 0, sizeof(back));
    whi_mem_notice();
    if (!column)
        CHECK_EQ_INT(wh_type_create_vector(N, 1, N, wh_type_basic(WH_TYPE_INT32), &column), WH_OK);
}

static void check_column(const int32_t *got) {
    for (int i = 0; i < N; i++)
        CHECK_EQ_INT(got[i], i * N);
}

TEST(a_column_is_packed_and_unpacked) {
    size_t actual = 0;
    begin();
    char *matrix = up(0, cells, BYTES), *packed = make(0, N * 4);
    CHECK_EQ_INT(wh_pack(matrix, 1, column, 0, packed, N * 4, 0, &actual), WH_OK);
    CHECK_EQ_INT(actual, N * 4);
    down(back, packed, N * 4);
    check_column(back);
    memset(cells, 0xff, sizeof(cells));
    char *other = up(0, cells, BYTES);
    CHECK_EQ_INT(wh_unpack(packed + 4, N * 4 - 4, other, 1, column, 4, 0, &actual), WH_OK);
    CHECK_EQ_INT(actual, N * 4 - 4);
    down(back, other, BYTES);
    for (int i = 0; i < CELLS; i++)
        CHECK_EQ_INT(back[i], i % N == 0 && i ? i : -1);
    unmake(matrix);
    unmake(packed);
    unmake(other);
}

// Columns of a matrix, from the middle of one to the middle of another: nothing but the part is touched.
TEST(a_part_of_a_transpose) {
    const size_t from = 4 * 37, size = 4 * (N * 40 + 3);
    size_t actual;
    wh_type *columns;
    begin();
    CHECK_EQ_INT(wh_type_create_hvector(N, 1, 4, column, &columns), WH_OK);
    char *matrix = up(0, cells, BYTES), *packed = make(0, size);
    CHECK_EQ_INT(wh_pack(matrix, 1, columns, from, packed, size, 0, &actual), WH_OK);
    CHECK_EQ_INT(actual, size);
    down(back, packed, size);
    for (int i = 0; i < (int)size / 4; i++)
        CHECK_EQ_INT(back[i], (i + 37) % N * N + (i + 37) / N);
    memset(back, 0xff, sizeof(back));
    CHECK_EQ_INT(wh_mem_copy(matrix, WH_MEM_CUDA, back, WH_MEM_HOST, BYTES), WH_OK);
    CHECK_EQ_INT(wh_unpack(packed, size, matrix, 1, columns, from, 0, &actual), WH_OK);
    down(back, matrix, BYTES);
    for (int i = 0; i < CELLS; i++) {
        int place = i % N * N + i / N;
        CHECK_EQ_INT(back[i], place >= 37 && place < 37 + (int)size / 4 ? i : -1);
    }
    wh_type_release(columns);
    unmake(matrix);
    unmake(packed);
}

TEST(memory_beyond_the_allocation_is_refused) {
    size_t actual = 77;
    begin();
    char *matrix = make(0, BYTES), *packed = make(0, N * 4);
    listen();
    CHECK_EQ_INT(wh_pack(matrix, 2, column, 0, packed, N * 4, 0, &actual), WH_EINVAL);
    CHECK_EQ_STR(heard_id, "E-CUDA-11");
    CHECK_EQ_INT(wh_pack(matrix, 1, column, 0, packed + 4, N * 4, 0, &actual), WH_EINVAL);
    CHECK_EQ_INT(actual, 77);
    CHECK_EQ_INT(wh_pack(matrix, 1, column, 4, packed + 4, N * 4, 0, &actual), WH_OK);
    unmake(matrix);
    unmake(packed);
}

TEST(a_stream_is_obeyed) {
    size_t actual = 77;
    gate g = GATE;
    begin();
    char *matrix = up(0, cells, BYTES), *packed = make(0, N * 4), *result = make(0, BYTES);
    void *stream = make_stream(0, 1);
    launch(0, stream, pass_gate, &g);
    CHECK_EQ_INT(wh_pack_on(matrix, 1, column, 0, packed, N * 4, stream, &actual), WH_OK);
    CHECK_EQ_INT(actual, N * 4);
    CHECK_EQ_INT(wh_unpack_on(packed, N * 4, result, 1, column, 0, stream, &actual), WH_OK);
    // What was only submitted has changed nothing, and is not waited for by others.
    CHECK_EQ_INT(wh_pack(matrix, 1, column, 0, back, N * 4, 0, &actual), WH_OK);
    check_column(back);
    down(back, packed, N * 4);
    CHECK(back[1] != N);
    open_gate(&g);
    CHECK_EQ_INT(whi_cuda_kernels.wait(0, stream), WH_OK);
    down(back, result, BYTES);
    CHECK_EQ_INT(back[5 * N], 5 * N);
    unmake(matrix);
    unmake(packed);
    unmake(result);
}

TEST(a_stream_and_plain_memory_wait) {
    size_t actual;
    begin();
    char *matrix = make(0, BYTES), *source = up(0, cells, BYTES);
    void *stream = make_stream(0, 1);
    ENTRY(void, "cutest_delay", (uint64_t, unsigned), 7, 3000);
    enter(0);
    CHECK_EQ_INT(whi_cuda.cuMemcpyAsync((uintptr_t)matrix, (uintptr_t)source, BYTES, stream), 0);
    whi_cuda_leave();
    CHECK_EQ_INT(wh_pack_on(matrix, 1, column, 0, back, N * 4, stream, &actual), WH_OK);
    check_column(back);
    ENTRY(void, "cutest_delay", (uint64_t, unsigned), 1, 0);
    unmake(matrix);
    unmake(source);
}

TEST(a_stream_of_another_device_is_refused) {
    size_t actual;
    begin();
    char *matrix = make(0, BYTES), *packed = make(0, N * 4);
    listen();
    CHECK_EQ_INT(wh_pack_on(matrix, 1, column, 0, packed, N * 4, make_stream(1, 1), &actual),
                 WH_EINVAL);
    CHECK_EQ_STR(heard_id, "E-CUDA-13");
    CHECK_EQ_INT(wh_pack_on(cells, 1, column, 0, back, N * 4, NULL, &actual), WH_ENOTSUP);
    unmake(matrix);
    unmake(packed);
}

TEST(memory_of_another_context_is_refused) {
    size_t actual;
    whi_cuda_context context;
    whi_cuda_ptr there;
    begin();
    CHECK_EQ_INT(ENTRY(int, "cuCtxCreate_v2", (whi_cuda_context *, unsigned, int), &context, 0, 0),
                 0);
    CHECK_EQ_INT(whi_cuda.cuMemAlloc_v2(&there, BYTES), 0);
    listen();
    CHECK_EQ_INT(wh_pack((void *)(uintptr_t)there, 1, column, 0, back, N * 4, 0, &actual),
                 WH_ENOTSUP);
    CHECK_EQ_STR(heard_id, "E-CUDA-14");
    CHECK_EQ_INT(whi_cuda.cuMemFree_v2(there), 0);
    CHECK_EQ_INT(ENTRY(int, "cuCtxDestroy_v2", (whi_cuda_context), context), 0);
}

TEST(kinds_without_kernels_are_refused) {
    size_t actual;
    void *sim;
    begin();
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_SIM, 0, BYTES, &sim), WH_OK);
    CHECK_EQ_INT(wh_pack(sim, 1, column, 0, back, N * 4, 0, &actual), WH_ENOTSUP);
    CHECK(strstr(wh_type_error(), "sim") != NULL);
    // Of a device with kernels they may have the packed bytes.
    char *matrix = up(0, cells, BYTES);
    CHECK_EQ_INT(wh_pack(matrix, 1, column, 0, sim, N * 4, 0, &actual), WH_OK);
    CHECK_EQ_INT(wh_mem_copy(back, WH_MEM_HOST, sim, WH_MEM_SIM, N * 4), WH_OK);
    check_column(back);
    CHECK_EQ_INT(wh_external_pack(matrix, 1, column, back, sizeof(back), &actual), WH_ENOTSUP);
    unmake(matrix);
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, sim), WH_OK);
}

// Several chunks, and elements that a chunk's end would cut.
TEST(more_than_a_chunk_goes_through_host_memory) {
    enum { COUNT = 400000 };
    struct di {
        double value;
        int index;
    } *host = calloc(COUNT, sizeof(*host));
    char *packed = calloc(COUNT, 12), *again = calloc(COUNT, 12);
    const wh_type *pair = wh_type_basic(WH_TYPE_DOUBLE_INT);
    size_t actual;
    CHECK(host && packed && again);
    begin();
    for (int i = 0; i < COUNT; i++)
        host[i] = (struct di){.value = i * 0.5, .index = i};
    char *there = up(0, host, COUNT * sizeof(*host));
    CHECK_EQ_INT(wh_pack(there, COUNT, pair, 0, packed, (size_t)COUNT * 12, 0, &actual), WH_OK);
    CHECK_EQ_INT(actual, COUNT * 12);
    CHECK_EQ_INT(wh_pack(host, COUNT, pair, 0, again, (size_t)COUNT * 12, 0, &actual), WH_OK);
    CHECK_MEM(packed, again, (size_t)COUNT * 12);
    for (int i = 0; i < COUNT; i++)
        host[i] = (struct di){.value = COUNT - i, .index = -i};
    CHECK_EQ_INT(wh_pack(host, COUNT, pair, 0, packed, (size_t)COUNT * 12, 0, &actual), WH_OK);
    CHECK_EQ_INT(
        wh_accumulate(packed, (size_t)COUNT * 12, there, COUNT, pair, 0, WH_REDUCE_MAXLOC, &actual),
        WH_OK);
    down(host, there, COUNT * sizeof(*host));
    for (int i = 0; i < COUNT; i++) {
        bool was = i * 0.5 > COUNT - i;
        CHECK(host[i].value == (was ? i * 0.5 : COUNT - i));
        CHECK(host[i].value == COUNT - i || host[i].index == i);
    }
    unmake(there);
    free(host);
    free(packed);
    free(again);
}

TEST(long_doubles_are_reduced) {
    long double host[N], in[N];
    size_t actual;
    begin();
    memset(host, 0, sizeof(host));
    for (int i = 0; i < N; i++) {
        host[i] = 1 + 0x1p-60L * i;
        in[i] = i;
    }
    char *there = up(0, host, sizeof(host)), *packed = up(0, in, sizeof(in));
    const wh_type *type = wh_type_basic(WH_TYPE_LONG_DOUBLE);
    CHECK_EQ_INT(wh_accumulate(packed, sizeof(in), there, N, type, 0, WH_REDUCE_SUM, &actual),
                 WH_OK);
    down(host, there, sizeof(host));
    for (int i = 0; i < N; i++)
        CHECK(host[i] == 1 + 0x1p-60L * i + i);
    CHECK_EQ_INT(wh_pack_accumulate(there, N, type, 0, packed, sizeof(in), WH_REDUCE_PROD, &actual),
                 WH_OK);
    down(in, packed, sizeof(in));
    CHECK(in[3] == host[3] * 3);
    unmake(there);
    unmake(packed);
}

TEST(segments_and_requests) {
    size_t actual = 0, at = 0;
    wh_cursor *cursor;
    wh_pack_request *req;
    begin();
    char *matrix = up(0, cells, BYTES), *other = make(0, BYTES);
    CHECK_EQ_INT(wh_cursor_create(matrix, 1, column, 0, &cursor), WH_OK);
    for (size_t step = 1; at < N * 4; at += actual, step += 3)
        CHECK_EQ_INT(wh_cursor_pack(cursor, at, (char *)back + at, step, &actual), WH_OK);
    check_column(back);
    wh_cursor_destroy(cursor);
    CHECK_EQ_INT(wh_unpack_start(back, N * 4, other, 1, column, 0, 0, &req), WH_OK);
    CHECK_EQ_INT(wh_pack_request_test(req, &actual), WH_OK);
    CHECK_EQ_INT(actual, N * 4);
    wh_pack_request_free(req);
    CHECK_EQ_INT(wh_type_copy(matrix, 1, column, other, 1, column, &actual), WH_OK);
    CHECK_EQ_INT(actual, N * 4);
    memset(back, 0, N * 4);
    CHECK_EQ_INT(wh_pack(matrix, 1, column, 0, back, N * 4, 0, &actual), WH_OK);
    check_column(back);
    unmake(matrix);
    unmake(other);
}

// A request whose kernel waits behind one that we hold up.
static wh_pack_request *start_behind(gate *g, const char *matrix, char *packed) {
    const whi_cuda_device *device = NULL;
    wh_pack_request *req = NULL;
    CHECK_EQ_INT(whi_cuda_device_of(0, &device), WH_OK);
    launch(0, device->stream, pass_gate, g);
    CHECK_EQ_INT(wh_pack_start(matrix, 1, column, 4, packed, N * 4, 0, &req), WH_OK);
    return req;
}

TEST(a_request_goes_on_after_the_call) {
    static gate first = GATE, second = GATE;
    size_t actual = 0;
    (void)entry("cutest_launch");
    begin();
    char *matrix = up(0, cells, BYTES), *packed = make(0, N * 4);
    long events = ENTRY(long, "cutest_events", (void));
    wh_pack_request *req = start_behind(&first, matrix, packed);
    CHECK_EQ_INT(wh_pack_request_test(req, &actual), WH_PENDING);
    CHECK_EQ_INT(actual, 0);
    open_gate(&first);
    while (wh_pack_request_test(req, &actual) == WH_PENDING)
        usleep(100);
    CHECK_EQ_INT(wh_pack_request_test(req, &actual), WH_OK);
    CHECK_EQ_INT(actual, N * 4 - 4);
    wh_pack_request_free(req);
    down(back, packed, N * 4 - 4);
    for (int i = 1; i < N; i++)
        CHECK_EQ_INT(back[i - 1], i * N);
    // Waiting for it, and freeing it, which waits.
    for (int i = 0; i < 2; i++) {
        second.open = false;
        req = start_behind(&second, matrix, packed);
        CHECK_EQ_INT(wh_pack_request_test(req, &actual), WH_PENDING);
        open_gate(&second);
        CHECK(i || wh_pack_request_wait(req, &actual) == WH_OK);
        wh_pack_request_free(req);
    }
    CHECK_EQ_INT(ENTRY(long, "cutest_events", (void)), events);
    unmake(matrix);
    unmake(packed);
}

// The first who asks is told of an error, and everybody after that.
TEST(a_request_that_fails) {
    static const char *const entries[] = {"cuEventQuery", "cuStreamSynchronize"};
    wh_pack_request *req;
    size_t actual = 0;
    (void)entry("cutest_launch");
    begin();
    char *matrix = up(0, cells, BYTES), *packed = make(0, N * 4);
    long events = ENTRY(long, "cutest_events", (void));
    for (int i = 0; i < 2; i++) {
        CHECK_EQ_INT(wh_pack_start(matrix, 1, column, 0, packed, N * 4, 0, &req), WH_OK);
        fail_at(entries[i], 1, 700);
        CHECK_EQ_INT(i ? wh_pack_request_wait(req, &actual) : wh_pack_request_test(req, &actual),
                     WH_ESYSTEM);
        CHECK_EQ_INT(wh_pack_request_wait(req, &actual), WH_ESYSTEM);
        CHECK_EQ_INT(wh_pack_request_test(req, &actual), WH_ESYSTEM);
        wh_pack_request_free(req);
    }
    CHECK_EQ_INT(actual, 0);
    // Without an event it is waited for.
    fail_at("cuEventRecord", 1, 2);
    CHECK_EQ_INT(wh_pack_start(matrix, 1, column, 0, packed, N * 4, 0, &req), WH_OK);
    CHECK_EQ_INT(wh_pack_request_test(req, &actual), WH_OK);
    wh_pack_request_free(req);
    fail_at("cuLaunchKernel", 1, 700);
    CHECK_EQ_INT(wh_pack_start(matrix, 1, column, 0, packed, N * 4, 0, &req), WH_ESYSTEM);
    CHECK_EQ_INT(ENTRY(long, "cutest_events", (void)), events);
    unmake(matrix);
    unmake(packed);
}

// Each entry point fails in its turn: the call says so, nothing is written as if it had worked, and the next one works.
TEST(errors_of_the_driver) {
    static const char *const entries[] = {"cuLaunchKernel", "cuStreamSynchronize", "cuMemcpyAsync",
                                          "cuCtxPushCurrent_v2", "cuMemAlloc_v2"};
    const int64_t lengths[] = {1, 2, 1}, places[] = {0, 5, 9};
    size_t actual = 77;
    begin();
    char *matrix = up(0, cells, BYTES), *packed = make(0, N * 4);
    for (int i = 0; i < 5; i++) {
        wh_type *type;  // with tables, which are not on the device yet
        CHECK_EQ_INT(
            wh_type_create_indexed(3, lengths, places, wh_type_basic(WH_TYPE_INT32), &type), WH_OK);
        fail_at(entries[i], 1, 719);
        listen();
        CHECK_EQ_INT(wh_pack(matrix, 1, type, 0, packed, 16, 0, &actual), WH_ESYSTEM);
        CHECK_EQ_INT(actual, 77);
        CHECK_EQ_STR(heard_id, "E-CUDA-01");
        CHECK(strstr(heard_text, entries[i]) != NULL);
        CHECK_EQ_INT(wh_pack(matrix, 1, type, 0, packed, 16, 0, &actual), WH_OK);
        CHECK_EQ_INT(actual, 16);
        actual = 77;
        wh_type_release(type);
    }
    fail_at("cuStreamGetCtx", 1, 719);
    CHECK_EQ_INT(wh_pack_on(matrix, 1, column, 0, packed, N * 4, make_stream(0, 1), &actual),
                 WH_ESYSTEM);
    unmake(matrix);
    unmake(packed);
}

// The second device has not loaded the kernels yet.
TEST(errors_of_loading) {
    static const char *const entries[] = {"cuModuleLoadDataEx", "cuModuleGetFunction"};
    size_t actual;
    begin();
    char *matrix = up(1, cells, BYTES);
    for (int i = 0; i < 2; i++) {
        fail_at(entries[i], -1, 218);  // of all forms of the program
        listen();
        CHECK_EQ_INT(wh_pack(matrix, 1, column, 0, back, N * 4, 0, &actual), WH_ESYSTEM);
        fail_at(entries[i], 0, 0);
        CHECK(strstr(heard_text, entries[i]) != NULL);
    }
    CHECK_EQ_INT(wh_pack(matrix, 1, column, 0, back, N * 4, 0, &actual), WH_OK);
    check_column(back);
    CHECK_EQ_INT(depth(), 0);
    unmake(matrix);
}

// A type that thousands of others share keeps one table on each device, and takes it along.
TEST(tables_go_with_their_type) {
    const int64_t lengths[] = {1, 2, 1}, places[] = {0, 5, 9};
    size_t actual;
    begin();
    char *matrix = up(0, cells, BYTES);
    long before = ENTRY(long, "cutest_allocations", (void));
    wh_type *type;
    CHECK_EQ_INT(wh_type_create_indexed(3, lengths, places, wh_type_basic(WH_TYPE_INT32), &type),
                 WH_OK);
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(wh_pack(matrix, 1, type, 0, back, 16, 0, &actual), WH_OK);
    CHECK_EQ_INT(ENTRY(long, "cutest_allocations", (void)), before + 1);
    wh_type_release(type);
    CHECK_EQ_INT(ENTRY(long, "cutest_allocations", (void)), before);
    CHECK(back[0] == 0 && back[1] == 5 && back[2] == 6 && back[3] == 9);
    unmake(matrix);
}

TEST_MAIN()
