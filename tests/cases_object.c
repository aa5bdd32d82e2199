// SPDX-License-Identifier: BSD-3-Clause
//
// Objects: a header and frames, received blind, into given memory, or from an allocator of the user's.
#include "kit.h"

// recv_object receives the next object of tag 1.
static wh_object *recv_object(kit_side *me) {
    if (kit_may_block(me) && kit_flip(me, 2)) {
        wh_object *object = NULL;
        REQUIRE_STATUS(wh_object_recv_wait(me->ep, 1, WH_TAG_MASK_ALL, kit_hang_ms, &object),
                       WH_OK);
        return object;
    }
    kit_op op;
    const wh_op_opts *opts = kit_opts(&op);
    wh_request **handle = kit_flip(me, 2) ? &op.req : NULL;
    if (kit_flip(me, 2))
        BEGIN(&op, wh_object_recv(me->ep, NULL, 0, 0, 1, WH_TAG_MASK_ALL, opts, handle));
    else
        BEGIN(&op, wh_worker_object_recv(me->worker, NULL, 0, 0, 1, WH_TAG_MASK_ALL, opts, handle));
    END(&op, WH_OK);
    REQUIRE(op.result.object);
    REQUIRE_INT(op.result.tag, 1);
    REQUIRE(op.result.source == me->ep);
    return op.result.object;
}

static void send_object(kit_side *me, const void *header, size_t size, const wh_frame *frames,
                        size_t count) {
    if (kit_may_block(me) && kit_flip(me, 2)) {
        REQUIRE_STATUS(wh_object_send_wait(me->ep, header, size, frames, count, sizeof(wh_frame), 1,
                                           kit_hang_ms),
                       WH_OK);
        return;
    }
    kit_op op;
    const wh_op_opts *opts = kit_opts_with(&op, kit_flip(me, 4) ? 0 : WH_OP_SYNC, 0);
    BEGIN(&op, wh_object_send(me->ep, header, size, frames, count, sizeof(wh_frame), 1, opts,
                              kit_flip(me, 2) ? &op.req : NULL));
    END(&op, WH_OK);
}

typedef struct shape {
    size_t header, count, size;  // size of each frame, and every third is empty
} shape;

static size_t frame_size(const shape *s, size_t i) {
    return i % 3 == 2 ? 0 : s->size + i % 5;
}

static void send_shape(kit_side *me, const shape *s) {
    wh_frame *frames = kit_alloc(me, s->count * sizeof(*frames));
    for (size_t i = 0; i < s->count; i++) {
        frames[i] = (wh_frame){.data = kit_alloc(me, frame_size(s, i)), .size = frame_size(s, i)};
        kit_fill(frames[i].data, frames[i].size, i);
    }
    char *header = kit_alloc(me, s->header);
    kit_fill(header, s->header, 77);
    send_object(me, s->header ? header : NULL, s->header, s->count ? frames : NULL, s->count);
    for (size_t i = 0; i < s->count; i++)
        free(frames[i].data);
    free(frames);
    free(header);
}

static void check_object(kit_side *me, const shape *s, wh_object *object) {
    size_t size;
    const void *header = wh_object_header(object, &size);
    REQUIRE_INT(size, s->header);
    SAME(header, size, 77);
    REQUIRE_INT(wh_object_tag(object), 1);
    REQUIRE_INT(wh_object_count(object), s->count);
    REQUIRE(!wh_object_frame(object, s->count));
    for (size_t i = 0; i < s->count; i++) {
        const wh_frame *frame = wh_object_frame(object, i);
        REQUIRE_INT(frame->size, frame_size(s, i));
        REQUIRE_INT(frame->mem, WH_MEM_HOST);
        SAME(frame->data, frame->size, i);
    }
}

CASE(object_shapes, 0) {
    static const shape shapes[] = {
        {0, 0, 0},     {8, 0, 0},      {0, 1, 8},         {100, 1, 0},     {0, 3, 100},
        {10, 5, 4000}, {10, 5, 5000},  {8000, 2, 100},    {10, 7, 100000}, {300, 40, 3000},
        {1, 1000, 9},  {20000, 3, 10}, {50000, 4, 70000}, {16, 1, 8190},   {1 << 20, 2, 3000000},
        {0, 2, 4096},  {0, 20000, 1},  {5, 9, 1000003},
    };
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        if (me->role == 0) {
            send_shape(me, &shapes[i]);
        } else {
            wh_object *object = recv_object(me);
            check_object(me, &shapes[i], object);
            wh_object_free(object);
        }
    }
}

CASE(object_frames_at_the_limit, 0) {
    const shape most = {64, 100000, 2};
    if (me->role == 0) {
        static char byte;
        wh_frame frame = {&byte, 1, WH_MEM_HOST, 0, NULL};
        REQUIRE_STATUS(wh_object_send(me->ep, NULL, 0, &frame, WH_OBJECT_FRAMES_MAX + 1,
                                      sizeof(wh_frame), 1, NULL, NULL),
                       WH_EINVAL);
        REQUIRE_STATUS(
            wh_object_send(me->ep, &byte, WH_OBJECT_HEADER_MAX + 1, NULL, 0, 0, 1, NULL, NULL),
            WH_EINVAL);
        send_shape(me, &most);
    } else {
        wh_object *object = recv_object(me);
        check_object(me, &most, object);
        wh_object_free(object);
    }
}

// Objects and tagged messages of one endpoint pass each other, and each kind keeps its order.
static wh_status find(kit_side *me, uint64_t tag, wh_result *result) {
    return kit_flip(me, 2) ? wh_object_probe(me->ep, tag, WH_TAG_MASK_ALL, result)
                           : wh_worker_object_probe(me->worker, tag, WH_TAG_MASK_ALL, result);
}

CASE(object_probe, 0) {
    static const shape shapes[] = {{0, 0, 0}, {10, 3, 100}, {0, 2, 300000}, {0, 3000, 8}};
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
        wh_result result;
        if (me->role == 0) {
            SYNC();
            send_shape(me, &shapes[i]);
        } else {
            REQUIRE_STATUS(find(me, 1, &result), WH_ENOTFOUND);
            SYNC();
            UNTIL(find(me, 1, &result) == WH_OK);
            REQUIRE_INT(result.tag, 1);
            REQUIRE(result.source == me->ep);
            REQUIRE_STATUS(find(me, 1, NULL), WH_OK);  // it is still there
            REQUIRE_STATUS(find(me, 2, &result), WH_ENOTFOUND);
            REQUIRE_STATUS(wh_tag_probe(me->ep, 1, WH_TAG_MASK_ALL, &result), WH_ENOTFOUND);
            wh_object *object = recv_object(me);
            check_object(me, &shapes[i], object);
            wh_object_free(object);
            REQUIRE_STATUS(find(me, 1, &result), WH_ENOTFOUND);
        }
        SYNC();
    }
}

CASE(object_order_and_separation_from_tags, 0) {
    enum { N = 30 };
    if (me->role == 0) {
        static kit_op ops[N], tags[N];
        static char big[100000];
        wh_frame frames[N];
        static uint64_t numbers[N];
        for (uint64_t i = 0; i < N; i++) {
            numbers[i] = i;
            frames[i] = (wh_frame){big, i % 2 ? sizeof(big) : 10, WH_MEM_AUTO, 0, NULL};
            const wh_op_opts *opts = kit_opts(&ops[i]);
            BEGIN(&ops[i], wh_object_send(me->ep, &numbers[i], 8, &frames[i], 1, sizeof(wh_frame),
                                          1, opts, NULL));
            opts = kit_opts(&tags[i]);
            BEGIN(&tags[i], wh_tag_send(me->ep, &numbers[i], 8, 1, opts, NULL));
        }
        for (int i = 0; i < N; i++) {
            END(&tags[i], WH_OK);
            END(&ops[i], WH_OK);
        }
    } else {
        uint64_t value;
        for (uint64_t i = 0; i < N; i++) {
            kit_recv(me, me->ep, &value, 8, 1);
            REQUIRE_INT(value, i);
        }
        for (uint64_t i = 0; i < N; i++) {
            wh_object *object = recv_object(me);
            memcpy(&value, wh_object_header(object, NULL), 8);
            REQUIRE_INT(value, i);
            wh_object_free(object);
        }
    }
}

CASE(object_into_given_destinations, 0) {
    const shape s = {16, 5, 50000};
    for (int round = 0; round < 4; round++) {
        if (me->role == 0) {
            send_shape(me, &s);
            continue;
        }
        // 0: all given; 1: some; 2: one too short; 3: all, before anything comes
        wh_frame frames[5];
        for (size_t i = 0; i < 5; i++)
            frames[i] = (wh_frame){kit_alloc(me, 50010), 50010, WH_MEM_AUTO, 0, NULL};
        void *kept = frames[1].data;
        if (round == 1)
            frames[1] = (wh_frame){NULL, 0, WH_MEM_AUTO, 0, NULL};
        if (round == 2)
            frames[3].size = 100;
        kit_op op;
        const wh_op_opts *opts = kit_opts(&op);
        BEGIN(&op, wh_object_recv(me->ep, frames, round == 1 ? 3 : 5, sizeof(wh_frame), 1,
                                  WH_TAG_MASK_ALL, opts, &op.req));
        END(&op, round == 2 ? WH_ETRUNCATED : WH_OK);
        if (round != 2) {
            check_object(me, &s, op.result.object);
            const wh_frame *frame = wh_object_frame(op.result.object, 0);
            REQUIRE(frame->data == frames[0].data);
            REQUIRE(!wh_object_take_frame(op.result.object, 0));
            wh_object_free(op.result.object);
        }
        frames[1].data = kept;
        for (size_t i = 0; i < 5; i++)
            free(frames[i].data);
    }
}

CASE(object_taken_frames_outlive_it, 0) {
    const shape s = {0, 4, 200000};
    if (me->role == 0) {
        send_shape(me, &s);
        return;
    }
    wh_object *object = recv_object(me);
    void *taken = wh_object_take_frame(object, 1);
    REQUIRE(taken && !wh_object_take_frame(object, 1) && !wh_object_take_frame(object, 9));
    wh_object_free(object);
    SAME(taken, frame_size(&s, 1), 1);
    REQUIRE_STATUS(wh_mem_free_kind(WH_MEM_HOST, taken), WH_OK);
}

// ---- allocators

typedef struct allocator {
    kit_side *me;
    wh_status answer;     // of all frames, or
    unsigned later_mask;  // of these: later
    _Atomic unsigned asked, freed;
    _Atomic(wh_object *) object;
} allocator;

static wh_status allocate(wh_object *object, size_t index, void **ptr, void *arg) {
    allocator *a = arg;
    kit_side *me = a->me;
    REQUIRE_INT(wh_object_tag(object), 1);
    REQUIRE(wh_object_endpoint(object) == me->ep && !wh_object_frame(object, index)->data);
    atomic_fetch_add(&a->asked, 1);
    if (a->answer != WH_OK)
        return a->answer;
    if (a->later_mask >> index & 1) {
        atomic_store(&a->object, object);
        return WH_PENDING;
    }
    *ptr = malloc(wh_object_frame(object, index)->size + 1);
    return *ptr ? WH_OK : WH_ENOMEM;
}

static void release(void *ptr, size_t size, wh_mem_kind kind, int device, void *arg) {
    allocator *a = arg;
    (void)size, (void)kind, (void)device;
    atomic_fetch_add(&a->freed, 1);
    free(ptr);
}

static void use_allocator(kit_side *me, allocator *a) {
    REQUIRE_STATUS(wh_worker_set_allocator(
                       me->worker, WH_MEM_HOST,
                       a ? WH_ALLOCATOR(.alloc = allocate, .free_fn = release, .arg = a) : NULL),
                   WH_OK);
}

CASE(object_allocator, 0) {
    const shape shapes[] = {{8, 3, 100}, {8, 3, 100000}};
    static allocator a;
    if (me->role == 1) {
        a = (allocator){.me = me};
        use_allocator(me, &a);
    }
    SYNC();
    for (int i = 0; i < 2; i++) {
        if (me->role == 0) {
            send_shape(me, &shapes[i]);
            continue;
        }
        wh_object *object = recv_object(me);
        check_object(me, &shapes[i], object);
        REQUIRE_INT(atomic_load(&a.asked), 3 * (i + 1));
        void *taken = wh_object_take_frame(object, 0);
        wh_object_free(object);
        REQUIRE_INT(atomic_load(&a.freed), 2 * (i + 1));
        free(taken);
    }
    if (me->role == 1)
        use_allocator(me, NULL);
}

// The allocator of a receive comes before that of its endpoint, and that before the worker's; each from a threshold on.
CASE(object_allocators_of_each_level, 0) {
    const shape shapes[] = {{8, 4, 100}, {8, 4, 100000}};
    static allocator levels[3];
    for (int level = 0; level < 3; level++) {
        allocator *a = &levels[level];
        const wh_allocator *set =
            WH_ALLOCATOR(.alloc = allocate, .free_fn = release, .arg = a, .threshold = 101);
        if (me->role == 1) {
            *a = (allocator){.me = me};
            if (level == 0)
                REQUIRE_STATUS(wh_worker_set_allocator(me->worker, WH_MEM_HOST, set), WH_OK);
            if (level == 1)
                REQUIRE_STATUS(wh_endpoint_set_allocator(me->ep, WH_MEM_HOST, set), WH_OK);
        }
        SYNC();
        for (int i = 0; i < 2; i++) {
            if (me->role == 0) {
                send_shape(me, &shapes[i]);
                continue;
            }
            kit_op op;
            (void)kit_opts(&op);
            op.opts.allocator = level == 2 ? set : NULL;
            if (kit_flip(me, 2))
                BEGIN(&op,
                      wh_object_recv(me->ep, NULL, 0, 0, 1, WH_TAG_MASK_ALL, &op.opts, &op.req));
            else
                BEGIN(&op, wh_worker_object_recv(me->worker, NULL, 0, 0, 1, WH_TAG_MASK_ALL,
                                                 &op.opts, &op.req));
            END(&op, WH_OK);
            check_object(me, &shapes[i], op.result.object);
            wh_object_free(op.result.object);
            // Of four frames one is empty; of the small ones one has 100 bytes, one 101, and one 103.
            REQUIRE_INT(atomic_load(&a->asked), 2 + 3 * i);
            REQUIRE_INT(atomic_load(&a->freed), 2 + 3 * i);
        }
    }
    if (me->role != 1)
        return;
    REQUIRE_INT(atomic_load(&levels[0].asked), 5);
    REQUIRE_INT(atomic_load(&levels[1].asked), 5);
    REQUIRE_STATUS(wh_endpoint_set_allocator(me->ep, WH_MEM_HOST, NULL), WH_OK);
    use_allocator(me, NULL);
}

typedef struct answer {
    kit_side *me;
    wh_object *object;
    bool reject;
} answer;

static void answer_later(void *arg) {
    answer *a = arg;
    kit_side *me = a->me;
    REQUIRE_STATUS(wh_object_accept(a->object, 0, NULL), WH_EINVAL);  // it was not asked for later
    if (a->reject) {
        REQUIRE_STATUS(wh_object_accept(a->object, 1, NULL), WH_OK);
        return;
    }
    REQUIRE_STATUS(wh_object_accept(a->object, 1, malloc(100010)), WH_OK);
    REQUIRE_STATUS(wh_object_accept(a->object, 1, &a), WH_EINVAL);
    REQUIRE_STATUS(wh_object_accept(a->object, 3, malloc(100010)), WH_OK);
}

CASE(object_allocator_answers_later, 0) {
    static allocator a;
    if (me->role == 1) {
        a = (allocator){.me = me, .later_mask = 1 << 1 | 1 << 3};
        use_allocator(me, &a);
    }
    SYNC();
    for (int round = 0; round < 8; round++) {
        bool eager = round % 2, reject = round / 2 == 1, cancel = round / 2 == 2;
        bool late = round / 2 == 3;
        const shape s = {8, 5, eager ? 100 : 100000};
        kit_op op;
        if (me->role == 0) {
            wh_frame frames[5];
            char *data = kit_alloc(me, 100010), *copies[5];
            for (size_t i = 0; i < 5; i++) {
                copies[i] = kit_alloc(me, 100010);
                frames[i] = (wh_frame){copies[i], frame_size(&s, i), WH_MEM_AUTO, 0, NULL};
                kit_fill(copies[i], frames[i].size, i);
            }
            kit_fill(data, 8, 77);
            const wh_op_opts *opts = kit_opts(&op);
            BEGIN(&op,
                  wh_object_send(me->ep, data, 8, frames, 5, sizeof(wh_frame), 1, opts, &op.req));
            UNTIL(atomic_load(&op.ended));
            // A small object was sent and done with, unless it had to be announced for want of credit or owner.
            bool rejected = op.result.status == WH_EREJECTED;
            REQUIRE(rejected ? reject : eager || !reject);
            END(&op, rejected ? WH_EREJECTED : WH_OK);
            for (size_t i = 0; i < 5; i++)
                free(copies[i]);
            free(data);
        } else {
            atomic_store(&a.object, NULL);
            const wh_op_opts *opts = kit_opts_with(&op, 0, late ? 200 : 0);
            BEGIN(&op, wh_object_recv(me->ep, NULL, 0, 0, 1, WH_TAG_MASK_ALL, opts, &op.req));
            UNTIL(atomic_load(&a.object));
            if (!late) {
                kit_idle(me, 3);
                REQUIRE_INT(atomic_load(&op.ended), 0);
            }
            if (cancel)
                wh_request_cancel(op.req);
            if (cancel || late) {
                END(&op, cancel ? WH_ECANCELLED : WH_ETIMEDOUT);
                // The object is the next one's.
                atomic_store(&a.object, NULL);
                opts = kit_opts(&op);
                BEGIN(&op, wh_worker_object_recv(me->worker, NULL, 0, 0, 0, 0, opts, &op.req));
                UNTIL(atomic_load(&a.object));
            }
            answer how = {.me = me, .object = atomic_load(&a.object), .reject = reject};
            kit_owned(me, answer_later, &how);
            END(&op, reject ? WH_EREJECTED : WH_OK);
            if (!reject) {
                check_object(me, &s, op.result.object);
                wh_object_free(op.result.object);
            }
        }
        SYNC();
    }
    if (me->role == 1)
        use_allocator(me, NULL);
}

CASE(object_allocator_refuses, 0) {
    static allocator a;
    if (me->role == 1) {
        a = (allocator){.me = me, .answer = WH_ENOMEM};
        use_allocator(me, &a);
    }
    SYNC();
    const shape s = {8, 2, 100000};
    kit_op op;
    const wh_op_opts *opts = kit_opts(&op);
    char *data = kit_alloc(me, 100000);
    if (me->role == 0) {
        wh_frame frames[2] = {{data, 100000, WH_MEM_AUTO, 0, NULL},
                              {data, 5, WH_MEM_AUTO, 0, NULL}};
        BEGIN(&op, wh_object_send(me->ep, data, 8, frames, 2, sizeof(wh_frame), 1, opts, &op.req));
        END(&op, WH_EREJECTED);
    } else {
        BEGIN(&op, wh_object_recv(me->ep, NULL, 0, 0, 1, WH_TAG_MASK_ALL, opts, &op.req));
        END(&op, WH_ENOMEM);
        use_allocator(me, NULL);
    }
    free(data);
    SYNC();
    if (me->role == 0)  // the endpoint is as good as before
        send_shape(me, &s);
    else {
        wh_object *object = recv_object(me);
        check_object(me, &s, object);
        wh_object_free(object);
    }
}

// An allocator may do what any callback may: here it gives up the endpoint in the middle of its own object.
static wh_status abort_inside(wh_object *object, size_t index, void **ptr, void *arg) {
    allocator *a = arg;
    kit_side *me = a->me;
    if (index == 1) {
        wh_endpoint_abort(me->ep);
        me->ep = NULL;
    }
    return allocate(object, index, ptr, arg);
}

static void run_abort_inside(kit_side *me, bool unexpected) {
    static allocator a;
    kit_op op;
    const wh_op_opts *opts = kit_opts(&op);
    char *data = kit_alloc(me, 100000);
    if (me->role == 0) {
        SYNC();
        wh_frame frames[3] = {{data, 100000, WH_MEM_AUTO, 0, NULL},
                              {data, 5, WH_MEM_AUTO, 0, NULL},
                              {data, 90000, WH_MEM_AUTO, 0, NULL}};
        BEGIN(&op, wh_object_send(me->ep, data, 8, frames, 3, sizeof(wh_frame), 1, opts, &op.req));
        if (unexpected)
            kit_send(me, me->ep, data, 1, 2);
        UNTIL(atomic_load(&op.ended));
        REQUIRE(op.result.status == WH_EPEER || op.result.status == WH_EREJECTED);
        wh_request_free(op.req);
        UNTIL(wh_endpoint_status(me->ep) == WH_EPEER);
        wh_endpoint_abort(me->ep);
        me->ep = NULL;
    } else {
        a = (allocator){.me = me};
        REQUIRE_STATUS(wh_worker_set_allocator(
                           me->worker, WH_MEM_HOST,
                           WH_ALLOCATOR(.alloc = abort_inside, .free_fn = release, .arg = &a)),
                       WH_OK);
        if (unexpected) {
            SYNC();
            kit_recv(me, me->ep, data, 1, 2);
        }
        BEGIN(&op, wh_object_recv(me->ep, NULL, 0, 0, 1, WH_TAG_MASK_ALL, opts, &op.req));
        if (!unexpected)
            SYNC();
        END(&op, WH_ECANCELLED);
        UNTIL_POLLED(atomic_load(&a.asked) == atomic_load(&a.freed));
        use_allocator(me, NULL);
    }
    free(data);
}

CASE(object_allocator_aborts_its_endpoint, 0) {
    run_abort_inside(me, false);
}

// The same when the object was there before its receive.
CASE(object_allocator_aborts_the_endpoint_of_a_kept_object, 0) {
    run_abort_inside(me, true);
}
