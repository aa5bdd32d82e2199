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
#include "rt/chare/chares.h"

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
    if (element->queued)
        whi_sched_take(&c->pe->sched, is_of, element, &queued);
    while ((node = whi_queue_pop(&queued))) {
        whi_call *call = whi_container_of(node, whi_msg, link)->above;
        call->element = NULL;
        element->queued--;
        whi_queue_push(run, &call->place.node);
    }
}

// state_of makes the message with which an element moves; the element's own bytes are packed into it.
static whi_msg *state_of(whi_chares *c, const whi_head *head, const void *order,
                         whi_element *element, size_t bytes) {
    size_t fixed = padded(head->state.order), wants = (size_t)head->state.wants * WHI_WANT_SIZE;
    whi_msg *msg = whi_msg_new(c->pe->wire, WHI_HEAD_MAX, fixed + wants + bytes);
    if (!msg)
        return NULL;
    char *data = msg->pub.data;
    memset(data, 0, fixed);
    memcpy(data, order, head->state.order);
    if (element) {
        whi_writer to;
        whi_writer_init(&to, data + fixed, wants);
        whi_when_write(element, &to);
        if (bytes && element->cls->pack(&element->pub, data + fixed + wants) != bytes)
            whi_pe_fail(c->pe, "class %s packs another number of bytes than it has said",
                        element->cls->name);
    }
    msg->pub.handler = WHI_PE_HEADS;
    msg->pub.head_size = whi_head_encode(head, msg->own);
    return msg;
}

static wh_status leave(whi_chares *c, whi_element *element, int to) {
    whi_place_key key = whi_element_key(element);
    whi_head head = {.kind = WHI_HEAD_STATE,
                     .state = {.key = key,
                               .cls = whi_container_of(element->cls, whi_named, cls)->id,
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
    size_t bytes = element->cls->pack(&element->pub, NULL), size;
    wh_status st = whi_follow_depart(c, element, &head);
    if (st != WH_OK)
        return st;
    whi_queue run;
    whi_queue_init(&run);
    gather(c, element, &run);
    void *order;
    st = whi_places_begin_move(c->places, &key, (uint32_t)to, &run, &order, &size);
    if (st != WH_OK)
        return st;
    head.state.order = (uint32_t)size;
    whi_msg *msg = state_of(c, &head, order, element, bytes);
    whi_free(order);
    if (!msg)
        return WH_ENOMEM;
    c->pe->quiet.made++;
    whi_call_post(c, (uint32_t)to, msg, true);
    return whi_places_end_move(c->places, &key);
}

void whi_move_element(whi_chares *c, whi_element *element, int to) {
    element->moves_to = -1;
    if (to == c->pe->number)
        return;
    wh_status st = leave(c, element, to);
    if (st != WH_OK)
        whi_pe_fail(c->pe, "an element of class %s cannot move to PE %d: %s", element->cls->name,
                    to, wh_status_text(st));
    else
        whi_element_left(c, element);
}

void whi_move_vacant(whi_chares *c, const whi_element *element, void *order, size_t size) {
    whi_place_key key = whi_element_key(element);
    whi_head head = {.kind = WHI_HEAD_STATE,
                     .state = {.key = key, .vacant = 1, .order = (uint32_t)size}};
    whi_msg *msg = state_of(c, &head, order, NULL, 0);
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

const char *whi_move_hindrance(whi_chares *c, const whi_element *element) {
    const whi_chare_above *above = c->pe->above;
    whi_place_key key = whi_element_key(element);
    return above && above->holds(c->pe, &key)
               ? "it has a channel, or another element has opened one to it"
           : c->reduce.holds(c, element) ? "it belongs to a section"
                                         : NULL;
}

// is_held says whether something that does not move depends on where the element is.
static bool is_held(whi_chares *c, const whi_element *element) {
    whi_place_key key = whi_element_key(element);
    const char *why = whi_move_hindrance(c, element);
    if (why)
        whi_log_once_per(WHI_WARN, "W-CHARE-10", 10,
                         "element (%d, ...) of collection %u cannot move: %s", key.index[0],
                         key.collection, why);
    return why != NULL;
}

wh_status wh_chare_move(wh_chare *self, int to) {
    whi_element *element = (whi_element *)self;
    if (to < 0 || to >= self->pe->pes)
        return WH_EINVAL;
    if (!element->cls->pack || element->collection->def.kind == WHI_GROUP ||
        element->collection->def.kind == WHI_NODE_GROUP)
        return WH_ENOTSUP;
    if (element->dying)
        return WH_ECLOSED;
    if (element->waits && !whi_list_empty(&element->waits->threads))
        return WH_EBUSY;
    whi_chares *c = whi_chares_get(self->pe);
    if (is_held(c, element))
        return WH_EBUSY;
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
    if (st != WH_OK)
        strange(c, msg);
    msg->above = NULL;  // it is no call
    msg->floor = WHI_FLOOR_CHARE;
    whi_sched_push(&c->pe->sched, msg);
}

// unpack makes the element of what lies behind its order.
static wh_status unpack(whi_element *element, const whi_head *head, whi_reader *from) {
    wh_status st = whi_when_read(element, from, head->state.wants);
    size_t bytes = whi_reader_left(from);
    const void *data = whi_reader_bytes(from, bytes);
    if (st == WH_OK && !whi_reader_ok(from))
        st = WH_EPROTOCOL;
    if (st != WH_OK)
        return st;
    whi_element_enter(element);
    st = element->cls->unpack(&element->pub, data, bytes);
    element->running--;
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
    if (st != WH_OK)
        whi_pe_fail(c->pe, "an element that PE %d has sent cannot be unpacked: %s", msg->pub.source,
                    wh_status_text(st));
}
