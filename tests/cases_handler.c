// SPDX-License-Identifier: BSD-3-Clause
//
// The worker's handler of objects: what comes to it, in which order, and how that ends.
#include "kit.h"

enum { TAG = 21 };

static const size_t handled_sizes[] = {0, 1, 100, 4000, 9000, 70000, 3, 700000, 8, 200000, 5};
enum { SIZES = sizeof(handled_sizes) / sizeof(handled_sizes[0]), MANY = 60 };

typedef struct handled {
    kit_side *me;
    wh_endpoint *ep;
    _Atomic unsigned count, lost, asked, freed;
    bool aborts;  // in the first call
} handled;

static size_t size_of(uint64_t number) {
    return handled_sizes[number % SIZES];
}

static void on_object(wh_endpoint *ep, wh_object *object, void *arg) {
    handled *h = arg;
    kit_side *me = h->me;
    uint64_t number;
    size_t size;
    REQUIRE(ep == h->ep);
    REQUIRE_INT(wh_object_tag(object), TAG);
    memcpy(&number, wh_object_header(object, &size), sizeof(number));
    REQUIRE_INT(size, sizeof(number));
    REQUIRE_INT(number, atomic_load(&h->count));  // in the order of the sends
    REQUIRE_INT(wh_object_count(object), 2);
    for (size_t i = 0; i < 2; i++) {
        const wh_frame *frame = wh_object_frame(object, i);
        REQUIRE_INT(frame->size, i ? 10 : size_of(number));
        SAME(frame->data, frame->size, i ? 1 : number);
    }
    REQUIRE_INT(atomic_load(&h->lost), 0);
    wh_object_free(object);
    if (h->aborts) {
        wh_endpoint_abort(ep);
        me->ep = NULL;
    }
    atomic_fetch_add(&h->count, 1);
}

static void on_lost(wh_endpoint *ep, wh_status why, void *arg) {
    handled *h = arg;
    (void)ep, (void)why;
    atomic_fetch_add(&h->lost, 1);
}

static void handle(kit_side *me, handled *h) {
    REQUIRE_STATUS(wh_worker_set_object(me->worker, h ? on_object : NULL, h), WH_OK);
}

static handled *new_handled(kit_side *me) {
    static handled h;
    h = (handled){.me = me, .ep = me->ep};
    return &h;
}

static kit_op ops[MANY];
static char *bufs[MANY];
static uint64_t numbers[MANY];

// begin_sends starts to send `count` objects, or fewer when the peer may have gone meanwhile, and returns how many.
static uint64_t begin_sends(kit_side *me, uint64_t count, bool may_fail) {
    static char small[10];
    kit_fill(small, sizeof(small), 1);
    for (uint64_t i = 0; i < count; i++) {
        bufs[i] = kit_alloc(me, size_of(i));
        kit_fill(bufs[i], size_of(i), i);
        numbers[i] = i;
        wh_frame frames[2] = {{bufs[i], size_of(i), WH_MEM_AUTO, 0, NULL},
                              {small, 10, WH_MEM_AUTO, 0, NULL}};
        const wh_op_opts *opts = kit_opts(&ops[i]);
        wh_status st;
        UNTIL_POLLED((st = wh_object_send(me->ep, &numbers[i], 8, frames, 2, sizeof(wh_frame), TAG,
                                          opts, NULL)) != WH_EAGAIN);
        if (may_fail && (st == WH_EPEER || st == WH_ECLOSED)) {
            free(bufs[i]);
            return i;
        }
        BEGIN(&ops[i], st);
    }
    return count;
}

static void end_sends(kit_side *me, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        END(&ops[i], WH_OK);
        free(bufs[i]);
    }
}

static void send_them_all(kit_side *me) {
    SYNC();
    (void)begin_sends(me, MANY, false);
    end_sends(me, MANY);
    SYNC();
}

static void run_in_order(kit_side *me, bool before) {
    if (me->role == 0) {
        send_them_all(me);
        return;
    }
    handled *h = new_handled(me);
    if (before)
        handle(me, h);
    SYNC();
    if (!before) {
        UNTIL_POLLED(wh_endpoint_status(me->ep) == WH_OK);
        kit_idle(me, 5);
        handle(me, h);
    }
    UNTIL_POLLED(atomic_load(&h->count) == MANY);
    SYNC();
    handle(me, NULL);
}

CASE(handler_gets_objects_in_order, 0) {
    run_in_order(me, true);
}

CASE(handler_gets_objects_that_came_before, 0) {
    run_in_order(me, false);
}

static wh_status allocate(wh_object *object, size_t index, void **ptr, void *arg) {
    (void)arg;
    handled *h = wh_object_arg(object);
    atomic_fetch_add(&h->asked, 1);
    *ptr = malloc(wh_object_frame(object, index)->size + 1);
    return *ptr ? WH_OK : WH_ENOMEM;
}

static void release(void *ptr, size_t size, wh_mem_kind kind, int device, void *arg) {
    (void)size, (void)kind, (void)device;
    atomic_fetch_add(&((handled *)arg)->freed, 1);
    free(ptr);
}

CASE(handler_with_an_allocator, 0) {
    if (me->role == 0) {
        send_them_all(me);
        return;
    }
    handled *h = new_handled(me);
    REQUIRE_STATUS(
        wh_worker_set_allocator(me->worker, WH_MEM_HOST,
                                WH_ALLOCATOR(.alloc = allocate, .free_fn = release, .arg = h)),
        WH_OK);
    handle(me, h);
    SYNC();
    UNTIL_POLLED(atomic_load(&h->count) == MANY);
    SYNC();
    handle(me, NULL);
    REQUIRE_STATUS(wh_worker_set_allocator(me->worker, WH_MEM_HOST, NULL), WH_OK);
    REQUIRE_INT(atomic_load(&h->asked), 2 * MANY);
    REQUIRE_INT(atomic_load(&h->freed), 2 * MANY);
}

// All that was sent before an orderly close comes, and the end is told after it.
CASE(handler_gets_all_before_a_close, 0) {
    if (me->role == 0) {
        kit_op close;
        SYNC();
        (void)begin_sends(me, MANY, false);
        const wh_op_opts *opts = kit_opts_with(&close, 0, (uint32_t)kit_hang_ms);
        BEGIN(&close, wh_endpoint_close(me->ep, opts, &close.req));
        me->ep = NULL;
        END(&close, WH_OK);
        end_sends(me, MANY);
        SYNC();
        return;
    }
    handled *h = new_handled(me);
    REQUIRE_STATUS(wh_endpoint_on_lost(me->ep, on_lost, h), WH_OK);
    handle(me, h);
    SYNC();
    UNTIL_POLLED(atomic_load(&h->lost) == 1);
    REQUIRE_INT(atomic_load(&h->count), MANY);
    SYNC();
    handle(me, NULL);
    kit_close(me, me->ep);
    me->ep = NULL;
}

// A handler may give up the endpoint: then nothing more of it comes, and its sender hears of it.
CASE(handler_aborts_its_endpoint, 0) {
    if (me->role == 0) {
        SYNC();
        uint64_t begun = begin_sends(me, MANY, true);
        for (uint64_t i = 0; i < begun; i++) {
            UNTIL(atomic_load(&ops[i].ended));
            wh_status st = ops[i].result.status;
            REQUIRE(st == WH_OK || st == WH_EPEER || st == WH_ECLOSED);
            free(bufs[i]);
        }
        UNTIL(wh_endpoint_status(me->ep) == WH_EPEER);
        wh_endpoint_abort(me->ep);
        me->ep = NULL;
        SYNC();
        return;
    }
    handled *h = new_handled(me);
    h->aborts = true;
    handle(me, h);
    SYNC();
    UNTIL_POLLED(atomic_load(&h->count) == 1);
    kit_idle(me, 5);
    REQUIRE_INT(atomic_load(&h->count), 1);
    SYNC();
    handle(me, NULL);
}

static void count_object(wh_endpoint *ep, wh_object *object, void *arg) {
    (void)ep;
    atomic_fetch_add((_Atomic unsigned *)arg, 1);
    wh_object_free(object);
}

// Far more than the credit: it comes back as objects are handed over.
CASE(handler_flood, 0) {
    enum { N = 5000 };
    static _Atomic unsigned count;
    if (me->role == 0) {
        static kit_op flood[N];
        static char frame[200];
        wh_frame frames[1] = {{frame, sizeof(frame), WH_MEM_AUTO, 0, NULL}};
        SYNC();
        for (int i = 0; i < N; i++) {
            const wh_op_opts *opts = kit_opts(&flood[i]);
            BEGIN(&flood[i],
                  wh_object_send(me->ep, NULL, 0, frames, 1, sizeof(wh_frame), TAG, opts, NULL));
        }
        for (int i = 0; i < N; i++)
            END(&flood[i], WH_OK);
        SYNC();
        return;
    }
    atomic_store(&count, 0);
    REQUIRE_STATUS(wh_worker_set_object(me->worker, count_object, &count), WH_OK);
    SYNC();
    UNTIL_POLLED(atomic_load(&count) == N);
    SYNC();
    handle(me, NULL);
}
