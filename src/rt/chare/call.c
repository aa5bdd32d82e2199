// SPDX-License-Identifier: BSD-3-Clause
//
// Calls on their way to an element: sent, forwarded, delivered, rejected.
//
// What goes to another PE in the order of messages goes through whi_call_post.  A call that is sent on while its data is still arriving
// here closes the gate to that PE, and what comes behind it waits there.
//
// The table of places must not be called from its own functions, so these only put calls into queues.
#include "base/alloc.h"
#include "rt/chare/why.h"

static whi_call *call_of(whi_place_message *message) {
    return whi_container_of(message, whi_call, place);
}

// ---- Making and ending.

// make makes the call of a message; what its head says of it is still to be filled in.
static whi_call *make(whi_chares *c, whi_msg *msg) {
    whi_call *call = msg ? whi_pool_get(&c->calls) : NULL;
    if (!call)
        return NULL;
    call->msg = msg;
    call->element = NULL;
    call->held = NULL;
    call->posted = NULL;
    call->fate = WHI_FATE_PLACE;
    call->ours = false;
    call->to = 0;
    msg->above = call;
    msg->floor = WHI_FLOOR_CHARE;
    return call;
}

// begin makes the call of a message that is made here; NULL ends the message.
static whi_call *begin(whi_chares *c, whi_msg *msg, const whi_place_key *key, unsigned entry) {
    whi_call *call = make(c, msg);
    if (!call) {
        if (msg)
            whi_msg_free(msg);
        return NULL;
    }
    msg->pub.source = c->pe->number;
    msg->pub.handler = WHI_PE_HEADS;
    call->head = (whi_head_call){.number = 0};
    call->place.key = *key;
    call->place.stamp.source = (uint32_t)c->pe->number;
    call->entry = (uint16_t)entry;
    return call;
}

whi_call *whi_call_new(whi_chares *c, const whi_place_key *key, unsigned entry, size_t size) {
    return begin(c, whi_msg_new(c->pe->wire, WHI_HEAD_MAX, size), key, entry);
}

whi_call *whi_call_lend(whi_chares *c, const whi_place_key *key, unsigned entry, const void *args,
                        size_t size) {
    return begin(c, whi_msg_lend(c->pe->wire, WHI_HEAD_MAX, args, size), key, entry);
}

void whi_call_free(whi_chares *c, whi_call *call) {
    if (call->held)
        whi_buffers_drop(call->held);
    if (call->posted)
        whi_buffers_free(call->posted);
    call->msg->above = NULL;
    whi_msg_free(call->msg);
    whi_pool_put(&c->calls, call);
}

wh_call whi_call_public(const whi_call *call) {
    return (wh_call){.struct_size = sizeof(wh_call),
                     .args = call->msg->pub.data,
                     .size = whi_buffers_args(call),
                     .ref = call->ref,
                     .buffers = whi_buffers_frames(call),
                     .count = call->posted ? call->buffers : 0,
                     .source = (int)(call->follows ? call->from : call->place.stamp.source)};
}

bool whi_call_own(whi_call *call) {
    const whi_msg *msg = call->msg;
    if (msg->arriving || (!msg->am && !msg->charged && !msg->lent))
        return true;
    whi_msg *own = whi_msg_own(call->msg, WHI_HEAD_MAX);
    if (own)
        call->msg = own;
    return own != NULL;
}

// ---- To other PEs.

static void send_now(whi_chares *c, uint32_t dest, whi_msg *msg, bool counted) {
    wh_status st = whi_pe_send_msg(c->pe, (int)dest, msg);
    if (st == WH_OK)
        return;
    c->pe->quiet.consumed += counted;
    if (st == WH_ENOMEM)
        whi_pe_fail(c->pe, "there is no memory for a message to PE %u", dest);
    // Of a PE that is lost its loss has told.
}

void whi_call_post(whi_chares *c, uint32_t dest, whi_msg *msg, bool counted) {
    whi_gate *g = whi_gate_at(&c->gates, (int)dest);
    if (!g && !msg->arriving) {
        send_now(c, dest, msg, counted);
        return;
    }
    if (!g && !(g = whi_gate_close(&c->gates, (int)dest))) {
        whi_pe_fail(c->pe, "there is no memory for a message to PE %u", dest);
        return;
    }
    msg->pub.source = counted;  // until it is sent
    whi_queue_push(&g->queue, &msg->link);
}

static void open_gate(whi_chares *c, uint32_t dest) {
    whi_gate *g = whi_gate_at(&c->gates, (int)dest);
    whi_queue_node *node;
    while ((node = whi_queue_first(&g->queue))) {
        whi_msg *msg = whi_container_of(node, whi_msg, link);
        if (msg->arriving)
            return;
        whi_queue_pop(&g->queue);
        if (msg->failed == WH_OK) {
            send_now(c, dest, msg, msg->pub.source);
        } else {
            c->pe->quiet.consumed++;
            whi_msg_free(msg);
        }
    }
    whi_gate_open(&c->gates, (int)dest);
}

static void drop_call(void *arg, whi_msg *msg) {
    whi_chares *c = arg;
    if (msg->above)
        whi_pool_put(&c->calls, msg->above);
    msg->above = NULL;
}

void whi_call_free_gates(whi_chares *c) {
    whi_gates_free(&c->gates, drop_call, c);
}

// write_head puts the call into its message's head, which has the space: it was made here, or holds nothing else.
static void write_head(whi_call *call) {
    whi_msg *msg = call->msg;
    msg->pub.head = msg->own;
    msg->pub.head_size = whi_head_encode_call(&call->head, msg->own);
    msg->pub.handler = WHI_PE_HEADS;
}

static void decided(whi_chares *c, whi_call *call) {
    if (c->undecided == call)
        c->undecided = NULL;
}

// goes_as_it_is says whether a call can be sent out of the memory that it has been lent: nothing is in front of it.
static bool goes_as_it_is(const whi_chares *c, uint32_t pe, const whi_call *call) {
    return call->msg->lent && !whi_gate_at(&c->gates, (int)pe);
}

static void forward(void *arg, uint32_t pe, whi_place_message *message) {
    whi_chares *c = arg;
    whi_call *call = call_of(message);
    decided(c, call);
    if (!goes_as_it_is(c, pe, call) && !whi_call_own(call)) {
        whi_pe_fail(c->pe, "there is no memory for a message to PE %u", pe);
        whi_call_free(c, call);
        return;
    }
    whi_msg *msg = call->msg;
    whi_pe_aside(c->pe, msg, "forward");
    write_head(call);
    if (msg->arriving) {
        call->fate = WHI_FATE_FORWARD;
        call->to = pe;
    } else {
        whi_buffers_send(c, call, (int)pe);
        msg->above = NULL;
        whi_pool_put(&c->calls, call);
    }
    whi_call_post(c, pe, msg, true);
}

static void control(void *arg, uint32_t pe, const whi_place_control *what) {
    whi_chares *c = arg;
    wh_status st = WH_ENOMEM;
    if (whi_place_in_order(what) && pe != (uint32_t)c->pe->number) {
        whi_msg *msg = whi_msg_new(c->pe->wire, WHI_HEAD_MAX, 0);
        if (msg) {
            whi_head head = {.kind = WHI_HEAD_CONTROL, .control = *what};
            msg->pub.handler = WHI_PE_HEADS;
            msg->pub.head_size = whi_head_encode(&head, msg->own);
            whi_call_post(c, pe, msg, false);
            return;
        }
    } else {
        // To this PE those in order come, too: what they must not overtake has been there within the call.
        uint8_t bytes[1 + WHI_PLACE_ENCODED_MAX] = {WHI_CONTROL_PLACES};
        size_t size = 1 + whi_place_control_encode(what, bytes + 1);
        st = whi_wire_control(c->pe->wire, (int)pe, bytes, size);
    }
    if (st == WH_ENOMEM)
        whi_pe_fail(c->pe, "there is no memory for a message to PE %u", pe);
}

// ---- Here.

static void enqueue(whi_chares *c, whi_call *call) {
    if (call->msg->lent && !whi_call_own(call)) {
        whi_pe_fail(c->pe, "there is no memory to keep a message");
        call->msg->lent = false;
        call->msg->pub.size = 0;
    }
    whi_sched_push(&c->pe->sched, call->msg);
}

void whi_call_deliver(whi_chares *c, whi_element *element, whi_call *call) {
    const wh_class *cls = element->cls;
    call->element = element;
    element->queued++;
    if (call->entry < cls->entry_count && cls->entries[call->entry].flags & WH_ENTRY_EXPEDITED)
        call->msg->pub.priority = INT32_MIN;
    enqueue(c, call);
}

static void deliver(void *arg, void *element, whi_place_message *message) {
    whi_chares *c = arg;
    whi_call *call = call_of(message);
    const whi_element *to = element;
    decided(c, call);
    if (c->at_once == call && !to->running && !to->queued) {
        call->element = element;
        c->at_once = NULL;
        return;
    }
    whi_call_deliver(c, element, call);
}

// Who is told of it may call the table, so it waits for its turn.
static void reject(void *arg, whi_place_message *message) {
    whi_chares *c = arg;
    whi_call *call = call_of(message);
    decided(c, call);
    call->element = NULL;
    if (c->closing) {
        if (call->msg->arriving)
            whi_pool_put(&c->calls, call);  // the wire frees the message
        else
            whi_call_free(c, call);
    } else if (call->msg->arriving) {
        call->fate = WHI_FATE_REJECT;
    } else {
        enqueue(c, call);
    }
}

static uint32_t home(void *arg, const whi_place_key *key) {
    return whi_collection_home(arg, key);
}

static bool awaited(void *arg, const whi_place_key *key) {
    return whi_collection_awaits(arg, key);
}

const whi_place_ops whi_call_place_ops = {.home = home,
                                          .forward = forward,
                                          .control = control,
                                          .deliver = deliver,
                                          .reject = reject,
                                          .awaited = awaited};

void whi_call_run(wh_pe *pe, wh_pe_msg *pub, void *arg) {
    whi_chares *c = arg;
    whi_call *call = whi_msg_of(pub)->above;
    if (!call) {
        whi_move_install(c, whi_msg_of(pub));
        return;
    }
    whi_element *element = call->element;
    whi_pe_give_up(pe, call->msg);
    whi_msg_uncharge(call->msg);  // it may wait for long
    if (call->msg->failed != WH_OK) {
        if (element)
            element->queued--;
        whi_call_free(c, call);
        return;
    }
    if (!element) {
        whi_call_reject(c, call);
        return;
    }
    element->queued--;
    whi_element_take(c, call);
}

void whi_call_reject(whi_chares *c, whi_call *call) {
    wh_proxy proxy = whi_proxy_of(&call->place.key);
    unsigned entry = call->entry;
    int source = (int)call->place.stamp.source;
    bool follows = call->follows;
    whi_buffers_refuse(c, call);
    if (entry == WHI_ENTRY_ABOVE && c->pe->above) {
        whi_place_key key = call->place.key;
        c->pe->above->message(c->pe, &key, false, source, call->msg->pub.data, call->msg->pub.size);
        whi_call_free(c, call);
        return;
    }
    whi_call_free(c, call);
    if (follows)
        return;  // what was sent to all is for those that are there
    if (entry == WHI_ENTRY_DESTROY)
        whi_chares_error(
            c, &proxy,
            "PE %d has asked for the end of %s, which does not exist: it was destroyed, or never made",
            source, whi_say_proxy(c, &proxy).text);
    else
        whi_chares_error(
            c, &proxy,
            "PE %d has called %s of %s, which does not exist: it was destroyed, or never made",
            source, whi_say_entry(c, &proxy, entry).text, whi_say_proxy(c, &proxy).text);
}

// ---- Into the places.

// give has the places take a call by one of their functions; if it has to wait it keeps nothing of its sender.
static wh_status give(whi_chares *c, whi_call *call,
                      wh_status (*take)(whi_places *places, whi_place_message *message)) {
    c->undecided = call;
    wh_status st = take(c->places, &call->place);
    if (st == WH_OK && c->undecided && !whi_call_own(call))
        whi_pe_fail(c->pe, "there is no memory to keep a message");
    c->undecided = NULL;
    return st;
}

// route sends a call to where its element is, or has it wait for its collection.  WH_ENOMEM: nothing has been done.
static wh_status route(whi_chares *c, whi_call *call, bool ours) {
    whi_collection *in = whi_collection_find(c, call->place.key.collection);
    if (!in)
        return WH_ENOMEM;
    if (!in->known) {
        if (!whi_call_own(call))
            return WH_ENOMEM;
        call->fate = WHI_FATE_WAIT;
        call->ours = ours;
        whi_queue_push(&in->waiting, &call->place.node);
        return WH_OK;
    }
    if (in->def.dims != call->place.key.dims) {
        call->place.incomplete = false;
        reject(c, &call->place);
        return WH_OK;
    }
    call->fate = WHI_FATE_PLACE;
    return give(c, call, ours ? whi_places_send : whi_places_arrive);
}

// A call that has been accepted cannot be given back.
static void route_on(whi_chares *c, whi_call *call, bool ours) {
    wh_status st = route(c, call, ours);
    if (st != WH_OK)
        whi_pe_fail(c->pe, "a message to %s cannot be taken: %s",
                    whi_say_key(c, &call->place.key).text, wh_status_text(st));
}

wh_status whi_call_send(whi_chares *c, whi_call *call) {
    c->pe->quiet.made++;
    wh_status st = route(c, call, true);
    if (st == WH_OK)
        return c->pe->exit.state == WHI_END_GONE ? WH_ECLOSED : WH_OK;
    c->pe->quiet.made--;
    if (call->held)
        whi_buffers_forget(call->held);
    call->held = NULL;
    whi_call_free(c, call);
    return st;
}

wh_status whi_call_send_at_once(whi_chares *c, whi_call *call) {
    c->at_once = call;
    wh_status st = whi_call_send(c, call);
    bool now = st == WH_OK && !c->at_once;
    c->at_once = NULL;
    if (!now)
        return st;
    c->pe->quiet.consumed++;
    c->depth++;
    whi_element_take(c, call);
    c->depth--;
    return WH_OK;
}

void whi_call_release(whi_chares *c, whi_collection *in) {
    whi_queue_node *node;
    while ((node = whi_queue_pop(&in->waiting))) {
        whi_call *call = whi_container_of(node, whi_call, place.node);
        route_on(c, call, call->ours);
    }
}

// ---- From other PEs.

static void strange(whi_chares *c, int source) {
    whi_pe_fail(c->pe,
                "PE %d has sent a message for chares that is none: all processes must run the same "
                "program",
                source);
}

// drop_arrived ends a message that cannot be taken; one whose data is arriving ends with that.
static void drop_arrived(whi_msg *msg) {
    msg->above = NULL;
    if (!msg->arriving)
        whi_msg_free(msg);
}

// arrive takes a call.
static void arrive(whi_chares *c, whi_msg *msg) {
    int source = msg->pub.source;
    whi_call *call = make(c, msg);
    if (!call) {
        drop_arrived(msg);
        whi_pe_fail(c->pe, "there is no memory for a message of PE %d", source);
        return;
    }
    wh_status st =
        whi_head_decode_call(whi_msg_head(msg), msg->pub.head_size, (uint32_t)msg->pub.source,
                             (uint32_t)c->pe->pes, &call->head);
    if (st != WH_OK) {
        whi_pool_put(&c->calls, call);
        drop_arrived(msg);
        strange(c, source);
        return;
    }
    call->place.incomplete = msg->arriving;
    route_on(c, call, false);
}

void whi_call_arrive(void *chares, whi_msg *msg) {
    whi_chares *c = chares;
    whi_head head;
    if (whi_move_gate(c, msg))
        return;
    if (whi_head_is_call(whi_msg_head(msg), msg->pub.head_size)) {
        arrive(c, msg);
        return;
    }
    wh_status st = whi_head_decode(whi_msg_head(msg), msg->pub.head_size, (uint32_t)msg->pub.source,
                                   (uint32_t)c->pe->pes, &head);
    int source = msg->pub.source;
    if (st == WH_OK && head.kind == WHI_HEAD_CONTROL) {
        whi_pe_aside(c->pe, msg, "chares");
        if (!msg->arriving)
            whi_msg_free(msg);
        st = whi_places_control(c->places, (uint32_t)source, &head.control);
    } else if (st == WH_OK && head.kind == WHI_HEAD_STATE) {
        whi_move_arrive(c, msg, &head);
    } else {
        st = WH_EPROTOCOL;
    }
    if (st != WH_OK)
        strange(c, source);
}

static void complete(whi_chares *c, whi_call *call) {
    int source;
    switch ((whi_fate)call->fate) {
    case WHI_FATE_PLACE:
        source = (int)call->place.stamp.source;
        if (give(c, call, whi_places_complete) != WH_OK)
            strange(c, source);
        break;
    case WHI_FATE_FORWARD:
        call->msg->above = NULL;
        uint32_t to = call->to;
        if (call->msg->failed == WH_OK)
            whi_buffers_send(c, call, (int)to);
        whi_pool_put(&c->calls, call);
        open_gate(c, to);
        break;
    case WHI_FATE_REJECT: enqueue(c, call); break;
    case WHI_FATE_WAIT:
        call->place.incomplete = false;
        if (!whi_call_own(call))
            whi_pe_fail(c->pe, "there is no memory to keep a message");
        break;
    }
}

// Of data that does not come since its sender is lost, the loss tells: the call goes where it would, and is dropped there.
void whi_call_arrived(void *chares, whi_msg *msg, wh_status status) {
    whi_chares *c = chares;
    whi_call *call = msg->above;
    bool running = c->pe->exit.state < WHI_END_STOPPED;
    if (status == WH_ENOMEM && running)
        whi_pe_fail(c->pe, "there is no memory for %zu bytes from PE %d", msg->pub.size,
                    msg->pub.source);
    if (call && running) {
        complete(c, call);
    } else if (call) {
        if (call->fate == WHI_FATE_REJECT)
            whi_call_free(c, call);
    } else if (running ? !whi_move_open(c, msg->pub.source)
                       : !whi_gate_at(&c->states, msg->pub.source)) {
        whi_msg_free(msg);
    }
}

void whi_call_control(wh_pe *pe, int source, const void *data, size_t size, void *chares) {
    whi_chares *c = chares;
    whi_place_control what;
    wh_status st = WH_EPROTOCOL;
    if (size > 1)
        st = whi_place_control_decode((const char *)data + 1, size - 1, (uint32_t)source,
                                      (uint32_t)pe->pes, &what);
    if (st == WH_OK && whi_place_in_order(&what) && source != pe->number)
        st = WH_EPROTOCOL;
    if (st == WH_OK)
        st = whi_places_control(c->places, (uint32_t)source, &what);
    if (st != WH_OK)
        strange(c, source);
}
