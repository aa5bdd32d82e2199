// SPDX-License-Identifier: BSD-3-Clause
#include "rt/coll/data.h"

#include "base/log.h"

// More no machine can address, and sums of a few of these do not overflow.
#define SIZE_LIMIT ((int64_t)1 << 48)

// is_dense says whether `count` elements are their packed bytes, one behind the other.
static bool is_dense(const wh_type_info *info) {
    return info->runs <= 1 && info->true_lb == 0 && info->true_extent == info->packed_size &&
           info->extent == info->packed_size;
}

wh_status whi_coll_data_init(whi_coll_data *data, const void *buf, int64_t count,
                             const wh_type *type, uint32_t blocks, const char *function,
                             const char *what) {
    if (!type)
        type = wh_type_basic(WH_TYPE_BYTE);
    wh_type_info info = {.size = sizeof(info)};
    wh_status st = wh_type_get_info(type, &info);
    if (st != WH_OK) {
        whi_log(WHI_ERROR, "E-COLL-03", "%s: the type of %s: %s", function, what, wh_type_error());
        return st;
    }
    int64_t size, block, all;
    if (count < 0 || __builtin_mul_overflow(count, info.packed_size, &size) ||
        __builtin_mul_overflow(count, info.extent, &block) ||
        __builtin_mul_overflow(block, (int64_t)blocks, &all) ||
        __builtin_mul_overflow(size, (int64_t)blocks, &all) || all > SIZE_LIMIT) {
        whi_log(WHI_ERROR, "E-COLL-04",
                "%s: %lld elements of %s for each of %u members: negative, or too many to address",
                function, (long long)count, what, blocks);
        return WH_EINVAL;
    }
    if (!buf && size && info.true_lb == 0) {
        whi_log(WHI_ERROR, "E-COLL-05", "%s: %s is NULL, and has %lld elements", function, what,
                (long long)count);
        return WH_EINVAL;
    }
    *data = (whi_coll_data){.buf = (char *)(uintptr_t)buf,
                            .count = count,
                            .type = wh_type_retain((wh_type *)(uintptr_t)type),
                            .size = (uint64_t)size,
                            .block = block,
                            .dense = is_dense(&info)};
    return WH_OK;
}

void whi_coll_data_fini(whi_coll_data *data) {
    wh_type_release(data->type);
    data->type = NULL;
}

uint64_t whi_coll_data_border(const whi_coll_data *data, uint64_t at) {
    int64_t border = 0;
    if (at >= data->size)
        return data->size;
    wh_status st = wh_type_get_border(data->type, (int64_t)at, &border, NULL);
    return st == WH_OK ? (uint64_t)border : at;
}
