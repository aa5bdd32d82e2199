// SPDX-License-Identifier: BSD-3-Clause
//
// From one layout to another.
//
// When either side is dense this is one pack or one unpack.  Otherwise the data goes through a
// window that stays in the nearest cache: two fast kernels with a cache hit between them beat any
// walk over two layouts at once, which would move the smaller of two runs at each step.
#include <inttypes.h>

#include "type/pack.h"

enum { WINDOW = 8192 };

static bool dense(const whi_plan *plan, const wh_type *type, int64_t count) {
    const whi_layout *normal = &plan->normal;
    return normal->ndims == 0 && normal->leaf.kind == WHI_RUN &&
           (count == 1 || normal->size == type->at.ub - type->at.lb);
}

static wh_status through_window(void *to, int64_t to_count, const wh_type *to_type,
                                const void *from, int64_t from_count, const wh_type *from_type,
                                size_t size) {
    _Alignas(64) char window[WINDOW];
    for (size_t at = 0; at < size;) {
        size_t n = size - at < WINDOW ? size - at : WINDOW, moved;
        wh_status status =
            wh_pack(from, from_count, from_type, at, window, n, WH_PACK_CACHED, &moved);
        if (status == WH_OK)
            status = wh_unpack(window, n, to, to_count, to_type, at, WH_PACK_CACHED, &moved);
        if (status != WH_OK)
            return status;
        at += n;
    }
    return WH_OK;
}

// first_of returns where a dense layout begins; in whole numbers, since it may be one of addresses, at NULL.
static void *first_of(const void *buf, const whi_plan *plan) {
    return (void *)((uintptr_t)buf + (uintptr_t)plan->normal.off);
}

wh_status wh_type_copy(void *to, int64_t to_count, const wh_type *to_type, const void *from,
                       int64_t from_count, const wh_type *from_type, size_t *actual) {
    int64_t to_size = 0, from_size = 0;
    const whi_plan *to_plan, *from_plan;
    wh_status status = whi_packed_check("wh_type_copy: to", to, to_count, to_type, &to_size);
    if (status == WH_OK)
        status = whi_packed_check("wh_type_copy: from", from, from_count, from_type, &from_size);
    if (status != WH_OK)
        return status;
    if (!actual)
        return whi_type_fail(WH_EINVAL, "wh_type_copy: actual is NULL");
    size_t size = (size_t)(to_size < from_size ? to_size : from_size), moved = 0;
    status = whi_plan_get(to_type, WHI_BYTES, &to_plan);
    if (status == WH_OK)
        status = whi_plan_get(from_type, WHI_BYTES, &from_plan);
    if (status == WH_OK && size) {
        if (dense(to_plan, to_type, to_count))
            status =
                wh_pack(from, from_count, from_type, 0, first_of(to, to_plan), size, 0, &moved);
        else if (dense(from_plan, from_type, from_count))
            status =
                wh_unpack(first_of(from, from_plan), size, to, to_count, to_type, 0, 0, &moved);
        else
            status = through_window(to, to_count, to_type, from, from_count, from_type, size);
    }
    if (status == WH_OK)
        *actual = size;
    return status;
}
