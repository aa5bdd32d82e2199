// SPDX-License-Identifier: BSD-3-Clause
//
// A program as users of UCD write them: an 8 x 8 matrix of int, and each constructor packs a part of
// it and unpacks it elsewhere; then iov, flatten, and the errors.  It sees ucd.h only.
#include <stdio.h>
#include <string.h>
#include <ucd.h>

#include "check.h"

enum { N = 8, CELLS = N * N };

static int matrix[CELLS], other[CELLS], packed[CELLS];

// Packs `n` ints in two parts, unpacks them, and compares with the cells whose indices are given.
static void round_trip(ucd_type_t type, const int *cells, int n) {
    ucd_request_t request;
    uintptr_t actual, size, first = 6;
    int completed = 0;
    OK(ucd_type_get_size(type, &size));
    CHECK(size == n * sizeof(int));
    memset(packed, 0, sizeof(packed));
    memset(other, 0, sizeof(other));
    OK(ucd_ipack(matrix, 1, type, 0, packed, first, &actual, NULL, &request));
    OK(ucd_request_test(request, &completed));
    CHECK(completed && actual == first);
    OK(ucd_ipack(matrix, 1, type, first, (char *)packed + first, size, &actual, NULL, &request));
    OK(ucd_request_wait(request));
    CHECK(actual == size - first);
    for (int i = 0; i < n; i++)
        CHECK(packed[i] == matrix[cells[i]]);
    OK(ucd_iunpack(packed, size, other, 1, type, 0, &actual, NULL, &request));
    OK(ucd_request_wait(request));
    int filled = 0;
    for (int i = 0; i < CELLS; i++)
        filled += other[i] != 0;
    CHECK(filled == n);
    for (int i = 0; i < n; i++)
        CHECK(other[cells[i]] == matrix[cells[i]]);
}

static void constructors(void) {
    const int row[] = {0, 1, 2, 3, 4, 5, 6, 7}, column[] = {0, 8, 16, 24, 32, 40, 48, 56};
    const int blocks[] = {0, 1, 16, 17, 40, 41}, mixed[] = {0, 10, 11, 33};
    const int corner[] = {36, 37, 44, 45}, fortran[] = {20, 21, 28, 29};
    const int displs[] = {0, 16, 40}, lengths[] = {1, 2, 1}, places[] = {0, 10, 33};
    const intptr_t bytes[] = {0, 64, 160}, byte_places[] = {0, 40, 132};
    const int sizes[] = {8, 8}, subsizes[] = {2, 2}, starts[] = {4, 4}, starts_f[] = {4, 2};
    ucd_type_t t, wide;
    intptr_t lb, extent;
    OK(ucd_type_create_contig(N, UCD_TYPE__INT, NULL, &t));
    round_trip(t, row, N);
    OK(ucd_type_free(t));
    OK(ucd_type_create_vector(N, 1, N, UCD_TYPE__INT, NULL, &t));
    round_trip(t, column, N);
    OK(ucd_type_free(t));
    OK(ucd_type_create_hvector(N, 1, N * sizeof(int), UCD_TYPE__INT, NULL, &t));
    round_trip(t, column, N);
    OK(ucd_type_create_dup(t, NULL, &wide));
    OK(ucd_type_free(t));
    round_trip(wide, column, N);
    OK(ucd_type_free(wide));
    OK(ucd_type_create_indexed_block(3, 2, displs, UCD_TYPE__INT, NULL, &t));
    round_trip(t, blocks, 6);
    OK(ucd_type_free(t));
    OK(ucd_type_create_hindexed_block(3, 2, bytes, UCD_TYPE__INT, NULL, &t));
    round_trip(t, blocks, 6);
    OK(ucd_type_free(t));
    OK(ucd_type_create_indexed(3, lengths, places, UCD_TYPE__INT, NULL, &t));
    round_trip(t, mixed, 4);
    OK(ucd_type_free(t));
    OK(ucd_type_create_hindexed(3, lengths, byte_places, UCD_TYPE__INT, NULL, &t));
    round_trip(t, mixed, 4);
    OK(ucd_type_free(t));
    const ucd_type_t types[] = {UCD_TYPE__INT, UCD_TYPE__UNSIGNED, UCD_TYPE__FLOAT};
    OK(ucd_type_create_struct(3, lengths, byte_places, types, NULL, &t));
    round_trip(t, mixed, 4);
    OK(ucd_type_free(t));
    OK(ucd_type_create_subarray(2, sizes, subsizes, starts, UCD_SUBARRAY_ORDER__C, UCD_TYPE__INT,
                                NULL, &t));
    round_trip(t, corner, 4);
    OK(ucd_type_free(t));
    OK(ucd_type_create_subarray(2, sizes, subsizes, starts_f, UCD_SUBARRAY_ORDER__FORTRAN,
                                UCD_TYPE__INT, NULL, &t));
    round_trip(t, fortran, 4);
    OK(ucd_type_free(t));
    OK(ucd_type_create_resized(UCD_TYPE__INT, -4, N * sizeof(int), NULL, &wide));
    OK(ucd_type_get_extent(wide, &lb, &extent));
    CHECK(lb == -4 && extent == N * sizeof(int));
    OK(ucd_type_get_true_extent(wide, &lb, &extent));
    CHECK(lb == 0 && extent == sizeof(int));
    OK(ucd_type_create_contig(N, wide, NULL, &t));
    OK(ucd_type_free(wide));
    round_trip(t, column, N);
    OK(ucd_type_free(t));
}

static void iovs(void) {
    ucd_type_t t;
    uintptr_t len, n;
    struct iovec iov[N];
    OK(ucd_type_create_vector(N, 2, N, UCD_TYPE__INT, NULL, &t));
    OK(ucd_iov_len(1, t, &len));
    CHECK(len == N);
    OK(ucd_iov((const char *)matrix, 1, t, 3, iov, 2, &n));
    CHECK(n == 2);
    CHECK(iov[0].iov_base == &matrix[3 * N] && iov[0].iov_len == 2 * sizeof(int));
    CHECK(iov[1].iov_base == &matrix[4 * N]);
    OK(ucd_type_free(t));
}

static void flattened(void) {
    const int column[] = {0, 8, 16, 24, 32, 40, 48, 56};
    ucd_type_t t, copy;
    uintptr_t size;
    char flat[256];
    OK(ucd_type_create_vector(N, 1, N, UCD_TYPE__INT, NULL, &t));
    OK(ucd_flatten_size(t, &size));
    CHECK(size <= sizeof(flat));
    OK(ucd_flatten(t, flat));
    OK(ucd_type_free(t));
    OK(ucd_unflatten(&copy, flat));
    round_trip(copy, column, N);
    OK(ucd_type_free(copy));
    flat[9] ^= 1;
    CHECK(ucd_unflatten(&copy, flat) == UCD_ERR__INTERNAL);
}

static void errors(void) {
    ucd_type_t t;
    uintptr_t size;
    CHECK(ucd_type_create_contig(-1, UCD_TYPE__INT, NULL, &t) == UCD_ERR__INTERNAL);
    CHECK(ucd_type_create_contig(1, UCD_TYPE__NULL, NULL, &t) == UCD_ERR__INTERNAL);
    CHECK(ucd_type_create_contig(1, UCD_TYPE__INT, NULL, NULL) == UCD_ERR__INTERNAL);
    CHECK(ucd_type_create_indexed(1, NULL, NULL, UCD_TYPE__INT, NULL, &t) == UCD_ERR__INTERNAL);
    CHECK(ucd_type_get_size(UCD_TYPE__NULL, &size) == UCD_ERR__INTERNAL);
    CHECK(UCD_TYPE__LONG_DOUBLE_INT == 56);
    for (ucd_type_t basic = 1; basic < UCD_TYPE__PREDEFINED; basic++)
        OK(ucd_type_get_size(basic, &size));
    OK(ucd_type_get_size(UCD_TYPE__DOUBLE_INT, &size));
    CHECK(size == 12);
}

int main(void) {
    ucd_info_t info;
    for (int i = 0; i < CELLS; i++)
        matrix[i] = i + 1;
    OK(ucd_info_create(&info));
    OK(ucd_info_keyval_append(info, "yaksa_gpu_driver", "nogpu", 5));
    OK(ucd_init(info));
    OK(ucd_info_free(info));
    constructors();
    iovs();
    flattened();
    errors();
    OK(ucd_finalize());
    return failures != 0;
}
