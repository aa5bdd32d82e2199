// SPDX-License-Identifier: BSD-3-Clause
//
// The way of most calls: few bytes, to an element that is here and has never moved, or of which this PE knows nothing but its home.
//
// What it does is what whi_call_send would do through the table of places, without asking it twice; and what goes to another PE
// becomes a message at once, as nothing is left to be decided of it here.
#include "rt/chare/chares.h"

// is_direct says whether a call of the program's asks for nothing else.
static bool is_direct(const whi_collection *in, size_t size, const wh_send_opts *opts) {
    return in->known && size < WHI_MSG_LENT_MIN && !(opts && opts->count);
}

static wh_status end(const whi_chares *c) {
    return c->pe->exit.state == WHI_END_GONE ? WH_ECLOSED : WH_OK;
}

static wh_status give(whi_chares *c, whi_element *element, const whi_place_key *key, unsigned entry,
                      const void *args, size_t size, const wh_send_opts *opts) {
    whi_call *call = whi_call_new(c, key, entry, size);
    if (!call)
        return WH_ENOMEM;
    call->ref = opts ? opts->ref : 0;
    call->msg->pub.priority = opts ? opts->priority : 0;
    if (size)
        memcpy(call->msg->pub.data, args, size);
    c->pe->quiet.made++;
    whi_call_deliver(c, element, call);
    return end(c);
}

// is_near says whether a PE is in this process.  It gets the message itself, and may write a longer head into it.
static bool is_near(const whi_chares *c, uint32_t pe) {
    uint32_t local = (uint32_t)whi_wire_local(c->pe->wire);
    return local > 1 && pe / local == (uint32_t)c->pe->number / local;
}

static wh_status pass(whi_chares *c, uint32_t pe, const whi_place_key *key, unsigned entry,
                      const void *args, size_t size, const wh_send_opts *opts) {
    whi_msg *msg = whi_msg_new(c->pe->wire, WHI_HEAD_MAX, size);
    if (!msg)
        return WH_ENOMEM;
    const whi_head_call head = {.place = {.key = *key, .stamp.source = (uint32_t)c->pe->number},
                                .entry = (uint16_t)entry,
                                .ref = opts ? opts->ref : 0};
    msg->pub.source = c->pe->number;
    msg->pub.handler = WHI_PE_HEADS;
    msg->pub.priority = opts ? opts->priority : 0;
    msg->pub.head_size = whi_head_encode_call(&head, msg->own);
    if (!is_near(c, pe))
        whi_msg_put_head(msg, msg->pub.head_size);
    if (size)
        memcpy(msg->pub.data, args, size);
    c->pe->quiet.made++;  // it goes to another PE
    whi_call_post(c, pe, msg, true);
    return end(c);
}

bool whi_call_direct(whi_chares *c, const whi_collection *in, const whi_place_key *key,
                     unsigned entry, const void *args, size_t size, const wh_send_opts *opts,
                     wh_status *st) {
    if (!is_direct(in, size, opts))
        return false;
    bool known;
    whi_element *element = whi_places_look(c->places, key, &known);
    if (element) {
        *st = give(c, element, key, entry, args, size, opts);
        return true;
    }
    uint32_t self = (uint32_t)c->pe->number, pe = known ? self : whi_collection_home(c, key);
    if (pe == self)
        return false;
    *st = pass(c, pe, key, entry, args, size, opts);
    return true;
}
