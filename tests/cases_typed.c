// SPDX-License-Identifier: BSD-3-Clause
//
// Layouts: each side has its own, in host memory or on the simulated device, in every place of a message.
//
// What was packed at one side must be what is unpacked at the other, and no byte outside of the layout may change.
#include "kit_layout.h"

// Words: within a record, a long record, one chunk, several.
static const size_t sizes[] = {24, 480, 2400, 7200, 24000, 240000};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

// The kinds of memory at the two sides.
static wh_mem_kind kind_of(unsigned i, int role) {
    return (i >> role & 1) ? kit_device : WH_MEM_HOST;
}

static void exchange(kit_side *me, unsigned i, kit_shape from, kit_shape to, size_t n,
                     wh_mem_kind kind) {
    kit_op op;
    kit_layout l = kit_lay_out(me, me->role == 0 ? from : to, n, kind);
    if (me->role == 0) {
        kit_layout_fill(me, &l, n, i);
        BEGIN(&op, wh_tag_send(me->ep, l.origin, l.count, 1,
                               kit_opts_typed(&op, &l, i % 7 == 3 ? WH_OP_SYNC : 0), NULL));
        END(&op, WH_OK);
    } else {
        if (i % 3 == 0)
            kit_idle(me, 1);  // comes before its receive
        BEGIN(&op, wh_tag_recv(me->ep, l.origin, l.count, 1, WH_TAG_MASK_ALL,
                               kit_opts_typed(&op, &l, 0), NULL));
        END(&op, WH_OK);
        kit_layout_check(me, &l, n, i);
    }
    REQUIRE_INT(op.result.size, n * KIT_WORD);
    kit_layout_drop(me, &l);
}

CASE(typed_tags, 0) {
    unsigned i = 0;
    for (int from = 0; from < KIT_SHAPES; from++)
        for (int to = 0; to < KIT_SHAPES; to++, i++)
            for (size_t s = i % 2; s < SIZES; s += 2)
                exchange(me, i, (kit_shape)from, (kit_shape)to, sizes[s], WH_MEM_HOST);
}

CASE(typed_device_tags, 0) {
    for (unsigned i = 0; i < KIT_SHAPES * 3; i++) {
        // Without kernels a transfer by runs of a word takes a copy for each: small ones.
        unsigned kinds = 1 + i % 3, most = kit_device == WH_MEM_CUDA ? SIZES : SIZES - 2;
        exchange(me, i, (kit_shape)(i % KIT_SHAPES), (kit_shape)(i / 3), sizes[i % most],
                 kind_of(kinds, me->role));
    }
}

// A receive that is too short gets what fits; what is beyond stays as it was.
CASE(typed_truncation, 0) {
    for (unsigned i = 0; i < SIZES; i++) {
        size_t n = sizes[i];
        kit_op op;
        kit_layout l = kit_lay_out(me, me->role == 0 ? KIT_VECTOR : KIT_BLOCKS,
                                   me->role == 0 ? 2 * n : n, WH_MEM_HOST);
        if (me->role == 0) {
            kit_layout_fill(me, &l, 2 * n, i);
            BEGIN(&op, wh_tag_send(me->ep, l.origin, l.count, 1, kit_opts_typed(&op, &l, 0), NULL));
            END(&op, WH_OK);
        } else {
            BEGIN(&op, wh_tag_recv(me->ep, l.origin, l.count, 1, WH_TAG_MASK_ALL,
                                   kit_opts_typed(&op, &l, 0), NULL));
            END(&op, WH_ETRUNCATED);
            REQUIRE_INT(op.result.size, 2 * n * KIT_WORD);
            kit_layout_check(me, &l, n, i);
        }
        kit_layout_drop(me, &l);
    }
}

// A longer receive takes a shorter message: the rest of its layout stays as it was.
CASE(typed_shorter_messages, 0) {
    for (unsigned i = 0; i < SIZES; i++) {
        size_t n = sizes[i];
        kit_op op;
        kit_layout l = kit_lay_out(me, me->role == 0 ? KIT_DENSE : KIT_TRANSPOSED,
                                   me->role == 0 ? n : 2 * n, WH_MEM_HOST);
        if (me->role == 0) {
            kit_layout_fill(me, &l, n, i);
            BEGIN(&op, wh_tag_send(me->ep, l.origin, l.count, 1, kit_opts_typed(&op, &l, 0), NULL));
            END(&op, WH_OK);
        } else {
            BEGIN(&op, wh_tag_recv(me->ep, l.origin, l.count, 1, WH_TAG_MASK_ALL,
                                   kit_opts_typed(&op, &l, 0), NULL));
            END(&op, WH_OK);
            REQUIRE_INT(op.result.size, n * KIT_WORD);
            kit_layout_check(me, &l, n, i);
        }
        kit_layout_drop(me, &l);
    }
}

// The type may be released as soon as the call has returned.
CASE(typed_release, 0) {
    kit_op op;
    kit_layout l = kit_lay_out(me, KIT_VECTOR, 24000, WH_MEM_HOST);
    if (me->role == 0) {
        kit_layout_fill(me, &l, 24000, 5);
        BEGIN(&op, wh_tag_send(me->ep, l.origin, l.count, 1, kit_opts_typed(&op, &l, 0), NULL));
    } else {
        BEGIN(&op, wh_tag_recv(me->ep, l.origin, l.count, 1, WH_TAG_MASK_ALL,
                               kit_opts_typed(&op, &l, 0), NULL));
    }
    wh_type *kept = l.type;
    l.type = kit_type(me, KIT_VECTOR, 24000);
    wh_type_release(kept);
    END(&op, WH_OK);
    if (me->role == 1)
        kit_layout_check(me, &l, 24000, 5);
    kit_layout_drop(me, &l);
}

// What ends early gives everything back.
CASE(typed_cancel, 0) {
    kit_op op;
    kit_layout l = kit_lay_out(me, KIT_VECTOR, 240000, WH_MEM_HOST);
    wh_request *req = NULL;
    if (me->role == 0) {
        BEGIN(&op, wh_tag_send(me->ep, l.origin, l.count, 77, kit_opts_typed(&op, &l, 0), &req));
        wh_request_cancel(req);
        UNTIL(atomic_load(&op.ended));
        REQUIRE_STATUS(op.result.status, WH_ECANCELLED);
        wh_request_free(req);
    } else {
        BEGIN(&op, wh_tag_recv(me->ep, l.origin, l.count, 78, WH_TAG_MASK_ALL,
                               kit_opts_typed(&op, &l, 0), &req));
        wh_request_cancel(req);
        UNTIL(atomic_load(&op.ended));
        REQUIRE_STATUS(op.result.status, WH_ECANCELLED);
        wh_request_free(req);
        kit_layout_check(me, &l, 0, 0);
    }
    kit_layout_drop(me, &l);
}

CASE(typed_arguments, 0) {
    kit_op op;
    char buf[64];
    kit_layout l = kit_lay_out(me, KIT_VECTOR, 24, WH_MEM_HOST);
    const wh_op_opts *opts = kit_opts_typed(&op, &l, 0);
    REQUIRE_STATUS(wh_tag_send(me->ep, buf, SIZE_MAX, 1, opts, NULL), WH_EINVAL);
    REQUIRE_STATUS(wh_tag_send(me->ep, buf, (size_t)1 << 62, 1, opts, NULL), WH_EINVAL);
    REQUIRE_STATUS(wh_tag_send(me->ep, NULL, 1, 1, opts, NULL), WH_EINVAL);
    REQUIRE_STATUS(wh_tag_recv(me->ep, buf, SIZE_MAX, 1, 0, opts, NULL), WH_EINVAL);
    REQUIRE_STATUS(wh_object_send(me->ep, NULL, 0, NULL, 0, 0, 1, opts, NULL), WH_EINVAL);
    REQUIRE_STATUS(wh_object_recv(me->ep, NULL, 0, 0, 1, 0, opts, NULL), WH_EINVAL);
    kit_layout_drop(me, &l);
}

// One byte again and again is as much as anybody wants, but no more than an object may have.
CASE(typed_object_of_too_much, 0) {
    enum { COPIES = 4 };
    char byte = 0;
    wh_type *again = NULL;
    wh_frame frames[COPIES];
    REQUIRE_STATUS(wh_type_create_resized(wh_type_basic(WH_TYPE_BYTE), 0, 0, &again), WH_OK);
    for (int i = 0; i < COPIES; i++)
        frames[i] = (wh_frame){&byte, (size_t)1 << 62, WH_MEM_HOST, 0, again};
    if (me->role == 0)
        for (size_t count = 2; count <= COPIES; count++)
            REQUIRE_STATUS(
                wh_object_send(me->ep, NULL, 0, frames, count, sizeof(wh_frame), 1, NULL, NULL),
                WH_EINVAL);
    wh_type_release(again);
}

enum { FRAMES = 6 };
static const kit_shape frame_shapes[FRAMES] = {KIT_VECTOR,     KIT_DENSE,  KIT_STRUCT,
                                               KIT_TRANSPOSED, KIT_BLOCKS, KIT_INDEXED};
static const size_t frame_words[FRAMES] = {24, 24000, 2400, 48000, 240, 24};

static void frames_of(kit_side *me, unsigned round, kit_layout layouts[FRAMES],
                      wh_frame frames[FRAMES]) {
    for (unsigned i = 0; i < FRAMES; i++) {
        kit_shape s = frame_shapes[(i + round * (unsigned)me->role) % FRAMES];
        layouts[i] = kit_lay_out(me, s, frame_words[i], WH_MEM_HOST);
        frames[i] =
            (wh_frame){layouts[i].origin, layouts[i].count, WH_MEM_AUTO, 0, layouts[i].type};
    }
}

// Frames of any layout, received blind or into layouts of the receiver's.
CASE(typed_objects, 0) {
    uint64_t total = 6;
    for (unsigned i = 0; i < FRAMES; i++)
        total += frame_words[i] * KIT_WORD;
    for (unsigned round = 0; round < 5; round++) {
        bool blind = round == 0, small = round == 4;
        size_t count = small ? 1 : FRAMES;
        kit_op op;
        const wh_op_opts *opts = kit_opts(&op);
        kit_layout layouts[FRAMES];
        wh_frame frames[FRAMES];
        frames_of(me, round, layouts, frames);
        if (me->role == 0) {
            for (unsigned i = 0; i < FRAMES; i++)
                kit_layout_fill(me, &layouts[i], frame_words[i], i + round);
            BEGIN(&op, wh_object_send(me->ep, "header", 6, frames, count, sizeof(wh_frame), 1, opts,
                                      NULL));
            END(&op, WH_OK);
            REQUIRE_INT(op.result.size, small ? 6 + frame_words[0] * KIT_WORD : total);
        } else {
            BEGIN(&op, wh_object_recv(me->ep, blind ? NULL : frames, blind ? 0 : FRAMES,
                                      sizeof(wh_frame), 1, WH_TAG_MASK_ALL, opts, NULL));
            END(&op, WH_OK);
            REQUIRE_INT(wh_object_count(op.result.object), count);
            for (unsigned i = 0; i < count; i++) {
                const wh_frame *frame = wh_object_frame(op.result.object, i);
                REQUIRE_INT(frame->size, frame_words[i] * KIT_WORD);
                if (blind)
                    SAME(frame->data, frame->size, i + round);
                else
                    kit_layout_check(me, &layouts[i], frame_words[i], i + round);
            }
            wh_object_free(op.result.object);
        }
        for (unsigned i = 0; i < FRAMES; i++)
            kit_layout_drop(me, &layouts[i]);
    }
}

typedef struct typed_am {
    kit_side *me;
    // Of each message by itself: the handler may run in another thread.
    kit_layout to[SIZES];
    kit_op ops[SIZES];
    _Atomic unsigned count;
} typed_am;

static wh_status on_am(wh_am *am, void *arg) {
    typed_am *t = arg;
    kit_side *me = t->me;
    unsigned i = atomic_load(&t->count);
    t->to[i] = kit_lay_out(me, KIT_TRANSPOSED, am->size / KIT_WORD, WH_MEM_HOST);
    const wh_op_opts *opts = kit_opts_typed(&t->ops[i], &t->to[i], 0);
    BEGIN(&t->ops[i], wh_am_recv(am, t->to[i].origin, t->to[i].count, opts, NULL));
    atomic_fetch_add(&t->count, 1);
    return WH_OK;
}

CASE(typed_active_messages, 0) {
    static typed_am t;
    if (me->role == 1) {
        t = (typed_am){.me = me};
        REQUIRE_STATUS(wh_worker_set_am(me->worker, 5, on_am, &t), WH_OK);
    }
    SYNC();
    for (unsigned i = 0; i < SIZES; i++) {
        if (me->role == 0) {
            kit_op op;
            kit_layout l = kit_lay_out(me, KIT_VECTOR, sizes[i], WH_MEM_HOST);
            kit_layout_fill(me, &l, sizes[i], i);
            BEGIN(&op, wh_am_send(me->ep, 5, "head", 4, l.origin, l.count,
                                  kit_opts_typed(&op, &l, 0), NULL));
            END(&op, WH_OK);
            REQUIRE_INT(op.result.size, sizes[i] * KIT_WORD);
            kit_layout_drop(me, &l);
        } else {
            UNTIL(atomic_load(&t.count) == i + 1);
            END(&t.ops[i], WH_OK);
            REQUIRE_INT(t.ops[i].result.size, sizes[i] * KIT_WORD);
            kit_layout_check(me, &t.to[i], sizes[i], i);
            kit_layout_drop(me, &t.to[i]);
        }
        SYNC();
    }
    if (me->role == 1)
        REQUIRE_STATUS(wh_worker_set_am(me->worker, 5, NULL, NULL), WH_OK);
}

// What the two sides say of the elements of one message of `words` words; 0: nothing.
typedef struct elements {
    wh_type_id from, to;
    bool untyped, clash;
} elements;

static const elements element_pairs[] = {
    {WH_TYPE_DOUBLE, WH_TYPE_DOUBLE, false, false}, {WH_TYPE_DOUBLE, WH_TYPE_INT64, false, true},
    {WH_TYPE_DOUBLE, WH_TYPE_INT64, true, false},   {WH_TYPE_BYTE, WH_TYPE_INT64, false, false},
    {WH_TYPE_UINT64, WH_TYPE_BYTE, false, false},   {WH_TYPE_LONG, WH_TYPE_INT64, false, false},
    {WH_TYPE_FLOAT, WH_TYPE_UINT32, false, true},
};
enum { PAIRS = sizeof(element_pairs) / sizeof(element_pairs[0]) };

// elements_of makes the options of a dense or spread message of `bytes` bytes of one kind of elements.
static const wh_op_opts *elements_of(kit_side *me, kit_op *op, wh_type_id id, bool spread,
                                     wh_type **type) {
    int64_t size = wh_type_size(wh_type_basic(id));
    REQUIRE_STATUS(wh_type_create_resized(wh_type_basic(id), 0, spread ? 2 * size : size, type),
                   WH_OK);
    (void)kit_opts(op);
    op->opts.type = *type;
    return &op->opts;
}

static void one_pair(kit_side *me, const elements *e, size_t bytes, bool late, bool spread) {
    kit_op op;
    wh_type *type;
    wh_type_id id = me->role == 0 ? e->from : e->to;
    size_t count = bytes / (size_t)wh_type_size(wh_type_basic(id));
    char *buf = kit_alloc(me, 2 * bytes);
    (void)elements_of(me, &op, id, spread && me->role == 0, &type);
    if (e->untyped && me->role == 1)
        op.opts.flags |= WH_OP_UNTYPED;
    if (me->role == 0) {
        kit_fill(buf, 2 * bytes, 1);
        BEGIN(&op, wh_tag_send(me->ep, buf, count, 1, &op.opts, NULL));
        UNTIL(atomic_load(&op.ended));
        // What has gone whole has completed.
        REQUIRE(op.result.status == WH_OK || (e->clash && op.result.status == WH_EREJECTED));
    } else {
        if (late)
            kit_idle(me, 2);
        memset(buf, 1, bytes);
        BEGIN(&op, wh_tag_recv(me->ep, buf, count, 1, WH_TAG_MASK_ALL, &op.opts, NULL));
        END(&op, e->clash ? WH_ETYPE : WH_OK);
        REQUIRE_INT(op.result.size, bytes);
        for (size_t i = 0; i < bytes && e->clash; i++)
            REQUIRE_INT(buf[i], 1);
    }
    free(buf);
    wh_type_release(type);
}

// Both sides give a type: elements of another kind are refused, before a byte of the buffer is written.
CASE(typed_elements, 0) {
    static const size_t bytes[] = {16, 8192, 60000, 400000};
    for (int i = 0; i < PAIRS; i++)
        for (int s = 0; s < 4; s++)
            for (int how = 0; how < 4; how++)
                one_pair(me, &element_pairs[i], bytes[s], how & 1, how & 2);
    char last = 0;  // the endpoint goes on
    if (me->role == 0)
        kit_send(me, me->ep, &last, 1, 2);
    else
        kit_recv(me, me->ep, &last, 1, 2);
}

// Structs are compared as a whole, and only with a message that is one: it may be the beginning of more.
CASE(typed_mixed_elements, 0) {
    const wh_type *abc[] = {wh_type_basic(WH_TYPE_DOUBLE), wh_type_basic(WH_TYPE_INT32),
                            wh_type_basic(WH_TYPE_FLOAT)};
    const wh_type *acb[] = {abc[0], abc[2], abc[1]};
    const int64_t ones[] = {1, 1, 1}, at[] = {0, 8, 12};
    for (int i = 0; i < 4; i++) {
        bool other = i & 1, longer = i & 2;
        kit_op op;
        wh_type *type;
        char buf[16 * 20] = {0};
        bool swapped = other && me->role == 1;
        REQUIRE_STATUS(wh_type_create_struct(3, ones, at, swapped ? acb : abc, &type), WH_OK);
        (void)kit_opts(&op);
        op.opts.type = type;
        if (me->role == 0) {
            BEGIN(&op, wh_tag_send(me->ep, buf, 10, 1, &op.opts, NULL));
            END(&op, WH_OK);
        } else {
            BEGIN(&op,
                  wh_tag_recv(me->ep, buf, longer ? 20 : 10, 1, WH_TAG_MASK_ALL, &op.opts, NULL));
            END(&op, other && !longer ? WH_ETYPE : WH_OK);
        }
        wh_type_release(type);
        SYNC();
    }
}

// A frame of an object is compared with its destination.
CASE(typed_frame_elements, 0) {
    char *buf = kit_alloc(me, 200000);  // its own: the roles may share a process
    memset(buf, 0, 200000);
    for (int i = 0; i < 4; i++) {
        bool clash = i & 1, large = i & 2;
        wh_type_id id = me->role == 1 && clash ? WH_TYPE_INT64 : WH_TYPE_DOUBLE;
        wh_type *type;
        REQUIRE_STATUS(wh_type_create_contig(1, wh_type_basic(id), &type), WH_OK);
        wh_frame frame = {.data = buf, .size = large ? 20000 : 4, .type = type};
        kit_op op;
        const wh_op_opts *opts = kit_opts(&op);
        if (me->role == 0) {
            BEGIN(&op, wh_object_send(me->ep, NULL, 0, &frame, 1, sizeof(frame), 1, opts, NULL));
            UNTIL(atomic_load(&op.ended));
            REQUIRE(op.result.status == WH_OK || (clash && op.result.status == WH_EREJECTED));
        } else {
            BEGIN(&op,
                  wh_object_recv(me->ep, &frame, 1, sizeof(frame), 1, WH_TAG_MASK_ALL, opts, NULL));
            END(&op, clash ? WH_ETYPE : WH_OK);
            if (!clash)
                wh_object_free(op.result.object);
        }
        wh_type_release(type);
        SYNC();
    }
    free(buf);
}
