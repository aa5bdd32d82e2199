// SPDX-License-Identifier: BSD-3-Clause
//
// Elements that leave a PE and come to another one.
//
// An element is packed when nothing of it runs.  Its state goes in the order of calls: the order of its messages (rt/move), what it
// waits for, its own bytes.  What it had been given and has not seen follows it, in front of all else, as do the messages that it has
// parked.  Where it arrives, the order is taken in at once, and the element in the scheduler's turn.
//
// A state whose data is still arriving holds up what its PE has sent behind it.
#include "base/alloc.h"
#include "base/log.h"
#include "rt/chare/why.h"

// ---- Leaving.

static size_t padded(size_t size) {
    return (size + 15) / 16 * 16;
}

static bool is_of(const whi_msg *msg, const void *element) {
    const whi_call *call = msg->floor == WHI_FLOOR_CHARE ? msg->above : NULL;
    return call && call->element == element;
}

// gather puts what the element has been given and has not seen into the order of its arrival.
static void gather(whi_chares *c, whi_element *element, whi_queue *run) {
    whi_waits *w = element->waits;
    whi_queue queued;
    whi_queue_init(&queued);
    whi_queue_node *node;
    whi_call *parked;
    while (w && (parked = whi_parked_pop(&w->parked))) {
        c->pe->quiet.made++;  // it is under way again
        whi_queue_push(run, &parked->place.node);
    }
    while (w && (node = whi_queue_pop(&w->ahead))) {
        c->pe->quiet.made++;
        whi_queue_push(run, node);
    }
    while (w && (node = whi_queue_pop(&w->kept)))
        whi_queue_push(run, node);
    if (element->queued)
        whi_sched_take(&c->pe->sched, is_of, element, &queued);
    while ((node = whi_queue_pop(&queued))) {
        whi_call *call = whi_container_of(node, whi_msg, link)->above;
        call->element = NULL;
        element->queued--;
        whi_queue_push(run, &call->place.node);
    }
}

WHI_COLD static void fail_pack(whi_chares *c, const whi_element *element, size_t said,
                               size_t packed) {
    whi_pe_fail(
        c->pe,
        "pack of class %s returns %zu bytes when it is asked for the size, and %zu when it writes "
        "%s: it must return the same",
        element->cls->name, said, packed, whi_say_proxy(c, &element->pub.proxy).text);
}

// state_of makes the message with which an element moves, or its order alone; `bytes` of its own are packed into it.
static whi_msg *state_of(whi_chares *c, const whi_head *head, const void *order, const void *above,
                         whi_element *element, size_t bytes) {
    size_t fixed = padded(head->state.order), shares = (size_t)head->state.shares * WHI_SHARE_SIZE,
           wants = (size_t)head->state.wants * WHI_WANT_SIZE,
           before = fixed + shares + wants + head->state.above;
    whi_msg *msg = whi_msg_new(c->pe->wire, WHI_HEAD_MAX, before + bytes);
    if (!msg)
        return NULL;
    char *data = msg->pub.data;
    memset(data, 0, fixed);
    memcpy(data, order, head->state.order);
    whi_writer to;
    whi_writer_init(&to, data + fixed, shares + wants);
    whi_shares_write(element, &to);
    if (head->state.wants)
        whi_when_write(element, &to);
    if (above)
        memcpy(data + fixed + shares + wants, above, head->state.above);
    size_t packed = bytes ? element->cls->pack(&element->pub, data + before) : 0;
    if (packed != bytes)
        fail_pack(c, element, bytes, packed);
    msg->pub.handler = WHI_PE_HEADS;
    msg->pub.head_size = whi_head_encode(head, msg->own);
    return msg;
}

// leave sends an element of `bytes` away.
static wh_status leave(whi_chares *c, whi_element *element, int to, size_t bytes) {
    whi_place_key key = whi_element_key(element);
    whi_head head = {.kind = WHI_HEAD_STATE,
                     .state = {.key = key,
                               .cls = whi_container_of(element->cls, whi_named, cls)->id,
                               .shares = whi_shares_of(element),
                               .wants = whi_when_count(element),
                               .reduces = element->reduces,
                               .contributed = element->contributed}};
    const whi_sync *sync = element->sync;
    if (sync) {
        head.state.synced = 1;
        head.state.waits = sync->waits;
        head.state.sent = sync->sent;
        head.state.reached = sync->reached;
        head.state.spent = sync->spent;
        head.state.told = sync->told;
        head.state.load = sync->load;
    }
    size_t size, above_size = 0;
    void *above = NULL;
    wh_status st = c->pe->above ? c->pe->above->pack(c->pe, &key, &above, &above_size) : WH_OK;
    head.state.above = above_size;
    if (st == WH_OK)
        st = whi_follow_depart(c, element, &head);
    if (st != WH_OK) {
        whi_free(above);
        return st;
    }
    whi_queue run;
    whi_queue_init(&run);
    gather(c, element, &run);
    void *order;
    st = whi_places_begin_move(c->places, &key, (uint32_t)to, &run, &order, &size);
    if (st != WH_OK) {
        whi_free(above);
        return st;
    }
    head.state.order = (uint32_t)size;
    whi_msg *msg = state_of(c, &head, order, above, element, bytes);
    whi_free(order);
    whi_free(above);
    if (!msg)
        return WH_ENOMEM;
    c->pe->quiet.made++;
    whi_call_post(c, (uint32_t)to, msg, true);
    return whi_places_end_move(c->places, &key);
}

// packed_size returns WH_PACK_FAILED, and has told of it, where the class cannot pack the element.
static size_t packed_size(const whi_chares *c, whi_element *element) {
    element->running++;  // whatever pack does, the element is here when it returns
    size_t bytes = element->cls->pack(&element->pub, NULL);
    element->running--;
    if (bytes == WH_PACK_FAILED)
        whi_log_once_per(WHI_WARN, "W-CHARE-14", 10, "%s stays: its class cannot pack it",
                         whi_say_proxy(c, &element->pub.proxy).text);
    return bytes;
}

static void go(whi_chares *c, whi_element *element, int to, size_t bytes) {
    const whi_chare_above *above = c->pe->above;
    whi_place_key key = whi_element_key(element);
    wh_status st = leave(c, element, to, bytes);
    if (st != WH_OK)
        whi_pe_fail(c->pe, "an element of class %s cannot move to PE %d: %s", element->cls->name,
                    to, wh_status_text(st));
    else
        whi_element_left(c, element);
    if (above)
        above->left(c->pe, &key);  // its destructor may still have used it
}

// ---- Waiting to leave.  It is under way meanwhile, and runs nothing.

static void hold(whi_chares *c, whi_element *element, int to) {
    element->moves_to = to;
    element->held = true;
    c->pe->quiet.made++;  // until it goes
    whi_element_enter(element);
}

void whi_move_keep(whi_chares *c, whi_element *element, whi_call *call) {
    whi_waits *w = whi_waits_of(element);
    if (!w || !whi_call_own(call)) {
        whi_call_free(c, call);
        whi_pe_fail(c->pe, "there is no memory to keep a message");
        return;
    }
    call->element = NULL;
    c->pe->quiet.made++;
    whi_queue_push(&w->kept, &call->place.node);
}

void whi_move_go(whi_chares *c, const whi_place_key *key) {
    whi_element *element = whi_places_find(c->places, key);
    if (!element || !element->held)
        return;
    int to = element->moves_to;
    element->held = false;
    element->moves_to = -1;
    element->running--;
    c->pe->quiet.consumed++;
    size_t bytes = packed_size(c, element);
    if (bytes == WH_PACK_FAILED)  // it could be, before its channels were held
        whi_pe_fail(c->pe, "an element of class %s cannot be packed any more", element->cls->name);
    else
        go(c, element, to, bytes);
}

bool whi_move_element(whi_chares *c, whi_element *element, int to) {
    const whi_chare_above *above = c->pe->above;
    whi_place_key key = whi_element_key(element);
    element->moves_to = -1;
    size_t bytes = to == c->pe->number ? 0 : packed_size(c, element);
    if (to == c->pe->number || bytes == WH_PACK_FAILED) {
        if (above)
            above->going(c->pe, &key, false);
        return bytes != WH_PACK_FAILED;
    }
    if (above && !above->leave(c->pe, &key))
        hold(c, element, to);
    else
        go(c, element, to, bytes);
    return true;
}

void whi_move_vacant(whi_chares *c, whi_element *element, void *order, size_t size) {
    whi_place_key key = whi_element_key(element);
    whi_head head = {
        .kind = WHI_HEAD_STATE,
        .state = {
            .key = key, .vacant = 1, .order = (uint32_t)size, .shares = whi_shares_of(element)}};
    whi_msg *msg = state_of(c, &head, order, NULL, element, 0);
    whi_free(order);
    if (!msg) {
        whi_pe_fail(c->pe, "there is no memory to destroy an element");
        return;
    }
    c->pe->quiet.made++;
    whi_call_post(c, whi_collection_home(c, &key), msg, true);
    if (whi_places_end_move(c->places, &key) != WH_OK)
        whi_pe_fail(c->pe, "an element cannot be destroyed");
}

const char *whi_move_hindrance(whi_chares *c, whi_element *element) {
    const whi_chare_above *above = c->pe->above;
    whi_place_key key = whi_element_key(element);
    const char *why = element->cls->stays ? element->cls->stays(&element->pub, false) : NULL;
    return !why && above ? above->holds(c->pe, &key) : why;
}

// is_held says whether something that does not move depends on where the element is.
static bool is_held(whi_chares *c, whi_element *element) {
    whi_place_key key = whi_element_key(element);
    const char *why = whi_move_hindrance(c, element);
    if (why)
        whi_log_once_per(WHI_WARN, "W-CHARE-10", 10, "wh_chare_move: %s cannot move: %s",
                         whi_say_key(c, &key).text, why);
    return why != NULL;
}

WHI_COLD static wh_status refuse_move(const whi_element *element) {
    return whi_refuse(WH_ENOTSUP, "E-CHARE-09", "wh_chare_move: %s cannot move: %s",
                      whi_say_proxy(whi_chares_get(element->pub.pe), &element->pub.proxy).text,
                      element->cls->pack ? "elements of groups stay where they are"
                                         : "its class has no pack and unpack (wh_class)");
}

wh_status wh_chare_move(wh_chare *self, int to) {
    whi_element *element = (whi_element *)self;
    if (to < 0 || to >= self->pe->pes)
        return whi_refuse_pe(self->pe, "wh_chare_move", "to", to);
    if (!element->cls->pack || element->collection->def.kind == WHI_GROUP ||
        element->collection->def.kind == WHI_NODE_GROUP)
        return refuse_move(element);
    if (element->dying)
        return WH_ECLOSED;
    if (element->waits && !whi_list_empty(&element->waits->threads))
        return whi_refuse(
            WH_EBUSY, "E-CHARE-09",
            "wh_chare_move: %s cannot move while a threaded entry of it has not ended",
            whi_say_proxy(whi_chares_get(self->pe), &self->proxy).text);
    whi_chares *c = whi_chares_get(self->pe);
    if (element->held || is_held(c, element))
        return WH_EBUSY;
    whi_place_key key = whi_element_key(element);
    if (c->pe->above)
        c->pe->above->going(c->pe, &key, to != self->pe->number);
    element->moves_to = to;
    whi_element_enter(element);
    whi_element_leave(c, element);  // now, if nothing of it runs
    return WH_OK;
}

// ---- Coming.

bool whi_move_gate(whi_chares *c, whi_msg *msg) {
    whi_gate *g = whi_gate_at(&c->states, msg->pub.source);
    if (g)
        whi_queue_push(&g->queue, &msg->link);
    return g != NULL;
}

static void close_gate(whi_chares *c, whi_msg *msg) {
    whi_gate *g = whi_gate_close(&c->states, msg->pub.source);
    if (g)
        whi_queue_push(&g->queue, &msg->link);
    else
        whi_pe_fail(c->pe, "there is no memory for an element");
}

// is_ready says whether a message at the front of a gate can go on.
static bool is_ready(whi_chares *c, const whi_msg *msg) {
    whi_head head;
    if (whi_head_decode(whi_msg_head(msg), msg->pub.head_size, (uint32_t)msg->pub.source,
                        (uint32_t)c->pe->pes, &head) != WH_OK ||
        head.kind != WHI_HEAD_STATE)
        return true;
    whi_collection *in = whi_collection_find(c, head.state.key.collection);
    return !msg->arriving && in && in->known;
}

bool whi_move_open(whi_chares *c, int source) {
    whi_gate *g = whi_gate_at(&c->states, source);
    if (!g)
        return false;
    whi_msg *first = whi_container_of(whi_queue_first(&g->queue), whi_msg, link);
    if (!is_ready(c, first))
        return true;
    whi_queue all;
    whi_queue_take(&all, &g->queue);
    whi_gate_open(&c->states, source);
    whi_queue_node *node;
    while ((node = whi_queue_pop(&all)))  // of which another one may close it again
        whi_call_arrive(c, whi_container_of(node, whi_msg, link));
    return true;
}

void whi_move_open_all(whi_chares *c) {
    for (int i = 0; i < c->pe->pes && whi_hash_count(&c->states); i++)
        (void)whi_move_open(c, i);
}

static void strange(whi_chares *c, const whi_msg *msg) {
    whi_pe_fail(c->pe,
                "PE %d has sent an element that cannot come here: all processes must run the same "
                "program",
                msg->pub.source);
}

// end_elsewhere: an element that is at home here was destroyed.
static wh_status end_elsewhere(whi_chares *c, const whi_msg *msg, const whi_head *head) {
    whi_reader from;
    whi_share *shares;
    whi_reader_init(&from, msg->pub.data, msg->pub.size);
    (void)whi_reader_bytes(&from, padded(head->state.order));
    wh_status st = whi_shares_read(&from, head->state.shares, &shares);
    if (st != WH_OK)
        return st;
    if (whi_reader_done(&from))
        c->reduce.went(c, &head->state.key, shares, head->state.shares);
    else
        st = WH_EPROTOCOL;
    whi_free(shares);
    return st;
}

void whi_move_arrive(whi_chares *c, whi_msg *msg, const whi_head *head) {
    if (!is_ready(c, msg)) {
        close_gate(c, msg);
        return;
    }
    whi_place_key key;
    wh_status st = whi_msg_open(msg) ? WH_OK : WH_ENOMEM;
    if (msg->failed != WH_OK) {  // the element is lost with its PE
        c->pe->quiet.consumed++;
        whi_msg_free(msg);
        return;
    }
    if (st == WH_OK && head->state.order > msg->pub.size)
        st = WH_EPROTOCOL;
    if (st == WH_OK)
        st = whi_places_expect(c->places, msg->pub.data, head->state.order, &key);
    if (st == WH_OK && memcmp(&key, &head->state.key, sizeof(key)) != 0)
        st = WH_EPROTOCOL;
    if (st == WH_OK && head->state.vacant)
        st = end_elsewhere(c, msg, head);
    if (st != WH_OK)
        strange(c, msg);
    msg->above = NULL;  // it is no call
    msg->floor = WHI_FLOOR_CHARE;
    whi_sched_push(&c->pe->sched, msg);
}

WHI_COLD static void fail_unpack(const whi_element *element, size_t bytes, wh_status st) {
    wh_pe *pe = element->pub.pe;
    whi_pe_fail(pe, "unpack of class %s returns \"%s\" for the %zu bytes that pack has made of %s",
                element->cls->name, wh_status_text(st), bytes,
                whi_say_proxy(whi_chares_get(pe), &element->pub.proxy).text);
}

static wh_status unpack_above(const whi_element *element, uint64_t size, whi_reader *from) {
    wh_pe *pe = element->pub.pe;
    whi_place_key key = whi_element_key(element);
    const void *bytes = size <= whi_reader_left(from) ? whi_reader_bytes(from, size) : NULL;
    if (!size)
        return WH_OK;
    return bytes && pe->above ? pe->above->unpack(pe, &key, bytes, size) : WH_EPROTOCOL;
}

// unpack makes the element of what lies behind its order.
static wh_status unpack(whi_element *element, const whi_head *head, whi_reader *from) {
    whi_share *shares;
    wh_status st = whi_shares_read(from, head->state.shares, &shares);
    if (st == WH_OK && shares) {
        whi_waits *w = whi_waits_of(element);
        if (!w) {
            whi_free(shares);
            return WH_ENOMEM;
        }
        w->shares = shares;
        w->share_count = head->state.shares;
    }
    if (st == WH_OK)
        st = whi_when_read(element, from, head->state.wants);
    if (st == WH_OK)
        st = unpack_above(element, head->state.above, from);
    size_t bytes = whi_reader_left(from);
    const void *data = whi_reader_bytes(from, bytes);
    if (st == WH_OK && !whi_reader_ok(from))
        st = WH_EPROTOCOL;
    if (st != WH_OK)
        return st;
    whi_element_enter(element);
    st = element->cls->unpack(&element->pub, data, bytes);
    element->running--;
    if (st != WH_OK)
        fail_unpack(element, bytes, st);
    return st;
}

static wh_status install(whi_chares *c, const whi_head *head, wh_pe_msg *msg) {
    const whi_place_key key = head->state.key;
    whi_reader from;
    whi_reader_init(&from, msg->data, msg->size);
    if (!whi_reader_bytes(&from, padded(head->state.order)))
        return WH_EPROTOCOL;
    const whi_named *cls = whi_named_find(c, head->state.cls, WHI_NAMED_CLASS);
    whi_collection *in = whi_collection_find(c, key.collection);
    if (!cls || !cls->cls.unpack || !in)
        return WH_EPROTOCOL;
    whi_element *element = whi_element_new(c, in, cls, &key);
    if (!element)
        return WH_ENOMEM;
    if (!element->sync != !head->state.synced)
        return WH_EPROTOCOL;
    if (element->sync)
        *element->sync = (whi_sync){.spent = head->state.spent,
                                    .told = head->state.told,
                                    .load = head->state.load,
                                    .reached = head->state.reached,
                                    .waits = head->state.waits};
    element->reduces = head->state.reduces;
    element->contributed = head->state.contributed;
    wh_status st = unpack(element, head, &from);
    if (st == WH_OK)
        st = whi_follow_arrive(c, element, head, msg->source);
    if (st == WH_OK)
        st = whi_places_install(c->places, &key, element);
    if (st == WH_OK && element->sync)
        c->balance.came(c, element, msg->source, head->state.sent);
    return st;
}

void whi_move_install(whi_chares *c, whi_msg *msg) {
    whi_head head;
    if (whi_head_decode(msg->pub.head, msg->pub.head_size, (uint32_t)msg->pub.source,
                        (uint32_t)c->pe->pes, &head) != WH_OK ||
        head.kind != WHI_HEAD_STATE) {
        strange(c, msg);
        return;
    }
    if (head.state.vacant)
        return;
    wh_status st = install(c, &head, &msg->pub);
    if (st != WH_OK && !c->pe->exit.failed)  // else it has been said
        whi_pe_fail(c->pe, "an element that PE %d has sent cannot be unpacked: %s", msg->pub.source,
                    wh_status_text(st));
}
