// SPDX-License-Identifier: BSD-3-Clause
//
// The public constructors.  Each gathers its arguments into a node's row of numbers (type.h) and
// seals it; all that can be wrong with a value is found there, for unflatten as well.  Here only
// what a row cannot express is checked: null pointers, and counts before memory is taken for them.
#include <inttypes.h>
#include <string.h>

#include "type/type.h"

static wh_status check_out(wh_type_kind kind, wh_type **type) {
    if (type)
        return WH_OK;
    return whi_type_fail(WH_EINVAL, "%s: type is NULL", whi_type_maker(kind));
}

// Arrays of `count` numbers, each of which must be there unless the count is zero.
typedef struct array {
    const char *name;
    const int64_t *values;
} array;

static wh_status check_arrays(wh_type_kind kind, const char *count_name, int64_t count, size_t n,
                              const array *arrays) {
    if (count < 0)
        return whi_type_fail(WH_EINVAL, "%s: %s is %" PRId64 ", it must not be negative",
                             whi_type_maker(kind), count_name, count);
    for (size_t i = 0; i < n; i++)
        if (count && !arrays[i].values)
            return whi_type_fail(WH_EINVAL, "%s: %s is NULL", whi_type_maker(kind), arrays[i].name);
    // Far above what memory holds; keeps the sums of sizes from wrapping.
    if (count > INT64_MAX / 64)
        return whi_type_fail(WH_EINVAL, "%s: %s is %" PRId64 ", too large", whi_type_maker(kind),
                             count_name, count);
    return WH_OK;
}

// A node from `nhead` numbers, then `n` arrays of `count`, with one child.
static wh_status make(wh_type_kind kind, size_t nhead, const int64_t *head, int64_t count, size_t n,
                      const array *arrays, const wh_type *old, wh_type **type) {
    wh_status status = check_out(kind, type);
    if (status != WH_OK)
        return status;
    wh_type *node;
    status = whi_type_new(kind, nhead + n * (size_t)count, 1, &node);
    if (status != WH_OK)
        return status;
    if (nhead)
        memcpy(node->args, head, nhead * sizeof(*head));
    for (size_t i = 0; i < n && count; i++)
        memcpy(node->args + nhead + i * (size_t)count, arrays[i].values,
               (size_t)count * sizeof(int64_t));
    node->children[0] = whi_type_mutable(old);
    return whi_type_seal(node, type);
}

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

wh_status wh_type_dup(const wh_type *old, wh_type **type) {
    return make(WH_KIND_DUP, 0, NULL, 0, 0, NULL, old, type);
}

wh_status wh_type_create_contig(int64_t count, const wh_type *old, wh_type **type) {
    return make(WH_KIND_CONTIG, 1, &count, 0, 0, NULL, old, type);
}

wh_status wh_type_create_resized(const wh_type *old, int64_t lb, int64_t extent, wh_type **type) {
    int64_t head[] = {lb, extent};
    return make(WH_KIND_RESIZED, COUNT_OF(head), head, 0, 0, NULL, old, type);
}

wh_status wh_type_create_vector(int64_t count, int64_t blocklength, int64_t stride,
                                const wh_type *old, wh_type **type) {
    int64_t head[] = {count, blocklength, stride};
    return make(WH_KIND_VECTOR, COUNT_OF(head), head, 0, 0, NULL, old, type);
}

wh_status wh_type_create_hvector(int64_t count, int64_t blocklength, int64_t stride,
                                 const wh_type *old, wh_type **type) {
    int64_t head[] = {count, blocklength, stride};
    return make(WH_KIND_HVECTOR, COUNT_OF(head), head, 0, 0, NULL, old, type);
}

static wh_status make_indexed(wh_type_kind kind, int64_t count, const int64_t *blocklengths,
                              const int64_t *displacements, const wh_type *old, wh_type **type) {
    array arrays[] = {{"blocklengths", blocklengths}, {"displacements", displacements}};
    wh_status status = check_arrays(kind, "count", count, COUNT_OF(arrays), arrays);
    return status == WH_OK ? make(kind, 1, &count, count, COUNT_OF(arrays), arrays, old, type)
                           : status;
}

wh_status wh_type_create_indexed(int64_t count, const int64_t *blocklengths,
                                 const int64_t *displacements, const wh_type *old, wh_type **type) {
    return make_indexed(WH_KIND_INDEXED, count, blocklengths, displacements, old, type);
}

wh_status wh_type_create_hindexed(int64_t count, const int64_t *blocklengths,
                                  const int64_t *displacements, const wh_type *old,
                                  wh_type **type) {
    return make_indexed(WH_KIND_HINDEXED, count, blocklengths, displacements, old, type);
}

static wh_status make_blocks(wh_type_kind kind, int64_t count, int64_t blocklength,
                             const int64_t *displacements, const wh_type *old, wh_type **type) {
    int64_t head[] = {count, blocklength};
    array arrays[] = {{"displacements", displacements}};
    wh_status status = check_arrays(kind, "count", count, COUNT_OF(arrays), arrays);
    return status == WH_OK
               ? make(kind, COUNT_OF(head), head, count, COUNT_OF(arrays), arrays, old, type)
               : status;
}

wh_status wh_type_create_indexed_block(int64_t count, int64_t blocklength,
                                       const int64_t *displacements, const wh_type *old,
                                       wh_type **type) {
    return make_blocks(WH_KIND_INDEXED_BLOCK, count, blocklength, displacements, old, type);
}

wh_status wh_type_create_hindexed_block(int64_t count, int64_t blocklength,
                                        const int64_t *displacements, const wh_type *old,
                                        wh_type **type) {
    return make_blocks(WH_KIND_HINDEXED_BLOCK, count, blocklength, displacements, old, type);
}

wh_status wh_type_create_struct(int64_t count, const int64_t *blocklengths,
                                const int64_t *displacements, const wh_type *const *types,
                                wh_type **type) {
    array arrays[] = {{"blocklengths", blocklengths}, {"displacements", displacements}};
    wh_status status = check_out(WH_KIND_STRUCT, type);
    if (status == WH_OK)
        status = check_arrays(WH_KIND_STRUCT, "count", count, COUNT_OF(arrays), arrays);
    if (status != WH_OK)
        return status;
    if (count && !types)
        return whi_type_fail(WH_EINVAL, "wh_type_create_struct: types is NULL");
    size_t n = (size_t)count;
    wh_type *node;
    status = whi_type_new(WH_KIND_STRUCT, 1 + 2 * n, n, &node);
    if (status != WH_OK)
        return status;
    node->args[0] = count;
    if (n) {
        memcpy(node->args + 1, blocklengths, n * sizeof(int64_t));
        memcpy(node->args + 1 + n, displacements, n * sizeof(int64_t));
    }
    for (size_t i = 0; i < n; i++)
        node->children[i] = whi_type_mutable(types[i]);
    return whi_type_seal(node, type);
}

wh_status wh_type_create_subarray(int ndims, const int64_t *sizes, const int64_t *subsizes,
                                  const int64_t *starts, wh_order order, const wh_type *old,
                                  wh_type **type) {
    int64_t head[] = {ndims, order};
    array arrays[] = {{"sizes", sizes}, {"subsizes", subsizes}, {"starts", starts}};
    wh_status status = check_arrays(WH_KIND_SUBARRAY, "ndims", ndims, COUNT_OF(arrays), arrays);
    return status == WH_OK ? make(WH_KIND_SUBARRAY, COUNT_OF(head), head, ndims, COUNT_OF(arrays),
                                  arrays, old, type)
                           : status;
}

wh_status wh_type_create_darray(int64_t size, int64_t rank, int ndims, const int64_t *gsizes,
                                const int64_t *distribs, const int64_t *dargs,
                                const int64_t *psizes, wh_order order, const wh_type *old,
                                wh_type **type) {
    int64_t head[] = {ndims, order, size, rank};
    array arrays[] = {
        {"gsizes", gsizes}, {"distribs", distribs}, {"dargs", dargs}, {"psizes", psizes}};
    wh_status status = check_arrays(WH_KIND_DARRAY, "ndims", ndims, COUNT_OF(arrays), arrays);
    return status == WH_OK ? make(WH_KIND_DARRAY, COUNT_OF(head), head, ndims, COUNT_OF(arrays),
                                  arrays, old, type)
                           : status;
}

wh_status wh_type_create_strided(int ndims, const int64_t *shape, const int64_t *strides,
                                 const wh_type *old, wh_type **type) {
    int64_t head[] = {ndims};
    array arrays[] = {{"shape", shape}, {"strides", strides}};
    wh_status status = check_arrays(WH_KIND_STRIDED, "ndims", ndims, COUNT_OF(arrays), arrays);
    return status == WH_OK ? make(WH_KIND_STRIDED, COUNT_OF(head), head, ndims, COUNT_OF(arrays),
                                  arrays, old, type)
                           : status;
}
