// SPDX-License-Identifier: BSD-3-Clause
//
// How types come to be and end, for the files of src/mpi/type.
#ifndef WHM_TYPE_MAKE_H
#define WHM_TYPE_MAKE_H

#include "mpi/type/type.h"

// How a type was made.  The numbers of a constructor are the engine's to tell (wh_type_get_contents).
typedef struct whm_made {
    int combiner;  // MPI_COMBINER_*
    bool large;    // by the form of the function that ends in _c
    int kind[2];   // of MPI_COMBINER_F90_*: its arguments, precision and range
    size_t count;
    whm_type *of[];  // the types that it is made of; held
} whm_made;

// whm_type_new returns one that has nothing yet; NULL: no memory.
whm_type *whm_type_new(void);

// whm_type_measure writes what there is to know of a type's layout.
int whm_type_measure(whm_type *type);

// whm_type_make makes a type of a layout that a constructor has answered with `status`, which it takes over.
int whm_type_make(wh_status status, wh_type *layout, int combiner, size_t count,
                  whm_type *const *of, whm_type **type);

// whm_type_check_committed says whether a type may be used for data: MPI_ERR_TYPE, with a sentence, if not.
int whm_type_check_committed(const whm_type *type);

// whm_type_end frees all of one that nobody holds any more.
void whm_type_end(whm_type *type);

// whm_type_fail is whm_fail for what an engine's call about layouts has answered.
int whm_type_fail(wh_status status);

// whm_type_fail_buffer is the same where only the program's buffer can be wrong.
int whm_type_fail_buffer(wh_status status);

#endif
