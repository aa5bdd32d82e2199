// SPDX-License-Identifier: BSD-3-Clause
#include "rt/move/model.h"

#include <stdarg.h>

struct model model;

void say(int key, const char *format, ...) {
    if (model.trace == -2 || (model.trace >= 0 && model.trace != key))
        return;
    va_list args;
    va_start(args, format);
    printf("%8llu  ", (unsigned long long)model.step);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
}

void fail(int key, const char *format, ...) {
    va_list args;
    va_start(args, format);
    printf("seed %llu, step %llu: ", (unsigned long long)model.seed,
           (unsigned long long)model.step);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
    model.failed_key = key;
    longjmp(model.failed, 1);
}

static const char *const kinds[] = {"message", "marker", "home's marker", "end",
                                    "new",     "leave",  "release"};

// ---- the network

static void post(uint32_t from, uint32_t to, bool in_order, packet *p) {
    int at = (int)((from * (unsigned)model.pes + to) * 2 + in_order);
    channel *c = &model.channels[at];
    p->next = NULL;
    *c->last = p;
    c->last = &p->next;
    if (c->at < 0) {
        c->at = model.busy_count;
        model.busy[model.busy_count++] = at;
    }
}

static packet *new_packet(int kind, size_t size) {
    packet *p = malloc(sizeof(*p) + size);
    if (!p)
        abort();
    *p = (packet){.kind = (unsigned)kind, .size = size};
    return p;
}

static packet *take_packet(int at) {
    channel *c = &model.channels[at];
    packet *p = c->first;
    c->first = p->next;
    if (!c->first) {
        c->last = &c->first;
        int last = model.busy[--model.busy_count];
        model.busy[c->at] = last;
        model.channels[last].at = c->at;
        c->at = -1;
    }
    return p;
}

void send_state(int from, int to, const void *state, size_t size, element *e) {
    packet *p = new_packet(STATE, size);
    memcpy(p->bytes, state, size);
    p->element = e;
    post((uint32_t)from, (uint32_t)to, true, p);
}

// ---- what a table calls

static uint32_t home(void *arg, const whi_place_key *key) {
    (void)arg;
    return (uint32_t)number_of(key) % (unsigned)model.pes;
}

static void forward(void *arg, uint32_t pe, whi_place_message *m) {
    uint32_t self = (uint32_t)(uintptr_t)arg;
    message *o = (message *)m;
    const whi_place_stamp *s = &m->stamp;
    say(o->dest, "PE %u -> PE %u: message %d of PE %u, entry %llu via %llu at %llu flags %d", self,
        pe, o->id, s->source, (unsigned long long)s->entry, (unsigned long long)s->via,
        (unsigned long long)s->at, s->flags);
    if (pe == self || o->fate == TAKEN || o->fate == REJECTED || m->incomplete)
        fail(o->dest, "PE %u passes on message %d, which it must not", self, o->id);
    o->fate = FLYING;
    o->hops++;
    packet *p = new_packet(MESSAGE, WHI_PLACE_ENCODED_MAX);
    p->message = o;
    p->size = whi_place_message_encode(m, p->bytes);
    post(self, pe, true, p);
}

static void control(void *arg, uint32_t pe, const whi_place_control *c) {
    uint32_t self = (uint32_t)(uintptr_t)arg;
    say(number_of(&c->key), "PE %u -> PE %u: %s of PE %u, entry %llu via %llu at %llu, number %llu",
        self, pe, kinds[c->kind], c->stamp.source, (unsigned long long)c->stamp.entry,
        (unsigned long long)c->stamp.via, (unsigned long long)c->stamp.at,
        (unsigned long long)c->number);
    packet *p = new_packet(CONTROL, WHI_PLACE_ENCODED_MAX);
    p->size = whi_place_control_encode(c, p->bytes);
    post(self, pe, whi_place_in_order(c), p);
}

static void deliver(void *arg, void *to, whi_place_message *m) {
    uint32_t self = (uint32_t)(uintptr_t)arg;
    message *o = (message *)m;
    element *e = to;
    say(o->dest, "PE %u: message %d is delivered", self, o->id);
    if (o->fate != FLYING || m->incomplete || e->key != o->dest || e->pe != (int)self || e->leaving)
        fail(o->dest, "PE %u delivers message %d, which it must not", self, o->id);
    o->fate = INBOX;
    whi_queue_push(&e->inbox, &m->node);
}

void reject_one(uint32_t self, message *o) {
    say(o->dest, "PE %u: message %d is rejected", self, o->id);
    if (o->fate != FLYING && o->fate != INBOX)
        fail(o->dest, "PE %u rejects message %d, which it must not", self, o->id);
    if (model.elements[o->dest] && model.born[o->dest] < o->sent)
        fail(o->dest, "PE %u rejects message %d, whose element is there", self, o->id);
    o->fate = REJECTED;
    o->place.incomplete = false;
    model.rejected++;
}

static void reject(void *arg, whi_place_message *m) {
    reject_one((uint32_t)(uintptr_t)arg, (message *)m);
}

static bool awaited(void *arg, const whi_place_key *key) {
    (void)arg, (void)key;
    return model.awaits;
}

static const whi_place_ops ops = {home, forward, control, deliver, reject, awaited};

// ---- arrivals

static void may_be_incomplete(message *m) {
    if (!chance((unsigned)model.percent_incomplete))
        return;
    m->place.incomplete = true;
    if (model.incomplete_count == model.incomplete_room) {
        model.incomplete_room = 2 * model.incomplete_room + 64;
        model.incomplete =
            realloc(model.incomplete, sizeof(message *) * (size_t)model.incomplete_room);
    }
    model.incomplete[model.incomplete_count++] = m;
}

void add_travel(travel t) {
    if (model.travel_count == TRAVELS_MAX)
        fail(t.key, "too many elements are under way");
    t.since = model.step;
    model.travels[model.travel_count++] = t;
}

static void arrive(uint32_t from, int to, packet *p) {
    message *m = p->message;
    size_t used;
    whi_place_message seen;
    wh_status status =
        whi_place_message_decode(p->bytes, p->size, from, (uint32_t)model.pes, &seen, &used);
    if (status != WH_OK || used != p->size ||
        memcmp(&seen.key, &m->place.key, sizeof(seen.key)) != 0)
        fail(m->dest, "message %d cannot be read", m->id);
    m->place = seen;
    m->pe_now = to;
    may_be_incomplete(m);
    say(m->dest, "PE %d: message %d has come%s", to, m->id,
        m->place.incomplete ? ", incomplete" : "");
    TRY(status, whi_places_arrive(model.tables[to], &m->place));
    if (status != WH_OK)
        fail(m->dest, "message %d cannot come: %s", m->id, wh_status_name(status));
}

static void arrive_control(uint32_t from, int to, packet *p) {
    whi_place_control c;
    wh_status status = whi_place_control_decode(p->bytes, p->size, from, (uint32_t)model.pes, &c);
    if (status != WH_OK)
        fail(-1, "a control cannot be read");
    int key = number_of(&c.key);
    say(key, "PE %d: %s from PE %u has come", to, kinds[c.kind], from);
    TRY(status, whi_places_control(model.tables[to], from, &c));
    if (status != WH_OK)
        fail(key, "%s cannot come: %s", kinds[c.kind], wh_status_name(status));
}

static void arrive_state(int to, packet *p) {
    whi_place_key key;
    wh_status status;
    TRY(status, whi_places_expect(model.tables[to], p->bytes, p->size, &key));
    if (status != WH_OK)
        fail(p->element ? p->element->key : -1, "an element's state cannot come to PE %d: %s", to,
             wh_status_name(status));
    say(number_of(&key), "PE %d: the state of element %d has come", to, number_of(&key));
    if (p->element)
        add_travel(
            (travel){.element = p->element, .key = number_of(&key), .pe = to, .step = ARRIVES});
}

void step_network(void) {
    if (!model.busy_count)
        return;
    int at = model.busy[draw((uint64_t)model.busy_count)];
    if (chance(model.channels[at].slow))
        return;
    for (int n = 1 + (int)draw(4); n > 0 && model.channels[at].first; n--) {
        packet *p = take_packet(at);
        uint32_t from = (uint32_t)(at / 2 / model.pes);
        int to = at / 2 % model.pes;
        switch (p->kind) {
        case MESSAGE: arrive(from, to, p); break;
        case CONTROL: arrive_control(from, to, p); break;
        case STATE: arrive_state(to, p); break;
        }
        free(p);
    }
}

// ---- a seed

void set_up(uint64_t seed) {
    model.seed = seed;
    whi_rng_init(&model.rng, seed);
    model.large = seed % 64 == 0;
    model.pes = model.large ? 16 : PICK(2, 2, 3, 4, 6, 16);
    model.keys = model.large ? 1000 : PICK(1, 2, 3, 5, 9);
    model.told_max = PICK(1, 2, 3, 64);
    model.routes_max = PICK(1, 2, 5, 1000);
    model.awaits = chance(50);
    model.failing = chance(25);
    model.alike = !model.large && chance(25);
    model.percent_fail = 20;
    model.percent_incomplete = PICK(0, 0, 5, 30);
    size_t keys = (size_t)model.keys, pe_pairs = (size_t)model.pes * keys;
    model.sent_pe = calloc(pe_pairs, sizeof(uint32_t));
    model.taken_pe = calloc(pe_pairs, sizeof(uint32_t));
    for (int i = 0; i < 2 * model.pes * model.pes; i++) {
        channel *c = &model.channels[i];
        *c = (channel){.last = &c->first, .at = -1, .slow = (uint8_t)PICK(0, 0, 50, 90, 98)};
    }
    for (int i = 0; i < model.pes; i++) {
        whi_places_opts opts = {
            .self = (uint32_t)i,
            .pes = (uint32_t)model.pes,
            .routes_max = (uint32_t)model.routes_max,
            .told_max = (uint32_t)model.told_max,
        };
        if (whi_places_create(&opts, &ops, (void *)(uintptr_t)i, &model.tables[i]) != WH_OK)
            fail(-1, "no table");
        if (model.alike)
            model.tables[i]->hash_mask = 1;
    }
}

void tear_down(void) {
    whi_alloc_fail_at(0);
    for (int i = 0; i < model.travel_count; i++)
        whi_free(model.travels[i].step == DEPARTS ? model.travels[i].state : NULL);
    for (int i = 0; i < model.message_count; i++)  // whatever destroy rejects is let go
        model.messages[i]->fate = FLYING, model.messages[i]->sent = 0;
    for (int i = 0; i < model.keys; i++) {
        free(model.elements[i]);
        model.elements[i] = NULL;
    }
    for (int i = 0; i < model.pes; i++)
        whi_places_destroy(model.tables[i]);
    while (model.busy_count)
        free(take_packet(model.busy[0]));
    for (int i = 0; i < model.message_count; i++)
        free(model.messages[i]);
    free(model.messages);
    free(model.incomplete);
    free(model.sent_pe);
    free(model.taken_pe);
    int trace = model.trace, failed_key = model.failed_key;
    memset(&model, 0, offsetof(typeof(model), failed));
    model.trace = trace;
    model.failed_key = failed_key;
}
