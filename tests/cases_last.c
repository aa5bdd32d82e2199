// SPDX-License-Identifier: BSD-3-Clause
//
// Last messages: what was sent before an orderly close arrives, whatever the receiver's allocator or timing, and the peer's end
// is told after it.
//
// Role 0 sends one message and closes at once; the send and the close must both end well.  Each round has an endpoint of its
// own, and nothing else holds the link, so that it ends behind the close wherever the lane lets it.
#include "kit.h"

typedef enum last_kind { LAST_TAG, LAST_OBJECT, LAST_AM, LAST_KINDS } last_kind;

// When the receiver asks: before the message is sent, while it and the close are under way, and when all is over.
typedef enum last_when { BEFORE, AMID, AFTER, LAST_WHENS } last_when;

typedef enum last_memory { PLAIN, AT_ONCE, LATER, REFUSED, LAST_MEMORIES } last_memory;

enum { LAST_TAG_NUMBER = 0x1a57, LAST_AM_ID = 21, SMALL = 100, LARGE = 300000 };

typedef struct last_round {
    last_kind kind;
    size_t size;
    last_when when;
    last_memory memory;
    bool any, keeps;  // keeps: the handler asks for its payload after its return
} last_round;

// What role 1 has seen of a round.
typedef struct last_seen {
    kit_side *me;
    const last_round *round;
    wh_endpoint *ep;
    kit_op op;
    char *buf;
    _Atomic(wh_object *) object;  // that waits for memory
    _Atomic(wh_am *) am;          // that was kept
    _Atomic unsigned handled, lost, allocated, freed;
    int ended_when_lost, handled_when_lost;
    wh_status why;
} last_seen;

static last_seen seen;

static void on_lost(wh_endpoint *ep, wh_status why, void *arg) {
    (void)ep, (void)arg;
    seen.ended_when_lost = atomic_load(&seen.op.ended);
    seen.handled_when_lost = (int)atomic_load(&seen.handled);
    seen.why = why;
    atomic_fetch_add(&seen.lost, 1);
}

// ---- memory

static wh_status allocate(wh_object *object, size_t index, void **ptr, void *arg) {
    (void)arg;
    if (seen.round->memory == REFUSED)
        return WH_ENOMEM;
    if (seen.round->memory == LATER) {
        atomic_store(&seen.object, object);
        return WH_PENDING;
    }
    atomic_fetch_add(&seen.allocated, 1);
    *ptr = malloc(wh_object_frame(object, index)->size);
    return *ptr ? WH_OK : WH_ENOMEM;
}

static void release(void *ptr, size_t size, wh_mem_kind kind, int device, void *arg) {
    (void)size, (void)kind, (void)device, (void)arg;
    atomic_fetch_add(&seen.freed, 1);
    free(ptr);
}

static void accept_memory(void *arg) {
    kit_side *me = arg;
    atomic_fetch_add(&seen.allocated, 1);
    REQUIRE_STATUS(wh_object_accept(atomic_load(&seen.object), 0, kit_alloc(me, seen.round->size)),
                   WH_OK);
}

// ---- active messages

static void receive_am(void *arg) {
    kit_side *me = seen.me;
    const wh_op_opts *opts = kit_opts(&seen.op);
    BEGIN(&seen.op, wh_am_recv(arg, seen.buf, seen.round->size, opts, &seen.op.req));
}

static wh_status on_am(wh_am *am, void *arg) {
    (void)arg;
    kit_side *me = seen.me;
    REQUIRE_INT(am->size, seen.round->size);
    if (seen.round->keeps)
        atomic_store(&seen.am, am);
    else
        receive_am(am);
    atomic_fetch_add(&seen.handled, 1);
    return WH_PENDING;
}

// ---- role 0

static void send_last(kit_side *me, wh_endpoint *ep, const last_round *r) {
    char *buf = kit_alloc(me, r->size);
    kit_fill(buf, r->size, r->size);
    wh_frame frame = {buf, r->size, WH_MEM_AUTO, 0, NULL};
    kit_op op, close;
    const wh_op_opts *opts = kit_opts(&op);
    if (r->kind == LAST_TAG)
        BEGIN(&op, wh_tag_send(ep, buf, r->size, LAST_TAG_NUMBER, opts, &op.req));
    else if (r->kind == LAST_OBJECT)
        BEGIN(&op, wh_object_send(ep, "h", 1, &frame, 1, sizeof(wh_frame), LAST_TAG_NUMBER, opts,
                                  &op.req));
    else
        BEGIN(&op, wh_am_send(ep, LAST_AM_ID, "h", 1, buf, r->size, opts, &op.req));
    bool refused = r->memory == REFUSED && r->size == LARGE;
    if (kit_flip(me, 2)) {
        UNTIL(atomic_load(&op.ended));  // an awaited send, and then the close
    }
    opts = kit_opts_with(&close, 0, (uint32_t)kit_hang_ms);
    BEGIN(&close, wh_endpoint_close(ep, opts, &close.req));
    UNTIL(atomic_load(&op.ended));
    // What is small may have been announced, for want of an owner, and then its sender hears of a refusal.
    if (op.result.status != WH_EREJECTED || r->memory != REFUSED)
        END(&op, refused ? WH_EREJECTED : WH_OK);
    else
        wh_request_free(op.req);
    END(&close, WH_OK);
    free(buf);
}

// ---- role 1

static void post_last(kit_side *me) {
    const last_round *r = seen.round;
    const wh_op_opts *opts = kit_opts(&seen.op);
    wh_request **req = &seen.op.req;
    if (r->kind == LAST_TAG && r->any)
        BEGIN(&seen.op, wh_worker_tag_recv(me->worker, seen.buf, r->size, LAST_TAG_NUMBER,
                                           WH_TAG_MASK_ALL, opts, req));
    else if (r->kind == LAST_TAG)
        BEGIN(&seen.op,
              wh_tag_recv(seen.ep, seen.buf, r->size, LAST_TAG_NUMBER, WH_TAG_MASK_ALL, opts, req));
    else if (r->any)
        BEGIN(&seen.op, wh_worker_object_recv(me->worker, NULL, 0, 0, LAST_TAG_NUMBER,
                                              WH_TAG_MASK_ALL, opts, req));
    else
        BEGIN(&seen.op,
              wh_object_recv(seen.ep, NULL, 0, 0, LAST_TAG_NUMBER, WH_TAG_MASK_ALL, opts, req));
}

// all_over lets the close, and mostly the link's end behind it, come.
static void all_over(kit_side *me) {
    UNTIL(atomic_load(&seen.lost));
    kit_idle(me, 1);
}

// ask does what the receiver has to do once the message may have come.
static void ask(kit_side *me) {
    const last_round *r = seen.round;
    if (r->kind == LAST_AM) {
        UNTIL(atomic_load(&seen.handled));
        if (!r->keeps)
            return;
        if (r->when == AFTER)
            all_over(me);
        kit_owned(me, receive_am, atomic_load(&seen.am));
        return;
    }
    if (r->when == AFTER)
        all_over(me);
    if (r->when != BEFORE)
        post_last(me);
    if (r->kind == LAST_OBJECT && r->memory == LATER) {
        UNTIL(atomic_load(&seen.object));
        if (r->size == SMALL)
            all_over(me);  // nothing but memory is missing, and the peer has long gone
        kit_owned(me, accept_memory, me);
    }
}

static void check_last(kit_side *me) {
    const last_round *r = seen.round;
    wh_object *object = seen.op.result.object;
    if (r->kind == LAST_OBJECT && r->memory == REFUSED) {
        END(&seen.op, WH_ENOMEM);
    } else if (r->kind == LAST_OBJECT) {
        END(&seen.op, WH_OK);
        object = seen.op.result.object;
        REQUIRE(object);
        REQUIRE_INT(wh_object_count(object), 1);
        SAME(wh_object_frame(object, 0)->data, r->size, r->size);
        wh_object_free(object);
    } else {
        END(&seen.op, WH_OK);
        REQUIRE_INT(seen.op.result.size, r->size);
        SAME(seen.buf, r->size, r->size);
    }
    all_over(me);
    REQUIRE_STATUS(seen.why, WH_ECLOSED);
    // The end is told behind all that needed no more of the user's time than his callbacks took.
    if (r->kind == LAST_AM)
        REQUIRE_INT(seen.handled_when_lost, 1);
    bool waited = r->kind == LAST_OBJECT && r->memory == LATER && r->size == SMALL;
    if (r->when == BEFORE && !r->keeps && !waited)
        REQUIRE_INT(seen.ended_when_lost, 1);
    REQUIRE_INT(atomic_load(&seen.freed), atomic_load(&seen.allocated));
}

static void take_last(kit_side *me, wh_endpoint *ep, const last_round *r) {
    memset(&seen, 0, sizeof(seen));
    seen.me = me;
    seen.round = r;
    seen.ep = ep;
    seen.buf = kit_alloc(me, r->size);
    bool asks = r->memory != PLAIN;
    REQUIRE_STATUS(
        wh_worker_set_allocator(me->worker, WH_MEM_HOST,
                                asks ? WH_ALLOCATOR(.alloc = allocate, .free_fn = release) : NULL),
        WH_OK);
    REQUIRE_STATUS(wh_worker_set_am(me->worker, LAST_AM_ID, on_am, NULL), WH_OK);
    REQUIRE_STATUS(wh_endpoint_on_lost(ep, on_lost, NULL), WH_OK);
    if (r->when == BEFORE && r->kind != LAST_AM)
        post_last(me);
    SYNC();
    ask(me);
    check_last(me);
    REQUIRE_STATUS(wh_worker_set_allocator(me->worker, WH_MEM_HOST, NULL), WH_OK);
    REQUIRE_STATUS(wh_worker_set_am(me->worker, LAST_AM_ID, NULL, NULL), WH_OK);
    kit_close(me, ep);
    free(seen.buf);
}

// makes_sense says whether there is such a round: a large message waits for its receive, which therefore is not after the end.
static bool makes_sense(const last_round *r) {
    if (r->size == LARGE && r->when == AFTER)
        return false;
    if (r->kind == LAST_AM)
        return !r->any && r->memory == PLAIN && (r->keeps || r->when == BEFORE);
    return !r->keeps && (r->kind == LAST_OBJECT || r->memory == PLAIN);
}

static void run_rounds(kit_side *me, last_kind kind, size_t size) {
    kit_close(me, me->ep);
    me->ep = NULL;
    for (int i = 0; i < LAST_WHENS * LAST_MEMORIES * 4; i++) {
        const last_round r = {.kind = kind,
                              .size = size,
                              .when = (last_when)(i / 4 % LAST_WHENS),
                              .memory = (last_memory)(i / 4 / LAST_WHENS),
                              .any = i & 1,
                              .keeps = i & 2};
        if (!makes_sense(&r))
            continue;
        SYNC();
        wh_endpoint *ep = kit_pair(me);
        if (me->role == 0) {
            SYNC();
            send_last(me, ep, &r);
        } else {
            take_last(me, ep, &r);
        }
    }
    SYNC();
}

CASE(last_small_message, 0) {
    run_rounds(me, LAST_TAG, SMALL);
}
CASE(last_large_message, 0) {
    run_rounds(me, LAST_TAG, LARGE);
}
CASE(last_small_object, 0) {
    run_rounds(me, LAST_OBJECT, SMALL);
}
CASE(last_large_object, 0) {
    run_rounds(me, LAST_OBJECT, LARGE);
}
CASE(last_small_active_message, 0) {
    run_rounds(me, LAST_AM, SMALL);
}
CASE(last_large_active_message, 0) {
    run_rounds(me, LAST_AM, LARGE);
}
