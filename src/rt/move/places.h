// SPDX-License-Identifier: BSD-3-Clause
//
// Where elements live, and how messages find them while they move: one table per PE, and no input or output.
//
// Messages of one PE to one element are delivered in the order in which they were sent, each once, wherever the element is
// by then; or rejected once, when it does not exist.  The floor above carries messages and controls from PE to PE and keeps
// the order of each ordered pair: whatever goes through `forward`, through `control` with whi_place_in_order and as an
// element's state in one order; other controls among each other in one order, which may be another one.
//
// A message belongs to the table from send or arrive on, and to the floor above again in forward, deliver and reject.
// Functions of the table's owner are called within calls of the table and call none of it.
//
// Whoever calls belongs to the PE's thread.  A call that returns WH_ENOMEM has done nothing: the same has to be
// tried again before anything else that came from that PE.  WH_EPROTOCOL: a PE has sent what cannot be; it is logged, and
// has changed nothing.
#ifndef WHI_RT_MOVE_PLACES_H
#define WHI_RT_MOVE_PLACES_H

#include "rt/move/stamp.h"

// PEs that send directly to an element which is away from home, at most; messages of others go by home.
enum { WHI_PLACE_TOLD_MAX = 64 };

typedef struct whi_places whi_places;

typedef struct whi_place_ops {
    // The PE which knows where the element is: a function of the key, the same on all PEs.
    uint32_t (*home)(void *arg, const whi_place_key *key);
    // Sends a message to another PE.
    void (*forward)(void *arg, uint32_t pe, whi_place_message *message);
    // Sends a control to a PE; to this one, too, where it must not come back within the call.
    void (*control)(void *arg, uint32_t pe, const whi_place_control *control);
    void (*deliver)(void *arg, void *element, whi_place_message *message);
    // There is no such element, or it is destroyed.  An incomplete message may be rejected, too.
    void (*reject)(void *arg, whi_place_message *message);
    // At home: whether a message to an element that does not exist waits for it; otherwise it is rejected.
    bool (*awaited)(void *arg, const whi_place_key *key);
} whi_place_ops;

// What there is, for tests and dumps.
typedef struct whi_places_stats {
    size_t rows;      // of the table
    size_t elements;  // that are here
    size_t left;      // places that elements have left, and that may still get messages
    size_t routes;    // to elements whose home is elsewhere
    size_t held;      // messages and markers that wait for anything
} whi_places_stats;

typedef struct whi_places_opts {
    uint32_t self, pes;   // the table is that of PE `self` of `pes`
    uint32_t routes_max;  // elements neither here nor at home here of which the place is remembered
    uint32_t told_max;    // up to WHI_PLACE_TOLD_MAX, the same on all PEs
} whi_places_opts;

// whi_places_create makes a table.  WH_EINVAL: an option is out of its bounds, or 0.
WH_CHECK wh_status whi_places_create(const whi_places_opts *opts, const whi_place_ops *ops,
                                     void *arg, whi_places **places);

// whi_places_insert makes an element known, at its home only: one that shall live elsewhere is inserted and moved.  What
// waited for it is delivered.  WH_EINVAL: this is not its home, or there is one already.
WH_CHECK wh_status whi_places_insert(whi_places *t, const whi_place_key *key, void *element);

// whi_places_find returns the element if it is here.
void *whi_places_find(const whi_places *t, const whi_place_key *key);

// whi_places_find_unmoved returns it if it is here and has no trace of moves: what this PE has sent to it has been delivered.
void *whi_places_find_unmoved(const whi_places *t, const whi_place_key *key);

// whi_places_look returns the same, and says in *known whether the table knows anything of the element.  Of one that it does not know, and
// whose home is elsewhere, messages of this PE go there, with a stamp that says who has sent them and nothing more.
void *whi_places_look(const whi_places *t, const whi_place_key *key, bool *known);

// whi_places_lacks says, at its home, that there is no such element, and that nobody waits for it to be made.
bool whi_places_lacks(const whi_places *t, const whi_place_key *key);

// whi_places_next returns the elements that are here one after the other, then NULL.  *cursor is 0 at first; nothing
// must change meanwhile.
void *whi_places_next(const whi_places *t, size_t *cursor, const whi_place_key **key);

// whi_places_send sends a message of this PE to the element that message->key names.
WH_CHECK wh_status whi_places_send(whi_places *t, whi_place_message *message);

// whi_places_arrive takes a message that has been forwarded to this PE.
WH_CHECK wh_status whi_places_arrive(whi_places *t, whi_place_message *message);

// whi_places_complete says that the data of an incomplete message, which is still the table's, has arrived.
WH_CHECK wh_status whi_places_complete(whi_places *t, whi_place_message *message);

// whi_places_control takes a control that PE `from` has sent.
WH_CHECK wh_status whi_places_control(whi_places *t, uint32_t from,
                                      const whi_place_control *control);

// whi_places_remove says that an element that is here is destroyed: what waits for it is rejected, and what is on
// its way finds nobody.  Where *state is not NULL, the caller sends it home in the order of messages, where it is
// expected, and calls end_move, as if the element moved.  WH_EINVAL: it is not here.
WH_CHECK wh_status whi_places_remove(whi_places *t, const whi_place_key *key, void **state,
                                     size_t *size);

// whi_places_reject_awaited rejects what waits here for elements of a collection: there will be no more.
void whi_places_reject_awaited(whi_places *t, uint32_t collection);

// whi_places_begin_move has an element that is here leave for PE `to`.  The caller sends *state there (whi_free it),
// with the element, in the order of messages, and calls end_move; until then all messages wait.  `run`, if not NULL,
// are messages that were delivered and that the element has not seen: they go first.  The queue is left empty.
// WH_EINVAL: the element is not here, or `to` is none or this PE.
WH_CHECK wh_status whi_places_begin_move(whi_places *t, const whi_place_key *key, uint32_t to,
                                         whi_queue *run, void **state, size_t *size);
WH_CHECK wh_status whi_places_end_move(whi_places *t, const whi_place_key *key);

// whi_places_expect takes the state of an element that is coming here, and whi_places_install the element itself:
// until then its messages wait.  After the state of one that is destroyed no element comes.
WH_CHECK wh_status whi_places_expect(whi_places *t, const void *state, size_t size,
                                     whi_place_key *key);
WH_CHECK wh_status whi_places_install(whi_places *t, const whi_place_key *key, void *element);

void whi_places_stats_get(const whi_places *t, whi_places_stats *stats);

// whi_places_destroy rejects what is still there.
void whi_places_destroy(whi_places *t);

#endif
