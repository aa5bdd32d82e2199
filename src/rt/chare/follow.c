// SPDX-License-Identifier: BSD-3-Clause
//
// Broadcasts to elements that move: each element has each of them, once, in their order.
//
// An element may come to a PE that has given out later broadcasts already.  So the PE that it has left sends what comes there
// afterwards on to it, as calls, up to the number of which it hears from the new PE, which gives the element what is later
// than that.  Both can send at a time, and the element takes by number.
#include "base/alloc.h"
#include "rt/chare/chares.h"

typedef struct departed {
    whi_list link;
    uint64_t id;
    whi_place_key key;
    uint64_t due;    // the last broadcast that it need not be sent
    uint64_t until;  // the last one that it must; UINT64_MAX: not known yet
} departed;

// ---- The PE that it has left.

wh_status whi_follow_depart(whi_chares *c, whi_element *element, whi_head *state) {
    const whi_waits *w = element->waits;
    bool lacks = whi_follow_lacks(element);
    state->state.due = lacks ? w->due : element->epoch;
    state->state.had = lacks ? w->had : element->epoch;
    if (element->collection->def.kind == WHI_SINGLES)
        return WH_OK;
    departed *d = whi_malloc(sizeof(*d));
    if (!d)
        return WH_ENOMEM;
    *d = (departed){.id = ++c->departures,
                    .key = whi_element_key(element),
                    .due = state->state.due,
                    .until = UINT64_MAX};
    whi_list_push_back(&element->collection->departed, &d->link);
    state->state.departure = d->id;
    return WH_OK;
}

static void tidy(const whi_collection *in, departed *d) {
    if (in->epoch < d->until)
        return;
    whi_list_remove(&d->link);
    whi_free(d);
}

unsigned whi_follow_entry(const whi_head *head) {
    switch ((whi_broadcast_what)head->broadcast.what) {
    case WHI_BROADCAST_CALL: return head->broadcast.entry;
    case WHI_BROADCAST_DESTROY: return WHI_ENTRY_DESTROY;
    default: return WHI_ENTRY_NOTHING;
    }
}

static bool send_on(whi_chares *c, const departed *d, const whi_head *head, const wh_pe_msg *msg) {
    whi_call *call = whi_call_new(c, &d->key, whi_follow_entry(head), msg->size);
    if (!call) {
        whi_pe_fail(c->pe, "there is no memory for a message to all elements");
        return false;
    }
    if (msg->size)
        memcpy(call->msg->pub.data, msg->data, msg->size);
    call->ref = head->broadcast.ref;
    call->number = head->broadcast.number;
    call->from = head->broadcast.source;
    call->follows = true;
    wh_status st = whi_call_send(c, call);
    if (st == WH_ENOMEM)
        whi_pe_fail(c->pe, "there is no memory for a message to all elements");
    return st == WH_OK;
}

void whi_follow_send(whi_chares *c, whi_collection *in, const whi_head *head,
                     const wh_pe_msg *msg) {
    uint64_t number = head->broadcast.number;
    for (whi_list *node = in->departed.next, *next; node != &in->departed; node = next) {
        next = node->next;
        departed *d = whi_container_of(node, departed, link);
        if (number > d->due && number <= d->until && !send_on(c, d, head, msg))
            return;
        tidy(in, d);
    }
}

void whi_follow_arrived(whi_chares *c, const whi_head *head) {
    whi_collection *in = whi_collection_find(c, head->arrived.collection);
    for (whi_list *node = in ? in->departed.next : NULL; node && node != &in->departed;
         node = node->next) {
        departed *d = whi_container_of(node, departed, link);
        if (d->id != head->arrived.departure)
            continue;
        d->until = head->arrived.until;
        tidy(in, d);
        return;
    }
}

void whi_follow_free(whi_collection *in) {
    whi_list *node;
    while ((node = whi_list_pop_front(&in->departed)))
        whi_free(whi_container_of(node, departed, link));
}

// ---- The PE to which it has come.

wh_status whi_follow_arrive(whi_chares *c, whi_element *element, const whi_head *state,
                            int source) {
    uint64_t here = element->collection->epoch;
    uint64_t due = here > state->state.due ? here : state->state.due;
    if (state->state.had < due) {
        whi_waits *w = whi_waits_of(element);
        if (!w)
            return WH_ENOMEM;
        w->had = state->state.had;
        w->due = due;
    }
    whi_element_set_epoch(element, due);
    if (!state->state.departure)
        return WH_OK;
    whi_head arrived = {.kind = WHI_HEAD_ARRIVED,
                        .arrived = {.collection = state->state.key.collection,
                                    .departure = state->state.departure,
                                    .until = due}};
    return whi_chares_tell(c, source, &arrived, NULL, 0);
}

bool whi_follow_lacks(const whi_element *element) {
    return element->waits && element->waits->had < element->waits->due;
}

void whi_follow_keep(whi_chares *c, whi_element *element, whi_call *call) {
    whi_waits *w = element->waits;
    if (call->number > w->due)
        w->due = call->number;
    if (!whi_call_own(call)) {
        whi_pe_fail(c->pe, "there is no memory to keep a message");
        return;
    }
    whi_queue_node **at = &w->ahead.first;
    while (*at && whi_container_of(*at, whi_call, place.node)->number < call->number)
        at = &(*at)->next;
    call->place.node.next = *at;
    if (!*at)
        w->ahead.last = &call->place.node.next;
    *at = &call->place.node;
}

static bool is_kept(const whi_waits *w, uint64_t number) {
    for (whi_queue_node *node = w->ahead.first; node; node = node->next)
        if (whi_container_of(node, whi_call, place.node)->number == number)
            return true;
    return false;
}

static whi_call *next_of(whi_waits *w) {
    whi_queue_node *node = whi_queue_first(&w->ahead);
    whi_call *next = node ? whi_container_of(node, whi_call, place.node) : NULL;
    if (!next || next->number != w->had + 1)
        return NULL;
    whi_queue_pop(&w->ahead);
    w->had++;
    return next;
}

void whi_follow_take(whi_chares *c, whi_element *element, whi_call *call) {
    whi_waits *w = element->waits;
    // Until it hears the number, the PE that the element has left sends more than it must.
    if (!whi_follow_lacks(element) || call->number <= w->had || call->number > w->due ||
        is_kept(w, call->number)) {
        whi_call_free(c, call);
        return;
    }
    whi_follow_keep(c, element, call);
    whi_element_enter(element);  // it must not go meanwhile
    while (!element->dying && element->moves_to < 0 && (call = next_of(w))) {
        call->number = 0;
        call->element = element;
        whi_element_take(c, call);
    }
    whi_element_leave(c, element);
}
