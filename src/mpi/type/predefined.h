// SPDX-License-Identifier: BSD-3-Clause
//
// The named datatypes: what each is of the engine's, and what reductions make of it.
#ifndef WHM_TYPE_PREDEFINED_H
#define WHM_TYPE_PREDEFINED_H

#include "mpi/type/type.h"

// Elements that the engine moves but does not compute with; wide.c does.
typedef enum whm_wide {
    WHM_WIDE_NONE,
    WHM_WIDE_INTEGER,       // 16 bytes
    WHM_WIDE_LOGICAL,       // 16 bytes
    WHM_WIDE_REAL,          // 16 bytes
    WHM_WIDE_COMPLEX,       // two of these
    WHM_WIDE_HALF_COMPLEX,  // two of 2 bytes
    WHM_WIDE_FLOATS,        // pairs whose index is a float, as its value,
    WHM_WIDE_DOUBLES,       // or a double
    WHM_WIDES
} whm_wide;

typedef struct whm_basic {
    MPI_Datatype handle;
    const char *name;
    wh_type_id id;
    uint8_t copies;  // of it, one behind the other, make the type
    uint16_t group;  // whm_class
    whm_wide wide;
    MPI_Datatype value, index;  // of a pair
} whm_basic;

// The types that a rank has been given beside the named ones: by MPI_Type_create_f90_real and the like.
typedef struct whm_types {
    struct whm_type **kinds;
    size_t count, space;
} whm_types;

// whm_type_named returns the type of a named handle.
static inline whm_type *whm_type_named(MPI_Datatype handle) {
    return (whm_type *)whm_self->named[(uintptr_t)handle];
}

// whm_basics_next goes through the rows of the table: NULL begins, and ends.
const whm_basic *whm_basics_next(const whm_basic *row);

#endif
