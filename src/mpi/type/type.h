// SPDX-License-Identifier: BSD-3-Clause
//
// Datatypes: a layout of the engine (wherry/type.h) and what MPI adds to it, names, attributes, how it was made.
#ifndef WHM_TYPE_TYPE_H
#define WHM_TYPE_TYPE_H

#include <wherry/mem.h>
#include <wherry/type.h>

#include "mpi/base/object.h"
#include "mpi/base/rank.h"

// What reductions make of a predefined type: the standard's groups.
typedef enum whm_class {
    WHM_OTHER = 0,  // characters, packed bytes: no operation
    WHM_C_INTEGER = 1 << 0,
    WHM_FORTRAN_INTEGER = 1 << 1,
    WHM_FLOATING = 1 << 2,
    WHM_LOGICAL = 1 << 3,
    WHM_COMPLEX = 1 << 4,
    WHM_BYTES = 1 << 5,
    WHM_MULTI = 1 << 6,  // of several languages: MPI_AINT, MPI_COUNT, MPI_OFFSET
    WHM_PAIR = 1 << 7,   // value and index
} whm_class;

typedef struct whm_type {
    whm_object o;
    const wh_type *layout;
    MPI_Count size;        // bytes of the data
    MPI_Count lb, extent;  //
    MPI_Count true_lb, true_extent;
    // `count` of them are count * size bytes from the buffer's address on, for any count.
    bool dense;
    bool basic;  // predefined: named, or of a Fortran kind that the program has described
    bool committed;
    // The rest is the affair of src/mpi/type.
    bool foreign;                  // has elements whose external32 form the layout does not tell
    const struct whm_basic *what;  // of a named one: its row in the table
    struct whm_type
        *base;  // the named type that all its elements are of; NULL: of several, or none
    struct whm_made *made;  // how it was made: MPI_Type_get_contents; NULL: it is named
    struct whm_attr *attrs;
    char *name;                    // NULL: it has not been given one
    struct whm_type *next, *prev;  // of the rank's
    void *flat;                    // its layout as bytes, while the rank moves, and how many
    size_t flat_size;
} whm_type;

static inline whm_type *whm_type_of(MPI_Datatype handle) {
    return whm_object_of(handle, WHM_TYPE);
}
void whm_type_release(whm_type *type);

// What the owner of attributes (src/mpi/env) does with those of a type; each may be NULL.
typedef struct whm_type_hooks {
    int (*copy)(const whm_type *from, whm_type *to);  // an error: `to` has none, and is not made
    int (*end)(whm_type *type);  // the program frees its handle; an error: it keeps it
} whm_type_hooks;
extern whm_type_hooks whm_type_attributes;

// whm_types_begin makes the predefined ones of a rank, whm_types_end frees them.
int whm_types_begin(whm_rank *rank);
void whm_types_end(whm_rank *rank);

// whm_types_flatten turns the layouts of all types of a rank, which are the engine's and stay with the process, into bytes of the rank's; whm_types_unflatten
// makes them again.  The program's types do not change.  An MPI error class.
int whm_types_flatten(whm_rank *rank);
int whm_types_unflatten(whm_rank *rank);

// whm_for_engine says how the engine is given `count` elements: of *layout, or, where that is NULL, as plain bytes; it returns how many.
static inline size_t whm_for_engine(const whm_type *type, MPI_Count count, const wh_type **layout) {
    *layout = type->dense ? NULL : type->layout;
    return (size_t)(type->dense ? count * type->size : count);
}

// whm_plain says whether the CPU may touch memory at this address.
static inline bool whm_plain(const void *ptr) {
    return wh_mem_is_host(ptr);
}

// whm_pack and whm_unpack are wh_pack and wh_unpack for any memory, also where nothing packs on the device; all `size` bytes.
wh_status whm_pack(const void *buf, MPI_Count count, const whm_type *type, size_t offset,
                   void *packed, size_t size, unsigned flags);
wh_status whm_unpack(const void *packed, size_t size, void *buf, MPI_Count count,
                     const whm_type *type, size_t offset, unsigned flags);

// whm_copy copies `from_count` elements to `to_count`; the smaller of the two in bytes.  The buffers do not overlap.  Any memory.
int whm_copy(void *to, MPI_Count to_count, whm_type *to_type, const void *from,
             MPI_Count from_count, whm_type *from_type);

// whm_space_new allocates what `count` elements of a type touch, and returns the address to give as their buffer (true_lb counted in);
// whm_space_free takes that address.  Host memory.  NULL: no memory.
void *whm_space_new(MPI_Count count, const whm_type *type);
void whm_space_free(void *buf, const whm_type *type);

#endif
