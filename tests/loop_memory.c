// SPDX-License-Identifier: BSD-3-Clause
//
// Allocators of loop_seeds: each frame gets its memory at once, later, or never, and meanwhile its receive may be cancelled and
// its endpoint end.  An object whose receive has ended is not touched any more; all memory comes back.
#include "loop_model.h"

#include <stdlib.h>

enum { WAITING_MAX = 64 };

typedef struct waiting {
    model_op *op;
    wh_object *object;
    size_t index;
} waiting;

static struct {
    bool asks[2];  // whether the side has an allocator
    waiting frames[WAITING_MAX];
    int count;
    long given, freed;
} memory;

// refuse notes that a receive is to end without its object, which its sender may be told.
void model_refuse(model_op *o) {
    if (o->asked >= 0)
        model.messages[o->asked].refused = true;
}

// interfere does what an allocator may do beside answering.
static void interfere(model_op *o) {
    if (o->req && model_chance(3)) {
        SAY("  its allocator cancels operation %d\n", (int)(o - model.ops));
        o->cancelled = true;
        model_refuse(o);
        wh_request_cancel(o->req);
    }
    if (model.faults && model_chance(3))
        model_abort(o->side, (int)model_draw((uint64_t)model.ep_count));
}

static wh_status allocate(wh_object *object, size_t index, void **ptr, void *arg) {
    model_op *o = wh_object_arg(object);
    size_t size;
    (void)arg;
    CHECK(o && !o->ended);
    memcpy(&o->asked, wh_object_header(object, &size), sizeof(o->asked));
    CHECK_INT(size, sizeof(o->asked));
    interfere(o);
    if (model_chance(3)) {
        SAY("  operation %d is refused memory\n", (int)(o - model.ops));
        o->refused = true;
        model_refuse(o);
        return WH_ENOMEM;
    }
    if (model_chance(50) && memory.count < WAITING_MAX) {
        memory.frames[memory.count++] = (waiting){o, object, index};
        return WH_PENDING;
    }
    *ptr = malloc(wh_object_frame(object, index)->size + 1);
    CHECK(*ptr);
    memory.given++;
    return WH_OK;
}

static void release(void *ptr, size_t size, wh_mem_kind kind, int device, void *arg) {
    (void)size, (void)kind, (void)device, (void)arg;
    memory.freed++;
    free(ptr);
}

void memory_begin(void) {
    memory.count = 0;
    memory.given = memory.freed = 0;
    for (int side = 0; side < 2; side++) {
        memory.asks[side] = model_chance(50);
        if (memory.asks[side])
            CHECK_STATUS(
                wh_worker_set_allocator(model.worker[side], WH_MEM_HOST,
                                        WH_ALLOCATOR(.alloc = allocate, .free_fn = release)),
                WH_OK);
    }
}

bool memory_step(void) {
    if (!memory.count)
        return false;
    int i = (int)model_draw((uint64_t)memory.count);
    waiting w = memory.frames[i];
    memory.frames[i] = memory.frames[--memory.count];
    if (w.op->ended)
        return true;  // and its object is gone
    bool rejects = model_chance(4);
    SAY("operation %d %s frame %zu of message %d\n", (int)(w.op - model.ops),
        rejects ? "rejects" : "gets memory for", w.index, w.op->asked);
    if (rejects) {
        w.op->refused = true;
        model_refuse(w.op);
    }
    void *ptr = rejects ? NULL : malloc(wh_object_frame(w.object, w.index)->size + 1);
    wh_status st = wh_object_accept(w.object, w.index, ptr);
    CHECK(st == WH_OK || st == WH_ECANCELLED);  // it has ended, and its callback has yet to run
    if (st == WH_OK && ptr)
        memory.given++;
    else
        free(ptr);
    return true;
}

void memory_end(void) {
    CHECK_INT(memory.freed, memory.given);
}
