// SPDX-License-Identifier: BSD-3-Clause
//
// What the floor above calls: elements that appear and disappear, messages and controls that come.
//
// Each call first makes sure of the memory that it may need, then changes anything.  The short way, to an element that is here,
// has never moved and has nothing waiting, is a look into the table.
#include "rt/move/places.h"

#include "base/alloc.h"
#include "base/log.h"
#include "rt/move/place.h"
#include "rt/move/route.h"

enum { ROUTES_MAX = 1 << 29 };

wh_status whi_places_create(const whi_places_opts *opts, const whi_place_ops *ops, void *arg,
                            whi_places **places) {
    if (opts->self >= opts->pes || !opts->routes_max || opts->routes_max > ROUTES_MAX ||
        !opts->told_max || opts->told_max > WHI_PLACE_TOLD_MAX)
        return WH_EINVAL;
    whi_places *t = whi_calloc(1, sizeof(*t));
    whi_row **routes = whi_calloc(opts->routes_max, sizeof(whi_row *));
    if (!t || !routes) {
        whi_free(t);
        whi_free(routes);
        return WH_ENOMEM;
    }
    *t = (whi_places){
        .self = opts->self,
        .pes = opts->pes,
        .told_max = opts->told_max,
        .routes = routes,
        .route_max = opts->routes_max,
        .hash_mask = UINT64_MAX,
        .ops = ops,
        .arg = arg,
    };
    whi_hash_init(&t->table);
    whi_pool_init(&t->rows, sizeof(whi_row), 0, "rows of places");
    *places = t;
    return WH_OK;
}

static wh_status strange(const whi_places *t, const char *what, const whi_place_key *key) {
    whi_log(WHI_ERROR, "E-MOVE-02",
            "PE %u was sent %s for a place of element (%d, ...) of collection %u where it has "
            "none: all processes must run the same program",
            t->self, what, key->index[0], key->collection);
    return WH_EPROTOCOL;
}

static bool is_known(const whi_row *row) {
    return row && row->pe != WHI_NO_PE;
}

// ---- elements

static bool is_vacant(const whi_row *row) {
    const whi_place *place = whi_place_find(row, row->number);
    return place && place->state == WHI_PLACE_VACANT;
}

wh_status whi_places_insert(whi_places *t, const whi_place_key *key, void *element) {
    if (!element || whi_home_of(t, key) != t->self)
        return WH_EINVAL;
    whi_row *row = whi_row_find(t, key);
    if (is_known(row) && !is_vacant(row))
        return WH_EINVAL;
    if (!row && !(row = whi_row_make(t, key)))
        return WH_ENOMEM;
    row->element = element;
    if (!is_known(row)) {
        row->pe = t->self;
        row->number = 1;
        return WH_OK;
    }
    whi_place *place = whi_place_find(row, row->number);
    place->state = WHI_PLACE_HERE;
    whi_place_run(t, row, place);
    whi_place_tidy(t, row, place);
    return WH_OK;
}

void *whi_places_find(const whi_places *t, const whi_place_key *key) {
    whi_row *row = whi_row_find(t, key);
    return row ? row->element : NULL;
}

void *whi_places_find_unmoved(const whi_places *t, const whi_place_key *key) {
    bool known;
    return whi_places_look(t, key, &known);
}

void *whi_places_look(const whi_places *t, const whi_place_key *key, bool *known) {
    whi_row *row = whi_row_find(t, key);
    *known = row != NULL;
    return row && !row->places ? row->element : NULL;
}

// The rows of one hash are visited together.
void *whi_places_next(const whi_places *t, size_t *cursor, const whi_place_key **key) {
    whi_row *last = NULL;
    while ((last = whi_row_next(t, cursor, last)))
        if (last->element) {
            *key = &last->key;
            return last->element;
        }
    return NULL;
}

// ---- messages

// Finds the place on this PE that a message by home enters, and a row.  NULL: it is on another PE; or there is neither
// an element nor somebody who will wait for it, and no row is known.
static wh_status find_at_home(whi_places *t, const whi_place_key *key, bool incomplete,
                              whi_row **row, whi_place **place) {
    *place = NULL;
    if (is_known(*row)) {
        bool here = (*row)->pe == t->self;
        *place = whi_place_find(*row, WHI_PLACE_GATE_NUMBER);
        if (*place || (!here && !incomplete))
            return WH_OK;
        *place = here ? whi_place_current(*row)
                      : whi_place_make(*row, WHI_PLACE_GATE_NUMBER, WHI_PLACE_GATE);
        return *place ? WH_OK : WH_ENOMEM;
    }
    if (!t->ops->awaited(t->arg, key))
        return WH_OK;
    if (!*row && !(*row = whi_row_make(t, key)))
        return WH_ENOMEM;
    (*row)->number = 1;
    if ((*place = whi_place_current(*row))) {
        (*place)->state = WHI_PLACE_VACANT;
        (*row)->pe = t->self;
        return WH_OK;
    }
    whi_row_drop(t, *row);
    return WH_ENOMEM;
}

static void let_in(whi_places *t, whi_row *row, whi_place *place, whi_place_message *message) {
    if (!is_known(row)) {
        whi_place_refuse(t, message);
        return;
    }
    if (place && place->state == WHI_PLACE_GATE) {
        whi_place_enter(t, row, place, message);
        return;
    }
    message->stamp.via = message->stamp.at = row->number;
    whi_place_send(t, row, message);
}

// Lets in what waits no more, where messages by home go by now.
static wh_status open_gate(whi_places *t, whi_row *row, whi_place *gate) {
    whi_place *place = NULL;
    if (!whi_pieces_reserve(t, 1) || (row->pe == t->self && !(place = whi_place_current(row))))
        return WH_ENOMEM;
    whi_place_message *first;
    while ((first = whi_message_first(&gate->queue)) && !first->incomplete) {
        whi_queue_pop(&gate->queue);
        first->stamp.via = first->stamp.at = row->number;
        whi_place_send(t, row, first);
    }
    whi_place_tidy(t, row, gate);
    if (place)
        whi_place_tidy(t, row, place);
    return WH_OK;
}

bool whi_places_lacks(const whi_places *t, const whi_place_key *key) {
    whi_row *row = whi_row_find(t, key);
    if (is_known(row)) {
        const whi_place *place = row->pe == t->self ? whi_place_find(row, row->number) : NULL;
        if (row->element || !place || place->state != WHI_PLACE_VACANT)
            return false;
    }
    return !t->ops->awaited(t->arg, key);
}

// An element that has never moved, and no reason to wait.
static bool is_simple(const whi_row *row, const whi_place_message *message) {
    return row && row->element && !row->places && !message->incomplete;
}

wh_status whi_places_send(whi_places *t, whi_place_message *message) {
    whi_row *row = whi_row_find(t, &message->key);
    whi_place *place = NULL;
    bool simple = is_simple(row, message);
    uint32_t home_pe = row ? WHI_NO_PE : whi_home_of(t, &message->key);
    bool home = row ? row->home_here : home_pe == t->self;
    if (!simple) {
        if (!whi_pieces_reserve(t, 1))
            return WH_ENOMEM;
        wh_status status =
            home ? find_at_home(t, &message->key, message->incomplete, &row, &place) : WH_OK;
        if (status != WH_OK)
            return status;
    }
    message->kind = WHI_PLACE_MESSAGE;
    message->stamp = (whi_place_stamp){.source = t->self};
    if (simple) {
        t->ops->deliver(t->arg, row->element, message);
    } else if (home) {
        let_in(t, row, place, message);
    } else if (!is_known(row)) {
        t->ops->forward(t->arg, home_pe != WHI_NO_PE ? home_pe : whi_home_of(t, &message->key),
                        message);
    } else {
        message->stamp.entry = message->stamp.at = row->number;
        whi_place_send(t, row, message);
    }
    return WH_OK;
}

wh_status whi_places_arrive(whi_places *t, whi_place_message *message) {
    whi_row *row = whi_row_find(t, &message->key);
    if (is_simple(row, message) && !message->stamp.at) {
        t->ops->deliver(t->arg, row->element, message);
        return WH_OK;
    }
    whi_place *place = NULL;
    if (!whi_pieces_reserve(t, 1))
        return WH_ENOMEM;
    if (!message->stamp.at) {
        if (!(row ? row->home_here : whi_home_of(t, &message->key) == t->self))
            return strange(t, "a message by home", &message->key);
        wh_status status = find_at_home(t, &message->key, message->incomplete, &row, &place);
        if (status == WH_OK)
            let_in(t, row, place, message);
        return status;
    }
    if (!row || !(place = whi_place_find(row, message->stamp.at)))
        return strange(t, "a message", &message->key);
    whi_place_enter(t, row, place, message);
    whi_place_tidy(t, row, place);
    return WH_OK;
}

wh_status whi_places_complete(whi_places *t, whi_place_message *message) {
    whi_row *row = whi_row_find(t, &message->key);
    whi_place *place = row ? whi_place_find(row, message->stamp.at) : NULL;
    if (!place || !message->incomplete)
        return WH_EINVAL;
    message->incomplete = false;
    if (place->state == WHI_PLACE_GATE) {
        wh_status status = open_gate(t, row, place);
        if (status != WH_OK)
            message->incomplete = true;
        return status;
    }
    whi_place_run(t, row, place);
    whi_place_tidy(t, row, place);
    return WH_OK;
}

// ---- controls

static whi_place_message *make_marker(whi_places *t, const whi_place_control *control) {
    whi_marker *marker = &whi_piece_take(t)->marker;
    *marker = (whi_marker){{.key = control->key, .stamp = control->stamp, .kind = control->kind},
                           control->number};
    return &marker->message;
}

// A marker by home goes where home's messages go.
static wh_status marker_by_home(whi_places *t, const whi_place_control *control) {
    whi_row *row = whi_row_find(t, &control->key);
    whi_place *place = NULL;
    if (!is_known(row) || !row->home_here || control->kind != WHI_PLACE_MARKER)
        return strange(t, "a marker by home", &control->key);
    wh_status status = find_at_home(t, &control->key, false, &row, &place);
    if (status == WH_OK)
        let_in(t, row, place, make_marker(t, control));
    return status;
}

static wh_status marker(whi_places *t, const whi_place_control *control) {
    if (!whi_pieces_reserve(t, 2))
        return WH_ENOMEM;
    if (!control->stamp.at)
        return marker_by_home(t, control);
    whi_row *row = whi_row_find(t, &control->key);
    whi_place *place = row ? whi_place_find(row, control->stamp.at) : NULL;
    if (!place)
        return strange(t, "a marker", &control->key);
    whi_place_enter(t, row, place, make_marker(t, control));
    whi_place_tidy(t, row, place);
    return WH_OK;
}

// END, RELEASE: one fewer can send to a place.
static wh_status fewer(whi_places *t, uint32_t from, const whi_place_control *control) {
    bool end = control->kind == WHI_PLACE_END;
    whi_row *row = whi_row_find(t, &control->key);
    whi_place *place = row ? whi_place_find(row, end ? control->stamp.at : control->number) : NULL;
    if (!place)
        return strange(t, end ? "an end" : "a release", &control->key);
    if (end)
        place->follows = false;
    else
        whi_place_unused(place, from);
    whi_place_tidy(t, row, place);
    return WH_OK;
}

wh_status whi_places_control(whi_places *t, uint32_t from, const whi_place_control *control) {
    switch ((whi_place_kind)control->kind) {
    case WHI_PLACE_MARKER:
    case WHI_PLACE_HOME_MARKER: return marker(t, control);
    case WHI_PLACE_END:
    case WHI_PLACE_RELEASE: return fewer(t, from, control);
    case WHI_PLACE_NEW:
    case WHI_PLACE_LEAVE: break;
    case WHI_PLACE_MESSAGE:
    case WHI_PLACE_KINDS: return WH_EPROTOCOL;
    }
    if (!whi_pieces_reserve(t, WHI_ROUTE_PIECES))
        return WH_ENOMEM;
    if (control->kind == WHI_PLACE_LEAVE)
        whi_route_leave(t, control);
    else if (!whi_route_new(t, from, control))
        return strange(t, "a new place", &control->key);
    return WH_OK;
}

// ---- the end

static size_t reject_all(whi_places *t, whi_queue *queue) {
    size_t count = 0;
    for (whi_place_message *message; (message = whi_message_pop(queue)); count++) {
        if (message->kind == WHI_PLACE_MESSAGE)
            t->ops->reject(t->arg, message);
        else
            whi_piece_put(t, message);
    }
    return count;
}

void whi_places_reject_awaited(whi_places *t, uint32_t collection) {
    size_t cursor = 0;
    for (whi_row *row = NULL; (row = whi_row_next(t, &cursor, row));) {
        whi_place *place = row->places;
        while (place && place->state != WHI_PLACE_VACANT)
            place = place->next;
        if (!place || row->key.collection != collection || whi_queue_empty(&place->queue))
            continue;
        reject_all(t, &place->queue);
        whi_place_tidy(t, row, place);
        row = NULL;  // it may be gone, and another row in its stead
        cursor--;
    }
}

static size_t count(const whi_queue *queue) {
    size_t count = 0;
    for (whi_queue_node *node = whi_queue_first(queue); node; node = node->next)
        count++;
    return count;
}

void whi_places_stats_get(const whi_places *t, whi_places_stats *stats) {
    *stats = (whi_places_stats){.routes = t->route_count};
    size_t cursor = 0;
    for (whi_row *row = NULL; (row = whi_row_next(t, &cursor, row));) {
        stats->rows++;
        stats->elements += row->element != NULL;
        for (whi_place *place = row->places; place; place = place->next) {
            stats->left += place->state != WHI_PLACE_HERE;
            stats->held += count(&place->queue) + count(&place->by_home);
            for (whi_flow *flow = place->flows; flow; flow = flow->next)
                stats->held += count(&flow->held);
        }
    }
}

void whi_places_destroy(whi_places *t) {
    size_t cursor = 0;
    for (whi_row *row = NULL, *next = whi_row_next(t, &cursor, NULL); (row = next);) {
        next = whi_row_next(t, &cursor, row);
        for (whi_place *place; (place = row->places);) {
            whi_place_gather(t, place);
            reject_all(t, &place->queue);
            whi_place_free(row, place);
        }
        whi_pool_put(&t->rows, row);
    }
    for (whi_piece *piece; (piece = t->pieces);) {
        t->pieces = piece->next;
        whi_free(piece);
    }
    whi_hash_fini(&t->table);
    whi_pool_fini(&t->rows);
    whi_free(t->routes);
    whi_free(t);
}
