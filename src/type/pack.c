// SPDX-License-Identifier: BSD-3-Clause
//
// wh_pack and wh_unpack: check, then move (move.h), alone, with helpers (crew.h), or by a device (on_device.h).
#include "type/pack.h"

#include <assert.h>

#include "type/crew.h"
#include "type/move.h"
#include "type/on_device.h"

static const char *const names[] = {"wh_pack", "wh_unpack"};

// Where a part of the packed bytes is asked for: cuts `max` to their end.
wh_status whi_order_part(const char *function, whi_order *order, size_t offset, const void *packed,
                         size_t max, const size_t *actual) {
    size_t total = (size_t)order->elements.total;
    if (offset > total)
        return whi_type_fail(WH_EINVAL, "%s: offset is %zu, but there are %zu packed bytes",
                             function, offset, total);
    size_t size = total - offset < max ? total - offset : max;
    if (!actual || (!packed && size))
        return whi_type_fail(WH_EINVAL, "%s: %s is NULL", function, !actual ? "actual" : "packed");
    order->from = (int64_t)offset;
    order->to = (int64_t)(offset + size);
    order->packed = (char *)(uintptr_t)packed;
    return WH_OK;
}

static wh_status begin(const char *function, const void *buf, int64_t count, const wh_type *type,
                       size_t offset, const void *packed, size_t max, unsigned flags,
                       const size_t *actual, whi_order *order) {
    wh_status status = whi_elements_open(function, buf, count, type, flags, &order->elements);
    return status == WH_OK ? whi_order_part(function, order, offset, packed, max, actual) : status;
}

static wh_status run(const void *buf, int64_t count, const wh_type *type, size_t offset,
                     const void *packed, size_t max, unsigned flags, size_t *actual,
                     whi_direction direction) {
    whi_order order = {.direction = direction};
    wh_status status =
        begin(names[direction], buf, count, type, offset, packed, max, flags, actual, &order);
    if (status != WH_OK)
        return status;
    if (whi_device_has(order.elements.buf, count, type, packed)) {
        status = whi_device_order(names[direction], &order, type, false, NULL);
        if (status != WH_OK)
            return status;
    } else {
        order.nontemporal =
            whi_elements_nontemporal(&order.elements, order.to - order.from, flags, direction);
        whi_crew_run(&order);
    }
    *actual = (size_t)(order.to - order.from);
    return WH_OK;
}

void whi_pack_small(void *buf, int64_t count, const wh_type *type, void *packed,
                    whi_direction direction) {
    const whi_plan *plan =
        atomic_load_explicit(&whi_type_mutable(type)->plan[WHI_BYTES], memory_order_acquire);
    int64_t size = count * type->at.size;
    assert(plan && size <= WHI_PACK_SMALL);
    const whi_order order = {.elements = {.buf = (uintptr_t)buf,
                                          .count = count,
                                          .extent = type->at.ub - type->at.lb,
                                          .total = size,
                                          .layout = &plan->exec},
                             .to = size,
                             .packed = packed,
                             .direction = direction};
    whi_order_run(&order);
}

wh_status wh_pack(const void *buf, int64_t count, const wh_type *type, size_t offset, void *packed,
                  size_t max, unsigned flags, size_t *actual) {
    return run(buf, count, type, offset, packed, max, flags, actual, WHI_PACK);
}

wh_status wh_unpack(const void *packed, size_t size, void *buf, int64_t count, const wh_type *type,
                    size_t offset, unsigned flags, size_t *actual) {
    return run(buf, count, type, offset, packed, size, flags, actual, WHI_UNPACK);
}

static wh_status run_on(const char *function, const void *buf, int64_t count, const wh_type *type,
                        size_t offset, const void *packed, size_t max, void *stream, size_t *actual,
                        whi_direction direction) {
    whi_order order = {.direction = direction};
    whi_mem_notice();
    wh_status status = begin(function, buf, count, type, offset, packed, max, 0, actual, &order);
    if (status == WH_OK)
        status = whi_device_order(function, &order, type, true, stream);
    if (status == WH_OK)
        *actual = (size_t)(order.to - order.from);
    return status;
}

wh_status wh_pack_on(const void *buf, int64_t count, const wh_type *type, size_t offset,
                     void *packed, size_t max, void *stream, size_t *actual) {
    return run_on("wh_pack_on", buf, count, type, offset, packed, max, stream, actual, WHI_PACK);
}

wh_status wh_unpack_on(const void *packed, size_t size, void *buf, int64_t count,
                       const wh_type *type, size_t offset, void *stream, size_t *actual) {
    return run_on("wh_unpack_on", buf, count, type, offset, packed, size, stream, actual,
                  WHI_UNPACK);
}
