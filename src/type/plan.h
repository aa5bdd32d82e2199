// SPDX-License-Identifier: BSD-3-Clause
//
// Plans: what a type has become once it is to be used.
//
// A plan holds the type's normal form and the same with kernels chosen for this processor.  It is
// made at the first use or at commit, published once, immutable from then on, and freed with the
// type.  Two threads may make it at the same time; the second throws its own away.
#ifndef WHI_TYPE_PLAN_H
#define WHI_TYPE_PLAN_H

#include "type/layout.h"
#include "type/type.h"

struct whi_plan {
    whi_layout normal;  // what parents build on, and what iov, equal and reductions walk
    whi_layout exec;    // the same bytes in the same order, shaped for the kernels of pack
    whi_arena arena;
    _Atomic(struct whi_device_image *)
        image;  // what kernels read of `normal`; NULL until they need it
};

// whi_plan_make makes the plan and publishes it.
WH_CHECK wh_status whi_plan_make(const wh_type *type, whi_mode mode, const whi_plan **plan);

// whi_plan_get returns the plan, made if need be.  Fails with WH_ENOMEM only.
WH_CHECK static inline wh_status whi_plan_get(const wh_type *type, whi_mode mode,
                                              const whi_plan **plan) {
    const whi_plan *made =
        atomic_load_explicit(&whi_type_mutable(type)->plan[mode], memory_order_acquire);
    if (__builtin_expect(made == NULL, 0))
        return whi_plan_make(type, mode, plan);
    *plan = made;
    return WH_OK;
}

// whi_plan_free frees a plan; NULL is allowed.
void whi_plan_free(whi_plan *plan);

// whi_lower builds the normal form of a type from its children's.
WH_CHECK wh_status whi_lower(const wh_type *type, whi_mode mode, whi_layout *layout,
                             whi_arena *arena);

#endif
