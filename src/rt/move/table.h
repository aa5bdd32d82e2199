// SPDX-License-Identifier: BSD-3-Clause
//
// The rows of a PE's table, one per key that it knows something about, and the memory for what comes and goes in them.
//
// Calls reserve pieces of memory before they change anything, so that nothing below them can fail.
#ifndef WHI_RT_MOVE_TABLE_H
#define WHI_RT_MOVE_TABLE_H

#include "base/hash.h"
#include "base/pool.h"
#include "rt/move/places.h"

#define WHI_NO_PE UINT32_MAX

enum { WHI_PLACE_GATE_NUMBER = 0 };  // less than that of any place

typedef enum whi_place_state {
    WHI_PLACE_GATE,  // number 0, no place: an incomplete message waits at home to be let in at one
    WHI_PLACE_VACANT,    // at home: there is no element, its messages wait or are rejected
    WHI_PLACE_ARRIVING,  // its state is here, the element is not
    WHI_PLACE_HERE,
    WHI_PLACE_LEAVING,  // its state is being sent
    WHI_PLACE_LEFT,     // passes on to the next place
} whi_place_state;

// Of a PE whose messages do not come by home only: the stream whose turn it is, and what has come of later ones.
typedef struct whi_flow {
    struct whi_flow *next;
    uint64_t entry;
    uint32_t source;
    whi_queue held;
} whi_flow;

// A marker in a queue of messages.
typedef struct whi_marker {
    whi_place_message message;
    uint64_t number;
} whi_marker;

typedef union whi_piece {
    union whi_piece *next;
    whi_flow flow;
    whi_marker marker;
} whi_piece;

// A place of an element on this PE.  An element that is at home, with no trace of moves and nothing waiting, has none.
typedef struct whi_place {
    struct whi_place *next;
    uint64_t number;
    whi_place_state state;
    bool follows;    // a place before it may still pass on
    uint32_t to;     // PE of the next place
    uint32_t users;  // PEs that were told of it, home included, of which the last has not come
    whi_queue
        queue;  // HERE: settled, behind an incomplete one; VACANT: settled; else all as it came

    // But of LEAVING and LEFT: the element's order, which moves with it
    uint64_t via;       // home's stream whose turn it is
    whi_queue by_home;  // what has come of later ones
    whi_flow *flows;    // by ascending source
    uint32_t *told;     // PEs among the users, but home
    uint32_t told_count, told_room;
} whi_place;

typedef struct whi_row {
    whi_place_key key;
    struct whi_row *same;  // another key of the same hash
    void *element;
    whi_place *places;
    uint64_t
        number;  // the place to which messages go from here, on `pe`; 0, WHI_NO_PE: by home, or nowhere
    uint32_t pe;
    uint32_t home_here : 1;
    uint32_t listed : 1;     // among the routes
    uint32_t position : 30;  // there
} whi_row;

struct whi_places {
    uint32_t self, pes, told_max;
    const whi_place_ops *ops;
    void *arg;
    whi_hash table;
    uint64_t hash_mask;  // all ones; tests have keys share hashes
    whi_pool rows;
    whi_row **routes;
    uint32_t route_count, route_max, route_hand;
    whi_piece *pieces;  // reserved
    uint32_t piece_count;
};

whi_row *whi_row_find(const whi_places *t, const whi_place_key *key);
whi_row *whi_row_make(whi_places *t, const whi_place_key *key);  // NULL: no memory

// whi_row_drop forgets a row in which nothing is left.
void whi_row_drop(whi_places *t, whi_row *row);

// whi_row_next returns one row after the other, then NULL.
whi_row *whi_row_next(const whi_places *t, size_t *cursor, whi_row *last);

// whi_row_is_away says whether the element can be elsewhere: its place here, if that is where the route leads, was left.
bool whi_row_is_away(const whi_places *t, const whi_row *row);

whi_place *whi_place_find(const whi_row *row, uint64_t number);
whi_place *whi_place_make(whi_row *row, uint64_t number, whi_place_state state);  // NULL: no memory
void whi_place_free(whi_row *row, whi_place *place);

// whi_place_told_reserve has space for `count` PEs.  false: no memory.
bool whi_place_told_reserve(whi_place *place, uint32_t count);

// whi_place_current returns the place at the end of the row's route, which is on this PE; made if it had none.
// NULL: no memory.
whi_place *whi_place_current(whi_row *row);

// whi_pieces_reserve has `count` pieces ready.  false: no memory.
bool whi_pieces_reserve(whi_places *t, uint32_t count);
whi_piece *whi_piece_take(whi_places *t);
void whi_piece_put(whi_places *t, void *memory);

static inline uint32_t whi_home_of(const whi_places *t, const whi_place_key *key) {
    return t->ops->home(t->arg, key);
}

static inline whi_place_message *whi_message_first(const whi_queue *queue) {
    whi_queue_node *node = whi_queue_first(queue);
    return node ? whi_container_of(node, whi_place_message, node) : NULL;
}

static inline whi_place_message *whi_message_pop(whi_queue *queue) {
    whi_queue_node *node = whi_queue_pop(queue);
    return node ? whi_container_of(node, whi_place_message, node) : NULL;
}

// whi_messages_move puts all of one queue behind another.
static inline void whi_messages_move(whi_queue *to, whi_queue *from) {
    for (whi_queue_node *node; (node = whi_queue_pop(from));)
        whi_queue_push(to, node);
}

#endif
