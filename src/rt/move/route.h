// SPDX-License-Identifier: BSD-3-Clause
//
// Where this PE sends messages of an element: as their source, and as the element's home.
#ifndef WHI_RT_MOVE_ROUTE_H
#define WHI_RT_MOVE_ROUTE_H

#include "rt/move/table.h"

enum { WHI_ROUTE_PIECES = 8 };  // that any of these calls needs

// whi_route_list counts the row's route among those that are bounded, and makes room for it.
void whi_route_list(whi_places *t, whi_row *row);

// whi_route_change sends messages to place `number` on `pe` from now on, behind a marker on the way until now.
void whi_route_change(whi_places *t, whi_row *row, uint32_t pe, uint64_t number);

// whi_route_new takes NEW, whi_route_leave LEAVE.  false: it cannot be.
WH_CHECK bool whi_route_new(whi_places *t, uint32_t from, const whi_place_control *control);
void whi_route_leave(whi_places *t, const whi_place_control *control);

#endif
