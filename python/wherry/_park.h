// SPDX-License-Identifier: BSD-3-Clause
//
// What happens inside progress, parked until Python looks.
//
// The engine's callbacks run wherever progress runs, which for a sleeping wait is without the interpreter's lock.
// So none of them touches Python: each puts a node into the worker's park, and the thread that owns the worker takes
// the nodes out later, with the lock.  Only that thread reads and writes a park; `done` alone is read by others.
#ifndef WHERRY_PYTHON_PARK_H
#define WHERRY_PYTHON_PARK_H

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <wherry/wherry.h>

typedef struct park park;

// An operation; it lies in its Request, which the engine holds from the call to the moment it leaves the park.
typedef struct parked_op {
    struct parked_op *prev,
        *next;               // among those that tasks wait for, then among those that are done
    struct parked_ask *ask;  // its object that needs memory, until it has got it or is gone
    park *home;
    void *request;  // the Request around it; NULL: a parked_loss
    atomic_int done;
    wh_result result;
    uint64_t source;  // the number of the endpoint that the message came from, 0: none
} parked_op;

// A receive whose object needs memory that only Python can give.
typedef struct parked_ask {
    struct parked_ask *next,
        **link;  // among those that Python has not looked at; link NULL: it has
    parked_op *op;
    wh_object *object;
} parked_ask;

// The end of a peer.  It takes its turn among the operations that have ended, so that it is told behind what came before it.
typedef struct parked_loss {
    parked_op op;
    uint64_t number;  // of the endpoint
    wh_status why;
} parked_loss;

typedef enum parked_kind { PARKED_ENDPOINT, PARKED_AM } parked_kind;

// Anything else.
typedef struct parked_event {
    struct parked_event *next;
    parked_kind kind;
    uint64_t number;  // of the listener, or of the endpoint
    wh_endpoint *ep;  // PARKED_ENDPOINT: a new one, to be closed by whoever takes the event
    uint16_t id;      // PARKED_AM, with what follows
    wh_am *kept;      // payload still to be received, else NULL
    size_t header_size, size;
    char bytes[];  // header, then the payload unless it is kept
} parked_event;

struct park {
    parked_op ops;      // the head of a ring: those that are done, and ends of peers
    parked_op waiting;  // another: those that are not, and that somebody waits for
    parked_event *events, **events_end;
    parked_ask *asking;
    unsigned losses;  // in the ring
    struct park_door
        *dropped;  // listeners that other threads have let go; with the interpreter's lock
};

// Who accepts: a listener's number and where its worker's events go.  The engine calls it until the listener is closed.
typedef struct park_door {
    park *home;
    uint64_t number;
    wh_listener *listener;
    struct park_door *next;  // among the dropped
} park_door;

static inline void park_init(park *p) {
    p->ops.prev = p->ops.next = &p->ops;
    p->waiting.prev = p->waiting.next = &p->waiting;
    p->events = NULL;
    p->events_end = &p->events;
    p->asking = NULL;
    p->losses = 0;
    p->dropped = NULL;
}

static inline void park_op_init(parked_op *op, park *p, void *request) {
    op->home = p;
    op->request = request;
}

static inline int park_op_done(const parked_op *op) {
    return atomic_load_explicit(&((parked_op *)op)->done, memory_order_acquire);
}

static inline void park_link(parked_op *head, parked_op *op) {
    op->prev = head->prev;
    op->next = head;
    head->prev->next = op;
    head->prev = op;
}

// park_op_leave takes it out of the ring that it is in, if any.
static inline void park_op_leave(parked_op *op) {
    if (!op->next)
        return;
    op->prev->next = op->next;
    op->next->prev = op->prev;
    op->prev = op->next = NULL;
}

// park_op_wait notes that somebody waits for it.
static inline void park_op_wait(parked_op *op) {
    if (!op->next)
        park_link(&op->home->waiting, op);
}

// park_op_end puts an operation that has ended into its park.
static inline void park_op_end(parked_op *op) {
    park_op_leave(op);
    park_link(&op->home->ops, op);
    atomic_store_explicit(&op->done, 1, memory_order_release);
}

static inline parked_op *park_first_waiting(park *p) {
    return p->waiting.next == &p->waiting ? NULL : p->waiting.next;
}

static inline parked_op *park_first(park *p) {
    return p->ops.next == &p->ops ? NULL : p->ops.next;
}

// park_next goes through the park without taking anything out; NULL: that was the last.
static inline parked_op *park_next(park *p, parked_op *op) {
    return op->next == &p->ops ? NULL : op->next;
}

static inline int park_has_events(const park *p) {
    return p->events || p->asking || p->dropped || p->losses;
}

static inline int park_empty(const park *p) {
    return p->ops.next == &p->ops && !park_has_events(p);
}

// park_asks finds what an operation asks for; NULL: nothing, or it does not any more.
static inline wh_object *park_asks(const parked_op *op) {
    return op->ask ? op->ask->object : NULL;
}

// park_take_ask takes it out of those that Python has to look at.
static inline void park_take_ask(parked_ask *ask) {
    if (!ask->link)
        return;
    *ask->link = ask->next;
    if (ask->next)
        ask->next->link = ask->link;
    ask->link = NULL;
}

static inline void park_end_ask(parked_op *op) {
    if (!op->ask)
        return;
    park_take_ask(op->ask);
    free(op->ask);
    op->ask = NULL;
}

// park_first_asking returns the operation that Python is to look at next; it is taken out.
static inline parked_op *park_first_asking(park *p) {
    parked_ask *ask = p->asking;
    if (!ask)
        return NULL;
    park_take_ask(ask);
    return ask->op;
}

static inline void park_push(park *p, parked_event *event) {
    event->next = NULL;
    *p->events_end = event;
    p->events_end = &event->next;
}

static inline parked_event *park_pop(park *p) {
    parked_event *event = p->events;
    if (event && !(p->events = event->next))
        p->events_end = &p->events;
    return event;
}

// park_door_close closes a door's listener, and frees the door.  The worker's owner only.
static inline void park_door_close(park_door *door) {
    wh_listener_close(door->listener);
    free(door);
}

// park_door_drop leaves that to the owner.  Any thread, with the interpreter's lock.
static inline void park_door_drop(park_door *door) {
    door->next = door->home->dropped;
    door->home->dropped = door;
}

static inline void park_close_dropped(park *p) {
    while (p->dropped) {
        park_door *door = p->dropped;
        p->dropped = door->next;
        park_door_close(door);
    }
}

// park_number names the next endpoint or listener of this process; never 0.
static inline uint64_t park_number(void) {
    static atomic_ullong last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

static inline uint64_t park_number_of(wh_endpoint *ep) {
    return (uint64_t)(uintptr_t)wh_endpoint_data(ep);
}

static inline void park_set_number(wh_endpoint *ep) {
    wh_endpoint_set_data(ep, (void *)(uintptr_t)park_number());
}

static void park_on_done(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    parked_op *op = (parked_op *)arg;
    park_end_ask(op);
    op->result = *result;
    op->source = result->source ? park_number_of(result->source) : 0;
    park_op_end(op);
}

static void park_on_accept(wh_endpoint *ep, void *arg) {
    park_door *door = (park_door *)arg;
    parked_event *event = (parked_event *)calloc(1, sizeof(*event));
    if (!event) {
        wh_endpoint_abort(ep);
        return;
    }
    event->kind = PARKED_ENDPOINT;
    event->number = door->number;
    event->ep = ep;
    park_set_number(ep);  // now, so that messages which come before Python looks have a source
    park_push(door->home, event);
}

static void park_on_lost(wh_endpoint *ep, wh_status why, void *arg) {
    parked_loss *loss = (parked_loss *)calloc(1, sizeof(*loss));
    if (!loss)
        return;  // the operations on the endpoint tell of it, too
    loss->op.home = (park *)arg;
    loss->number = park_number_of(ep);
    loss->why = why;
    loss->op.home->losses++;
    park_link(&loss->op.home->ops, &loss->op);
}

// park_take_loss takes one out of the ring, for its taker to free; NULL: that is an operation.
static inline parked_loss *park_take_loss(parked_op *op) {
    if (op->request)
        return NULL;
    op->home->losses--;
    park_op_leave(op);
    return (parked_loss *)op;
}

static inline void park_drop_losses(park *p) {
    parked_op *op = park_first(p);
    while (op) {
        parked_op *next = park_next(p, op);
        free(park_take_loss(op));
        op = next;
    }
}

static wh_status park_on_am(wh_am *am, void *arg) {
    size_t payload = am->data ? am->size : 0;
    parked_event *event = (parked_event *)calloc(1, sizeof(*event) + am->header_size + payload);
    if (!event)
        return WH_ENOMEM;
    event->kind = PARKED_AM;
    event->number = park_number_of(am->ep);
    event->id = am->id;
    event->header_size = am->header_size;
    event->size = am->size;
    if (am->header_size)
        memcpy(event->bytes, am->header, am->header_size);
    if (payload)
        memcpy(event->bytes + am->header_size, am->data, payload);
    if (am->size && !am->data)
        event->kept = am;
    park_push((park *)arg, event);
    return event->kept ? WH_PENDING : WH_OK;
}

// park_on_alloc puts an object's frame off until Python is asked; all of its frames are asked for in one pass.
static wh_status park_on_alloc(wh_object *object, size_t index, void **ptr, void *arg) {
    (void)index, (void)ptr, (void)arg;
    parked_op *op = (parked_op *)wh_object_arg(object);
    if (op->ask && op->ask->link && op->ask->object == object)
        return WH_PENDING;
    park_end_ask(op);
    parked_ask *ask = (parked_ask *)calloc(1, sizeof(*ask));
    if (!ask)
        return WH_ENOMEM;
    park *p = op->home;
    *ask = (parked_ask){.next = p->asking, .link = &p->asking, .op = op, .object = object};
    if (p->asking)
        p->asking->link = &ask->next;
    p->asking = ask;
    op->ask = ask;
    return WH_PENDING;
}

// The memory is the Request's, which lets go of it.
static void park_on_free(void *ptr, size_t size, wh_mem_kind kind, int device, void *arg) {
    (void)ptr, (void)size, (void)kind, (void)device, (void)arg;
}

static inline uint64_t park_clock_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline void park_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// park_linger progresses until something has moved or `until_ns` has come, and says whether something has.
static inline int park_linger(wh_worker *worker, uint64_t until_ns) {
    do {
        for (unsigned i = 0; i < 16; i++)
            if (wh_worker_progress(worker))
                return 1;
    } while (park_clock_ns() < until_ns);
    return 0;
}

// What a wait for an operation has come upon.
typedef enum park_news {
    PARK_QUIET,
    PARK_ENDED,  // the operation has
    PARK_ASKED,  // Python is asked for memory, without which some operation does not go on
    PARK_EVENT,  // a handler is to be called
} park_news;

static inline park_news park_look(const parked_op *op) {
    if (park_op_done(op))
        return PARK_ENDED;
    if (!park_has_events(op->home))
        return PARK_QUIET;
    return op->home->asking ? PARK_ASKED : PARK_EVENT;
}

// park_glance makes the passes in which a peer that is awake has mostly answered; they need no clock.
static inline park_news park_glance(wh_worker *worker, const parked_op *op) {
    park_news news = PARK_QUIET;
    for (unsigned i = 0; i < 16 && news == PARK_QUIET; i++) {
        wh_worker_progress(worker);
        news = park_look(op);
    }
    return news;
}

// park_spin progresses until the operation has ended, Python has something to do, or `until_ns` has come.
static inline park_news park_spin(wh_worker *worker, const parked_op *op, uint64_t until_ns) {
    enum { EAGER = 500 };  // passes before the core's other thread is left some room
    for (unsigned i = 1;; i++) {
        wh_worker_progress(worker);
        park_news news = park_look(op);
        if (news != PARK_QUIET)
            return news;
        if (i > EAGER)
            park_relax();
        if ((i & 15) == 0 && park_clock_ns() >= until_ns)
            return PARK_QUIET;
    }
}

#endif
