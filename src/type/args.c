// SPDX-License-Identifier: BSD-3-Clause
//
// What the arguments of a constructor must fulfil.  The row of numbers may come from a program or
// from the bytes of a stranger: nothing about it is believed, not even its length.
#include <inttypes.h>

#include "type/type.h"

static wh_status bad(const wh_type *node, const char *name, int64_t value, const char *rule) {
    return whi_type_fail(WH_EINVAL, "%s: %s is %" PRId64 ", %s", whi_type_maker(node->kind), name,
                         value, rule);
}

static wh_status bad_at(const wh_type *node, const char *name, int64_t i, int64_t value,
                        const char *rule) {
    return whi_type_fail(WH_EINVAL, "%s: %s[%" PRId64 "] is %" PRId64 ", %s",
                         whi_type_maker(node->kind), name, i, value, rule);
}

static wh_status check_shape(const wh_type *node, size_t nargs, size_t nchildren) {
    if (node->nargs == nargs && node->nchildren == nchildren)
        return WH_OK;
    return whi_type_fail(WH_EINVAL, "%s: %zu arguments and %zu children instead of %zu and %zu",
                         whi_type_maker(node->kind), node->nargs, node->nchildren, nargs,
                         nchildren);
}

static wh_status check_not_negative(const wh_type *node, const char *name, int64_t value) {
    return value < 0 ? bad(node, name, value, "it must not be negative") : WH_OK;
}

static wh_status check_all_not_negative(const wh_type *node, const char *name, int64_t n,
                                        const int64_t *values) {
    for (int64_t i = 0; i < n; i++)
        if (values[i] < 0)
            return bad_at(node, name, i, values[i], "it must not be negative");
    return WH_OK;
}

// A row that begins with a count of arrays' entries: `nhead` numbers, then `arrays` times the count.
static wh_status check_counted(const wh_type *node, const char *name, size_t nhead, size_t arrays,
                               size_t nchildren) {
    if (node->nargs < nhead)
        return check_shape(node, nhead, nchildren);
    int64_t count = node->args[0];
    if (count < 0)
        return bad(node, name, count, "it must not be negative");
    if ((uint64_t)count > node->nargs)
        return bad(node, name, count, "more than there are arguments");
    size_t n = (size_t)count;
    return check_shape(node, nhead + arrays * n, node->kind == WH_KIND_STRUCT ? n : nchildren);
}

static wh_status check_vector(const wh_type *node) {
    wh_status status = check_shape(node, 3, 1);
    if (status == WH_OK)
        status = check_not_negative(node, "count", node->args[0]);
    return status == WH_OK ? check_not_negative(node, "blocklength", node->args[1]) : status;
}

static wh_status check_lists(const wh_type *node) {
    wh_status status = check_counted(node, "count", 1, 2, 1);
    return status == WH_OK
               ? check_all_not_negative(node, "blocklengths", node->args[0], node->args + 1)
               : status;
}

static wh_status check_block_list(const wh_type *node) {
    wh_status status = check_counted(node, "count", 2, 1, 1);
    return status == WH_OK ? check_not_negative(node, "blocklength", node->args[1]) : status;
}

static wh_status check_order(const wh_type *node, int64_t order) {
    if (order == WH_ORDER_C || order == WH_ORDER_FORTRAN)
        return WH_OK;
    return bad(node, "order", order, "it must be WH_ORDER_C or WH_ORDER_FORTRAN");
}

static wh_status check_subarray(const wh_type *node) {
    wh_status status = check_counted(node, "ndims", 2, 3, 1);
    if (status == WH_OK)
        status = check_order(node, node->args[1]);
    if (status != WH_OK)
        return status;
    int64_t n = node->args[0];
    const int64_t *sizes = node->args + 2, *subsizes = sizes + n, *starts = subsizes + n;
    for (int64_t i = 0; i < n; i++) {
        if (sizes[i] < 0)
            return bad_at(node, "sizes", i, sizes[i], "it must not be negative");
        if (subsizes[i] < 0 || subsizes[i] > sizes[i])
            return bad_at(node, "subsizes", i, subsizes[i], "it must lie between 0 and sizes");
        if (starts[i] < 0 || starts[i] > sizes[i] - subsizes[i])
            return bad_at(node, "starts", i, starts[i], "the part must lie within the array");
    }
    return WH_OK;
}

// One dimension of a darray: the rules of the MPI standard.
static wh_status check_deal(const wh_type *node, int64_t i) {
    int64_t n = node->args[0];
    const int64_t *gsizes = node->args + 4, *distribs = gsizes + n, *dargs = distribs + n,
                  *psizes = dargs + n;
    if (gsizes[i] < 0)
        return bad_at(node, "gsizes", i, gsizes[i], "it must not be negative");
    if (psizes[i] < 1)
        return bad_at(node, "psizes", i, psizes[i], "it must be positive");
    if (distribs[i] < WH_DIST_NONE || distribs[i] > WH_DIST_CYCLIC)
        return bad_at(node, "distribs", i, distribs[i],
                      "it must be WH_DIST_NONE, WH_DIST_BLOCK or WH_DIST_CYCLIC");
    if (distribs[i] == WH_DIST_NONE)
        return psizes[i] == 1 ? WH_OK
                              : bad_at(node, "psizes", i, psizes[i],
                                       "it must be 1 where the dimension is not dealt out");
    if (dargs[i] == WH_DIST_DEFAULT)
        return WH_OK;
    if (dargs[i] < 1)
        return bad_at(node, "dargs", i, dargs[i], "it must be positive or WH_DIST_DEFAULT");
    // psizes >= 1 processes with dargs each must cover the dimension; divided, not to overflow.
    if (distribs[i] == WH_DIST_BLOCK && gsizes[i] > 0 && (gsizes[i] - 1) / dargs[i] >= psizes[i])
        return bad_at(node, "dargs", i, dargs[i], "too small for the blocks to cover the array");
    return WH_OK;
}

static wh_status check_darray(const wh_type *node) {
    wh_status status = check_counted(node, "ndims", 4, 4, 1);
    if (status == WH_OK)
        status = check_order(node, node->args[1]);
    if (status != WH_OK)
        return status;
    int64_t n = node->args[0], size = node->args[2], rank = node->args[3], product = 1;
    if (size < 1)
        return bad(node, "size", size, "it must be positive");
    if (rank < 0 || rank >= size)
        return bad(node, "rank", rank, "it must lie between 0 and size - 1");
    for (int64_t i = 0; i < n && status == WH_OK; i++) {
        status = check_deal(node, i);
        if (status == WH_OK && __builtin_mul_overflow(product, node->args[4 + 3 * n + i], &product))
            return bad(node, "size", size, "it must be the product of psizes");
    }
    if (status == WH_OK && product != size)
        return bad(node, "size", size, "it must be the product of psizes");
    return status;
}

static wh_status check_strided(const wh_type *node) {
    wh_status status = check_counted(node, "ndims", 1, 2, 1);
    return status == WH_OK ? check_all_not_negative(node, "shape", node->args[0], node->args + 1)
                           : status;
}

wh_status whi_type_args_check(const wh_type *node) {
    wh_status status;
    switch ((wh_type_kind)node->kind) {
    case WH_KIND_DUP: return check_shape(node, 0, 1);
    case WH_KIND_CONTIG:
        status = check_shape(node, 1, 1);
        return status == WH_OK ? check_not_negative(node, "count", node->args[0]) : status;
    case WH_KIND_VECTOR:
    case WH_KIND_HVECTOR: return check_vector(node);
    case WH_KIND_INDEXED:
    case WH_KIND_HINDEXED:
    case WH_KIND_STRUCT: return check_lists(node);
    case WH_KIND_INDEXED_BLOCK:
    case WH_KIND_HINDEXED_BLOCK: return check_block_list(node);
    case WH_KIND_SUBARRAY: return check_subarray(node);
    case WH_KIND_DARRAY: return check_darray(node);
    case WH_KIND_RESIZED: return check_shape(node, 2, 1);
    case WH_KIND_STRIDED: return check_strided(node);
    case WH_KIND_BASIC: break;  // never built from arguments
    }
    return whi_type_fail(WH_EINVAL, "type: kind %d cannot be made", node->kind);
}
