// SPDX-License-Identifier: BSD-3-Clause
//
// For tests: a class whose elements note what they are told, on PEs in one thread, within a process and between processes.
#ifndef WHI_RT_CHARE_CHARE_KIT_H
#define WHI_RT_CHARE_CHARE_KIT_H

#include <wherry/chare.h>

#include "rt/chare/element_kit.h"

enum { MOST = 4096 };

typedef struct note {
    wh_proxy element;
    int pe, source;
    int64_t ref;
    char text[32];
} note;

static struct {
    note notes[MOST];
    int count;
    int made, ended;
} seen;

typedef struct cell {
    int value, zero;
} cell;

static void take_note(wh_chare *self, const wh_call *call) {
    CHECK(seen.count < MOST);
    CHECK((!call->size || (uintptr_t)call->args % 16 == 0) && (uintptr_t)self->state % 16 == 0);
    note *n = &seen.notes[seen.count++];
    *n = (note){.element = self->proxy,
                .pe = wh_pe_number(self->pe),
                .source = call->source,
                .ref = call->ref};
    CHECK(!wh_pe_here() || wh_pe_here() == self->pe);
    CHECK(call->size < sizeof(n->text));
    memcpy(n->text, call->args, call->size);
}

static void cell_construct(wh_chare *self, const wh_call *call) {
    cell *s = self->state;
    CHECK(!s->value && !s->zero);
    seen.made++;
    if (call->size == sizeof(int))
        memcpy(&s->value, call->args, sizeof(int));
}

static void cell_destruct(wh_chare *self) {
    (void)self;
    seen.ended++;
}

#define CELL_ENTRIES(ENTRY)                                                                        \
    ENTRY(cell, tell, 0)                                                                           \
    ENTRY(cell, urgent, WH_ENTRY_EXPEDITED)                                                        \
    ENTRY(cell, at_once, WH_ENTRY_INLINE)                                                          \
    ENTRY(cell, asked, WH_ENTRY_WHEN)                                                              \
    ENTRY(cell, ask, 0)                                                                            \
    ENTRY(cell, collect, WH_ENTRY_THREADED)                                                        \
    ENTRY(cell, value, 0)                                                                          \
    ENTRY(cell, end, 0)                                                                            \
    ENTRY(cell, big, 0)                                                                            \
    ENTRY(cell, nest, WH_ENTRY_INLINE)
WH_CLASS(cell, CELL_ENTRIES, .state = sizeof(cell), .construct = cell_construct,
         .destruct = cell_destruct);

static void cell_tell(wh_chare *self, const wh_call *call) {
    take_note(self, call);
}

static void cell_urgent(wh_chare *self, const wh_call *call) {
    take_note(self, call);
}

static void cell_at_once(wh_chare *self, const wh_call *call) {
    take_note(self, call);
}

static void cell_asked(wh_chare *self, const wh_call *call) {
    take_note(self, call);
}

static void cell_ask(wh_chare *self, const wh_call *call) {
    CHECK_EQ_INT(wh_chare_when(self, cell_asked_entry, call->ref), WH_OK);
    CHECK_EQ_INT(wh_chare_when(self, cell_tell_entry, call->ref), WH_EINVAL);
}

// collect waits for as many messages as it is told, by their numbers, then sets a future.
static void cell_collect(wh_chare *self, const wh_call *call) {
    wh_future future;
    memcpy(&future, call->args, sizeof(future));
    int64_t count = call->ref, sum = 0;
    for (int64_t i = 0; i < count; i++) {
        const wh_call *got;
        wh_status st = wh_chare_wait(self, cell_asked_entry, i, &got);
        if (st != WH_OK) {
            CHECK_EQ_INT(st, WH_ECLOSED);
            kit_errors.count += 1000;
            return;
        }
        CHECK_EQ_INT(got->ref, i);
        int value;
        CHECK_EQ_INT(got->size, sizeof(value));
        memcpy(&value, got->args, sizeof(value));
        sum += value;
    }
    CHECK_EQ_INT(wh_future_set(self->pe, future, &sum, sizeof(sum)), WH_OK);
}

// value answers with what the element was made with.
static void cell_value(wh_chare *self, const wh_call *call) {
    wh_callback callback;
    CHECK_EQ_INT(wh_callback_decode(call->args, call->size, &callback), WH_OK);
    CHECK_EQ_INT(wh_callback_fire(self->pe, &callback, &((cell *)self->state)->value, sizeof(int)),
                 WH_OK);
}

static void cell_end(wh_chare *self, const wh_call *call) {
    take_note(self, call);
    CHECK_EQ_INT(wh_chare_destroy(self->pe, self->proxy), WH_OK);
}

static void cell_big(wh_chare *self, const wh_call *call) {
    const char *data = call->args;
    for (size_t i = 0; i < call->size; i++)
        CHECK(data[i] == (char)(i * 7 + (size_t)call->ref));
    wh_call small = *call;
    small.size = 0;
    take_note(self, &small);
}

// nest calls itself, which is not idle then.
static void cell_nest(wh_chare *self, const wh_call *call) {
    int before = seen.count;
    take_note(self, call);
    if (call->ref)
        CHECK_EQ_INT(wh_chare_send(self->pe, self->proxy, cell_nest_entry, "", 0, NULL), WH_OK);
    CHECK_EQ_INT(seen.count, before + 1);
}

static int backwards(const int32_t *index, int dims, const int32_t *shape, int pes, void *arg) {
    (void)dims;
    (void)shape;
    CHECK(!arg);
    return pes - 1 - index[0] % pes;
}

static void on_function(wh_pe *pe, const wh_call *call, void *arg) {
    int value;
    CHECK_EQ_INT(call->size, sizeof(value));
    memcpy(&value, call->args, sizeof(value));
    *(int *)arg += value + 1000 * wh_pe_number(pe);
}

static int summed;

static void begin(int pes, int ppn) {
    memset(&seen, 0, sizeof(seen));
    summed = 0;
    kit_begin(pes, ppn);
    for (int i = 0; i < pes; i++) {
        CHECK_EQ_INT(wh_class_register(job.pe[i], &cell_class), WH_OK);
        CHECK_EQ_INT(wh_map_register(job.pe[i], "backwards", backwards, NULL), WH_OK);
        CHECK_EQ_INT(wh_function_register(job.pe[i], "sum", on_function, &summed), WH_OK);
    }
    kit_count_errors();
}

static void send(int from, wh_proxy to, unsigned entry, const char *text, int64_t ref) {
    CHECK_EQ_INT(
        wh_chare_send(job.pe[from], to, entry, text, strlen(text), WH_SEND_OPTS(.ref = ref)),
        WH_OK);
}

// Both with processes of one PE, and with PEs that share one.
#define BOTH(name)                                                                                 \
    static void name(int pes, int ppn);                                                            \
    TEST(name##_between_processes) {                                                               \
        name(4, 1);                                                                                \
    }                                                                                              \
    TEST(name##_in_one_process) {                                                                  \
        name(4, 4);                                                                                \
    }                                                                                              \
    TEST(name##_both) {                                                                            \
        name(6, 2);                                                                                \
    }                                                                                              \
    TEST(name##_alone) {                                                                           \
        name(1, 1);                                                                                \
    }                                                                                              \
    static void name(int pes, int ppn)

#endif
