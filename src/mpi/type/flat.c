// SPDX-License-Identifier: BSD-3-Clause
//
// The layouts of a rank that moves: the engine's objects stay behind, and are made again from bytes.
#include <stdlib.h>

#include "mpi/base/memory.h"
#include "mpi/type/make.h"
#include "mpi/type/predefined.h"

// Basic layouts are the same everywhere.
static bool stays(const whm_type *type) {
    return type->what && type->layout == wh_type_basic(type->what->id);
}

static int flatten(const whm_rank *rank, whm_type *type) {
    size_t size = 0;
    wh_status st = wh_type_flatten(type->layout, NULL, 0, &size);
    if (st != WH_ETRUNCATED)
        return whm_type_fail(st == WH_OK ? WH_EINVAL : st);
    if (!(type->flat = whm_malloc_for(rank, size)))
        return whm_no_memory();
    st = wh_type_flatten(type->layout, type->flat, size, &type->flat_size);
    return st == WH_OK ? MPI_SUCCESS : whm_type_fail(st);
}

int whm_types_flatten(whm_rank *rank) {
    int rc = MPI_SUCCESS;
    whm_type *type;
    for (type = rank->all_types; type && rc == MPI_SUCCESS; type = type->next)
        rc = stays(type) ? MPI_SUCCESS : flatten(rank, type);
    if (rc != MPI_SUCCESS)
        return rc;
    for (type = rank->all_types; type; type = type->next)
        if (type->flat) {
            wh_type_release((wh_type *)(uintptr_t)type->layout);
            type->layout = NULL;
        }
    return MPI_SUCCESS;
}

static int unflatten(whm_type *type) {
    wh_type *layout;
    wh_status st = wh_type_unflatten(type->flat, type->flat_size, NULL, &layout);
    if (st == WH_OK && type->committed)
        st = wh_type_commit(layout);
    if (st != WH_OK)
        return whm_type_fail(st);
    type->layout = layout;
    free(type->flat);
    type->flat = NULL;
    return MPI_SUCCESS;
}

int whm_types_unflatten(whm_rank *rank) {
    int rc = MPI_SUCCESS;
    for (whm_type *type = rank->all_types; type && rc == MPI_SUCCESS; type = type->next)
        rc = type->flat ? unflatten(type) : MPI_SUCCESS;
    return rc;
}
