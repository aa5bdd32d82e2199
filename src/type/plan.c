// SPDX-License-Identifier: BSD-3-Clause
//
// Making and publishing plans.
#include "type/plan.h"

#include "base/alloc.h"
#include "mem/mem.h"
#include "type/device/image.h"

void whi_plan_free(whi_plan *plan) {
    if (!plan)
        return;
    whi_device_image_free(atomic_load(&plan->image));
    whi_arena_free(&plan->arena);
    whi_free(plan);
}

static wh_status build(const wh_type *type, whi_mode mode, whi_plan *plan) {
    wh_status status = whi_lower(type, mode, &plan->normal, &plan->arena);
    if (status != WH_OK)
        return status;
    whi_arena_free_scratch(&plan->arena);
    if (mode == WHI_TYPED)
        return WH_OK;  // reductions walk the normal form, type class by type class
    plan->exec = plan->normal;
    status = whi_layout_shape(&plan->exec, &plan->arena);
    whi_arena_free_scratch(&plan->arena);
    return status;
}

wh_status whi_plan_make(const wh_type *type, whi_mode mode, const whi_plan **plan) {
    // Once per type: memory of a driver that was loaded before is recognised by those who use the plan.
    whi_mem_notice();
    whi_plan *mine = whi_calloc(1, sizeof(*mine)), *other = NULL;
    wh_status status = mine ? build(type, mode, mine) : WH_ENOMEM;
    if (status != WH_OK) {
        whi_plan_free(mine);
        return whi_type_fail(status, "out of memory while planning a type");
    }
    if (!atomic_compare_exchange_strong(&whi_type_mutable(type)->plan[mode], &other, mine)) {
        whi_plan_free(mine);
        mine = other;
    }
    *plan = mine;
    return WH_OK;
}
