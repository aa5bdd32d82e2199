// SPDX-License-Identifier: BSD-3-Clause
//
// UCD's 29 functions on wherry/type.h and wherry/pack.h.
//
// A handle below UCD_TYPE__PREDEFINED is a predefined type; others are looked up in a table
// (handles.h), so that any number may come.  Everything completes in the call, or in the stream that the info names, so the
// only request is the null one.  Other info hints concern other engines' GPU drivers and have no effect.
#include <ucd.h>

#include <stdlib.h>
#include <string.h>

#include <wherry/mem.h>
#include <wherry/pack.h>

#include "handles.h"

static const wh_type_id predefined[] = {
#define UCD_TYPE_ID(name, wherry) [UCD_TYPE__##name] = WH_TYPE_##wherry,
    UCD_TYPE_LIST(UCD_TYPE_ID)
#undef UCD_TYPE_ID
};

// The type of a handle, to be kept until put_back; NULL, which the engine refuses, for any number
// that is not the handle of a living one.
static const wh_type *take(ucd_type_t handle) {
    const wh_type *type = NULL;
    if (handle == UCD_TYPE__NULL)
        return NULL;
    if (handle < UCD_TYPE__PREDEFINED)
        return wh_type_basic(predefined[handle]);
    return whu_pin(handle, WHU_TYPE, &type) ? type : NULL;
}

static void put_back(ucd_type_t handle, const wh_type *type) {
    if (type && handle >= UCD_TYPE__PREDEFINED)
        whu_unpin(handle);
}

// Hints are optional, but what is given must be an info.
static bool is_info(ucd_info_t info) {
    const wh_type *none;
    if (info && !whu_pin((uintptr_t)info, WHU_INFO, &none))
        return false;
    if (info)
        whu_unpin((uintptr_t)info);
    return true;
}

// The old type of a constructor; NULL as well when the info is none.
static const wh_type *take_old(ucd_type_t handle, ucd_info_t info) {
    return is_info(info) ? take(handle) : NULL;
}

static int code_of(wh_status status) {
    switch (status) {
    case WH_OK: return UCD_SUCCESS;
    case WH_ENOMEM: return UCD_ERR__OUT_OF_MEM;
    case WH_ENOTSUP: return UCD_ERR__NOT_SUPPORTED;
    default: return UCD_ERR__INTERNAL;
    }
}

// Has device memory recognised if its driver has come into the process by now.
static void notice_devices(void) {
    wh_mem_info info = {.size = sizeof(info)};
    (void)!wh_mem_query(NULL, &info);
}

// Gives out a new handle, or the code of what went wrong.
static int give(wh_status status, wh_type *type, ucd_type_t *newtype) {
    notice_devices();
    if (status != WH_OK)
        return code_of(status);
    if (!newtype) {
        wh_type_release(type);
        return UCD_ERR__INTERNAL;
    }
    ucd_type_t handle = whu_new(WHU_TYPE, type);
    if (!handle)
        return UCD_ERR__OUT_OF_MEM;
    *newtype = handle;
    return UCD_SUCCESS;
}

int ucd_info_create(ucd_info_t *info) {
    if (!info)
        return UCD_ERR__INTERNAL;
    uint64_t handle = whu_new(WHU_INFO, NULL);
    if (!handle)
        return UCD_ERR__OUT_OF_MEM;
    *info = (ucd_info_t)(uintptr_t)handle;
    return UCD_SUCCESS;
}

int ucd_info_free(ucd_info_t info) {
    return !info || whu_free((uintptr_t)info, WHU_INFO) ? UCD_SUCCESS : UCD_ERR__INTERNAL;
}

int ucd_info_keyval_append(ucd_info_t info, const char *key, const void *val, unsigned int vallen) {
    if (!info || !is_info(info) || !key || (!val && vallen))
        return UCD_ERR__INTERNAL;
    if (strcmp(key, UCD_INFO_STREAM) != 0)
        return UCD_SUCCESS;
    void *stream;
    if (vallen != sizeof(stream))
        return UCD_ERR__INTERNAL;
    memcpy(&stream, val, sizeof(stream));
    return whu_set_stream((uintptr_t)info, stream) ? UCD_SUCCESS : UCD_ERR__INTERNAL;
}

static bool is_device(const void *ptr) {
    wh_mem_info info = {.size = sizeof(info)};
    return wh_mem_query(ptr, &info) == WH_OK && info.kind != WH_MEM_HOST;
}

// The stream of an info counts where memory of a device is involved.
static bool wants_stream(ucd_info_t info, const void *in, const void *out, void **stream) {
    return info && whu_get_stream((uintptr_t)info, stream) && (is_device(in) || is_device(out));
}

int ucd_init(ucd_info_t info) {
    notice_devices();
    return is_info(info) ? UCD_SUCCESS : UCD_ERR__INTERNAL;
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
    const wh_type *old = take_old(oldtype, info);
    wh_status status = wh_type_create_vector(count, blocklength, stride, old, &type);
    put_back(oldtype, old);
    return give(status, type, newtype);
}

int ucd_type_create_hvector(int count, int blocklength, intptr_t stride, ucd_type_t oldtype,
                            ucd_info_t info, ucd_type_t *newtype) {
    wh_type *type = NULL;
    const wh_type *old = take_old(oldtype, info);
    wh_status status = wh_type_create_hvector(count, blocklength, stride, old, &type);
    put_back(oldtype, old);
    return give(status, type, newtype);
}

int ucd_type_create_contig(int count, ucd_type_t oldtype, ucd_info_t info, ucd_type_t *newtype) {
    wh_type *type = NULL;
    const wh_type *old = take_old(oldtype, info);
    wh_status status = wh_type_create_contig(count, old, &type);
    put_back(oldtype, old);
    return give(status, type, newtype);
}

int ucd_type_create_dup(ucd_type_t oldtype, ucd_info_t info, ucd_type_t *newtype) {
    wh_type *type = NULL;
    const wh_type *old = take_old(oldtype, info);
    wh_status status = wh_type_dup(old, &type);
    put_back(oldtype, old);
    return give(status, type, newtype);
}

int ucd_type_create_indexed_block(int count, int blocklength, const int *array_of_displacements,
                                  ucd_type_t oldtype, ucd_info_t info, ucd_type_t *newtype) {
    wh_type *type = NULL;
    row displacements = widen(count, array_of_displacements);
    const wh_type *old = take_old(oldtype, info);
    wh_status status =
        displacements.failed
            ? WH_ENOMEM
            : wh_type_create_indexed_block(count, blocklength, displacements.values, old, &type);
    put_back(oldtype, old);
    free(displacements.values);
    return give(status, type, newtype);
}

int ucd_type_create_hindexed_block(int count, int blocklength,
                                   const intptr_t *array_of_displacements, ucd_type_t oldtype,
                                   ucd_info_t info, ucd_type_t *newtype) {
    wh_type *type = NULL;
    row displacements = widen_pointers(count, array_of_displacements);
    const wh_type *old = take_old(oldtype, info);
    wh_status status =
        displacements.failed
            ? WH_ENOMEM
            : wh_type_create_hindexed_block(count, blocklength, displacements.values, old, &type);
    put_back(oldtype, old);
    free(displacements.values);
    return give(status, type, newtype);
}

int ucd_type_create_indexed(int count, const int *array_of_blocklengths,
                            const int *array_of_displacements, ucd_type_t oldtype, ucd_info_t info,
                            ucd_type_t *newtype) {
    wh_type *type = NULL;
    row lengths = widen(count, array_of_blocklengths);
    row displacements = widen(count, array_of_displacements);
    const wh_type *old = take_old(oldtype, info);
    wh_status status =
        lengths.failed || displacements.failed
            ? WH_ENOMEM
            : wh_type_create_indexed(count, lengths.values, displacements.values, old, &type);
    put_back(oldtype, old);
    free(lengths.values);
    free(displacements.values);
    return give(status, type, newtype);
}

int ucd_type_create_hindexed(int count, const int *array_of_blocklengths,
                             const intptr_t *array_of_displacements, ucd_type_t oldtype,
                             ucd_info_t info, ucd_type_t *newtype) {
    wh_type *type = NULL;
    row lengths = widen(count, array_of_blocklengths);
    row displacements = widen_pointers(count, array_of_displacements);
    const wh_type *old = take_old(oldtype, info);
    wh_status status =
        lengths.failed || displacements.failed
            ? WH_ENOMEM
            : wh_type_create_hindexed(count, lengths.values, displacements.values, old, &type);
    put_back(oldtype, old);
    free(lengths.values);
    free(displacements.values);
    return give(status, type, newtype);
}

int ucd_type_create_resized(ucd_type_t oldtype, intptr_t lb, intptr_t extent, ucd_info_t info,
                            ucd_type_t *newtype) {
    wh_type *type = NULL;
    const wh_type *old = take_old(oldtype, info);
    wh_status status = wh_type_create_resized(old, lb, extent, &type);
    put_back(oldtype, old);
    return give(status, type, newtype);
}

// The types of a struct's members: NULL, which the engine refuses, where there is none.
static const wh_type **take_all(int count, const ucd_type_t *handles, bool *failed) {
    *failed = false;
    if (count <= 0 || !handles)
        return NULL;
    const wh_type **types = malloc((size_t)count * sizeof(const wh_type *));
    *failed = !types;
    for (int i = 0; i < count && types; i++)
        types[i] = take(handles[i]);
    return types;
}

static void put_back_all(int count, const ucd_type_t *handles, const wh_type **types) {
    for (int i = 0; i < count && types; i++)
        put_back(handles[i], types[i]);
    free(types);
}

int ucd_type_create_struct(int count, const int *array_of_blocklengths,
                           const intptr_t *array_of_displacements, const ucd_type_t *array_of_types,
                           ucd_info_t info, ucd_type_t *newtype) {
    wh_type *type = NULL;
    bool failed;
    row lengths = widen(count, array_of_blocklengths);
    row displacements = widen_pointers(count, array_of_displacements);
    const wh_type **types = take_all(count, array_of_types, &failed);
    wh_status status = WH_EINVAL;
    if (lengths.failed || displacements.failed || failed)
        status = WH_ENOMEM;
    else if (is_info(info))
        status = wh_type_create_struct(count, lengths.values, displacements.values, types, &type);
    put_back_all(count, array_of_types, types);
    free(lengths.values);
    free(displacements.values);
    return give(status, type, newtype);
}

int ucd_type_create_subarray(int ndims, const int *array_of_sizes, const int *array_of_subsizes,
                             const int *array_of_starts, ucd_subarray_order_e order,
                             ucd_type_t oldtype, ucd_info_t info, ucd_type_t *newtype) {
    wh_type *type = NULL;
    row sizes = widen(ndims, array_of_sizes), subsizes = widen(ndims, array_of_subsizes);
    row starts = widen(ndims, array_of_starts);
    // Neither of the two stays what it is, and is refused.
    wh_order way = order == UCD_SUBARRAY_ORDER__C         ? WH_ORDER_C
                   : order == UCD_SUBARRAY_ORDER__FORTRAN ? WH_ORDER_FORTRAN
                                                          : (wh_order)-1;
    const wh_type *old = take_old(oldtype, info);
    wh_status status = sizes.failed || subsizes.failed || starts.failed
                           ? WH_ENOMEM
                           : wh_type_create_subarray(ndims, sizes.values, subsizes.values,
                                                     starts.values, way, old, &type);
    put_back(oldtype, old);
    free(sizes.values);
    free(subsizes.values);
    free(starts.values);
    return give(status, type, newtype);
}

int ucd_type_get_size(ucd_type_t type, uintptr_t *size) {
    const wh_type *own = take(type);
    int64_t bytes = wh_type_size(own);
    put_back(type, own);
    if (bytes < 0 || !size)
        return UCD_ERR__INTERNAL;
    *size = (uintptr_t)bytes;
    return UCD_SUCCESS;
}

static int get_bounds(ucd_type_t type, bool true_ones, intptr_t *lb, intptr_t *extent) {
    wh_type_info info = {.size = sizeof(info)};
    const wh_type *own = take(type);
    wh_status status = wh_type_get_info(own, &info);
    put_back(type, own);
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
    if (type < UCD_TYPE__PREDEFINED || whu_free(type, WHU_TYPE))
        return UCD_SUCCESS;
    return UCD_ERR__INTERNAL;
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
static int done(wh_status status, size_t moved, uintptr_t *actual, ucd_request_t *request) {
    if (status != WH_OK)
        return code_of(status);
    *actual = moved;
    *request = UCD_REQUEST__NULL;
    return UCD_SUCCESS;
}

int ucd_ipack(const void *inbuf, uintptr_t incount, ucd_type_t type, uintptr_t inoffset,
              void *outbuf, uintptr_t max_pack_bytes, uintptr_t *actual_pack_bytes, ucd_info_t info,
              ucd_request_t *request) {
    size_t moved = 0;
    if (!is_info(info) || !actual_pack_bytes || !request)
        return UCD_ERR__INTERNAL;
    void *stream;
    const wh_type *own = take(type);
    wh_status status =
        wants_stream(info, inbuf, outbuf, &stream)
            ? wh_pack_on(inbuf, (int64_t)incount, own, inoffset, outbuf, max_pack_bytes, stream,
                         &moved)
            : wh_pack(inbuf, (int64_t)incount, own, inoffset, outbuf, max_pack_bytes, 0, &moved);
    put_back(type, own);
    return done(status, moved, actual_pack_bytes, request);
}

int ucd_iunpack(const void *inbuf, uintptr_t insize, void *outbuf, uintptr_t outcount,
                ucd_type_t type, uintptr_t outoffset, uintptr_t *actual_unpack_bytes,
                ucd_info_t info, ucd_request_t *request) {
    size_t moved = 0;
    if (!is_info(info) || !actual_unpack_bytes || !request)
        return UCD_ERR__INTERNAL;
    void *stream;
    const wh_type *own = take(type);
    wh_status status =
        wants_stream(info, inbuf, outbuf, &stream)
            ? wh_unpack_on(inbuf, insize, outbuf, (int64_t)outcount, own, outoffset, stream, &moved)
            : wh_unpack(inbuf, insize, outbuf, (int64_t)outcount, own, outoffset, 0, &moved);
    put_back(type, own);
    return done(status, moved, actual_unpack_bytes, request);
}

// A number of runs, or the code of what went wrong.
static int tell(wh_status status, int64_t value, uintptr_t *out) {
    if (status != WH_OK || !out)
        return status == WH_OK ? UCD_ERR__INTERNAL : code_of(status);
    *out = (uintptr_t)value;
    return UCD_SUCCESS;
}

int ucd_iov_len(uintptr_t count, ucd_type_t type, uintptr_t *iov_len) {
    int64_t len = 0;
    const wh_type *own = take(type);
    wh_status status = wh_iov_len((int64_t)count, own, &len);
    put_back(type, own);
    return tell(status, len, iov_len);
}

int ucd_iov(const char *buf, uintptr_t count, ucd_type_t type, uintptr_t iov_offset,
            struct iovec *iov, uintptr_t max_iov_len, uintptr_t *actual_iov_len) {
    int64_t n = 0;
    const wh_type *own = take(type);
    wh_status status =
        wh_iov(buf, (int64_t)count, own, (int64_t)iov_offset, iov, (int64_t)max_iov_len, &n);
    put_back(type, own);
    return tell(status, n, actual_iov_len);
}

// UCD's unflatten is not told how many bytes there are, so the length stands in front of them, in
// eight bytes, the lowest first.
enum { LENGTH = 8 };

static wh_status flat_size(const wh_type *type, size_t *size) {
    wh_status status = wh_type_flatten(type, NULL, 0, size);
    return status == WH_ETRUNCATED ? WH_OK : status;
}

int ucd_flatten_size(ucd_type_t type, uintptr_t *flattened_type_size) {
    size_t size = 0;
    const wh_type *own = take(type);
    wh_status status = flat_size(own, &size);
    put_back(type, own);
    return tell(status, (int64_t)(LENGTH + size), flattened_type_size);
}

int ucd_flatten(ucd_type_t type, void *flattened_type) {
    size_t size = 0;
    unsigned char *at = flattened_type;
    if (!at)
        return UCD_ERR__INTERNAL;
    const wh_type *own = take(type);
    wh_status status = flat_size(own, &size);
    for (int i = 0; i < LENGTH && status == WH_OK; i++)
        at[i] = (unsigned char)((uint64_t)size >> (8 * i));
    if (status == WH_OK)
        status = wh_type_flatten(own, at + LENGTH, size, &size);
    put_back(type, own);
    return code_of(status);
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
    return give(status, made, type);
}
