// SPDX-License-Identifier: BSD-3-Clause
//
// Quiescence: nobody has anything to handle, and nothing is under way.
//
// Each PE counts what it sends and what it has handled.  PE 0 has waves go down the tree; a PE answers when it has nothing to do,
// with its sums and those of the PEs below it.  Two waves in a row with the same sums, which are equal to one another, say that
// nothing was sent or handled between the PEs' answers: it is quiet.
//
// With a PE its sums are lost, and a wave never ends: each PE is told of a wave by the one above it, which then knows of the loss, and
// ends the job where somebody waits.
//
// Source: F. Mattern, "Algorithms for distributed termination detection", Distributed Computing 2 (1987), the four counter
// method.
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "rt/pe/pe.h"
#include "rt/pe/refuse.h"

enum { ASK, WAVE, ANSWER, QUIET };
// The time between waves that have found something; it doubles, as what is under way may take long.
enum { RECORD = 32, PAUSE_MIN_NS = 200000, PAUSE_MAX_NS = 20000000 };

typedef struct waiting {
    whi_queue_node link;
    whi_ready ready;
    wh_pe_fn fn;
    void *arg;
} waiting;

static wh_status tell(wh_pe *pe, int dest, int what, uint64_t wave, uint64_t made,
                      uint64_t consumed) {
    uint8_t record[RECORD];
    whi_writer w;
    whi_writer_init(&w, record, sizeof(record));
    whi_writer_u8(&w, WHI_CONTROL_QUIET);
    whi_writer_u8(&w, (uint8_t)what);
    whi_writer_u16(&w, 0);
    whi_writer_u32(&w, 0);
    whi_writer_u64(&w, wave);
    whi_writer_u64(&w, made);
    whi_writer_u64(&w, consumed);
    return whi_pe_control(pe, dest, record, sizeof(record));
}

// never ends a job in which somebody waits for what cannot come.
static void never(wh_pe *pe, int lost) {
    if (pe->exit.state == WHI_END_NONE)
        whi_pe_fail(pe,
                    "PE %d is lost, so that quiescence, which is waited for, cannot be found any "
                    "more",
                    lost);
}

void whi_quiet_lost(wh_pe *pe, int lost) {
    whi_quiet *q = &pe->quiet;
    q->lost = true;
    if (q->running || q->due || !whi_queue_empty(&q->waiting))
        never(pe, lost);
}

static void begin_wave(wh_pe *pe, uint64_t wave) {
    whi_quiet *q = &pe->quiet;
    int first = whi_tree_first_child(pe->number);
    q->wave = wave;
    q->due = true;
    int children = whi_tree_children(pe->number, pe->pes);
    q->missing = (1u << children) - 1;
    q->sum_made = q->sum_consumed = 0;
    for (int i = 0; i < children; i++)
        if (tell(pe, first + i, WAVE, wave, 0, 0) != WH_OK)
            never(pe, first + i);
}

static void run_waiting(wh_pe *pe, whi_ready *ready) {
    waiting *w = whi_container_of(ready, waiting, ready);
    wh_pe_fn fn = w->fn;
    void *arg = w->arg;
    whi_free(w);
    fn(pe, arg);
}

static void drop_waiting(whi_ready *ready) {
    whi_free(whi_container_of(ready, waiting, ready));
}

// quiet_here calls those that have asked first.
static void quiet_here(wh_pe *pe, uint64_t count) {
    whi_queue_node *node;
    while (count-- && (node = whi_queue_pop(&pe->quiet.waiting)))
        whi_pe_do(pe, &whi_container_of(node, waiting, link)->ready);
}

// start begins to look for those that have asked until now: who asks later may have sent something behind a PE's answer.
static void start(wh_pe *pe) {
    whi_quiet *q = &pe->quiet;
    if (!q->asked)
        return;
    memcpy(q->serves, q->asks, (size_t)pe->pes * sizeof(*q->asks));
    memset(q->asks, 0, (size_t)pe->pes * sizeof(*q->asks));
    q->asked = false;
    q->running = true;
    q->last_made = UINT64_MAX;
    q->pause_ns = PAUSE_MIN_NS;
    begin_wave(pe, q->wave + 1);
}

// wave_done is PE 0's: all have answered.
static void wave_done(wh_pe *pe, uint64_t made, uint64_t consumed) {
    whi_quiet *q = &pe->quiet;
    if (made != consumed || made != q->last_made || consumed != q->last_consumed) {
        bool equal = made == consumed;
        q->last_made = made;
        q->last_consumed = consumed;
        if (equal) {
            begin_wave(pe, q->wave + 1);
            return;
        }
        whi_timers_add(&pe->timers, &q->again, whi_clock_ns() + q->pause_ns);
        q->pause_ns = q->pause_ns < PAUSE_MAX_NS / 2 ? 2 * q->pause_ns : PAUSE_MAX_NS;
        return;
    }
    for (int i = 0; i < pe->pes; i++)
        if (q->serves[i] && tell(pe, i, QUIET, 0, q->serves[i], 0) != WH_OK)
            never(pe, i);
    q->running = false;
    start(pe);
}

static void again(whi_timer *timer, void *arg) {
    (void)timer;
    wh_pe *pe = arg;
    begin_wave(pe, pe->quiet.wave + 1);
}

void whi_quiet_idle(wh_pe *pe) {
    whi_quiet *q = &pe->quiet;
    if (!q->due || q->missing)
        return;
    q->due = false;
    uint64_t made = q->sum_made + q->made, consumed = q->sum_consumed + q->consumed;
    if (pe->number == 0)
        wave_done(pe, made, consumed);
    else if (tell(pe, whi_tree_parent(pe->number), ANSWER, q->wave, made, consumed) != WH_OK)
        never(pe, whi_tree_parent(pe->number));
}

static void asked(wh_pe *pe, int source) {
    whi_quiet *q = &pe->quiet;
    q->asks[source]++;
    q->asked = true;
    if (!q->running)
        start(pe);
}

// answered takes the answer of a PE below this one.
static void answered(whi_quiet *q, int child, uint64_t made, uint64_t consumed) {
    q->missing &= ~(1u << child);
    q->sum_made += made;
    q->sum_consumed += consumed;
}

// may_say says whether a PE may send this, here and now.
static bool may_say(const wh_pe *pe, int source, int what, uint64_t wave) {
    const whi_quiet *q = &pe->quiet;
    int child = whi_tree_child_of(pe, source);
    switch (what) {
    case ASK: return pe->number == 0;
    case WAVE: return pe->number && source == whi_tree_parent(pe->number);
    case ANSWER: return child >= 0 && wave == q->wave && (q->missing >> child & 1);
    case QUIET: return source == 0;
    default: return false;
    }
}

static void on_control(wh_pe *pe, int source, const void *data, size_t size, void *arg) {
    (void)arg;
    whi_reader r;
    whi_reader_init(&r, data, size);
    (void)whi_reader_u8(&r);
    int what = whi_reader_u8(&r);
    (void)whi_reader_u16(&r);
    (void)whi_reader_u32(&r);
    uint64_t wave = whi_reader_u64(&r), made = whi_reader_u64(&r), consumed = whi_reader_u64(&r);
    if (!whi_reader_done(&r) || !may_say(pe, source, what, wave))
        whi_wire_reject(pe->wire, source, "what it says about quiescence cannot be");
    else if (what == ASK)
        asked(pe, source);
    else if (what == WAVE)
        begin_wave(pe, wave);
    else if (what == ANSWER)
        answered(&pe->quiet, whi_tree_child_of(pe, source), made, consumed);
    else
        quiet_here(pe, made);
}

wh_status wh_pe_on_quiescence(wh_pe *pe, wh_pe_fn fn, void *arg) {
    if (fn && pe->quiet.lost)
        return WH_EPEER;
    waiting *w = fn ? whi_malloc(sizeof(*w)) : NULL;
    if (!w)
        return fn ? WH_ENOMEM : whi_refuse_function("wh_pe_on_quiescence");
    *w = (waiting){.ready = {.run = run_waiting, .drop = drop_waiting}, .fn = fn, .arg = arg};
    whi_queue_push(&pe->quiet.waiting, &w->link);
    if (tell(pe, 0, ASK, 0, 0, 0) != WH_OK)
        never(pe, 0);
    return WH_OK;
}

wh_status whi_quiet_init(wh_pe *pe) {
    whi_queue_init(&pe->quiet.waiting);
    whi_timer_init(&pe->quiet.again, again, pe);
    whi_pe_set_control(pe, WHI_CONTROL_QUIET, on_control, NULL);
    if (pe->number)
        return WH_OK;
    pe->quiet.asks = whi_calloc((size_t)pe->pes, sizeof(*pe->quiet.asks));
    pe->quiet.serves = whi_calloc((size_t)pe->pes, sizeof(*pe->quiet.serves));
    return pe->quiet.asks && pe->quiet.serves ? WH_OK : WH_ENOMEM;
}

void whi_quiet_fini(wh_pe *pe) {
    whi_queue_node *node;
    if (pe->quiet.waiting.last)
        while ((node = whi_queue_pop(&pe->quiet.waiting)))
            whi_free(whi_container_of(node, waiting, link));
    whi_free(pe->quiet.asks);
    whi_free(pe->quiet.serves);
}
