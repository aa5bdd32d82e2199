// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/front/arrays.h"

#include <assert.h>
#include <stdlib.h>

static_assert(sizeof(MPI_Count) == sizeof(int64_t) && sizeof(MPI_Aint) == sizeof(int64_t),
              "counts and addresses have 64 bits");

static int negative(int error, const char *name, MPI_Count i, int64_t value) {
    return whm_fail(error, "%s[%lld] is %lld, which is negative", name, (long long)i,
                    (long long)value);
}

static int64_t *room(whm_wide *wide, MPI_Count length) {
    if (length <= WHM_FEW)
        return wide->few;
    return wide->made = malloc((size_t)length * sizeof(*wide->made));
}

int whm_wide_ints(whm_wide *wide, const char *name, const int *array, MPI_Count length) {
    int rc = whm_check_array(name, array, length);
    if (rc != MPI_SUCCESS)
        return rc;
    int64_t *to = room(wide, length);
    if (!to)
        return whm_no_memory();
    for (MPI_Count i = 0; i < length; i++)
        to[i] = array[i];
    wide->at = to;
    return MPI_SUCCESS;
}

static int check_counts(const char *name, const int64_t *array, MPI_Count length) {
    for (MPI_Count i = 0; i < length; i++)
        if (array[i] < 0)
            return negative(MPI_ERR_COUNT, name, i, array[i]);
    return MPI_SUCCESS;
}

int whm_wide_counts(whm_wide *wide, const char *name, const int *array, MPI_Count length) {
    int rc = whm_wide_ints(wide, name, array, length);
    return rc != MPI_SUCCESS ? rc : check_counts(name, wide->at, length);
}

int whm_wide_take(whm_wide *wide, const char *name, const int64_t *array, MPI_Count length) {
    // What is empty is not NULL, which says that it is not significant.
    wide->at = array ? array : wide->few;
    return whm_check_array(name, array, length);
}

int whm_wide_take_counts(whm_wide *wide, const char *name, const int64_t *array, MPI_Count length) {
    int rc = whm_wide_take(wide, name, array, length);
    return rc != MPI_SUCCESS ? rc : check_counts(name, array, length);
}

void whm_wide_drop(whm_wide *wide) {
    free(wide->made);
}

static int type_at(whm_type **to, const char *name, MPI_Datatype handle, MPI_Count i,
                   bool committed) {
    *to = whm_object_of(handle, WHM_TYPE);
    if (!*to)
        return whm_fail(MPI_ERR_TYPE, "%s[%lld] is no datatype", name, (long long)i);
    if (committed && !(*to)->committed)
        return whm_fail(MPI_ERR_TYPE, "%s[%lld] is not committed", name, (long long)i);
    return MPI_SUCCESS;
}

int whm_types_take(whm_types *types, const char *name, const MPI_Datatype *array, MPI_Count length,
                   bool committed) {
    int rc = whm_check_array(name, array, length);
    if (rc != MPI_SUCCESS)
        return rc;
    whm_type **to = types->few;
    if (length > WHM_FEW)
        to = types->made = malloc((size_t)length * sizeof(void *));
    if (!to)
        return whm_no_memory();
    for (MPI_Count i = 0; rc == MPI_SUCCESS && i < length; i++)
        rc = type_at(&to[i], name, array[i], i, committed);
    types->at = to;
    return rc;
}

void whm_types_drop(whm_types *types) {
    free(types->made);
}
