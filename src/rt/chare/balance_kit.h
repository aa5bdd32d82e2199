// SPDX-License-Identifier: BSD-3-Clause
//
// For tests: an array whose elements reach sync points when they are told, and note where they go on.
#ifndef WHI_RT_CHARE_BALANCE_KIT_H
#define WHI_RT_CHARE_BALANCE_KIT_H

#include <wherry/section.h>

#include "base/rng.h"
#include "rt/chare/chares.h"
#include "rt/pe/pe_kit.h"

enum { SITTERS = 48, ARRAYS = 4 };

typedef struct sitter {
    int64_t next;  // reference number of the next call
    int64_t steps;
    double load;
} sitter;

// By array and element, what they have noted.
static struct {
    int pe[ARRAYS][SITTERS];
    double load[ARRAYS][SITTERS];
    int resumed[ARRAYS], calls, ended, errors;
    char error[400];
    uint32_t arrays[ARRAYS];
    bool leaves;     // elements leave for a PE when they have reached their sync point
    uint64_t spins;  // ns that the next entry takes
    size_t bulk;     // bytes that an element packs in addition
} seen;

static int number_of(wh_proxy proxy) {
    for (int i = 0; i < ARRAYS; i++)
        if (seen.arrays[i] == proxy.collection)
            return i;
    CHECK(false);
    return 0;
}

static size_t sitter_pack(wh_chare *self, void *to) {
    if (to)
        memcpy(to, self->state, sizeof(sitter));
    if (to && seen.bulk)
        memset((char *)to + sizeof(sitter), 7, seen.bulk);
    return sizeof(sitter) + seen.bulk;
}

static wh_status sitter_unpack(wh_chare *self, const void *data, size_t size) {
    CHECK_EQ_INT(size, sizeof(sitter) + seen.bulk);
    memcpy(self->state, data, sizeof(sitter));
    return WH_OK;
}

static void sitter_destruct(wh_chare *self) {
    (void)self;
    seen.ended++;
}

#define SITTER_ENTRIES(ENTRY)                                                                      \
    ENTRY(sitter, call, 0)                                                                         \
    ENTRY(sitter, reach, 0)                                                                        \
    ENTRY(sitter, resume, 0)                                                                       \
    ENTRY(sitter, die, 0)                                                                          \
    ENTRY(sitter, asked, WH_ENTRY_WHEN)                                                            \
    ENTRY(sitter, sleep, WH_ENTRY_THREADED)                                                        \
    ENTRY(sitter, spin, 0)                                                                         \
    ENTRY(sitter, spin_asleep, WH_ENTRY_THREADED)
WH_CLASS(sitter, SITTER_ENTRIES, .state = sizeof(sitter), .destruct = sitter_destruct,
         .pack = sitter_pack, .unpack = sitter_unpack);

static void sitter_call(wh_chare *self, const wh_call *call) {
    sitter *s = self->state;
    CHECK_EQ_INT(call->ref, s->next++);
    seen.calls++;
}

// reach reaches the sync point; the arguments, if there are any, are the load.
static void sitter_reach(wh_chare *self, const wh_call *call) {
    sitter *s = self->state;
    if (call->size) {
        memcpy(&s->load, call->args, sizeof(s->load));
        CHECK_EQ_INT(wh_chare_set_load(self, s->load), WH_OK);
    }
    wh_status st = wh_chare_sync(self);
    if (st == WH_ENOMEM && !job.failures)  // nothing has been done
        st = wh_chare_sync(self);
    if (job.failures)
        return;
    CHECK_EQ_INT(st, WH_OK);
    CHECK_EQ_INT(wh_chare_sync(self), WH_EBUSY);
    if (seen.leaves)
        CHECK_EQ_INT(wh_chare_move(self, (int)(call->ref % job.pes)), WH_OK);
}

static void sitter_resume(wh_chare *self, const wh_call *call) {
    sitter *s = self->state;
    int array = number_of(self->proxy), at = self->proxy.index[0];
    CHECK_EQ_INT(call->ref, ++s->steps);
    CHECK_EQ_INT(call->size, 0);
    seen.pe[array][at] = wh_pe_number(self->pe);
    seen.load[array][at] = s->load;
    seen.resumed[array]++;
    wh_balance_step last = {.size = sizeof(last)};
    CHECK_EQ_INT(wh_balance_last(self->pe, self->proxy, &last), WH_OK);
    CHECK_EQ_INT(last.number, call->ref);
}

static void sitter_die(wh_chare *self, const wh_call *call) {
    (void)call;
    CHECK_EQ_INT(wh_chare_destroy(self->pe, self->proxy), WH_OK);
}

static void sitter_asked(wh_chare *self, const wh_call *call) {
    (void)self;
    (void)call;
}

static void sitter_sleep(wh_chare *self, const wh_call *call) {
    const wh_call *got;
    CHECK_EQ_INT(wh_chare_wait(self, sitter_asked_entry, call->ref, &got), WH_OK);
}

static void spin(uint64_t ns) {
    for (uint64_t end = whi_clock_ns() + ns; whi_clock_ns() < end;)
        ;
}

static void sitter_spin(wh_chare *self, const wh_call *call) {
    (void)self;
    (void)call;
    spin(seen.spins);
}

// The time in which it waits is not its own.
static void sitter_spin_asleep(wh_chare *self, const wh_call *call) {
    const wh_call *got;
    spin(seen.spins / 2);
    CHECK_EQ_INT(wh_chare_wait(self, sitter_asked_entry, call->ref, &got), WH_OK);
    spin(seen.spins / 2);
}

// Elements of a class that does not say how it is packed.
#define STONE_ENTRIES(ENTRY) ENTRY(stone, reach, 0) ENTRY(stone, resume, 0)
WH_CLASS(stone, STONE_ENTRIES, .state = sizeof(sitter));

static void stone_reach(wh_chare *self, const wh_call *call) {
    sitter_reach(self, call);
}

static void stone_resume(wh_chare *self, const wh_call *call) {
    sitter_resume(self, call);
}

static inline void on_error(wh_pe *pe, const wh_proxy *proxy, const char *sentence, void *arg) {
    (void)pe;
    (void)proxy;
    (void)arg;
    seen.errors++;
    snprintf(seen.error, sizeof(seen.error), "%s", sentence);
}

static inline int all_on_0(const int32_t *index, int dims, const int32_t *shape, int pes,
                           void *arg) {
    (void)index;
    (void)dims;
    (void)shape;
    (void)pes;
    (void)arg;
    return 0;
}

static inline void begin(int pes, int ppn) {
    memset(&seen, 0, sizeof(seen));
    kit_begin(pes, ppn);
    for (int i = 0; i < pes; i++) {
        CHECK_EQ_INT(wh_class_register(job.pe[i], &sitter_class), WH_OK);
        CHECK_EQ_INT(wh_class_register(job.pe[i], &stone_class), WH_OK);
        CHECK_EQ_INT(wh_map_register(job.pe[i], "all-on-0", all_on_0, NULL), WH_OK);
        CHECK_EQ_INT(wh_chare_on_error(job.pe[i], on_error, NULL), WH_OK);
    }
}

static inline wh_proxy make_array(int number, int from, const char *cls, unsigned resume,
                                  const char *balance, int count, const char *map, uint32_t flags) {
    wh_proxy array;
    CHECK_EQ_INT(
        wh_array_create(job.pe[from], cls,
                        WH_ARRAY_OPTS(.dims = 1, .shape = {count}, .map = map, .flags = flags,
                                      .balance = balance, .resume = resume),
                        NULL, 0, &array),
        WH_OK);
    seen.arrays[number] = array.collection;
    return array;
}

static inline wh_proxy sitters(int number, int from, const char *balance) {
    return make_array(number, from, "sitter", sitter_resume_entry, balance, SITTERS, NULL, 0);
}

static inline wh_proxy at(wh_proxy array, int number) {
    return wh_proxy_at(array, 1, &number);
}

static inline void call(int from, wh_proxy to, unsigned entry, int64_t ref) {
    CHECK_EQ_INT(wh_chare_send(job.pe[from], to, entry, "", 0, WH_SEND_OPTS(.ref = ref)), WH_OK);
}

static inline void reach(int from, wh_proxy to, double load, int64_t ref) {
    CHECK_EQ_INT(wh_chare_send(job.pe[from], to, sitter_reach_entry, &load, sizeof(load),
                               WH_SEND_OPTS(.ref = ref)),
                 WH_OK);
}

static inline void is_quiet(wh_pe *pe, void *arg) {
    (void)pe;
    *(bool *)arg = true;
}

static inline void settle(void) {
    bool quiet = false;
    CHECK_EQ_INT(wh_pe_on_quiescence(job.pe[0], is_quiet, &quiet), WH_OK);
    UNTIL(quiet);
}

static inline wh_balance_step last_of(int pe, wh_proxy array) {
    wh_balance_step last = {.size = sizeof(last)};
    CHECK_EQ_INT(wh_balance_last(job.pe[pe], array, &last), WH_OK);
    return last;
}

static inline void end(void) {
    CHECK_EQ_INT(job.failures, 0);
    CHECK_EQ_INT(seen.errors, 0);
    kit_end();
}

#endif
