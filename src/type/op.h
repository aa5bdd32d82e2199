// SPDX-License-Identifier: BSD-3-Clause
//
// Reductions on packed elements of one predefined type.
#ifndef WHI_TYPE_OP_H
#define WHI_TYPE_OP_H

#include <stddef.h>

#include <wherry/pack.h>

// inout[i] = inout[i] op in[i] for n elements, which need no alignment.  A pair is its packed bytes.
typedef void whi_op_fn(const char *in, char *inout, size_t n);

// whi_op_find returns the function for an element type, or NULL when the operation is not defined.
whi_op_fn *whi_op_find(wh_reduce op, wh_type_id id);

#endif
