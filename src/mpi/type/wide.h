// SPDX-License-Identifier: BSD-3-Clause
//
// Reductions of the elements that the engine does not compute with: Fortran's 16-byte kinds, its pairs of reals, complex of half precision.
#ifndef WHM_TYPE_WIDE_H
#define WHM_TYPE_WIDE_H

#include <wherry/pack.h>

#include "mpi/type/predefined.h"

// inout[i] = inout[i] op in[i] for n elements of any alignment, in host memory.
typedef void whm_wide_fn(const char *in, char *inout, size_t n);

// whm_wide_find returns the function, or NULL when the operation is not defined on the elements.
whm_wide_fn *whm_wide_find(wh_reduce op, whm_wide wide);

#endif
