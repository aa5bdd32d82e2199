// SPDX-License-Identifier: BSD-3-Clause
//
// MPI_Dims_create: factors of a number that are as close to each other as they can be.
//
// Of all ways to write the number as factors in descending order, the one is taken whose first factor is the smallest, then the second, and
// so on: no largest factor can be smaller, and the same holds for the rest.
#include <stdlib.h>

#include "mpi/base/memory.h"
#include "mpi/base/rank.h"
#include "mpi/bodies.h"

static bool divide(int n, int count, int most, int *factors);

// begins says whether f can be the first factor of a way to write n, and writes that way.
static bool begins(int f, int n, int count, int most, int *factors) {
    // Too small: the others, which are no larger, could not make up for it.
    double reach = 1;
    for (int i = 0; i < count && reach < n; i++)
        reach *= f;
    if (n % f || f > most || reach < n)
        return false;
    factors[0] = f;
    return divide(n / f, count - 1, f, factors + 1);
}

// divide writes n as `count` factors in descending order, none above `most`; false: there is no way.
static bool divide(int n, int count, int most, int *factors) {
    if (count == 0)
        return n == 1;
    // Divisors in ascending order: up to the root of n, and then those that they leave.
    int f = 1;
    for (; (long)f * f <= n; f++) {
        if (begins(f, n, count, most, factors))
            return true;
    }
    for (f--; f > 0; f--) {
        if (n % f == 0 && begins(n / f, n, count, most, factors))
            return true;
    }
    return false;
}

int mpi_dims_create(int nnodes, int ndims, int *dims) {
    int open = 0, rest = nnodes;
    for (int i = 0; i < ndims; i++) {
        if (dims[i] < 0)
            return whm_fail(MPI_ERR_DIMS, "dimension %d is %d", i, dims[i]);
        if (dims[i] > 0 && rest % dims[i])
            return whm_fail(MPI_ERR_DIMS, "%d ranks cannot be divided by the dimensions given",
                            nnodes);
        if (dims[i] > 0)
            rest /= dims[i];
        else
            open++;
    }
    if (ndims == 0)
        return MPI_SUCCESS;
    if (nnodes < 1 || (!open && rest != 1))
        return whm_fail(MPI_ERR_DIMS, "the dimensions given do not make %d ranks", nnodes);
    if (!open)
        return MPI_SUCCESS;
    int *factors = whm_calloc((size_t)open, sizeof(*factors));
    if (!factors)
        return whm_no_memory();
    (void)divide(rest, open, rest, factors);  // n * 1 * 1 ... is always one
    for (int i = 0, next = 0; i < ndims; i++) {
        if (dims[i] == 0)
            dims[i] = factors[next++];
    }
    free(factors);
    return MPI_SUCCESS;
}
