// SPDX-License-Identifier: BSD-3-Clause
//
// Arrays that a body takes in another form than the program gives them: counts and displacements widened, datatypes as objects.
//
// Each lives in the front for the call, on the stack if it is short.
#ifndef WHM_FRONT_ARRAYS_H
#define WHM_FRONT_ARRAYS_H

#include "mpi/front/check.h"

enum { WHM_FEW = 64 };  // elements on the stack

typedef struct whm_wide {  // of MPI_Count or MPI_Aint
    const int64_t *at;     // NULL: not significant
    int64_t *made;         // if it does not fit into `few`
    int64_t few[WHM_FEW];
} whm_wide;

typedef struct whm_types {
    whm_type *const *at;
    whm_type **made;
    whm_type *few[WHM_FEW];
} whm_types;

// Arrays of int; of MPI_Aint or MPI_Count, which are taken as they are.  Counts are not negative.
int whm_wide_ints(whm_wide *wide, const char *name, const int *array, MPI_Count length);
int whm_wide_counts(whm_wide *wide, const char *name, const int *array, MPI_Count length);
int whm_wide_take(whm_wide *wide, const char *name, const int64_t *array, MPI_Count length);
int whm_wide_take_counts(whm_wide *wide, const char *name, const int64_t *array, MPI_Count length);
void whm_wide_drop(whm_wide *wide);

// `committed`: they must be.
int whm_types_take(whm_types *types, const char *name, const MPI_Datatype *array, MPI_Count length,
                   bool committed);
void whm_types_drop(whm_types *types);

#endif
