// SPDX-License-Identifier: BSD-3-Clause
//
// For the walks of chares: the elements, and what is known of all that they do.
#ifndef WHI_RT_CHARE_WALK_MODEL_H
#define WHI_RT_CHARE_WALK_MODEL_H

#include <wherry/channel.h>
#include <wherry/section.h>

#include "rt/channel/channels.h"
#include "rt/chare/chares.h"
#include "rt/chare/walk_net.h"

enum { WALKERS_MAX = 1024, ROUNDS_MAX = 64, CALLS_MAX = 1 << 18, STUCK = 5000000 };
enum { SECTIONS_MAX = 4, SECTION_MAX = 24, PIPES = 4 };

typedef enum life { HERE, AWAY, COMING } life;  // as far as is known: it may still be going

typedef struct saying {
    uint32_t id, serial;
    int32_t to, hops, round;
} saying;

typedef struct walk_section {
    wh_section section;
    bool has[WALKERS_MAX];
    int32_t serials[NET_PES];  // of calls, by the sender's PE
    int rounds, fired, contributed[ROUNDS_MAX];
    int64_t sum[ROUNDS_MAX];
} walk_section;

static struct {
    int walkers, members,
        pipes;      // elements of each collection; members are numbered behind walkers
    int immortals;  // walkers that are never away
    wh_proxy array, member, pipe;
    // Calls, by number of the element.
    bool taken[CALLS_MAX];
    uint32_t calls;
    uint32_t serials[NET_PES][WALKERS_MAX], last[NET_PES][WALKERS_MAX];
    int sent_to[WALKERS_MAX], taken_by[WALKERS_MAX], rejected[WALKERS_MAX];
    life life[WALKERS_MAX];
    int inserts, inserted, refused;
    int64_t told[WALKERS_MAX], wanted[WALKERS_MAX], asked[WALKERS_MAX];
    // Broadcasts.
    int64_t all[NET_PES], broadcasts, had[WALKERS_MAX];
    uint64_t order[WALKERS_MAX];
    // Reductions.
    int rounds, fired, contributed[ROUNDS_MAX];
    int64_t sum[ROUNDS_MAX];
    walk_section sections[SECTIONS_MAX];
    int section_count;
    bool sectioned[WALKERS_MAX];  // it belongs to one
    int piped, pushed, pulled;    // messages of channels
    // Of each channel, by the receiver: messages that are to be sent, that have been, that are to be received.
    int pushes[PIPES][2], begun[PIPES][2], pulls[PIPES][2];
    unsigned ahead;       // percent of receives that come first
    int pipe_moves, lag;  // messages that are sent before one is received
    bool channels;        // that is what the walk is about
    int made, unpacked, destructed;
} walk;

static int any_pe(void) {
    return (int)draw((uint64_t)job.pes);
}

static int any_number(void) {
    return (int)draw((uint64_t)(walk.walkers + walk.members));
}

static wh_proxy proxy_of(int number) {
    int32_t index = number < walk.walkers ? number : number - walk.walkers;
    return wh_proxy_at(number < walk.walkers ? walk.array : walk.member, 1, &index);
}

// ---- Walkers, whose class members have, too.

typedef struct walker {
    int number;
    int taken;              // calls of this life
    int64_t last[NET_PES];  // broadcast, by source
    int64_t had;
    uint64_t order;
    int32_t heard[SECTIONS_MAX][NET_PES], shared[SECTIONS_MAX];  // calls of sections
} walker;

#define WALKER_ENTRIES(ENTRY)                                                                      \
    ENTRY(walker, step, 0)                                                                         \
    ENTRY(walker, at_once, WH_ENTRY_INLINE)                                                        \
    ENTRY(walker, go, 0)                                                                           \
    ENTRY(walker, die, 0)                                                                          \
    ENTRY(walker, give, 0)                                                                         \
    ENTRY(walker, all, 0)                                                                          \
    ENTRY(walker, tell, 0)                                                                         \
    ENTRY(walker, share, 0)                                                                        \
    ENTRY(walker, asked, WH_ENTRY_WHEN)                                                            \
    ENTRY(walker, ask, 0)

static void walker_construct(wh_chare *self, const wh_call *call);
static void walker_destruct(wh_chare *self);
static size_t walker_pack(wh_chare *self, void *to);
static wh_status walker_unpack(wh_chare *self, const void *data, size_t size);
WH_CLASS(walker, WALKER_ENTRIES, .state = sizeof(walker), .construct = walker_construct,
         .destruct = walker_destruct, .pack = walker_pack, .unpack = walker_unpack);

static int number_of(const wh_chare *self) {
    bool member = self->proxy.collection == walk.member.collection;
    return self->proxy.index[0] + (member ? walk.walkers : 0);
}

static void walker_construct(wh_chare *self, const wh_call *call) {
    walker *w = self->state;
    w->number = number_of(self);
    walk.made++;
    if (call->size)
        return;  // with its array
    CHECK(walk.life[w->number] == COMING);
    walk.life[w->number] = HERE;
    walk.inserted++;
}

static void walker_destruct(wh_chare *self) {
    CHECK_EQ_INT(((walker *)self->state)->number, number_of(self));
    walk.destructed++;
}

static size_t walker_pack(wh_chare *self, void *to) {
    if (to)
        memcpy(to, self->state, sizeof(walker));
    return sizeof(walker);
}

static wh_status walker_unpack(wh_chare *self, const void *data, size_t size) {
    CHECK_EQ_INT(size, sizeof(walker));
    memcpy(self->state, data, size);
    CHECK_EQ_INT(((walker *)self->state)->number, number_of(self));
    walk.unpacked++;
    return WH_OK;
}

// ---- Calls.

static void say(int from, int to, unsigned entry, int hops, int round) {
    static uint8_t bytes[sizeof(saying) + 2048];
    if (walk.calls == CALLS_MAX)
        return;
    saying s = {.id = walk.calls++,
                .serial = ++walk.serials[from][to],
                .to = to,
                .hops = hops,
                .round = round};
    size_t more = chance(20) ? draw(2048) : 0;
    memcpy(bytes, &s, sizeof(s));
    for (size_t i = 0; i < more; i++)
        bytes[sizeof(s) + i] = (uint8_t)(s.id + i);
    walk.sent_to[to]++;
    CHECK_EQ_INT(wh_chare_send(net_pe(from), proxy_of(to), entry, bytes, sizeof(s) + more, NULL),
                 WH_OK);
}

// take takes a call, which must be the next one of its sender's PE; calls to one that was away may have been rejected before it.
static saying take(wh_chare *self, const wh_call *call) {
    walker *w = self->state;
    saying s;
    CHECK(call->size >= sizeof(s));
    memcpy(&s, call->args, sizeof(s));
    for (size_t i = sizeof(s); i < call->size; i++)
        CHECK(((const uint8_t *)call->args)[i] == (uint8_t)(s.id + i - sizeof(s)));
    CHECK_EQ_INT(s.to, w->number);
    CHECK(s.id < walk.calls && !walk.taken[s.id]);
    walk.taken[s.id] = true;
    uint32_t *last = &walk.last[call->source][w->number];
    CHECK(s.serial > *last);
    CHECK(s.serial == *last + 1 || walk.rejected[w->number] || w->number >= walk.immortals);
    *last = s.serial;
    walk.taken_by[w->number]++;
    w->taken++;
    net_note((uint64_t)s.id << 8 | (uint64_t)wh_pe_number(self->pe));
    return s;
}

static void walker_step(wh_chare *self, const wh_call *call) {
    saying s = take(self, call);
    if (s.hops)
        say(wh_pe_number(self->pe), any_number(), walker_step_entry, s.hops - 1, 0);
}

static void walker_at_once(wh_chare *self, const wh_call *call) {
    (void)take(self, call);
}

static void walker_go(wh_chare *self, const wh_call *call) {
    (void)take(self, call);
    CHECK_EQ_INT(wh_chare_move(self, any_pe()), WH_OK);
}

static void walker_die(wh_chare *self, const wh_call *call) {
    (void)take(self, call);
    CHECK(walk.life[number_of(self)] == HERE);
    walk.life[number_of(self)] = AWAY;
    CHECK_EQ_INT(wh_chare_destroy(self->pe, self->proxy), WH_OK);
}

// give contributes to a reduction.  All calls of it are of one PE, so rounds come in order.
static void walker_give(wh_chare *self, const wh_call *call) {
    saying s = take(self, call);
    int64_t value[3] = {1, s.to, s.round};
    wh_contribution sum = {.reducer = WH_REDUCER_OP,
                           .op = WH_REDUCE_SUM,
                           .type = WH_TYPE_INT64,
                           .data = value,
                           .count = 3};
    wh_callback then = {.kind = WH_CALLBACK_FUNCTION,
                        .function = wh_function_id("result"),
                        .pe = s.round % job.pes,
                        .ref = s.round};
    walk.contributed[s.round]++;
    walk.sum[s.round] += s.to;
    CHECK_EQ_INT(wh_contribute(self, &sum, 1, sizeof(sum), &then), WH_OK);
}

static void on_reduced(wh_pe *pe, const wh_call *call, void *arg) {
    int64_t value[3];
    (void)arg;
    CHECK(call->ref < walk.rounds && wh_pe_number(pe) == call->ref % job.pes);
    CHECK_EQ_INT(call->size, sizeof(value));
    memcpy(value, call->args, sizeof(value));
    CHECK_EQ_INT(value[0], walk.members);
    CHECK_EQ_INT(value[0], walk.contributed[call->ref]);
    CHECK_EQ_INT(value[1], walk.sum[call->ref]);
    CHECK_EQ_INT(value[2], walk.members * call->ref);
    walk.contributed[call->ref] = -1;  // once
    walk.fired++;
}

// ---- Broadcasts, and messages that are asked for.

static void walker_all(wh_chare *self, const wh_call *call) {
    walker *w = self->state;
    CHECK(call->ref == w->last[call->source] + 1 ||
          (call->ref > w->last[call->source] && w->number >= walk.immortals));
    w->last[call->source] = call->ref;
    w->had++;
    w->order = w->order * 31 + (uint64_t)call->source + 1;
}

static void walker_tell(wh_chare *self, const wh_call *call) {
    const walker *w = self->state;
    (void)call;
    walk.had[w->number] = w->had;
    walk.order[w->number] = w->order;
}

static void walker_asked(wh_chare *self, const wh_call *call) {
    CHECK_EQ_INT(call->ref, ++walk.asked[number_of(self)]);
}

static void walker_ask(wh_chare *self, const wh_call *call) {
    CHECK_EQ_INT(wh_chare_when(self, walker_asked_entry, call->ref), WH_OK);
}

#endif
