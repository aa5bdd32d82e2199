// SPDX-License-Identifier: BSD-3-Clause
//
// An element leaves one place and comes to the next: what of its order travels with it, and what follows behind.
//
// The state is small: whose turn it is at the two merges, and who sends here.  Messages that wait do not travel in it.  They
// follow it from place to place like any other, and are arranged again where the element is.
#include <assert.h>

#include "base/alloc.h"
#include "base/log.h"
#include "rt/move/place.h"
#include "rt/move/route.h"

// What travels: key, whether there is an element (1), number (8), via (8), then who was told (4 bytes, and 4 each) and
// flows (4 bytes, and 12 each), both by ascending PE.
enum { STATE_FIXED = 64, STATE_TOLD = 4, STATE_FLOW = 12 };

typedef struct order_state {
    whi_place_key key;
    bool vacant;
    uint64_t number, via;
    uint32_t told_count, flow_count;
    const uint8_t *told, *flows;
} order_state;

// ---- leaving

static int by_pe(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

// Those who are to send by home from now on: all when the element goes there, else one if there are too many.
static void dismiss(whi_places *t, whi_row *row, whi_place *place, uint32_t to) {
    bool home = to == whi_home_of(t, &row->key);
    while (place->told_count && (home || place->told_count >= t->told_max)) {
        uint32_t *told = place->told, at = (uint32_t)(place->number % place->told_count);
        whi_place_control leave = {
            .kind = WHI_PLACE_LEAVE,
            .key = row->key,
            .stamp.source = t->self,
            .number = place->number,
        };
        t->ops->control(t->arg, told[at], &leave);
        told[at] = told[--place->told_count];
    }
}

static size_t write_state(whi_writer *to, const whi_row *row, whi_place *place, bool vacant,
                          uint32_t flow_count) {
    whi_place_key_write(to, &row->key);
    whi_writer_u8(to, vacant);
    whi_writer_u64(to, place->number + 1);
    whi_writer_u64(to, place->via);
    if (place->told_count)
        qsort(place->told, place->told_count, sizeof(*place->told), by_pe);
    whi_writer_u32(to, place->told_count);
    for (uint32_t i = 0; i < place->told_count; i++)
        whi_writer_u32(to, place->told[i]);
    whi_writer_u32(to, flow_count);
    for (whi_flow *flow = place->flows; flow; flow = flow->next) {
        if (!flow->entry)
            continue;
        whi_writer_u32(to, flow->source);
        whi_writer_u64(to, flow->entry);
    }
    assert(whi_writer_ok(to));
    return whi_writer_size(to);
}

static void gather_behind(whi_places *t, whi_place *place, whi_queue *run) {
    whi_queue waiting;
    whi_queue_init(&waiting);
    whi_messages_move(&waiting, &place->queue);
    if (run)
        whi_messages_move(&place->queue, run);
    whi_messages_move(&place->queue, &waiting);
    whi_place_gather(t, place);
}

// Writes the state of a place that is being left, after which its element is not here any more.
static wh_status leave(whi_places *t, whi_row *row, whi_place *place, uint32_t to, bool vacant,
                       void **bytes, size_t *size) {
    uint32_t count = 0;
    for (whi_flow *flow = place->flows; flow; flow = flow->next)
        count += flow->entry != 0;
    size_t most = STATE_FIXED + STATE_TOLD * place->told_count + STATE_FLOW * count;
    void *data = whi_malloc(most);
    if (!data || !whi_pieces_reserve(t, WHI_ROUTE_PIECES)) {
        whi_free(data);
        return WH_ENOMEM;
    }
    dismiss(t, row, place, to);
    whi_writer writer;
    whi_writer_init(&writer, data, most);
    *size = write_state(&writer, row, place, vacant, count);
    *bytes = data;
    place->state = WHI_PLACE_LEAVING;
    place->to = to;
    place->told_count = 0;
    row->element = NULL;
    whi_route_list(t, row);
    return WH_OK;
}

wh_status whi_places_begin_move(whi_places *t, const whi_place_key *key, uint32_t to,
                                whi_queue *run, void **state, size_t *size) {
    whi_row *row = whi_row_find(t, key);
    if (!row || !row->element || to >= t->pes || to == t->self)
        return WH_EINVAL;
    whi_place *place = whi_place_current(row);
    if (!place)
        return WH_ENOMEM;
    wh_status status = leave(t, row, place, to, false, state, size);
    if (status == WH_OK)
        gather_behind(t, place, run);
    else
        whi_place_tidy(t, row, place);
    return status;
}

// Takes the messages out of a queue, and leaves the markers.
static void reject_messages(whi_places *t, whi_queue *queue) {
    whi_queue all;
    whi_queue_init(&all);
    whi_messages_move(&all, queue);
    for (whi_place_message *message; (message = whi_message_pop(&all));) {
        if (message->kind == WHI_PLACE_MESSAGE)
            whi_place_refuse(t, message);
        else
            whi_queue_push(queue, &message->node);
    }
}

// A destroyed element leaves as one that moves does, for home, where its order is kept until no trace of moves is
// left: another element of this key may appear there at any time.
wh_status whi_places_remove(whi_places *t, const whi_place_key *key, void **state, size_t *size) {
    whi_row *row = whi_row_find(t, key);
    if (!row || !row->element)
        return WH_EINVAL;
    whi_place *place = whi_place_find(row, row->number);
    if (row->home_here) {
        *state = NULL;
        *size = 0;
        row->element = NULL;
        if (place) {
            place->state = WHI_PLACE_VACANT;
            reject_messages(t, &place->queue);
            whi_place_tidy(t, row, place);
        } else {
            row->pe = WHI_NO_PE;
            row->number = 0;
            whi_row_drop(t, row);
        }
        return WH_OK;
    }
    wh_status status = leave(t, row, place, whi_home_of(t, key), true, state, size);
    if (status != WH_OK)
        return status;
    whi_place_gather(t, place);
    reject_messages(t, &place->queue);
    return WH_OK;
}

wh_status whi_places_end_move(whi_places *t, const whi_place_key *key) {
    whi_row *row = whi_row_find(t, key);
    whi_place *place = NULL;  // the first, if the element has been here again
    for (whi_place *any = row ? row->places : NULL; any; any = any->next)
        if (any->state == WHI_PLACE_LEAVING)
            place = any;
    if (!place)
        return WH_EINVAL;
    place->state = WHI_PLACE_LEFT;
    whi_place_run(t, row, place);
    whi_place_tidy(t, row, place);
    return WH_OK;
}

// ---- coming

static bool read_state(const whi_places *t, const void *bytes, size_t size, order_state *s) {
    whi_reader from;
    whi_reader_init(&from, bytes, size);
    whi_place_key_read(&from, &s->key);
    uint8_t vacant = whi_reader_u8(&from);
    s->vacant = vacant == 1;
    s->number = whi_reader_u64(&from);
    s->via = whi_reader_u64(&from);
    s->told_count = whi_reader_u32(&from);
    if (s->told_count > WHI_PLACE_TOLD_MAX)
        return false;
    s->told = whi_reader_bytes(&from, (size_t)STATE_TOLD * s->told_count);
    s->flow_count = whi_reader_u32(&from);
    if (s->flow_count > t->pes)
        return false;
    s->flows = whi_reader_bytes(&from, (size_t)STATE_FLOW * s->flow_count);
    return whi_reader_done(&from) && vacant <= 1 && s->via && s->via < s->number;
}

// Both lists ascend, so that no PE is in one twice.
static bool is_sound(const whi_places *t, const order_state *s) {
    uint32_t home = whi_home_of(t, &s->key);
    whi_reader told, flows;
    whi_reader_init(&told, s->told, (size_t)STATE_TOLD * s->told_count);
    whi_reader_init(&flows, s->flows, (size_t)STATE_FLOW * s->flow_count);
    uint64_t least = 0;
    for (uint32_t i = 0; i < s->told_count; i++) {
        uint32_t pe = whi_reader_u32(&told);
        if (pe < least || pe >= t->pes || pe == home || home == t->self)
            return false;
        least = pe + 1ull;
    }
    least = 0;
    for (uint32_t i = 0; i < s->flow_count; i++) {
        uint32_t pe = whi_reader_u32(&flows);
        uint64_t entry = whi_reader_u64(&flows);
        if (pe < least || pe >= t->pes || !entry || entry >= s->number)
            return false;
        least = pe + 1ull;
    }
    return true;
}

// Whether the element can come to this row: it must be newer than all that is known here, and home must know it.
static bool is_next(const whi_places *t, const order_state *s, const whi_row *row) {
    bool known = row && row->pe != WHI_NO_PE, home_here = whi_home_of(t, &s->key) == t->self;
    if (home_here ? !known : s->vacant)
        return false;
    return !row ||
           (whi_row_is_away(t, row) && row->number < s->number && !whi_place_find(row, s->number));
}

static void fill(whi_places *t, whi_place *place, const order_state *s) {
    whi_reader told, flows;
    whi_reader_init(&told, s->told, (size_t)STATE_TOLD * s->told_count);
    whi_reader_init(&flows, s->flows, (size_t)STATE_FLOW * s->flow_count);
    for (uint32_t i = 0; i < s->told_count; i++)
        place->told[i] = whi_reader_u32(&told);
    place->told_count = s->told_count;
    for (uint32_t i = 0; i < s->flow_count; i++) {
        whi_flow *flow = whi_flow_make(t, place, whi_reader_u32(&flows));
        flow->entry = whi_reader_u64(&flows);
    }
    place->via = s->via;
    place->follows = true;
}

static void announce(whi_places *t, whi_row *row, whi_place *place) {
    whi_place_control new = {
        .kind = WHI_PLACE_NEW,
        .key = row->key,
        .stamp.source = t->self,
        .number = place->number,
    };
    bool self_told = row->home_here;
    for (uint32_t i = 0; i < place->told_count; i++) {
        if (place->told[i] == t->self)
            self_told = true;
        else
            t->ops->control(t->arg, place->told[i], &new);
    }
    if (!self_told)
        place->told[place->told_count++] = t->self;
    if (!row->home_here)
        t->ops->control(t->arg, whi_home_of(t, &row->key), &new);
    place->users = place->told_count + 1;
    whi_route_change(t, row, t->self, place->number);
}

wh_status whi_places_expect(whi_places *t, const void *bytes, size_t size, whi_place_key *key) {
    order_state s;
    whi_row *row = NULL;
    bool good = read_state(t, bytes, size, &s) && is_sound(t, &s);
    if (good) {
        row = whi_row_find(t, &s.key);
        good = is_next(t, &s, row);
    }
    if (!good) {
        whi_log(WHI_ERROR, "E-MOVE-01",
                "PE %u was sent the state of an element that cannot come here: all processes must "
                "run the same program",
                t->self);
        return WH_EPROTOCOL;
    }
    if (!whi_pieces_reserve(t, s.flow_count + WHI_ROUTE_PIECES) ||
        (!row && !(row = whi_row_make(t, &s.key))))
        return WH_ENOMEM;
    whi_place_state state = s.vacant ? WHI_PLACE_VACANT : WHI_PLACE_ARRIVING;
    whi_place *place = whi_place_make(row, s.number, state);
    if (!place || !whi_place_told_reserve(place, s.told_count + 1)) {
        if (place)
            whi_place_free(row, place);
        whi_row_drop(t, row);
        return WH_ENOMEM;
    }
    fill(t, place, &s);
    announce(t, row, place);
    *key = s.key;
    return WH_OK;
}

wh_status whi_places_install(whi_places *t, const whi_place_key *key, void *element) {
    whi_row *row = whi_row_find(t, key);
    whi_place *place = row ? row->places : NULL;
    while (place && place->state != WHI_PLACE_ARRIVING)
        place = place->next;
    if (!place || !element)
        return WH_EINVAL;
    uint32_t count = 0;
    for (whi_queue_node *node = whi_queue_first(&place->queue); node; node = node->next)
        count++;
    if (!whi_pieces_reserve(t, count + WHI_ROUTE_PIECES))
        return WH_ENOMEM;
    whi_queue waiting;
    whi_queue_init(&waiting);
    whi_messages_move(&waiting, &place->queue);
    place->state = WHI_PLACE_HERE;
    row->element = element;
    whi_place_enter_all(t, row, place, &waiting);
    whi_place_tidy(t, row, place);
    return WH_OK;
}
