// SPDX-License-Identifier: BSD-3-Clause
//
// Elements of a balanced array: at their sync points, on the way to another PE, resumed.
//
// How many sync points an element has reached, and whether it waits at one, travels with it.  So an element that was moving
// while its PE was told to resume goes on where it arrives.
#include "base/alloc.h"
#include "rt/chare/step.h"
#include "rt/chare/why.h"

WHI_COLD static wh_status refuse(const wh_chare *self, const char *call, wh_status st) {
    const whi_element *element = (const whi_element *)self;
    if (!self)
        return whi_refuse(st, "E-CHARE-15", "%s: self is NULL", call);
    if (element->sync && !element->reduces)
        return whi_refuse_reduction(self, call, st);
    whi_text who = whi_say_proxy(whi_chares_get(self->pe), &self->proxy);
    if (st == WH_EBUSY)
        return whi_refuse(
            st, "E-CHARE-15",
            "%s: %s waits at sync point %llu already: go on in the entry `resume` of its "
            "array",
            call, who.text, (unsigned long long)element->sync->reached);
    return whi_refuse(st, "E-CHARE-15",
                      "%s: %s is not balanced: make its array with `balance` and `resume` "
                      "(wh_array_opts)",
                      call, who.text);
}

wh_status wh_chare_sync(wh_chare *self) {
    whi_element *element = (whi_element *)self;
    whi_chares *c = self ? whi_chares_get(self->pe) : NULL;
    if (!c)
        return refuse(self, "wh_chare_sync", WH_EINVAL);
    if (!element->sync || !element->reduces)
        return refuse(self, "wh_chare_sync", WH_ENOTSUP);
    if (element->dying)
        return WH_ECLOSED;
    if (element->sync->waits)
        return refuse(self, "wh_chare_sync", WH_EBUSY);
    wh_status st = whi_reduce_sync(c, element);
    element->sync->waits = st == WH_OK;
    return st;
}

wh_status wh_chare_set_load(wh_chare *self, double load) {
    whi_element *element = (whi_element *)self;
    if (!self)
        return refuse(self, "wh_chare_set_load", WH_EINVAL);
    if (!whi_is_load(load))
        return whi_refuse(
            WH_EINVAL, "E-CHARE-15",
            "wh_chare_set_load: the load of %s is %g, and is to be finite and 0 or more",
            whi_say_proxy(whi_chares_get(self->pe), &self->proxy).text, load);
    if (!element->sync)
        return refuse(self, "wh_chare_set_load", WH_ENOTSUP);
    element->sync->told = load;
    return WH_OK;
}

// ---- What a step does with them.

static bool is_at(const whi_balance *b, const whi_element *element) {
    return element->sync->waits && element->sync->reached == b->step;
}

// is_fixed says whether an element cannot move now.  One that is in the middle of something is not waited for, since that may
// wait for the end of the step.
static bool is_fixed(whi_chares *c, whi_element *element) {
    return !element->cls->pack || element->running || element->moves_to >= 0 ||
           whi_move_hindrance(c, element);
}

// take_load ends what is measured for this step.
static double take_load(whi_sync *sync) {
    sync->load = sync->told >= 0 ? sync->told : (double)sync->spent * 1e-9;
    sync->told = -1;
    sync->spent = 0;
    return sync->load;
}

wh_status whi_sync_collect(whi_chares *c, whi_balance *b) {
    size_t most = b->in->count;
    whi_free(b->own);
    whi_free(b->keys);
    b->count = 0;
    b->own = whi_calloc(most + 1, sizeof(*b->own));
    b->keys = whi_calloc(most + 1, sizeof(*b->keys));
    if (!b->own || !b->keys)
        return WH_ENOMEM;
    double total = 0;
    whi_list_foreach(node, &b->in->elements) {
        whi_element *element = whi_container_of(node, whi_element, link);
        if (!is_at(b, element))
            continue;
        wh_balance_element *own = &b->own[b->count];
        *own = (wh_balance_element){
            .load = take_load(element->sync), .pe = c->pe->number, .fixed = is_fixed(c, element)};
        b->keys[b->count++] = whi_element_key(element);
        b->sum.fixed += own->fixed;
        total += own->load;
    }
    b->sum.elements += b->count;
    b->sum.total = b->sum.max = total;
    return WH_OK;
}

void whi_sync_send(whi_chares *c, whi_balance *b, size_t i, uint32_t to) {
    whi_element *element = whi_places_find(c->places, &b->keys[i]);
    if (!element || !is_at(b, element) || is_fixed(c, element) || to == (uint32_t)c->pe->number)
        return;
    element->sync->sent = true;
    if (!whi_move_element(c, element, (int)to)) {
        element->sync->sent = false;
        b->sum.fixed++;
        return;
    }
    b->away++;
    b->sum.moved++;
}

double whi_sync_measure(const whi_balance *b) {
    double total = 0;
    whi_list_foreach(node, &b->in->elements) {
        const whi_element *element = whi_container_of(node, whi_element, link);
        total += is_at(b, element) ? element->sync->load : 0;
    }
    return total;
}

// It is a message to itself, so that the entries run in the scheduler's turn and may do what they like with the list of elements.
void whi_sync_resume(whi_chares *c, const whi_balance *b, whi_element *element) {
    if (!element->sync->waits || element->sync->reached > b->resumed)
        return;
    whi_place_key key = whi_element_key(element);
    whi_call *call = whi_call_new(c, &key, b->in->def.resume, 0);
    if (!call) {
        whi_pe_fail(c->pe, "there is no memory to have an element go on from its sync point");
        return;
    }
    element->sync->waits = false;
    call->ref = (int64_t)element->sync->reached;
    call->from = (uint32_t)c->pe->number;
    call->follows = true;                         // no error if the element ends before
    call->place.stamp.flags = WHI_STAMP_SETTLED;  // should it move first
    c->pe->quiet.made++;
    whi_call_deliver(c, element, call);
}
