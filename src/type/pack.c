// SPDX-License-Identifier: BSD-3-Clause
//
// wh_pack and wh_unpack: check, then move (move.h), alone or with helpers (crew.h).
#include "type/pack.h"

#include "type/crew.h"
#include "type/move.h"

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

static wh_status run(const void *buf, int64_t count, const wh_type *type, size_t offset,
                     const void *packed, size_t max, unsigned flags, size_t *actual,
                     whi_direction direction) {
    whi_order order = {.direction = direction};
    wh_status status =
        whi_elements_open(names[direction], buf, count, type, flags, &order.elements);
    if (status == WH_OK)
        status = whi_order_part(names[direction], &order, offset, packed, max, actual);
    if (status != WH_OK)
        return status;
    order.nontemporal =
        whi_elements_nontemporal(&order.elements, order.to - order.from, flags, direction);
    whi_crew_run(&order);
    *actual = (size_t)(order.to - order.from);
    return WH_OK;
}

wh_status wh_pack(const void *buf, int64_t count, const wh_type *type, size_t offset, void *packed,
                  size_t max, unsigned flags, size_t *actual) {
    return run(buf, count, type, offset, packed, max, flags, actual, WHI_PACK);
}

wh_status wh_unpack(const void *packed, size_t size, void *buf, int64_t count, const wh_type *type,
                    size_t offset, unsigned flags, size_t *actual) {
    return run(buf, count, type, offset, packed, size, flags, actual, WHI_UNPACK);
}
