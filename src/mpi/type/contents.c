// SPDX-License-Identifier: BSD-3-Clause
//
// How a type was made: MPI_Type_get_envelope and MPI_Type_get_contents.
//
// One walk over the arguments of the constructor puts each into one of three arrays, as the standard lists them; the envelope is what the
// walk has counted.  A type made by a function for large counts has all its counts and displacements in the third array.
#include <limits.h>
#include <stdlib.h>

#include "mpi/base/memory.h"
#include "mpi/bodies.h"
#include "mpi/type/make.h"
#include "mpi/type/predefined.h"

typedef struct sink {  // arrays may be NULL: only counted
    bool large;
    MPI_Count nints, naddresses, ncounts;
    int *ints;
    MPI_Aint *addresses;
    MPI_Count *counts;
} sink;

static void put_int(sink *to, int64_t value) {
    if (to->ints)
        to->ints[to->nints] = (int)value;
    to->nints++;
}

static void put_large(sink *to, int64_t value) {
    if (to->counts)
        to->counts[to->ncounts] = value;
    to->ncounts++;
}

static void put_counts(sink *to, const int64_t *values, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        (to->large ? put_large : put_int)(to, values[i]);
}

// Displacements and strides in bytes.
static void put_addresses(sink *to, const int64_t *values, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (to->large) {
            put_large(to, values[i]);
            continue;
        }
        if (to->addresses)
            to->addresses[to->naddresses] = values[i];
        to->naddresses++;
    }
}

static void put_order(sink *to, int64_t order) {
    put_int(to, order == WH_ORDER_C ? MPI_ORDER_C : MPI_ORDER_FORTRAN);
}

// The engine's row: ndims, order, sizes, subsizes, starts.
static void put_subarray(sink *to, const int64_t *args) {
    put_int(to, args[0]);
    put_counts(to, args + 2, 3 * args[0]);
    put_order(to, args[1]);
}

// The engine's row: ndims, order, size, rank, gsizes, distribs, dargs, psizes.
static void put_darray(sink *to, const int64_t *args) {
    int64_t n = args[0];
    const int64_t *gsizes = args + 4, *distribs = gsizes + n, *dargs = distribs + n,
                  *psizes = dargs + n;
    put_int(to, args[2]);
    put_int(to, args[3]);
    put_int(to, n);
    put_counts(to, gsizes, n);
    for (int64_t i = 0; i < n; i++)
        put_int(to, distribs[i] + MPI_DISTRIBUTE_NONE);
    for (int64_t i = 0; i < n; i++)
        put_int(to, dargs[i] == WH_DIST_DEFAULT ? MPI_DISTRIBUTE_DFLT_DARG : dargs[i]);
    for (int64_t i = 0; i < n; i++)
        put_int(to, psizes[i]);
    put_order(to, args[1]);
}

static void put_arguments(sink *to, int combiner, const int64_t *args, int64_t n) {
    switch (combiner) {
    case MPI_COMBINER_CONTIGUOUS:
    case MPI_COMBINER_VECTOR:
    case MPI_COMBINER_INDEXED:
    case MPI_COMBINER_INDEXED_BLOCK: put_counts(to, args, n); break;
    case MPI_COMBINER_HVECTOR:
    case MPI_COMBINER_HINDEXED_BLOCK:
        put_counts(to, args, 2);
        put_addresses(to, args + 2, n - 2);
        break;
    case MPI_COMBINER_HINDEXED:
    case MPI_COMBINER_STRUCT:
        put_counts(to, args, 1 + args[0]);
        put_addresses(to, args + 1 + args[0], args[0]);
        break;
    case MPI_COMBINER_RESIZED: put_addresses(to, args, 2); break;
    case MPI_COMBINER_SUBARRAY: put_subarray(to, args); break;
    case MPI_COMBINER_DARRAY: put_darray(to, args); break;
    default: break;  // no numbers
    }
}

static void put_kind(sink *to, const whm_made *made) {
    put_int(to, made->kind[0]);
    if (made->combiner != MPI_COMBINER_F90_INTEGER)
        put_int(to, made->kind[1]);
}

static bool is_kind(const whm_made *made) {
    return made->combiner == MPI_COMBINER_F90_REAL || made->combiner == MPI_COMBINER_F90_COMPLEX ||
           made->combiner == MPI_COMBINER_F90_INTEGER;
}

static int walk(const whm_type *type, sink *to) {
    const whm_made *made = type->made;
    if (is_kind(made)) {
        put_kind(to, made);
        return MPI_SUCCESS;
    }
    wh_type_kind kind;
    size_t n, children;
    wh_status status = wh_type_get_envelope(type->layout, &kind, &n, &children);
    if (status != WH_OK)
        return whm_type_fail(status);
    int64_t *args = whm_malloc((n + 1) * sizeof(*args));
    const wh_type **layouts = whm_malloc((children + 1) * sizeof(wh_type *));
    if (args && layouts)
        status = wh_type_get_contents(type->layout, n, args, children, layouts);
    int error = !args || !layouts ? whm_no_memory()
                : status != WH_OK ? whm_type_fail(status)
                                  : MPI_SUCCESS;
    if (error == MPI_SUCCESS) {
        to->large = made->large;
        put_arguments(to, made->combiner, args, (int64_t)n);
    }
    free(args);
    free(layouts);
    return error;
}

int mpi_type_get_envelope_c(whm_type *type, MPI_Count *ints, MPI_Count *addresses,
                            MPI_Count *counts, MPI_Count *types, int *combiner) {
    sink all = {0};
    if (type->made) {
        int error = walk(type, &all);
        if (error != MPI_SUCCESS)
            return error;
    }
    *ints = all.nints;
    *addresses = all.naddresses;
    *counts = all.ncounts;
    *types = type->made ? (MPI_Count)type->made->count : 0;
    *combiner = type->made ? type->made->combiner : MPI_COMBINER_NAMED;
    return MPI_SUCCESS;
}

static int fail_large(const char *twin) {
    return whm_fail(MPI_ERR_TYPE,
                    "the type was made by a function for large counts (its name ends in _c), and "
                    "only %s tells how",
                    twin);
}

int mpi_type_get_envelope(whm_type *type, int *ints, int *addresses, int *types, int *combiner) {
    if (type->made && type->made->large)
        return fail_large("MPI_Type_get_envelope_c");
    // Arguments that were ints as they came, and no more of them than an int had counted.
    MPI_Count nints, naddresses, ncounts, ntypes;
    int error = mpi_type_get_envelope_c(type, &nints, &naddresses, &ncounts, &ntypes, combiner);
    if (error != MPI_SUCCESS)
        return error;
    if (nints > INT_MAX)
        return whm_fail(MPI_ERR_VALUE_TOO_LARGE, "the type was made with %lld integers",
                        (long long)nints);
    *ints = (int)nints;
    *addresses = (int)naddresses;
    *types = (int)ntypes;
    return MPI_SUCCESS;
}

static int check_room(const char *name, MPI_Count max, MPI_Count needed, const void *array) {
    if (max < needed || (needed && !array))
        return whm_fail(MPI_ERR_ARG, "%s is %lld, and the type has %lld (MPI_Type_get_envelope)",
                        name, (long long)(array ? max : 0), (long long)needed);
    return MPI_SUCCESS;
}

int mpi_type_get_contents_c(whm_type *type, MPI_Count max_ints, MPI_Count max_addresses,
                            MPI_Count max_counts, MPI_Count max_types, int *ints,
                            MPI_Aint *addresses, MPI_Count *counts, MPI_Datatype *types) {
    if (!type->made)
        return whm_fail(MPI_ERR_TYPE, "%s is a named type, it was not made by a constructor",
                        type->what->name);
    sink all = {0};
    int error = walk(type, &all);
    if (error == MPI_SUCCESS)
        error = check_room("max_integers", max_ints, all.nints, ints);
    if (error == MPI_SUCCESS)
        error = check_room("max_addresses", max_addresses, all.naddresses, addresses);
    if (error == MPI_SUCCESS)
        error = check_room("max_large_counts", max_counts, all.ncounts, counts);
    if (error == MPI_SUCCESS)
        error = check_room("max_datatypes", max_types, (MPI_Count)type->made->count, types);
    if (error != MPI_SUCCESS)
        return error;
    sink out = {.ints = ints, .addresses = addresses, .counts = counts};
    error = walk(type, &out);
    if (error != MPI_SUCCESS)
        return error;
    for (size_t i = 0; i < type->made->count; i++) {
        whm_type *child = type->made->of[i];
        types[i] = child->o.handle;
        if (!child->basic)  // the program frees its handle
            (void)whm_retain(child);
    }
    return MPI_SUCCESS;
}

int mpi_type_get_contents(whm_type *type, int max_ints, int max_addresses, int max_types, int *ints,
                          MPI_Aint *addresses, MPI_Datatype *types) {
    if (type->made && type->made->large)
        return fail_large("MPI_Type_get_contents_c");
    return mpi_type_get_contents_c(type, max_ints, max_addresses, 0, max_types, ints, addresses,
                                   NULL, types);
}
