// SPDX-License-Identifier: BSD-3-Clause
//
// The order of messages at a place.
//
// Two merges, one behind the other, put messages in order.  Home lets in messages at one place after the other: by_home
// holds what has come of a later one, until home's marker has come the earlier way.  A source's messages come in streams,
// by home or by an entry of its own: a flow holds what has come of later streams until the source's marker has come in the
// earlier one.  Both are first in, first out per stream, and nothing else is needed, since the places of a path pass
// on in order.  What is through both is settled, and stays ahead of all that is not when the element moves.
#include "rt/move/place.h"

#include "base/alloc.h"

static void send_control(whi_places *t, uint32_t pe, whi_place_kind kind, const whi_row *row,
                         uint64_t number) {
    whi_place_control control = {
        .kind = kind,
        .key = row->key,
        .stamp.source = t->self,
        .number = number,
    };
    t->ops->control(t->arg, pe, &control);
}

static uint64_t marker_number(const whi_place_message *marker) {
    return whi_container_of(marker, whi_marker, message)->number;
}

void whi_place_refuse(whi_places *t, whi_place_message *message) {
    t->ops->reject(t->arg, message);
}

static void pass_on(whi_places *t, uint32_t pe, whi_place_message *message) {
    if (message->kind == WHI_PLACE_MESSAGE) {
        t->ops->forward(t->arg, pe, message);
        return;
    }
    whi_place_control control = {
        .kind = message->kind,
        .key = message->key,
        .stamp = message->stamp,
        .number = marker_number(message),
    };
    t->ops->control(t->arg, pe, &control);
    whi_piece_put(t, message);
}

void whi_place_run(whi_places *t, whi_row *row, whi_place *place) {
    if (place->state != WHI_PLACE_HERE && place->state != WHI_PLACE_LEFT)
        return;
    whi_place_message *first;
    while ((first = whi_message_first(&place->queue)) && !first->incomplete) {
        whi_queue_pop(&place->queue);
        if (place->state == WHI_PLACE_HERE) {
            t->ops->deliver(t->arg, row->element, first);
            continue;
        }
        first->stamp.at = place->number + 1;
        pass_on(t, place->to, first);
    }
}

static void settle(whi_places *t, whi_row *row, whi_place *place, whi_place_message *message) {
    message->stamp.flags |= WHI_STAMP_SETTLED;
    if (place->state == WHI_PLACE_VACANT && whi_queue_empty(&place->queue) &&
        !t->ops->awaited(t->arg, &row->key)) {
        whi_place_refuse(t, message);
        return;
    }
    whi_queue_push(&place->queue, &message->node);
    whi_place_run(t, row, place);
}

// ---- who sends here

static bool is_told(const whi_place *place, uint32_t pe) {
    for (uint32_t i = 0; i < place->told_count; i++)
        if (place->told[i] == pe)
            return true;
    return false;
}

// Has a PE that sends by home send here.
static void tell(whi_places *t, whi_row *row, whi_place *place, uint32_t pe) {
    if (row->home_here || pe == whi_home_of(t, &row->key) || is_told(place, pe) ||
        place->told_count >= t->told_max || !whi_place_told_reserve(place, place->told_count + 1))
        return;  // by home is a way, too
    place->told[place->told_count++] = pe;
    place->users++;
    send_control(t, pe, WHI_PLACE_NEW, row, place->number);
}

void whi_place_unused(whi_place *place, uint32_t pe) {
    if (place->users)
        place->users--;
    for (uint32_t i = 0; i < place->told_count; i++)
        if (place->told[i] == pe)
            place->told[i] = place->told[--place->told_count];
}

// ---- streams of a source

// Returns where the flow of a source is, or would be.
static whi_flow **place_of_flow(whi_place *place, uint32_t source) {
    whi_flow **at = &place->flows;
    while (*at && (*at)->source < source)
        at = &(*at)->next;
    return at;
}

static whi_flow *find_flow(whi_place *place, uint32_t source) {
    whi_flow *flow = *place_of_flow(place, source);
    return flow && flow->source == source ? flow : NULL;
}

whi_flow *whi_flow_make(whi_places *t, whi_place *place, uint32_t source) {
    whi_flow **at = place_of_flow(place, source), *flow = &whi_piece_take(t)->flow;
    *flow = (whi_flow){.next = *at, .source = source};
    whi_queue_init(&flow->held);
    return *at = flow;
}

// Takes the first message of a stream out of a queue, or returns NULL.
static whi_place_message *take_of(whi_queue *queue, uint64_t stream, bool by_home) {
    for (whi_queue_node **at = &queue->first; *at; at = &(*at)->next) {
        whi_place_message *message = whi_container_of(*at, whi_place_message, node);
        if ((by_home ? message->stamp.via : message->stamp.entry) != stream)
            continue;
        whi_queue_take_out(queue, at);
        return message;
    }
    return NULL;
}

// The turn of a source's next stream.
static void next_stream(whi_places *t, whi_row *row, whi_place *place, whi_place_message *marker) {
    uint64_t entry = marker_number(marker);
    uint32_t source = marker->stamp.source;
    // It heard of that place late, and nobody else would tell it of a later one.
    if (entry && entry < place->number && !is_told(place, source))
        send_control(t, source, WHI_PLACE_LEAVE, row, entry);
    whi_piece_put(t, marker);
    whi_flow *flow = find_flow(place, source);
    if (!flow)
        flow = whi_flow_make(t, place, source);
    flow->entry = entry;
}

static void accept(whi_places *t, whi_row *row, whi_place *place, whi_place_message *message) {
    if (message->kind == WHI_PLACE_MARKER)
        next_stream(t, row, place, message);
    else
        settle(t, row, place, message);
}

static void in_flow(whi_places *t, whi_row *row, whi_place *place, whi_place_message *message) {
    uint32_t source = message->stamp.source;
    whi_flow *flow = find_flow(place, source);
    if (message->stamp.entry != (flow ? flow->entry : 0)) {
        if (!flow)
            flow = whi_flow_make(t, place, source);
        whi_queue_push(&flow->held, &message->node);
        return;
    }
    accept(t, row, place, message);
    if (!(flow = find_flow(place, source)))
        return;
    while ((message = take_of(&flow->held, flow->entry, false)))
        accept(t, row, place, message);
    if (!flow->entry && whi_queue_empty(&flow->held)) {
        *place_of_flow(place, source) = flow->next;
        whi_piece_put(t, flow);
    }
}

// ---- streams of home

static void from_home(whi_places *t, whi_row *row, whi_place *place, whi_place_message *message) {
    if (message->kind == WHI_PLACE_HOME_MARKER) {
        place->via = marker_number(message);
        whi_piece_put(t, message);
        return;
    }
    message->stamp.via = 0;
    if (message->kind == WHI_PLACE_MESSAGE)
        tell(t, row, place, message->stamp.source);
    in_flow(t, row, place, message);
}

static void arrange(whi_places *t, whi_row *row, whi_place *place, whi_place_message *message) {
    if (message->stamp.flags & WHI_STAMP_SETTLED) {
        settle(t, row, place, message);
    } else if (!message->stamp.via) {
        in_flow(t, row, place, message);
    } else if (message->stamp.via != place->via) {
        whi_queue_push(&place->by_home, &message->node);
    } else {
        from_home(t, row, place, message);
        while ((message = take_of(&place->by_home, place->via, true)))
            from_home(t, row, place, message);
    }
}

// ---- arrival

// Who sends its marker at the place where it let its messages in sends no more.
static void note_last(whi_place *place, const whi_place_message *message) {
    if (message->kind == WHI_PLACE_MESSAGE)
        return;
    bool home = message->kind == WHI_PLACE_HOME_MARKER;
    if ((home ? message->stamp.via : message->stamp.entry) == place->number)
        whi_place_unused(place, message->stamp.source);
}

void whi_place_enter(whi_places *t, whi_row *row, whi_place *place, whi_place_message *message) {
    note_last(place, message);
    switch (place->state) {
    case WHI_PLACE_HERE:
    case WHI_PLACE_VACANT: arrange(t, row, place, message); return;
    case WHI_PLACE_GATE:
    case WHI_PLACE_LEFT:
    case WHI_PLACE_ARRIVING:
    case WHI_PLACE_LEAVING:
        whi_queue_push(&place->queue, &message->node);
        whi_place_run(t, row, place);
        return;
    }
}

void whi_place_send(whi_places *t, whi_row *row, whi_place_message *message) {
    if (row->pe != t->self) {
        pass_on(t, row->pe, message);
        return;
    }
    whi_place *place = whi_place_find(row, row->number);
    whi_place_enter(t, row, place, message);
    whi_place_tidy(t, row, place);
}

void whi_place_enter_all(whi_places *t, whi_row *row, whi_place *place, whi_queue *messages) {
    for (whi_place_message *message; (message = whi_message_pop(messages));)
        arrange(t, row, place, message);
}

// ---- the end

void whi_place_gather(whi_places *t, whi_place *place) {
    for (whi_flow *flow; (flow = place->flows);) {
        whi_messages_move(&place->queue, &flow->held);
        place->flows = flow->next;
        whi_piece_put(t, flow);
    }
    whi_messages_move(&place->queue, &place->by_home);
}

// Nothing of earlier places is on its way, and all send by home, where nothing waits.
static bool is_plain(const whi_row *row, const whi_place *place) {
    return row->home_here && !whi_place_find(row, WHI_PLACE_GATE_NUMBER) && !place->flows &&
           !place->follows && place->users == 1 && whi_queue_empty(&place->by_home);
}

static void send_end(whi_places *t, const whi_row *row, const whi_place *place) {
    whi_place_control end = {
        .kind = WHI_PLACE_END,
        .key = row->key,
        .stamp = {.at = place->number + 1, .source = t->self},
    };
    t->ops->control(t->arg, place->to, &end);
}

void whi_place_tidy(whi_places *t, whi_row *row, whi_place *place) {
    if (!whi_queue_empty(&place->queue))
        return;
    switch (place->state) {
    case WHI_PLACE_HERE:
    case WHI_PLACE_VACANT:
        if (!is_plain(row, place))
            return;
        if (place->state == WHI_PLACE_VACANT)
            row->pe = WHI_NO_PE, row->number = 0;
        break;
    case WHI_PLACE_LEFT:
        if (place->users || place->follows || (row->pe == t->self && row->number == place->number))
            return;
        send_end(t, row, place);
        break;
    case WHI_PLACE_GATE: break;
    case WHI_PLACE_ARRIVING:
    case WHI_PLACE_LEAVING: return;
    }
    whi_place_free(row, place);
    whi_row_drop(t, row);
}
