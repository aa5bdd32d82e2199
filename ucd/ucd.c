// SPDX-License-Identifier: BSD-3-Clause
//
// UCD's 29 functions on wherry/type.h and wherry/pack.h.
//
// A handle below UCD_TYPE__PREDEFINED is a number, any other is a wh_type.  Everything on host
// memory completes in the call, so the only request is the null one.  Info hints concern other
// engines' GPU drivers and have no effect.
#include <ucd.h>

#include <stdlib.h>
#include <string.h>

#include <wherry/pack.h>

struct ucd_info_s {
    unsigned hints;  // how many were given
};

static const wh_type_id predefined[] = {
#define UCD_TYPE_ID(name, wherry) [UCD_TYPE__##name] = WH_TYPE_##wherry,
    UCD_TYPE_LIST(UCD_TYPE_ID)
#undef UCD_TYPE_ID
};

static const wh_type *type_of(ucd_type_t handle) {
    if (handle == UCD_TYPE__NULL)
        return NULL;
    if (handle < UCD_TYPE__PREDEFINED)
        return wh_type_basic(predefined[handle]);
    return (const wh_type *)(uintptr_t)handle;
}

static int code_of(wh_status status) {
    switch (status) {
    case WH_OK: return UCD_SUCCESS;
    case WH_ENOMEM: return UCD_ERR__OUT_OF_MEM;
    case WH_ENOTSUP: return UCD_ERR__NOT_SUPPORTED;
    default: return UCD_ERR__INTERNAL;
    }
}

// Gives out a new handle, or the code of what went wrong.  By address, because the call that makes
// the type may stand in the same argument list, and be evaluated later.
static int give(wh_status status, wh_type *const *type, ucd_type_t *newtype) {
    if (status == WH_OK && newtype)
        *newtype = (ucd_type_t)(uintptr_t)*type;
    else if (status == WH_OK)
        wh_type_release(*type);
    return newtype ? code_of(status) : UCD_ERR__INTERNAL;
}

int ucd_info_create(ucd_info_t *info) {
    if (!info)
        return UCD_ERR__INTERNAL;
    ucd_info_t made = calloc(1, sizeof(*made));
    if (!made)
        return UCD_ERR__OUT_OF_MEM;
    *info = made;
    return UCD_SUCCESS;
}

int ucd_info_free(ucd_info_t info) {
    free(info);
    return UCD_SUCCESS;
}

int ucd_info_keyval_append(ucd_info_t info, const char *key, const void *val, unsigned int vallen) {
    if (!info || !key || (!val && vallen))
        return UCD_ERR__INTERNAL;
    info->hints++;
    return UCD_SUCCESS;
}

int ucd_init(ucd_info_t info) {
    (void)info;
    return UCD_SUCCESS;
}

int ucd_finalize(void) {
    return UCD_SUCCESS;
}

// UCD's arrays of int, or of intptr_t, as the 64-bit ones that Wherry takes.
typedef struct row {
    int64_t *values;
    bool failed;
} row;

static row widen(int count, const int *values) {
    row wide = {NULL, false};
    if (count <= 0 || !values)
        return wide;
    wide.values = malloc((size_t)count * sizeof(int64_t));
    wide.failed = wide.values == NULL;
    for (int i = 0; i < count && wide.values; i++)
        wide.values[i] = values[i];
    return wide;
}

static row widen_pointers(int count, const intptr_t *values) {
    row wide = {NULL, false};
    if (count <= 0 || !values)
        return wide;
    wide.values = malloc((size_t)count * sizeof(int64_t));
    wide.failed = wide.values == NULL;
    for (int i = 0; i < count && wide.values; i++)
        wide.values[i] = values[i];
    return wide;
}

int ucd_type_create_vector(int count, int blocklength, int stride, ucd_type_t oldtype,
                           ucd_info_t info, ucd_type_t *newtype) {
    wh_type *type = NULL;
    (void)info;
    return give(wh_type_create_vector(count, blocklength, stride, type_of(oldtype), &type), &type,
                newtype);
}

int ucd_type_create_hvector(int count, int blocklength, intptr_t stride, ucd_type_t oldtype,
                            ucd_info_t info, ucd_type_t *newtype) {
    wh_type *type = NULL;
    (void)info;
    return give(wh_type_create_hvector(count, blocklength, stride, type_of(oldtype), &type), &type,
                newtype);
}

int ucd_type_create_contig(int count, ucd_type_t oldtype, ucd_info_t info, ucd_type_t *newtype) {
    wh_type *type = NULL;
    (void)info;
    return give(wh_type_create_contig(count, type_of(oldtype), &type), &type, newtype);
}

int ucd_type_create_dup(ucd_type_t oldtype, ucd_info_t info, ucd_type_t *newtype) {
    wh_type *type = NULL;
    (void)info;
    return give(wh_type_dup(type_of(oldtype), &type), &type, newtype);
}

int ucd_type_create_indexed_block(int count, int blocklength, const int *array_of_displacements,
                                  ucd_type_t oldtype, ucd_info_t info, ucd_type_t *newtype) {
    wh_type *type = NULL;
    row displacements = widen(count, array_of_displacements);
    (void)info;
    wh_status status = displacements.failed
                           ? WH_ENOMEM
                           : wh_type_create_indexed_block(count, blocklength, displacements.values,
                                                          type_of(oldtype), &type);
    free(displacements.values);
    return give(status, &type, newtype);
}

int ucd_type_create_hindexed_block(int count, int blocklength,
                                   const intptr_t *array_of_displacements, ucd_type_t oldtype,
                                   ucd_info_t info, ucd_type_t *newtype) {
    wh_type *type = NULL;
    row displacements = widen_pointers(count, array_of_displacements);
    (void)info;
    wh_status status = displacements.failed
                           ? WH_ENOMEM
                           : wh_type_create_hindexed_block(count, blocklength, displacements.values,
                                                           type_of(oldtype), &type);
    free(displacements.values);
    return give(status, &type, newtype);
}

int ucd_type_create_indexed(int count, const int *array_of_blocklengths,
                            const int *array_of_displacements, ucd_type_t oldtype, ucd_info_t info,
                            ucd_type_t *newtype) {
    wh_type *type = NULL;
    row lengths = widen(count, array_of_blocklengths);
    row displacements = widen(count, array_of_displacements);
    (void)info;
    wh_status status = lengths.failed || displacements.failed
                           ? WH_ENOMEM
                           : wh_type_create_indexed(count, lengths.values, displacements.values,
                                                    type_of(oldtype), &type);
    free(lengths.values);
    free(displacements.values);
    return give(status, &type, newtype);
}

int ucd_type_create_hindexed(int count, const int *array_of_blocklengths,
                             const intptr_t *array_of_displacements, ucd_type_t oldtype,
                             ucd_info_t info, ucd_type_t *newtype) {
    wh_type *type = NULL;
    row lengths = widen(count, array_of_blocklengths);
    row displacements = widen_pointers(count, array_of_displacements);
    (void)info;
    wh_status status = lengths.failed || displacements.failed
                           ? WH_ENOMEM
                           : wh_type_create_hindexed(count, lengths.values, displacements.values,
                                                     type_of(oldtype), &type);
    free(lengths.values);
    free(displacements.values);
    return give(status, &type, newtype);
}

int ucd_type_create_resized(ucd_type_t oldtype, intptr_t lb, intptr_t extent, ucd_info_t info,
                            ucd_type_t *newtype) {
    wh_type *type = NULL;
    (void)info;
    return give(wh_type_create_resized(type_of(oldtype), lb, extent, &type), &type, newtype);
}

int ucd_type_create_struct(int count, const int *array_of_blocklengths,
                           const intptr_t *array_of_displacements, const ucd_type_t *array_of_types,
                           ucd_info_t info, ucd_type_t *newtype) {
    wh_type *type = NULL;
    row lengths = widen(count, array_of_blocklengths);
    row displacements = widen_pointers(count, array_of_displacements);
    const wh_type **types = NULL;
    (void)info;
    if (count > 0 && array_of_types)
        types = malloc((size_t)count * sizeof(const wh_type *));
    for (int i = 0; i < count && types; i++)
        types[i] = type_of(array_of_types[i]);
    bool failed = lengths.failed || displacements.failed || (count > 0 && array_of_types && !types);
    wh_status status =
        failed ? WH_ENOMEM
               : wh_type_create_struct(count, lengths.values, displacements.values, types, &type);
    free(lengths.values);
    free(displacements.values);
    free(types);
    return give(status, &type, newtype);
}

int ucd_type_create_subarray(int ndims, const int *array_of_sizes, const int *array_of_subsizes,
                             const int *array_of_starts, ucd_subarray_order_e order,
                             ucd_type_t oldtype, ucd_info_t info, ucd_type_t *newtype) {
    wh_type *type = NULL;
    row sizes = widen(ndims, array_of_sizes), subsizes = widen(ndims, array_of_subsizes);
    row starts = widen(ndims, array_of_starts);
    wh_order way = order == UCD_SUBARRAY_ORDER__C ? WH_ORDER_C : WH_ORDER_FORTRAN;
    (void)info;
    wh_status status = sizes.failed || subsizes.failed || starts.failed
                           ? WH_ENOMEM
                           : wh_type_create_subarray(ndims, sizes.values, subsizes.values,
                                                     starts.values, way, type_of(oldtype), &type);
    free(sizes.values);
    free(subsizes.values);
    free(starts.values);
    return give(status, &type, newtype);
}

int ucd_type_get_size(ucd_type_t type, uintptr_t *size) {
    int64_t bytes = wh_type_size(type_of(type));
    if (bytes < 0 || !size)
        return UCD_ERR__INTERNAL;
    *size = (uintptr_t)bytes;
    return UCD_SUCCESS;
}

static int get_bounds(ucd_type_t type, bool true_ones, intptr_t *lb, intptr_t *extent) {
    wh_type_info info;
    wh_status status = wh_type_get_info(type_of(type), &info);
    if (status != WH_OK || !lb || !extent)
        return status == WH_OK ? UCD_ERR__INTERNAL : code_of(status);
    *lb = (intptr_t)(true_ones ? info.true_lb : info.lb);
    *extent = (intptr_t)(true_ones ? info.true_extent : info.extent);
    return UCD_SUCCESS;
}

int ucd_type_get_extent(ucd_type_t type, intptr_t *lb, intptr_t *extent) {
    return get_bounds(type, false, lb, extent);
}

int ucd_type_get_true_extent(ucd_type_t type, intptr_t *lb, intptr_t *extent) {
    return get_bounds(type, true, lb, extent);
}

int ucd_type_free(ucd_type_t type) {
    if (type >= UCD_TYPE__PREDEFINED)
        wh_type_release((wh_type *)(uintptr_t)type);
    return UCD_SUCCESS;
}

int ucd_request_test(ucd_request_t request, int *completed) {
    if (request != UCD_REQUEST__NULL || !completed)
        return UCD_ERR__INTERNAL;
    *completed = 1;
    return UCD_SUCCESS;
}

int ucd_request_wait(ucd_request_t request) {
    return request == UCD_REQUEST__NULL ? UCD_SUCCESS : UCD_ERR__INTERNAL;
}

// The outcome of a move: bytes, and the request that says it is over.
static int done(wh_status status, const size_t *moved, uintptr_t *actual, ucd_request_t *request) {
    if (status != WH_OK || !actual || !request)
        return status == WH_OK ? UCD_ERR__INTERNAL : code_of(status);
    *actual = *moved;
    *request = UCD_REQUEST__NULL;
    return UCD_SUCCESS;
}

int ucd_ipack(const void *inbuf, uintptr_t incount, ucd_type_t type, uintptr_t inoffset,
              void *outbuf, uintptr_t max_pack_bytes, uintptr_t *actual_pack_bytes, ucd_info_t info,
              ucd_request_t *request) {
    size_t moved = 0;
    (void)info;
    return done(wh_pack(inbuf, (int64_t)incount, type_of(type), inoffset, outbuf, max_pack_bytes, 0,
                        &moved),
                &moved, actual_pack_bytes, request);
}

int ucd_iunpack(const void *inbuf, uintptr_t insize, void *outbuf, uintptr_t outcount,
                ucd_type_t type, uintptr_t outoffset, uintptr_t *actual_unpack_bytes,
                ucd_info_t info, ucd_request_t *request) {
    size_t moved = 0;
    (void)info;
    return done(
        wh_unpack(inbuf, insize, outbuf, (int64_t)outcount, type_of(type), outoffset, 0, &moved),
        &moved, actual_unpack_bytes, request);
}

int ucd_iov_len(uintptr_t count, ucd_type_t type, uintptr_t *iov_len) {
    int64_t len = 0;
    wh_status status = wh_iov_len((int64_t)count, type_of(type), &len);
    if (status != WH_OK || !iov_len)
        return status == WH_OK ? UCD_ERR__INTERNAL : code_of(status);
    *iov_len = (uintptr_t)len;
    return UCD_SUCCESS;
}

int ucd_iov(const char *buf, uintptr_t count, ucd_type_t type, uintptr_t iov_offset,
            struct iovec *iov, uintptr_t max_iov_len, uintptr_t *actual_iov_len) {
    int64_t n = 0;
    wh_status status = wh_iov(buf, (int64_t)count, type_of(type), (int64_t)iov_offset, iov,
                              (int64_t)max_iov_len, &n);
    if (status != WH_OK || !actual_iov_len)
        return status == WH_OK ? UCD_ERR__INTERNAL : code_of(status);
    *actual_iov_len = (uintptr_t)n;
    return UCD_SUCCESS;
}

// UCD's unflatten is not told how many bytes there are, so the length stands in front of them, in
// eight bytes, the lowest first.
enum { LENGTH = 8 };

static int flat_size(ucd_type_t type, size_t *size) {
    wh_status status = wh_type_flatten(type_of(type), NULL, 0, size);
    return status == WH_ETRUNCATED ? UCD_SUCCESS : code_of(status);
}

int ucd_flatten_size(ucd_type_t type, uintptr_t *flattened_type_size) {
    size_t size = 0;
    int code = flat_size(type, &size);
    if (code != UCD_SUCCESS || !flattened_type_size)
        return code == UCD_SUCCESS ? UCD_ERR__INTERNAL : code;
    *flattened_type_size = LENGTH + size;
    return UCD_SUCCESS;
}

int ucd_flatten(ucd_type_t type, void *flattened_type) {
    size_t size = 0;
    unsigned char *at = flattened_type;
    int code = flat_size(type, &size);
    if (code != UCD_SUCCESS || !at)
        return code == UCD_SUCCESS ? UCD_ERR__INTERNAL : code;
    for (int i = 0; i < LENGTH; i++)
        at[i] = (unsigned char)((uint64_t)size >> (8 * i));
    return code_of(wh_type_flatten(type_of(type), at + LENGTH, size, &size));
}

int ucd_unflatten(ucd_type_t *type, const void *flattened_type) {
    const unsigned char *at = flattened_type;
    wh_type *made = NULL;
    uint64_t size = 0;
    if (!at || !type)
        return UCD_ERR__INTERNAL;
    for (int i = 0; i < LENGTH; i++)
        size |= (uint64_t)at[i] << (8 * i);
    wh_status status = wh_type_unflatten(at + LENGTH, size, NULL, &made);
    if (status == WH_OK)
        *type = (ucd_type_t)(uintptr_t)made;
    return code_of(status);
}
