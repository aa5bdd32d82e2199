// SPDX-License-Identifier: BSD-3-Clause
//
// How much a status says has come, in elements of a type.
//
// Where all elements are of one named type, their count is a division.  Otherwise the engine says how many whole ones some packed bytes hold.
#include "mpi/base/status.h"
#include "mpi/bodies.h"
#include "mpi/type/make.h"
#include "mpi/type/predefined.h"

int mpi_get_count(const MPI_Status *status, whm_type *type, MPI_Count *count) {
    MPI_Count bytes = whm_status_bytes(status);
    if (type->size == 0)
        *count = bytes == 0 ? 0 : MPI_UNDEFINED;
    else
        *count = bytes % type->size ? MPI_UNDEFINED : bytes / type->size;
    return MPI_SUCCESS;
}

// Bytes of a pair's value; of another type, all of it.
static MPI_Count value_size(const whm_type *base) {
    const whm_basic *row = base->what;
    return row->group == WHM_PAIR ? whm_type_named(row->value)->size : base->size;
}

static int parts(const whm_type *base) {
    return base->what->group == WHM_PAIR ? 2 : 1;
}

static MPI_Count elements_of_one_kind(const whm_type *base, MPI_Count bytes) {
    MPI_Count rest = bytes % base->size;
    if (rest && rest != value_size(base))
        return MPI_UNDEFINED;
    return bytes / base->size * parts(base) + (rest != 0);
}

int mpi_get_elements(const MPI_Status *status, whm_type *type, MPI_Count *count) {
    MPI_Count bytes = whm_status_bytes(status);
    if (type->size == 0) {
        *count = bytes == 0 ? 0 : MPI_UNDEFINED;
    } else if (type->base) {
        *count = elements_of_one_kind(type->base, bytes);
    } else {
        int64_t elements;
        wh_status found = wh_type_get_elements(type->layout, bytes, &elements);
        *count = found == WH_OK ? elements : MPI_UNDEFINED;
    }
    return MPI_SUCCESS;
}

int mpi_get_elements_x(const MPI_Status *status, whm_type *type, MPI_Count *count) {
    return mpi_get_elements(status, type, count);
}

// ---- The other way round.

static int bytes_of_one_kind(const whm_type *base, MPI_Count count, MPI_Count *bytes) {
    MPI_Count whole = count / parts(base), rest = count % parts(base);
    if (__builtin_mul_overflow(whole, base->size, bytes) ||
        __builtin_add_overflow(*bytes, rest ? value_size(base) : 0, bytes))
        return whm_fail(MPI_ERR_COUNT, "count is %lld, more bytes than a number holds",
                        (long long)count);
    return MPI_SUCCESS;
}

// The fewest bytes before which `count` elements lie, up to one whole type.
static int bytes_of_elements(const whm_type *type, int64_t count, int64_t *bytes) {
    int64_t low = 0, high = type->size;
    while (low < high) {
        int64_t middle = low + (high - low) / 2, border, elements;
        wh_status status = wh_type_get_border(type->layout, middle, &border, &elements);
        if (status != WH_OK)
            return whm_type_fail(status);
        if (elements >= count)
            high = middle;
        else
            low = middle + 1;
    }
    *bytes = low;
    return MPI_SUCCESS;
}

static int bytes_of_many_kinds(const whm_type *type, MPI_Count count, MPI_Count *bytes) {
    wh_type_info info = {.size = sizeof(info)};
    wh_status status = wh_type_get_info(type->layout, &info);
    if (status != WH_OK)
        return whm_type_fail(status);
    int64_t rest = 0;
    int error = bytes_of_elements(type, count % info.basics, &rest);
    if (error != MPI_SUCCESS)
        return error;
    if (__builtin_mul_overflow(count / info.basics, type->size, bytes) ||
        __builtin_add_overflow(*bytes, rest, bytes))
        return whm_fail(MPI_ERR_COUNT, "count is %lld, more bytes than a number holds",
                        (long long)count);
    return MPI_SUCCESS;
}

int mpi_status_set_elements(MPI_Status *status, whm_type *type, MPI_Count count) {
    MPI_Count bytes = 0;
    int error = type->size == 0 ? MPI_SUCCESS
                : type->base    ? bytes_of_one_kind(type->base, count, &bytes)
                                : bytes_of_many_kinds(type, count, &bytes);
    if (error != MPI_SUCCESS || !status)
        return error;
    whm_status_set_bytes(status, bytes);
    return MPI_SUCCESS;
}

int mpi_status_set_elements_x(MPI_Status *status, whm_type *type, MPI_Count count) {
    return mpi_status_set_elements(status, type, count);
}
