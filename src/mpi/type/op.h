// SPDX-License-Identifier: BSD-3-Clause
//
// Operations of reductions: the predefined ones, which are the engine's (wherry/pack.h), and the program's functions.
#ifndef WHM_TYPE_OP_H
#define WHM_TYPE_OP_H

#include <wherry/pack.h>

#include "mpi/type/type.h"

typedef struct whm_op {
    whm_object o;
    bool commutes;
    bool predefined;
    wh_reduce reduce;               // predefined
    MPI_User_function *fn;          // else one of these two
    MPI_User_function_c *fn_large;  //
} whm_op;

static inline whm_op *whm_op_of(MPI_Op handle) {
    return whm_object_of(handle, WHM_OP);
}
void whm_op_release(whm_op *op);

int whm_ops_begin(whm_rank *rank);
void whm_ops_end(whm_rank *rank);

// whm_op_check says whether a reduction may use the operation on the type: MPI_SUCCESS, or MPI_ERR_OP with a sentence.
int whm_op_check(const whm_op *op, whm_type *type);

// whm_op_check_access is the same for one-sided accumulates: predefined operations, MPI_REPLACE and MPI_NO_OP too, on types whose elements
// are all of one predefined type.
int whm_op_check_access(const whm_op *op, whm_type *type);

// whm_reduce combines: inout[i] = in[i] op inout[i], in MPI's order: `in` comes from the lower rank.
int whm_reduce(const void *in, void *inout, MPI_Count count, whm_type *type, whm_op *op);

// whm_accumulate combines packed elements with a typed buffer, by a predefined operation that whm_op_check_access has passed:
// buf = buf op packed, from the packed byte `offset` on, which begins an element.
int whm_accumulate(const void *packed, MPI_Count bytes, MPI_Count offset, void *buf,
                   MPI_Count count, whm_type *type, const whm_op *op);

#endif
