// SPDX-License-Identifier: BSD-3-Clause
//
// For unit tests of types: predefined ones of a rank that was never started.
#ifndef WHM_TYPE_TEST_NAMED_H
#define WHM_TYPE_TEST_NAMED_H

#include "mpi/base/test_check.h"
#include "mpi/type/predefined.h"

static inline whm_type *named(MPI_Datatype handle) {
    if (!whm_self->named[(uintptr_t)MPI_INT])
        check(whm_types_begin(whm_self));
    return whm_type_named(handle);
}

#endif
