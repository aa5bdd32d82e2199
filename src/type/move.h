// SPDX-License-Identifier: BSD-3-Clause
//
// Moving bytes between a layout and its packed bytes: what wh_pack, wh_unpack, cursors and helper
// threads have in common.  All arguments have been checked; nothing here can fail.
#ifndef WHI_TYPE_MOVE_H
#define WHI_TYPE_MOVE_H

#include <wherry/pack.h>

#include "type/kernels/kernels.h"
#include "type/plan.h"

// The elements of one call, and the plan that says how.  Borrows the type's plan.
typedef struct whi_elements {
    uintptr_t buf;
    int64_t count, extent;
    int64_t span;   // from the lowest byte to the highest
    int64_t total;  // packed bytes
    const whi_layout *layout;
} whi_elements;

// One order: the packed bytes [from, to) of the elements, which lie at `packed`.
typedef struct whi_order {
    whi_elements elements;
    int64_t from, to;
    char *packed;
    whi_direction direction;
    bool nontemporal;  // stores go around the cache
} whi_order;

// whi_elements_open checks the arguments that all calls of `function` share and makes the plan.
WH_CHECK wh_status whi_elements_open(const char *function, const void *buf, int64_t count,
                                     const wh_type *type, unsigned flags, whi_elements *elements);

// whi_elements_nontemporal says whether a transfer of `size` bytes is to go around the cache.
bool whi_elements_choose_nontemporal(const whi_elements *elements, int64_t size, unsigned flags,
                                     whi_direction direction);
enum { WHI_NONTEMPORAL_LEAST = 4096 };  // whatever the caller says, less is not worth it
static inline bool whi_elements_nontemporal(const whi_elements *elements, int64_t size,
                                            unsigned flags, whi_direction direction) {
    return !(flags & WH_PACK_CACHED) && size >= WHI_NONTEMPORAL_LEAST &&
           whi_elements_choose_nontemporal(elements, size, flags, direction);
}

// whi_elements_touched returns about how many bytes of lines `size` packed bytes come from.
int64_t whi_elements_touched(const whi_elements *elements, int64_t size);

// A window of the packed bytes that has to be moved at once for a line of memory to be touched once;
// empty when any cut is as good.
typedef struct whi_window {
    int64_t from, to;
} whi_window;

// whi_elements_window returns the window that packed position `at` belongs to.
whi_window whi_elements_window(const whi_elements *elements, int64_t at);

// whi_elements_window_max returns the size that no window exceeds; 0 when all are empty.
int64_t whi_elements_window_max(const whi_elements *elements);

// whi_order_run carries out an order in this thread.
void whi_order_run(const whi_order *order);

#endif
