// SPDX-License-Identifier: BSD-3-Clause
//
// The oracle: a naive reading of the type tree, and the specification of all that is fast.
//
// It visits element by element in type map order, straight from the constructors' arguments, and
// shares no code with the engine.  Tests link it; the library does not.
#ifndef WHI_TYPE_ORACLE_H
#define WHI_TYPE_ORACLE_H

#include "type/type.h"

// Called for each predefined element, at byte `offset` from the origin.
typedef void (*whi_oracle_fn)(int64_t offset, wh_type_id id, void *arg);

void whi_oracle_walk(const wh_type *type, int64_t count, whi_oracle_fn fn, void *arg);

typedef struct whi_oracle_bounds {
    int64_t size, lb, ub, true_lb, true_ub, basics;
} whi_oracle_bounds;

// whi_oracle_measure finds bounds by looking at every element.
whi_oracle_bounds whi_oracle_measure(const wh_type *type);

// whi_oracle_map lists the memory offset of each packed byte of `count` elements, count * size in all.
void whi_oracle_map(const wh_type *type, int64_t count, int64_t *map);

// whi_oracle_span returns the lowest offset of a map and the bytes from there to its end, and whether
// any byte occurs twice.
bool whi_oracle_span(const int64_t *map, int64_t n, int64_t *low, int64_t *span);

#endif
