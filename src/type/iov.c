// SPDX-License-Identifier: BSD-3-Clause
//
// Runs as iovecs: a walk that keeps the last run open until one comes that does not continue it.
#include <inttypes.h>

#include "type/pack.h"
#include "type/walk.h"

typedef struct collector {
    whi_visitor visitor;
    struct iovec *iov;
    int64_t n, max;
    uintptr_t end;  // where the last entry ends
} collector;

static bool collect_bytes(whi_visitor *visitor, uintptr_t at, int64_t size, uint8_t tag) {
    (void)tag;
    collector *to = (collector *)visitor;
    if (to->n && at == to->end) {
        to->iov[to->n - 1].iov_len += (size_t)size;
    } else {
        if (to->n == to->max)
            return false;
        to->iov[to->n++] = (struct iovec){(void *)at, (size_t)size};
    }
    to->end = at + (uintptr_t)size;
    return true;
}

static const char *bad_limit(const char *name, int64_t value, const void *iov, int64_t max) {
    return value < 0 ? name : max < 0 ? "max" : max && !iov ? "iov" : NULL;
}

static wh_status check_iov(const char *function, const char *name, int64_t value, const void *iov,
                           int64_t max, const void *actual) {
    const char *bad = bad_limit(name, value, iov, max);
    if (!bad && !actual)
        bad = "actual";
    return bad ? whi_type_fail(WH_EINVAL, "%s: %s is negative or NULL", function, bad) : WH_OK;
}

static wh_status prepare(const char *function, const void *buf, int64_t count, const wh_type *type,
                         int64_t *total, const whi_plan **plan) {
    wh_status status = whi_packed_check(function, buf, count, type, total);
    return status == WH_OK ? whi_plan_get(type, WHI_BYTES, plan) : status;
}

static int64_t extent_of(const wh_type *type) {
    return type->at.ub - type->at.lb;
}

// Counting needs no memory: any address but NULL will do.
static const char nowhere;

wh_status wh_iov_len(int64_t count, const wh_type *type, int64_t *len) {
    const whi_plan *plan;
    int64_t total = 0, runs;
    wh_status status = prepare("wh_iov_len", &nowhere, count, type, &total, &plan);
    if (status != WH_OK)
        return status;
    if (!len)
        return whi_type_fail(WH_EINVAL, "wh_iov_len: len is NULL");
    if (!whi_walk_runs(&plan->normal, count, extent_of(type), &runs))
        return whi_type_fail(WH_EINVAL, "wh_iov_len: count is %" PRId64 ", too many runs", count);
    *len = runs;
    return WH_OK;
}

wh_status wh_iov_len_max(int64_t count, const wh_type *type, int64_t max_bytes, int64_t *len,
                         int64_t *bytes) {
    const whi_plan *plan;
    int64_t total = 0, runs;
    wh_status status = prepare("wh_iov_len_max", &nowhere, count, type, &total, &plan);
    if (status != WH_OK)
        return status;
    if (!len || !bytes || max_bytes < 0)
        return whi_type_fail(WH_EINVAL, "wh_iov_len_max: max_bytes is negative, or %s is NULL",
                             len ? "bytes" : "len");
    if (!whi_walk_runs(&plan->normal, count, extent_of(type), &runs))
        return whi_type_fail(WH_EINVAL, "wh_iov_len_max: count is %" PRId64 ", too many runs",
                             count);
    // The most runs whose end, which is where the next one starts, is within the limit.
    int64_t low = 0, high = max_bytes >= total ? runs : runs - 1;
    while (low < high) {
        int64_t middle = high - (high - low) / 2;
        int64_t end =
            middle == runs ? total : whi_walk_run_start(&plan->normal, extent_of(type), middle);
        if (end <= max_bytes)
            low = middle;
        else
            high = middle - 1;
    }
    *bytes = low == runs ? total
             : low == 0  ? 0
                         : whi_walk_run_start(&plan->normal, extent_of(type), low);
    *len = low;
    return WH_OK;
}

static int64_t collect(const void *buf, int64_t count, const wh_type *type, const whi_plan *plan,
                       int64_t from, int64_t to, struct iovec *iov, int64_t max) {
    collector into = {{whi_walk_grid, collect_bytes}, iov, 0, max, 0};
    (void)whi_walk(&into.visitor, &plan->normal, count, extent_of(type), (uintptr_t)buf, from, to);
    return into.n;
}

int64_t whi_iov_runs(const whi_layout *layout, uintptr_t origin, int64_t first, struct iovec *iov,
                     int64_t max) {
    collector into = {{whi_walk_grid, collect_bytes}, iov, 0, max, 0};
    if (first < layout->runs)
        (void)whi_walk(&into.visitor, layout, 1, 0, origin, whi_walk_run_start(layout, 0, first),
                       layout->size);
    return into.n;
}

wh_status wh_iov(const void *buf, int64_t count, const wh_type *type, int64_t first,
                 struct iovec *iov, int64_t max, int64_t *actual) {
    const whi_plan *plan;
    int64_t total = 0, runs;
    wh_status status = prepare("wh_iov", buf, count, type, &total, &plan);
    if (status == WH_OK)
        status = check_iov("wh_iov", "first", first, iov, max, actual);
    if (status != WH_OK)
        return status;
    if (!whi_walk_runs(&plan->normal, count, extent_of(type), &runs) || first > runs)
        return whi_type_fail(WH_EINVAL, "wh_iov: first is %" PRId64 ", beyond the last run", first);
    int64_t from =
        first == runs ? total : whi_walk_run_start(&plan->normal, extent_of(type), first);
    *actual = max ? collect(buf, count, type, plan, from, total, iov, max) : 0;
    return WH_OK;
}

wh_status wh_iov_bytes(const void *buf, int64_t count, const wh_type *type, size_t offset,
                       size_t max_bytes, struct iovec *iov, int64_t max, int64_t *actual,
                       size_t *bytes) {
    const whi_plan *plan;
    int64_t total = 0;
    wh_status status = prepare("wh_iov_bytes", buf, count, type, &total, &plan);
    if (status == WH_OK)
        status = check_iov("wh_iov_bytes", "max", max, iov, max, actual);
    if (status != WH_OK)
        return status;
    if (offset > (size_t)total)
        return whi_type_fail(WH_EINVAL,
                             "wh_iov_bytes: offset is %zu, but there are %" PRId64 " packed bytes",
                             offset, total);
    if (!bytes)
        return whi_type_fail(WH_EINVAL, "wh_iov_bytes: bytes is NULL");
    size_t left = (size_t)total - offset, size = max_bytes < left ? max_bytes : left, sum = 0;
    int64_t n =
        max ? collect(buf, count, type, plan, (int64_t)offset, (int64_t)(offset + size), iov, max)
            : 0;
    for (int64_t i = 0; i < n; i++)
        sum += iov[i].iov_len;
    *bytes = sum;
    *actual = n;
    return WH_OK;
}
