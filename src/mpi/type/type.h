// SPDX-License-Identifier: BSD-3-Clause
//
// Datatypes: a layout of the engine (wherry/type.h) and what MPI adds to it, names, attributes, how it was made.
#ifndef WHM_TYPE_TYPE_H
#define WHM_TYPE_TYPE_H

#include <wherry/type.h>

#include "mpi/base/object.h"
#include "mpi/base/rank.h"

typedef struct whm_type {
    whm_object o;
    const wh_type *layout;
    MPI_Count size;        // bytes of the data
    MPI_Count lb, extent;  //
    MPI_Count true_lb, true_extent;
    bool
        dense;  // `count` of them are count * size bytes from the buffer's address on, for any count
    bool basic;  // predefined
    bool committed;
    // The rest is the affair of src/mpi/type.
    struct whm_made *made;  // how it was made: MPI_Type_get_contents
    struct whm_attr *attrs;
    char *name;
} whm_type;

static inline whm_type *whm_type_of(MPI_Datatype handle) {
    return whm_object_of(handle, WHM_TYPE);
}
void whm_type_release(whm_type *type);

// whm_types_begin makes the predefined ones of a rank, whm_types_end frees them.
int whm_types_begin(whm_rank *rank);
void whm_types_end(whm_rank *rank);

// whm_copy copies `from_count` elements to `to_count`; the smaller of the two in bytes.  The buffers do not overlap.  Any memory.
int whm_copy(void *to, MPI_Count to_count, whm_type *to_type, const void *from,
             MPI_Count from_count, whm_type *from_type);

// whm_space_new allocates what `count` elements of a type touch, and returns the address to give as their buffer (true_lb counted in);
// whm_space_free takes that address.  Host memory.  NULL: no memory.
void *whm_space_new(MPI_Count count, const whm_type *type);
void whm_space_free(void *buf, const whm_type *type);

#endif
