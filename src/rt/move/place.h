// SPDX-License-Identifier: BSD-3-Clause
//
// One place of an element: messages enter it, are put in order where the element is, and passed on where it is no more.
#ifndef WHI_RT_MOVE_PLACE_H
#define WHI_RT_MOVE_PLACE_H

#include "rt/move/table.h"

// whi_place_enter takes a message or marker that has come to a place.  One piece is reserved.
void whi_place_enter(whi_places *t, whi_row *row, whi_place *place, whi_place_message *message);

// whi_place_enter_all does so for what has waited until the element is there.  Pieces are reserved for all.
void whi_place_enter_all(whi_places *t, whi_row *row, whi_place *place, whi_queue *messages);

// whi_place_run lets go what waits no more.
void whi_place_run(whi_places *t, whi_row *row, whi_place *place);

// whi_flow_make begins the flow of a source that has none.  One piece is reserved.
whi_flow *whi_flow_make(whi_places *t, whi_place *place, uint32_t source);

// whi_place_send sends a message or marker to the place at the end of the row's route.  Where that is on this PE,
// it is there, and a piece is reserved.
void whi_place_send(whi_places *t, whi_row *row, whi_place_message *message);

// whi_place_gather puts all that waits into the place's queue: settled first, and each stream in its order.
void whi_place_gather(whi_places *t, whi_place *place);

// whi_place_refuse rejects a message that no element will get.
void whi_place_refuse(whi_places *t, whi_place_message *message);

// whi_place_unused says that PE `pe` lets in no more messages here.
void whi_place_unused(whi_place *place, uint32_t pe);

// whi_place_tidy frees the place, and its row, if nothing can come any more, or if the element is at home, or there
// is none, and no trace of moves is left.
void whi_place_tidy(whi_places *t, whi_row *row, whi_place *place);

#endif
