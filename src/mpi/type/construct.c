// SPDX-License-Identifier: BSD-3-Clause
//
// The constructors of derived types.  What their arguments must fulfil is checked by the engine's, whose sentences the program gets.
#include <stdlib.h>

#include "mpi/base/memory.h"
#include "mpi/bodies.h"
#include "mpi/type/make.h"

_Static_assert(sizeof(MPI_Aint) == sizeof(int64_t) && sizeof(MPI_Count) == sizeof(int64_t),
               "arrays of addresses and of counts are arrays of the engine's numbers");

int mpi_type_contiguous(MPI_Count count, whm_type *old, whm_type **type) {
    wh_type *layout = NULL;
    wh_status status = wh_type_create_contig(count, old->layout, &layout);
    return whm_type_make(status, layout, MPI_COMBINER_CONTIGUOUS, 1, &old, type);
}

int mpi_type_vector(MPI_Count count, MPI_Count blocklength, MPI_Aint stride, whm_type *old,
                    whm_type **type) {
    wh_type *layout = NULL;
    wh_status status = wh_type_create_vector(count, blocklength, stride, old->layout, &layout);
    return whm_type_make(status, layout, MPI_COMBINER_VECTOR, 1, &old, type);
}

int mpi_type_create_hvector(MPI_Count count, MPI_Count blocklength, MPI_Aint stride, whm_type *old,
                            whm_type **type) {
    wh_type *layout = NULL;
    wh_status status = wh_type_create_hvector(count, blocklength, stride, old->layout, &layout);
    return whm_type_make(status, layout, MPI_COMBINER_HVECTOR, 1, &old, type);
}

int mpi_type_indexed(MPI_Count count, const MPI_Count *blocklengths, const MPI_Aint *displacements,
                     whm_type *old, whm_type **type) {
    wh_type *layout = NULL;
    wh_status status =
        wh_type_create_indexed(count, blocklengths, displacements, old->layout, &layout);
    return whm_type_make(status, layout, MPI_COMBINER_INDEXED, 1, &old, type);
}

int mpi_type_create_hindexed(MPI_Count count, const MPI_Count *blocklengths,
                             const MPI_Aint *displacements, whm_type *old, whm_type **type) {
    wh_type *layout = NULL;
    wh_status status =
        wh_type_create_hindexed(count, blocklengths, displacements, old->layout, &layout);
    return whm_type_make(status, layout, MPI_COMBINER_HINDEXED, 1, &old, type);
}

int mpi_type_create_indexed_block(MPI_Count count, MPI_Count blocklength,
                                  const MPI_Aint *displacements, whm_type *old, whm_type **type) {
    wh_type *layout = NULL;
    wh_status status =
        wh_type_create_indexed_block(count, blocklength, displacements, old->layout, &layout);
    return whm_type_make(status, layout, MPI_COMBINER_INDEXED_BLOCK, 1, &old, type);
}

int mpi_type_create_hindexed_block(MPI_Count count, MPI_Count blocklength,
                                   const MPI_Aint *displacements, whm_type *old, whm_type **type) {
    wh_type *layout = NULL;
    wh_status status =
        wh_type_create_hindexed_block(count, blocklength, displacements, old->layout, &layout);
    return whm_type_make(status, layout, MPI_COMBINER_HINDEXED_BLOCK, 1, &old, type);
}

int mpi_type_create_struct(MPI_Count count, const MPI_Count *blocklengths,
                           const MPI_Aint *displacements, whm_type *const *types, whm_type **type) {
    const wh_type **layouts = whm_malloc(((size_t)count + 1) * sizeof(wh_type *));
    if (!layouts)
        return whm_no_memory();
    for (MPI_Count i = 0; i < count; i++)
        layouts[i] = types[i]->layout;
    wh_type *layout = NULL;
    wh_status status = wh_type_create_struct(count, blocklengths, displacements, layouts, &layout);
    free(layouts);
    return whm_type_make(status, layout, MPI_COMBINER_STRUCT, (size_t)count, types, type);
}

int mpi_type_create_resized(whm_type *old, MPI_Aint lb, MPI_Aint extent, whm_type **type) {
    wh_type *layout = NULL;
    wh_status status = wh_type_create_resized(old->layout, lb, extent, &layout);
    return whm_type_make(status, layout, MPI_COMBINER_RESIZED, 1, &old, type);
}

// ---- Parts of arrays.

static int order_of(int order, wh_order *engine) {
    if (order != MPI_ORDER_C && order != MPI_ORDER_FORTRAN)
        return whm_fail(MPI_ERR_ARG, "order is %d, it must be MPI_ORDER_C or MPI_ORDER_FORTRAN",
                        order);
    *engine = order == MPI_ORDER_C ? WH_ORDER_C : WH_ORDER_FORTRAN;
    return MPI_SUCCESS;
}

static int check_dimensions(int ndims) {
    return ndims > 0 ? MPI_SUCCESS
                     : whm_fail(MPI_ERR_ARG, "ndims is %d, it must be positive", ndims);
}

int mpi_type_create_subarray(int ndims, const MPI_Count *sizes, const MPI_Count *subsizes,
                             const MPI_Count *starts, int order, whm_type *old, whm_type **type) {
    wh_order engine_order = WH_ORDER_C;
    int error = check_dimensions(ndims);
    if (error == MPI_SUCCESS)
        error = order_of(order, &engine_order);
    if (error != MPI_SUCCESS)
        return error;
    wh_type *layout = NULL;
    wh_status status =
        wh_type_create_subarray(ndims, sizes, subsizes, starts, engine_order, old->layout, &layout);
    return whm_type_make(status, layout, MPI_COMBINER_SUBARRAY, 1, &old, type);
}

// The engine's numbers for how dimensions are dealt out: three arrays one behind the other.
static int deal(int ndims, const int *distribs, const int *dargs, const int *psizes,
                int64_t *dealt) {
    for (int i = 0; i < ndims; i++) {
        if (distribs[i] < MPI_DISTRIBUTE_NONE || distribs[i] > MPI_DISTRIBUTE_CYCLIC)
            return whm_fail(MPI_ERR_ARG,
                            "array_of_distribs[%d] is %d, it must be MPI_DISTRIBUTE_BLOCK, "
                            "MPI_DISTRIBUTE_CYCLIC or MPI_DISTRIBUTE_NONE",
                            i, distribs[i]);
        dealt[i] = distribs[i] - MPI_DISTRIBUTE_NONE;
        dealt[ndims + i] = dargs[i] == MPI_DISTRIBUTE_DFLT_DARG ? WH_DIST_DEFAULT : dargs[i];
        dealt[2 * ndims + i] = psizes[i];
    }
    return MPI_SUCCESS;
}

int mpi_type_create_darray(int size, int rank, int ndims, const MPI_Count *gsizes,
                           const int *distribs, const int *dargs, const int *psizes, int order,
                           whm_type *old, whm_type **type) {
    _Static_assert(MPI_DISTRIBUTE_BLOCK - MPI_DISTRIBUTE_NONE == WH_DIST_BLOCK &&
                       MPI_DISTRIBUTE_CYCLIC - MPI_DISTRIBUTE_NONE == WH_DIST_CYCLIC,
                   "the engine numbers them alike");
    wh_order engine_order = WH_ORDER_C;
    int error = check_dimensions(ndims);
    if (error == MPI_SUCCESS)
        error = order_of(order, &engine_order);
    if (error != MPI_SUCCESS)
        return error;
    int64_t *dealt = whm_malloc(3 * (size_t)ndims * sizeof(*dealt));
    if (!dealt)
        return whm_no_memory();
    error = deal(ndims, distribs, dargs, psizes, dealt);
    wh_type *layout = NULL;
    wh_status status = WH_EINVAL;
    if (error == MPI_SUCCESS)
        status = wh_type_create_darray(size, rank, ndims, gsizes, dealt, dealt + ndims,
                                       dealt + 2 * ndims, engine_order, old->layout, &layout);
    free(dealt);
    return error != MPI_SUCCESS ? error
                                : whm_type_make(status, layout, MPI_COMBINER_DARRAY, 1, &old, type);
}
