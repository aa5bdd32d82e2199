// SPDX-License-Identifier: BSD-3-Clause
//
// A program as users of UCD write them for GPUs: it has loaded the driver itself, and packs between its own allocations.  It
// runs over the test driver.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <ucd.h>
#include <unistd.h>

#include "check.h"

enum { N = 8, CELLS = N * N };

#define CUDA(name, types, ...) CHECK(((int(*) types)dlsym(driver, name))(__VA_ARGS__) == 0)

typedef unsigned long long address;

static void *driver, *context;
static int matrix[CELLS], got[CELLS];

static void copy(void *to, const void *from, size_t size, void *stream) {
    CUDA("cuMemcpyAsync", (address, address, size_t, void *), (address)(uintptr_t)to,
         (address)(uintptr_t)from, size, stream);
}

static void wait_for(void *stream) {
    CUDA("cuStreamSynchronize", (void *), stream);
}

static void *make(size_t size) {
    address made = 0;
    CUDA("cuMemAlloc_v2", (address *, size_t), &made, size);
    return (void *)(uintptr_t)made;
}

static void check_column(void) {
    for (int i = 0; i < N; i++)
        CHECK(got[i] == i * N + 1);
}

// What keeps the stream busy, while everything else goes on.
static void be_late(void *arg) {
    (void)arg;
    usleep(300000);
}

int main(void) {
    ucd_type_t column;
    ucd_request_t request;
    ucd_info_t info;
    uintptr_t actual;
    int completed = 0;
    void *stream = NULL;
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver || !dlsym(driver, "cutest_launch"))
        return 77;
    CUDA("cuInit", (unsigned), 0);
    CUDA("cuDevicePrimaryCtxRetain", (void **, int), &context, 0);
    CUDA("cuCtxPushCurrent_v2", (void *), context);
    CUDA("cuStreamCreate", (void **, unsigned), &stream, 1);
    for (int i = 0; i < CELLS; i++)
        matrix[i] = i + 1;
    char *there = make(sizeof(matrix)), *packed = make(N * sizeof(int));
    OK(ucd_init(NULL));
    OK(ucd_type_create_vector(N, 1, N, UCD_TYPE__INT, NULL, &column));

    // Without a stream a call is over when it returns.
    copy(there, matrix, sizeof(matrix), stream);
    wait_for(stream);
    OK(ucd_ipack(there, 1, column, 0, packed, N * sizeof(int), &actual, NULL, &request));
    OK(ucd_request_test(request, &completed));
    CHECK(completed && actual == N * sizeof(int));
    OK(ucd_ipack(there, 1, column, 0, got, N * sizeof(int), &actual, NULL, &request));
    check_column();

    // With one it comes after what was submitted before, however late that is.
    OK(ucd_info_create(&info));
    CHECK(ucd_info_keyval_append(info, UCD_INFO_STREAM, &stream, 3) == UCD_ERR__INTERNAL);
    OK(ucd_info_keyval_append(info, UCD_INFO_STREAM, &stream, sizeof(stream)));
    memset(got, 0, sizeof(got));
    copy(there, got, sizeof(got), stream);
    wait_for(stream);
    CUDA("cutest_launch", (void *, void (*)(void *), void *), stream, be_late, NULL);
    copy(there, matrix, sizeof(matrix), stream);
    OK(ucd_ipack(there, 1, column, 0, packed, N * sizeof(int), &actual, info, &request));
    CHECK(request == UCD_REQUEST__NULL);
    copy(got, packed, N * sizeof(int), stream);
    OK(ucd_iunpack(packed, N * sizeof(int), there, 1, column, 0, &actual, info, &request));
    wait_for(stream);
    check_column();

    // Of host memory alone the stream says nothing.
    memset(got, 0, sizeof(got));
    OK(ucd_ipack(matrix, 1, column, 0, got, N * sizeof(int), &actual, info, &request));
    check_column();
    OK(ucd_info_free(info));
    OK(ucd_type_free(column));
    return failures != 0;
}
