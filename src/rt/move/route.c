// SPDX-License-Identifier: BSD-3-Clause
//
// Routes: where messages to an element that is not here are sent.
//
// A PE without a route sends by home, so that it can forget any route behind a marker.  Home has a route to each of
// its elements, and never forgets it.  Each place that a PE was told of hears once from it that it
// sends there no more: by a marker in the stream that ends, or by RELEASE when it never began one.
#include "rt/move/route.h"

#include "rt/move/place.h"

// Sends the marker of a stream that ends; `entry` 0: the one by home.
static void end_stream(whi_places *t, whi_row *row, uint64_t entry, uint64_t next) {
    whi_place_kind kind = row->home_here ? WHI_PLACE_HOME_MARKER : WHI_PLACE_MARKER;
    whi_place_stamp stamp = {.at = entry, .source = t->self};
    *(row->home_here ? &stamp.via : &stamp.entry) = entry;
    uint32_t pe = entry ? row->pe : whi_home_of(t, &row->key);
    if (pe != t->self) {
        whi_place_control marker = {
            .kind = kind,
            .key = row->key,
            .stamp = stamp,
            .number = next,
        };
        t->ops->control(t->arg, pe, &marker);
        return;
    }
    whi_marker *marker = &whi_piece_take(t)->marker;
    *marker = (whi_marker){{.key = row->key, .stamp = stamp, .kind = (uint8_t)kind}, next};
    whi_place_send(t, row, &marker->message);
}

static void unlist(whi_places *t, whi_row *row) {
    if (!row->listed)
        return;
    whi_row *last = t->routes[--t->route_count];
    t->routes[row->position] = last;
    last->position = row->position;
    row->listed = 0;
}

// Changes the route, which keeps a place on this PE that it leads to.
static void set_route(whi_places *t, whi_row *row, uint32_t pe, uint64_t number) {
    whi_place *place = row->pe == t->self ? whi_place_find(row, row->number) : NULL;
    row->pe = pe;
    row->number = number;
    if (place)
        whi_place_tidy(t, row, place);
    else
        whi_row_drop(t, row);
}

static void end_route(whi_places *t, whi_row *row) {
    end_stream(t, row, row->number, 0);
    unlist(t, row);
    set_route(t, row, WHI_NO_PE, 0);
}

void whi_route_list(whi_places *t, whi_row *row) {
    if (row->home_here || row->listed)
        return;
    if (t->route_count == t->route_max)
        end_route(t, t->routes[t->route_hand++ % t->route_max]);
    row->listed = 1;
    row->position = t->route_count & 0x3fffffff;
    t->routes[t->route_count++] = row;
}

void whi_route_change(whi_places *t, whi_row *row, uint32_t pe, uint64_t number) {
    end_stream(t, row, row->number, number);
    if (pe == t->self)
        unlist(t, row);
    set_route(t, row, pe, number);
}

static void decline(whi_places *t, uint32_t from, const whi_place_control *new) {
    whi_place_control release = {
        .kind = WHI_PLACE_RELEASE,
        .key = new->key,
        .stamp.source = t->self,
        .number = new->number,
    };
    t->ops->control(t->arg, from, &release);
}

bool whi_route_new(whi_places *t, uint32_t from, const whi_place_control *control) {
    whi_row *row = whi_row_find(t, &control->key);
    if (from == t->self ||
        (!(row && row->pe != WHI_NO_PE) && whi_home_of(t, &control->key) == t->self))
        return false;
    // Two places can tell of themselves in the wrong order.
    if (row ? row->number >= control->number : !(row = whi_row_make(t, &control->key))) {
        decline(t, from, control);
        return true;
    }
    if (!whi_row_is_away(t, row))
        return false;
    whi_route_list(t, row);
    whi_route_change(t, row, from, control->number);
    return true;
}

void whi_route_leave(whi_places *t, const whi_place_control *control) {
    // One that comes late can mean a place of the same number of an earlier element: unless the element is here, it
    // costs a way by home.
    whi_row *row = whi_row_find(t, &control->key);
    if (row && row->listed && row->number == control->number)
        end_route(t, row);
}
