// SPDX-License-Identifier: BSD-3-Clause
//
// For unit tests of bodies: an error ends the test with its sentence.
#ifndef WHM_BASE_TEST_CHECK_H
#define WHM_BASE_TEST_CHECK_H

#include "base/test.h"

#include <mpi.h>

#include "mpi/base/rank.h"

static inline void check(int error) {
    if (error != MPI_SUCCESS)
        fprintf(stderr, "error %d: %s\n", error, whm_self->sentence);
    CHECK(error == MPI_SUCCESS);
}

#endif
