// SPDX-License-Identifier: BSD-3-Clause
//
// A call's data as bytes, for what goes through or by way of shared memory (shared_coll.c, shared_direct.c).
#ifndef WHM_COLL_SHARED_BYTES_H
#define WHM_COLL_SHARED_BYTES_H

#include "mpi/coll/shared.h"

typedef struct whm_bytes {
    char *at;  // NULL: there are none
    bool own;  // memory of this call
} whm_bytes;

// whm_bytes_of gives room for the bytes of `count` elements: the buffer itself if `stay`, which is for dense ones, or memory of the call.  No
// memory: the call's error is noted.
whm_bytes whm_bytes_of(whm_shared *shared, const void *buf, MPI_Count count, const whm_type *type,
                       bool stay);

// whm_bytes_pack is the same with the elements' bytes in it, whm_bytes_unpack puts them back where they did not stay, whm_bytes_drop ends them.
whm_bytes whm_bytes_pack(whm_shared *shared, const void *buf, MPI_Count count, whm_type *type,
                         bool stay);
void whm_bytes_unpack(whm_shared *shared, whm_bytes bytes, void *buf, MPI_Count count,
                      whm_type *type);
void whm_bytes_drop(whm_bytes bytes);

static inline MPI_Count whm_least(MPI_Count a, MPI_Count b) {
    return a < b ? a : b;
}

// whm_part_begin is where the part of rank i begins, of n elements that `size` ranks share out.
static inline MPI_Count whm_part_begin(MPI_Count n, int size, int i) {
    return n / size * i + whm_least(i, n % size);
}

#endif
