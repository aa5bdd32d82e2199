// SPDX-License-Identifier: BSD-3-Clause
//
// Device memory, which faults when the CPU touches it, in every place of a message: the simulated device's, or with
// `--memory cuda` that of CUDA.
#include "kit.h"

static char *device(kit_side *me, size_t size) {
    void *ptr = NULL;
    REQUIRE_STATUS(wh_mem_alloc_kind(kit_device, 0, size ? size : 1, &ptr), WH_OK);
    return ptr;
}

static char *device_filled(kit_side *me, size_t size, uint64_t seed) {
    char *host = kit_alloc(me, size), *dev = device(me, size);
    kit_fill(host, size, seed);
    REQUIRE_STATUS(wh_mem_copy(dev, kit_device, host, WH_MEM_HOST, size), WH_OK);
    free(host);
    return dev;
}

static void check_device(kit_side *me, const char *dev, size_t size, uint64_t seed) {
    char *host = kit_alloc(me, size);
    REQUIRE_STATUS(wh_mem_copy(host, WH_MEM_HOST, dev, kit_device, size), WH_OK);
    SAME(host, size, seed);
    free(host);
}

static void free_device(kit_side *me, void *dev) {
    REQUIRE_STATUS(wh_mem_free_kind(kit_device, dev), WH_OK);
}

static const size_t sizes[] = {0, 1, 8, 8192, 8193, 65536, 1000003};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

CASE(device_tags, 0) {
    for (uint64_t i = 0; i < SIZES * 3; i++) {
        size_t size = sizes[i / 3];
        bool from_device = i % 3 != 1, to_device = i % 3 != 2;
        kit_op op;
        const wh_op_opts *opts = kit_opts(&op);
        if (me->role == 0) {
            char *buf = from_device ? device_filled(me, size, i) : kit_alloc(me, size);
            if (!from_device)
                kit_fill(buf, size, i);
            BEGIN(&op, wh_tag_send(me->ep, buf, size, 1, opts, NULL));
            END(&op, WH_OK);
            if (from_device)
                free_device(me, buf);
            else
                free(buf);
        } else {
            if (i % 2)
                kit_idle(me, 2);  // comes before its receive
            char *buf = to_device ? device(me, size) : kit_alloc(me, size);
            BEGIN(&op, wh_tag_recv(me->ep, buf, size, 1, WH_TAG_MASK_ALL, opts, NULL));
            END(&op, WH_OK);
            REQUIRE_INT(op.result.size, size);
            if (to_device) {
                check_device(me, buf, size, i);
                free_device(me, buf);
            } else {
                SAME(buf, size, i);
                free(buf);
            }
        }
    }
}

CASE(device_truncation, 0) {
    char *buf = device_filled(me, 100000, 1);
    for (size_t i = 0; i < 2; i++) {
        size_t size = i ? 90000 : 1000;
        kit_op op;
        const wh_op_opts *opts = kit_opts(&op);
        if (me->role == 0) {
            BEGIN(&op, wh_tag_send(me->ep, buf, size, 1, opts, NULL));
            END(&op, WH_OK);
        } else {
            char *to = device_filled(me, 1000, 2);
            BEGIN(&op, wh_tag_recv(me->ep, to, 496, 1, WH_TAG_MASK_ALL, opts, NULL));
            END(&op, WH_ETRUNCATED);
            check_device(me, to, 496, 1);
            char host[504], expected[1000];
            kit_fill(expected, 1000, 2);
            REQUIRE_STATUS(wh_mem_copy(host, WH_MEM_HOST, to + 496, kit_device, 504), WH_OK);
            REQUIRE(memcmp(host, expected + 496, 504) == 0);
            free_device(me, to);
        }
    }
    free_device(me, buf);
}

CASE(device_objects, 0) {
    enum { FRAMES = 6 };
    static const size_t frame_sizes[FRAMES] = {100, 0, 200000, 8192, 5000, 60000};
    for (int round = 0; round < 3; round++) {
        kit_op op;
        const wh_op_opts *opts = kit_opts(&op);
        if (me->role == 0) {
            wh_frame frames[FRAMES];
            for (uint64_t i = 0; i < FRAMES; i++) {
                bool dev = i % 2 == 0;
                char *buf =
                    dev ? device_filled(me, frame_sizes[i], i) : kit_alloc(me, frame_sizes[i]);
                if (!dev)
                    kit_fill(buf, frame_sizes[i], i);
                frames[i] =
                    (wh_frame){buf, frame_sizes[i], dev ? kit_device : WH_MEM_AUTO, 0, NULL};
            }
            BEGIN(&op, wh_object_send(me->ep, "header", 6, frames, FRAMES, sizeof(wh_frame), 1,
                                      opts, NULL));
            END(&op, WH_OK);
            for (int i = 0; i < FRAMES; i++) {
                if (i % 2 == 0)
                    free_device(me, frames[i].data);
                else
                    free(frames[i].data);
            }
            continue;
        }
        // Blind; then into memory of the other kind.
        wh_frame given[FRAMES];
        for (int i = 0; i < FRAMES && round == 1; i++)
            given[i] = (wh_frame){i % 2 ? device(me, 200000) : kit_alloc(me, 200000), 200000,
                                  WH_MEM_AUTO, 0, NULL};
        BEGIN(&op, wh_object_recv(me->ep, round == 1 ? given : NULL, round == 1 ? FRAMES : 0,
                                  sizeof(wh_frame), 1, WH_TAG_MASK_ALL, opts, NULL));
        END(&op, WH_OK);
        wh_object *object = op.result.object;
        for (uint64_t i = 0; i < FRAMES; i++) {
            const wh_frame *frame = wh_object_frame(object, i);
            bool dev = (i % 2 == 0) == (round != 1);
            REQUIRE_INT(frame->size, frame_sizes[i]);
            REQUIRE_INT(frame->mem, dev ? kit_device : WH_MEM_HOST);
            if (dev)
                check_device(me, frame->data, frame->size, i);
            else
                SAME(frame->data, frame->size, i);
        }
        wh_object_free(object);
        for (int i = 0; i < FRAMES && round == 1; i++) {
            if (i % 2)
                free_device(me, given[i].data);
            else
                free(given[i].data);
        }
    }
}

typedef struct device_am {
    kit_side *me;
    char *buf;
    kit_op op;
    _Atomic unsigned count;
} device_am;

static wh_status on_am(wh_am *am, void *arg) {
    device_am *d = arg;
    kit_side *me = d->me;
    // An empty payload has no memory.
    REQUIRE_INT(am->mem, am->size ? kit_device : WH_MEM_HOST);
    d->buf = device(me, am->size);
    const wh_op_opts *opts = kit_opts(&d->op);
    BEGIN(&d->op, wh_am_recv(am, d->buf, am->size, opts, NULL));
    atomic_fetch_add(&d->count, 1);
    return WH_OK;
}

CASE(device_active_messages, 0) {
    static device_am d;
    if (me->role == 1) {
        d = (device_am){.me = me};
        REQUIRE_STATUS(wh_worker_set_am(me->worker, 3, on_am, &d), WH_OK);
    }
    SYNC();
    for (unsigned i = 0; i < SIZES; i++) {
        if (me->role == 0) {
            char *buf = device_filled(me, sizes[i], i);
            kit_op op;
            const wh_op_opts *opts = kit_opts(&op);
            BEGIN(&op, wh_am_send(me->ep, 3, "head", 4, buf, sizes[i], opts, NULL));
            END(&op, WH_OK);
            free_device(me, buf);
        } else {
            UNTIL(atomic_load(&d.count) == i + 1);
            END(&d.op, WH_OK);
            REQUIRE_INT(d.op.result.size, sizes[i]);
            check_device(me, d.buf, sizes[i], i);
            free_device(me, d.buf);
        }
        SYNC();
    }
    if (me->role == 1)
        REQUIRE_STATUS(wh_worker_set_am(me->worker, 3, NULL, NULL), WH_OK);
}
