// SPDX-License-Identifier: BSD-3-Clause
//
// Elements that move while messages look for them: many PEs in one thread, over a network that delays as its seed says.
//
//     rt-move-model-test [--seeds N] [--first S | --seed S] [--verbose]
//
// Each ordered pair of PEs has a channel for what keeps its order with messages and one for other controls.  Any channel that
// has something may be the next to yield it; some are slow.  Elements send, move, are destroyed and made again; messages
// may be incomplete for a while; allocations fail, and what failed is tried again.
//
// What must come of it: each message is taken once, in order of its sender's PE; or it is rejected once, and then its element was not there at some
// time since it was sent.  When
// all is quiet nothing is held, no place that was left is known any more, and routes are bounded; when all elements
// are destroyed, all tables are empty.  A failure prints the seed and all that concerns the element.
#include "rt/move/model.h"

// ---- what elements do

static void send_one(element *e, int dest) {
    message *m = calloc(1, sizeof(*m));
    if (model.message_count == model.message_room) {
        model.message_room = 2 * model.message_room + 1024;
        model.messages = realloc(model.messages, sizeof(message *) * (size_t)model.message_room);
    }
    if (!m || !model.messages)
        abort();
    m->id = model.message_count;
    model.messages[model.message_count++] = m;
    m->sender = e->key;
    m->dest = dest;
    m->source = (uint32_t)e->pe;
    m->serial_pe = ++model.sent_pe[e->pe * model.keys + dest];
    m->sent = model.step;
    m->pe_now = e->pe;
    m->place.key = key_of(dest);
    say(dest, "PE %d: element %d sends message %d to element %d", e->pe, e->key, m->id, dest);
    wh_status status;
    TRY(status, whi_places_send(model.tables[e->pe], &m->place));
    if (status != WH_OK)
        fail(dest, "message %d cannot be sent: %s", m->id, wh_status_name(status));
}

static element *any_element(void) {
    for (int i = 0; i < 8; i++) {
        element *e = model.elements[draw((uint64_t)model.keys)];
        if (e)
            return e;
    }
    return NULL;
}

static void step_send(void) {
    element *e = any_element();
    if (!e || e->leaving)
        return;
    int dest = (int)draw((uint64_t)model.keys);
    for (int n = chance(5) ? 1 + (int)draw(30) : 1; n > 0; n--)
        send_one(e, chance(80) ? dest : (int)draw((uint64_t)model.keys));
}

static void check_taken(element *e, message *m) {
    uint32_t *pe = &model.taken_pe[(int)m->source * model.keys + m->dest];
    if (m->serial_pe <= *pe)
        fail(e->key, "message %d of PE %u comes after a later one: %u after %u", m->id, m->source,
             m->serial_pe, *pe);
    *pe = m->serial_pe;
}

static void take_some(element *e) {
    for (int n = 1 + (int)draw(8); n > 0; n--) {
        whi_queue_node *node = whi_queue_pop(&e->inbox);
        if (!node)
            return;
        message *m = (message *)whi_container_of(node, whi_place_message, node);
        say(e->key, "PE %d: message %d is taken", e->pe, m->id);
        if (m->fate != INBOX)
            fail(e->key, "message %d is taken twice", m->id);
        m->fate = TAKEN;
        model.taken++;
        check_taken(e, m);
    }
}

static void begin_move(element *e) {
    whi_place_key key = key_of(e->key);
    void *state;
    size_t size;
    wh_status status;
    say(e->key, "PE %d: element %d leaves for PE %d", e->pe, e->key, e->to);
    e->leaving = true;
    TRY(status, whi_places_begin_move(model.tables[e->pe], &key, (uint32_t)e->to, &e->inbox, &state,
                                      &size));
    if (status != WH_OK)
        fail(e->key, "element %d cannot leave: %s", e->key, wh_status_name(status));
    if (!whi_queue_empty(&e->inbox))
        fail(e->key, "element %d leaves, and its messages do not", e->key);
    model.moves++;
    add_travel((travel){
        .element = e, .key = e->key, .pe = e->pe, .to = e->to, .state = state, .size = size});
}

static void step_move(void) {
    element *e = any_element();
    if (!e || e->leaving)
        return;
    e->to = (int)draw((uint64_t)model.pes);
    if (e->to != e->pe)
        begin_move(e);
}

static void step_insert(int number) {
    if (model.elements[number])
        return;
    whi_place_key key = key_of(number);
    element *e = calloc(1, sizeof(*e));
    if (!e)
        abort();
    *e = (element){.key = number, .pe = number % model.pes};
    whi_queue_init(&e->inbox);
    wh_status status;
    say(number, "PE %d: element %d is made", e->pe, number);
    TRY(status, whi_places_insert(model.tables[e->pe], &key, e));
    if (status == WH_EINVAL) {  // home does not know yet that the former one is no more
        say(number, "PE %d: home still knows the former one", e->pe);
        free(e);
        return;
    }
    if (status != WH_OK)
        fail(number, "element %d cannot be made: %s", number, wh_status_name(status));
    model.elements[number] = e;
    model.born[number] = model.step;
}

static void step_destroy(element *e) {
    if (!e || e->leaving)
        return;
    whi_place_key key = key_of(e->key);
    void *state;
    size_t size;
    wh_status status;
    say(e->key, "PE %d: element %d is destroyed", e->pe, e->key);
    model.elements[e->key] = NULL;
    TRY(status, whi_places_remove(model.tables[e->pe], &key, &state, &size));
    if (status != WH_OK)
        fail(e->key, "element %d cannot be destroyed: %s", e->key, wh_status_name(status));
    for (whi_queue_node *node; (node = whi_queue_pop(&e->inbox));)
        reject_one((uint32_t)e->pe, (message *)whi_container_of(node, whi_place_message, node));
    if (state)
        add_travel((travel){
            .key = e->key, .pe = e->pe, .to = e->key % model.pes, .state = state, .size = size});
    model.destroyed++;
    free(e);
}

// Of two moves from one PE the first is ended first.
static int earliest_end(int at) {
    for (int i = 0; i < model.travel_count; i++) {
        const travel *t = &model.travels[i], *other = &model.travels[at];
        if (t->step == ENDS && t->key == other->key && t->pe == other->pe &&
            t->since < other->since)
            at = i;
    }
    return at;
}

static void step_travel(void) {
    if (!model.travel_count)
        return;
    int at = (int)draw((uint64_t)model.travel_count);
    if (model.travels[at].step == ENDS)
        at = earliest_end(at);
    travel t = model.travels[at];
    model.travels[at] = model.travels[--model.travel_count];
    whi_place_key key = key_of(t.key);
    wh_status status = WH_OK;
    switch (t.step) {
    case DEPARTS:
        say(t.key, "PE %d -> PE %d: element %d", t.pe, t.to, t.key);
        send_state(t.pe, t.to, t.state, t.size, t.element);
        whi_free(t.state);
        t.step = ENDS;
        if (chance(20)) {
            add_travel(t);
            break;
        }
        __attribute__((fallthrough));
    case ENDS:
        say(t.key, "PE %d: element %d has left", t.pe, t.key);
        TRY(status, whi_places_end_move(model.tables[t.pe], &key));
        break;
    case ARRIVES:
        say(t.key, "PE %d: element %d is there", t.pe, t.key);
        t.element->pe = t.pe;
        t.element->leaving = false;
        TRY(status, whi_places_install(model.tables[t.pe], &key, t.element));
        break;
    }
    if (status != WH_OK)
        fail(t.key, "element %d cannot move: %s", t.key, wh_status_name(status));
}

static void step_complete(void) {
    if (!model.incomplete_count)
        return;
    int at = (int)draw((uint64_t)model.incomplete_count);
    message *m = model.incomplete[at];
    model.incomplete[at] = model.incomplete[--model.incomplete_count];
    if (!m->place.incomplete)  // rejected
        return;
    say(m->dest, "PE %d: message %d is complete", m->pe_now, m->id);
    wh_status status;
    TRY(status, whi_places_complete(model.tables[m->pe_now], &m->place));
    if (status != WH_OK)
        fail(m->dest, "message %d cannot be completed: %s", m->id, wh_status_name(status));
}

// ---- a seed

static void step_any(int moves, int deaths) {
    model.step++;
    if (draw(200) == 0)
        model.awaits = !model.awaits;
    uint64_t what = draw(100);
    if (what < 30)
        step_send();
    else if (what < 30 + (uint64_t)moves)
        step_move();
    else if (what < 40 && chance((unsigned)deaths))
        chance(50) ? step_insert((int)draw((uint64_t)model.keys)) : step_destroy(any_element());
    else if (what < 45)
        step_travel();
    else if (what < 50)
        step_complete();
    else if (what < 58) {
        element *e = any_element();
        if (e && !e->leaving)
            take_some(e);
    } else
        step_network();
}

// Lets all that has begun come to its end.
static void settle_down(void) {
    for (int n = 0; n < STUCK; n++) {
        model.step++;
        bool quiet = !model.busy_count && !model.travel_count && !model.incomplete_count;
        if (quiet)
            break;
        step_network();
        step_travel();
        step_complete();
    }
    for (int i = 0; i < model.keys; i++)
        for (element *e = model.elements[i]; e && !whi_queue_empty(&e->inbox);)
            take_some(e);
    if (model.busy_count || model.travel_count)
        fail(-1, "it never becomes quiet");
}

static void check_quiet(void) {
    for (int i = 0; i < model.pes; i++)
        whi_places_reject_awaited(model.tables[i], COLLECTION);
    settle_down();
    for (int i = 0; i < model.message_count; i++) {
        const message *m = model.messages[i];
        if (m->fate != TAKEN && m->fate != REJECTED)
            fail(m->dest, "message %d never comes", m->id);
    }
    size_t here[PES_MAX] = {0}, away[PES_MAX] = {0};
    for (int i = 0; i < model.keys; i++)
        if (model.elements[i]) {
            here[model.elements[i]->pe]++;
            away[i % model.pes] += model.elements[i]->pe != i % model.pes;
        }
    for (int i = 0; i < model.pes; i++) {
        whi_places_stats s;
        whi_places_stats_get(model.tables[i], &s);
        if (s.left || s.held || s.elements != here[i] || s.routes > (size_t)model.routes_max ||
            s.rows != s.elements + s.routes + away[i])
            fail(
                -1,
                "PE %d keeps %zu rows, %zu elements of %zu, %zu of home, %zu routes, %zu places, %zu messages",
                i, s.rows, s.elements, here[i], away[i], s.routes, s.left, s.held);
    }
}

static void send_to_all(void) {
    int first = model.message_count;
    model.step++;
    for (int i = 0; i < model.keys; i++)
        for (int n = 0; n < (model.large ? 2 : model.keys); n++)
            if (model.elements[i])
                send_one(model.elements[i], (i + n) % model.keys);
    settle_down();
    for (int i = first; i < model.message_count; i++)
        if (model.elements[model.messages[i]->dest] && model.messages[i]->fate != TAKEN)
            fail(model.messages[i]->dest, "message %d does not come though all is quiet", i);
}

// When nothing moves any more, all messages come, and go directly from the second one on.
static void check_all_reached(void) {
    model.failing = false;
    send_to_all();
    bool directly = model.told_max >= model.pes && model.routes_max >= model.keys;
    int second = model.message_count;
    send_to_all();
    for (int i = second; directly && i < model.message_count; i++)
        if (model.messages[i]->hops > 1)
            fail(model.messages[i]->dest, "message %d takes %d hops", i, model.messages[i]->hops);
}

static bool run(uint64_t seed, int trace, int *key) {
    model.trace = trace;
    if (setjmp(model.failed)) {
        *key = model.failed_key;
        tear_down();
        return false;
    }
    set_up(seed);
    for (int i = 0; i < model.keys; i++)
        if (!model.awaits || chance(50))
            step_insert(i);
    int steps = model.large ? 60000 : PICK(200, 1000, 4000), moves = PICK(1, 3, 8),
        deaths = PICK(0, 5, 50);
    for (int i = 0; i < steps; i++)
        step_any(moves, deaths);
    settle_down();
    check_quiet();
    check_all_reached();
    check_quiet();
    for (int i = 0; i < model.keys; i++)
        step_destroy(model.elements[i]);
    settle_down();
    check_quiet();
    for (int i = 0; i < model.pes; i++) {
        whi_places_stats s;
        whi_places_stats_get(model.tables[i], &s);
        if (s.rows)
            fail(-1, "PE %d still has %zu rows when all elements are destroyed", i, s.rows);
    }
    tear_down();
    return true;
}

int main(int argc, char **argv) {
    uint64_t seeds = 3000, first = 1;
    bool verbose = false;
    const char *again = getenv("WHERRY_SEED");
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (!strcmp(argv[i], "--verbose"))
            verbose = true;
        else if (!strcmp(argv[i], "--seeds") && more)
            seeds = strtoull(argv[++i], NULL, 0);
        else if (!strcmp(argv[i], "--first") && more)
            first = strtoull(argv[++i], NULL, 0);
        else if (!strcmp(argv[i], "--seed") && more)
            again = argv[++i];
        else {
            fprintf(stderr,
                    "usage: rt-move-model-test [--seeds N] [--first S | --seed S] [--verbose]\n");
            return 2;
        }
    }
    if (again) {
        first = strtoull(again, NULL, 0);
        seeds = 1;
    }
    int key = -1;
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        if (run(seed, verbose ? -1 : -2, &key))
            continue;
        if (!verbose)  // the same again, and what concerns the element
            run(seed, key, &key);
        return 1;
    }
    printf("%llu seeds passed\n", (unsigned long long)seeds);
    return 0;
}
