// SPDX-License-Identifier: BSD-3-Clause
//
// A layout: the third column of a matrix, packed into a contiguous buffer.
#include <stdio.h>
#include <wherry/pack.h>

int main(void) {
    double a[8][8], column[8];
    for (int i = 0; i < 64; i++)
        a[i / 8][i % 8] = i;

    wh_type *type;
    size_t n;
    if (wh_type_create_vector(8, 1, 8, wh_type_basic(WH_TYPE_DOUBLE), &type) != WH_OK) {
        puts(wh_type_error());
        return 1;
    }
    if (wh_pack(&a[0][2], 1, type, 0, column, sizeof(column), 0, &n) != WH_OK) {
        puts(wh_type_error());
        return 1;
    }
    wh_type_release(type);

    printf("%zu bytes: %g, %g ... %g\n", n, column[0], column[1], column[7]);
    return n == sizeof(column) && column[7] == a[7][2] ? 0 : 1;
}
