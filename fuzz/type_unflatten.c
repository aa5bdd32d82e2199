// SPDX-License-Identifier: BSD-3-Clause
//
// Any bytes: a type or an error.  A type that comes out is sound: it flattens to itself again, has the
// bounds of its parts, and its runs lie within them.
#include <stdint.h>
#include <stdlib.h>

#include <wherry/pack.h>
#include <wherry/type.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int cond) {
    if (!cond)
        abort();
}

// The first runs, and some in the middle, lie between the true bounds.
static void check_runs(const wh_type *type, const wh_type_info *info) {
    enum { RUNS = 16 };
    struct iovec iov[RUNS];
    const uintptr_t origin = (uintptr_t)1 << 62;
    for (int i = 0; i < 4 && info->runs; i++) {
        int64_t n, first = info->runs / 4 * i;
        must(wh_iov((const void *)origin, 1, type, first, iov, RUNS, &n) == WH_OK && n > 0);
        for (int64_t k = 0; k < n; k++) {
            int64_t at = (int64_t)((uintptr_t)iov[k].iov_base - origin);
            must(at >= info->true_lb);
            must(at + (int64_t)iov[k].iov_len <= info->true_lb + info->true_extent);
        }
    }
}

static void check_again(const wh_type *type) {
    size_t size = 0, used = 0;
    must(wh_type_flatten(type, NULL, 0, &size) == WH_ETRUNCATED);
    uint8_t *flat = malloc(size);
    must(flat && wh_type_flatten(type, flat, size, &size) == WH_OK);
    wh_type *copy;
    must(wh_type_unflatten(flat, size, &used, &copy) == WH_OK && used == size);
    bool equal = false;
    must(wh_type_equal(type, copy, &equal) == WH_OK && equal);
    uint64_t a, b;
    int64_t n, m;
    must(wh_type_signature(type, 1, &a, &n) == WH_OK);
    must(wh_type_signature(copy, 1, &b, &m) == WH_OK && a == b && n == m);
    wh_type_release(copy);
    free(flat);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    wh_type *type;
    size_t used;
    wh_type_info info = {.size = sizeof(info)};
    if (!size || wh_type_unflatten(data, size, &used, &type) != WH_OK)
        return 0;
    must(used <= size);
    must(wh_type_get_info(type, &info) == WH_OK);
    must(info.packed_size >= 0 && info.basics <= info.packed_size && info.runs <= info.packed_size);
    check_runs(type, &info);
    check_again(type);
    wh_type_release(type);
    return 0;
}
