// SPDX-License-Identifier: BSD-3-Clause
//
// Flushes: when all that a PE has sent to elements is settled.
#ifndef WHI_RT_MOVE_FLUSH_H
#define WHI_RT_MOVE_FLUSH_H

#include "rt/move/table.h"

WH_CHECK wh_status whi_places_flush_init(whi_places *t);
void whi_places_flush_fini(whi_places *t);

// whi_places_flush_sent counts a message of this PE, whi_places_flush_settled one that is settled or rejected here, once.
void whi_places_flush_sent(whi_places *t, whi_place_message *message);
void whi_places_flush_settled(whi_places *t, whi_place_message *message);

// whi_places_flush_control takes ASK or COUNT.
void whi_places_flush_control(whi_places *t, uint32_t from, const whi_place_control *control);

#endif
