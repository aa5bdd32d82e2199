// SPDX-License-Identifier: BSD-3-Clause
//
// Completion detection: producers are done, and all that was produced is consumed.
//
// The PE that has made a detector is the root of a tree over all PEs, and has waves go down the tree; a PE answers with its sums and
// those of the PEs below it.  When all producers have told the root that they are done, two waves in a row with the same sums, which
// are equal to one another, say that nothing was produced or consumed between the PEs' answers, and that nothing is under way.
//
// With a PE its sums are lost.  The first wave, at the beginning, connects each PE to those below it, so that the one above a PE that is
// lost gets to know it, at any time, and tells those above: the detector ends with that.
//
// Source: F. Mattern, "Algorithms for distributed termination detection", Distributed Computing 2 (1987), the four counter
// method.
#include <wherry/detect.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "rt/pe/pe.h"
#include "rt/pe/refuse.h"

enum { DONE, WAVE, ANSWER, LOST, FORGET };
// The time between waves that have found something; it doubles, as what is under way may take long.
enum { RECORD = 40, PAUSE_MIN_NS = 200000, PAUSE_MAX_NS = 20000000 };

// A detector, as one PE knows it.
typedef struct detector {
    wh_detector name;
    uint64_t produced, consumed;  // here
    // The wave that this PE takes part in.
    uint64_t wave;
    unsigned missing;  // PEs below it that have not answered, a bit each
    uint64_t sum_produced, sum_consumed;
} detector;

// A detector at its root.
typedef struct root {
    detector here;  // first: the table of a PE leads to it
    wh_pe *pe;
    whi_ready ready;  // calls fn
    wh_detector_fn fn;
    void *arg;
    uint32_t producers;  // that are not done
    uint64_t last_produced, last_consumed;
    whi_timer again;
    uint64_t pause_ns;
    bool ended;   // fn is about to be called
    bool warned;  // that too much is consumed
    wh_status status;
} root;

static root *root_of(detector *d) {
    return whi_container_of(d, root, here);
}

static uint64_t key_of(wh_detector name) {
    return (uint64_t)(uint32_t)name.pe << 32 | name.id;
}

static bool is_full(const wh_pe *pe) {
    return whi_hash_count(&pe->detectors) >= WH_DETECTORS_MAX;
}

static detector *known(const wh_pe *pe, wh_detector name) {
    return whi_hash_get(&pe->detectors, key_of(name));
}

// find returns what this PE knows of a detector of another one's, or of one of its own that is there; it makes the former known if
// need be.
static wh_status find(wh_pe *pe, wh_detector name, detector **found) {
    *found = known(pe, name);
    if (*found)
        return WH_OK;
    if (is_full(pe))
        return WH_ELIMIT;
    *found = whi_hash_make(&pe->detectors, key_of(name), sizeof(**found));
    if (!*found)
        return WH_ENOMEM;
    (*found)->name = name;
    return WH_OK;
}

// ---- The tree: that of the PEs, with the root of the detector in the place of PE 0.

static int place_of(const wh_pe *pe, int number, wh_detector name) {
    return (number - name.pe + pe->pes) % pe->pes;
}

static int at_place(const wh_pe *pe, int place, wh_detector name) {
    return (place + name.pe) % pe->pes;
}

static int parent_of(const wh_pe *pe, wh_detector name) {
    return at_place(pe, whi_tree_parent(place_of(pe, pe->number, name)), name);
}

static int children_of(const wh_pe *pe, wh_detector name) {
    return whi_tree_children(place_of(pe, pe->number, name), pe->pes);
}

static int child_at(const wh_pe *pe, wh_detector name, int i) {
    return at_place(pe, whi_tree_first_child(place_of(pe, pe->number, name)) + i, name);
}

// child_of returns which of the PEs below this one `other` is, or -1.
static int child_of(const wh_pe *pe, wh_detector name, int other) {
    for (int i = 0; i < children_of(pe, name); i++)
        if (child_at(pe, name, i) == other)
            return i;
    return -1;
}

typedef struct record {
    int what;
    wh_detector name;
    uint64_t wave, produced, consumed;
} record;

static wh_status tell(wh_pe *pe, int dest, const record *r) {
    uint8_t bytes[RECORD];
    whi_writer w;
    whi_writer_init(&w, bytes, sizeof(bytes));
    whi_writer_u8(&w, WHI_CONTROL_DETECT);
    whi_writer_u8(&w, (uint8_t)r->what);
    whi_writer_u16(&w, 0);
    whi_writer_u32(&w, r->name.id);
    whi_writer_u32(&w, (uint32_t)r->name.pe);
    whi_writer_u32(&w, 0);
    whi_writer_u64(&w, r->wave);
    whi_writer_u64(&w, r->produced);
    whi_writer_u64(&w, r->consumed);
    return whi_pe_control(pe, dest, bytes, sizeof(bytes));
}

// tell_below returns which of the PEs below this one it could tell, a bit each.
static unsigned tell_below(wh_pe *pe, const record *r) {
    unsigned told = 0;
    for (int i = 0; i < children_of(pe, r->name); i++)
        if (tell(pe, child_at(pe, r->name, i), r) == WH_OK)
            told |= 1u << i;
    return told;
}

// tell_above needs no success: the one above notices where what it waits for cannot come any more.
static void tell_above(wh_pe *pe, const record *r) {
    (void)!(tell(pe, parent_of(pe, r->name), r) == WH_OK);
}

// ---- The end.

static void run_root(wh_pe *pe, whi_ready *ready) {
    root *top = whi_container_of(ready, root, ready);
    wh_detector_fn fn = top->fn;
    void *arg = top->arg;
    wh_status status = top->status;
    whi_free(top);
    fn(pe, status, arg);
}

static void drop_root(whi_ready *ready) {
    whi_free(whi_container_of(ready, root, ready));
}

// end ends a detector and has all forget it.
static void end(wh_pe *pe, root *top, wh_status status) {
    record forget = {.what = FORGET, .name = top->here.name};
    if (top->ended)
        return;
    top->ended = true;
    whi_hash_remove(&pe->detectors, key_of(top->here.name));
    whi_timers_remove(&pe->timers, &top->again);
    (void)tell_below(pe, &forget);
    top->status = status;
    whi_pe_do(pe, &top->ready);
}

// ---- Waves.

static void begin_wave(wh_pe *pe, detector *d, uint64_t wave);

// wave_done is the root's: all have answered.
static void wave_done(wh_pe *pe, root *top, uint64_t produced, uint64_t consumed) {
    bool equal = produced == consumed;
    bool same = produced == top->last_produced && consumed == top->last_consumed;
    if (top->producers)
        return;
    top->last_produced = produced;
    top->last_consumed = consumed;
    if (same && consumed > produced && !top->warned) {
        top->warned = true;
        whi_log(WHI_WARN, "W-RT-03",
                "detector %u of PE %d: %llu pieces are consumed, and %llu were produced: it waits "
                "until as many are; produce each piece before it goes on its way",
                top->here.name.id, pe->number, (unsigned long long)consumed,
                (unsigned long long)produced);
    }
    if (equal && same) {
        end(pe, top, WH_OK);
    } else if (equal) {
        begin_wave(pe, &top->here, top->here.wave + 1);
    } else {
        whi_timers_add(&pe->timers, &top->again, whi_clock_ns() + top->pause_ns);
        top->pause_ns = top->pause_ns < PAUSE_MAX_NS / 2 ? 2 * top->pause_ns : PAUSE_MAX_NS;
    }
}

// answer_if_whole gives this PE's answer when those below it have given theirs.  At the root the detector may be gone then.
static void answer_if_whole(wh_pe *pe, detector *d) {
    if (d->missing)
        return;
    record r = {.what = ANSWER,
                .name = d->name,
                .wave = d->wave,
                .produced = d->sum_produced + d->produced,
                .consumed = d->sum_consumed + d->consumed};
    if (d->name.pe == pe->number)
        wave_done(pe, root_of(d), r.produced, r.consumed);
    else
        tell_above(pe, &r);
}

// bereft: a PE below this one is lost.  At the root the detector is gone then.
static void bereft(wh_pe *pe, detector *d) {
    record r = {.what = LOST, .name = d->name};
    if (d->name.pe == pe->number)
        end(pe, root_of(d), WH_EPEER);
    else
        tell_above(pe, &r);
}

static void begin_wave(wh_pe *pe, detector *d, uint64_t wave) {
    record r = {.what = WAVE, .name = d->name, .wave = wave};
    d->wave = wave;
    d->sum_produced = d->sum_consumed = 0;
    d->missing = (1u << children_of(pe, d->name)) - 1;
    if (tell_below(pe, &r) == d->missing)
        answer_if_whole(pe, d);
    else
        bereft(pe, d);
}

static void again(whi_timer *timer, void *arg) {
    (void)timer;
    root *top = arg;
    begin_wave(top->pe, &top->here, top->here.wave + 1);
}

// producer_done is the root's: one producer is done.
static void producer_done(wh_pe *pe, root *top) {
    if (!top->producers) {
        whi_log(WHI_WARN, "W-RT-02",
                "wh_detector_done is called more often for detector %u of PE %d than it has "
                "producers: give wh_detector_create their number",
                top->here.name.id, pe->number);
        return;
    }
    top->producers--;
    if (!top->producers && !top->here.missing)  // else when the first wave is done
        begin_wave(pe, &top->here, top->here.wave + 1);
}

// ---- What others say.

static void forget(wh_pe *pe, const record *r) {
    (void)tell_below(pe, r);
    whi_free(whi_hash_remove(&pe->detectors, key_of(r->name)));
}

// wave_comes takes part in a wave.  A PE that cannot keep one detector more counts as lost for this one.
static void wave_comes(wh_pe *pe, const record *r) {
    detector *d;
    record none = {.what = LOST, .name = r->name};
    if (find(pe, r->name, &d) == WH_OK)
        begin_wave(pe, d, r->wave);
    else
        tell_above(pe, &none);
}

// answer_comes takes the answer of a PE below this one; those of waves before, and of a detector that has ended, are late.
static void answer_comes(wh_pe *pe, int child, const record *r) {
    detector *d = known(pe, r->name);
    if (!d || r->wave != d->wave || !(d->missing >> child & 1))
        return;
    d->missing &= ~(1u << child);
    d->sum_produced += r->produced;
    d->sum_consumed += r->consumed;
    answer_if_whole(pe, d);
}

static void loss_comes(wh_pe *pe, const record *r) {
    detector *d = known(pe, r->name);
    if (d)
        bereft(pe, d);
}

// take does what a record asks for; false: its sender may not say it.
static bool take(wh_pe *pe, int source, const record *r) {
    detector *d;
    bool mine = r->name.pe == pe->number;
    bool above = !mine && source == parent_of(pe, r->name);
    int child = child_of(pe, r->name, source);
    switch (r->what) {
    case DONE:
        d = mine ? known(pe, r->name) : NULL;
        if (d)
            producer_done(pe, root_of(d));
        return mine;
    case WAVE:
        if (above)
            wave_comes(pe, r);
        return above;
    case FORGET:
        if (above)
            forget(pe, r);
        return above;
    case ANSWER:
        if (child >= 0)
            answer_comes(pe, child, r);
        return child >= 0;
    case LOST:
        if (child >= 0)
            loss_comes(pe, r);
        return child >= 0;
    default: return false;
    }
}

static void on_control(wh_pe *pe, int source, const void *data, size_t size, void *arg) {
    (void)arg;
    whi_reader reader;
    whi_reader_init(&reader, data, size);
    (void)whi_reader_u8(&reader);
    record r = {.what = whi_reader_u8(&reader)};
    (void)whi_reader_u16(&reader);
    r.name.id = whi_reader_u32(&reader);
    r.name.pe = (int32_t)whi_reader_u32(&reader);
    (void)whi_reader_u32(&reader);
    r.wave = whi_reader_u64(&reader);
    r.produced = whi_reader_u64(&reader);
    r.consumed = whi_reader_u64(&reader);
    if (!whi_reader_done(&reader) || whi_pe_lacks(pe, r.name.pe) || !take(pe, source, &r))
        whi_wire_reject(pe->wire, source, "what it says about a detector cannot be");
}

// suffers has a detector bear the loss of a PE, by which it, or others, may go.
static void suffers(wh_pe *pe, detector *d, int lost) {
    record gone = {.what = FORGET, .name = d->name};
    if (d->name.pe == lost)
        whi_free(whi_hash_remove(&pe->detectors, key_of(d->name)));
    else if (d->name.pe == pe->number || child_of(pe, d->name, lost) >= 0)
        bereft(pe, d);
    else if (parent_of(pe, d->name) == lost)  // by which its end would have been told
        forget(pe, &gone);
}

void whi_detect_lost(wh_pe *pe, int lost) {
    size_t cursor = 0;
    uint64_t key;
    detector *d;
    while ((d = whi_hash_next(&pe->detectors, &cursor, &key))) {
        size_t before = whi_hash_count(&pe->detectors);
        suffers(pe, d, lost);
        if (whi_hash_count(&pe->detectors) != before)
            cursor = 0;  // the table has moved
    }
}

// ---- The program's calls.

static wh_status named(wh_pe *pe, const char *call, wh_detector name) {
    if (whi_pe_lacks(pe, name.pe))
        return whi_refuse_pe(pe, call, "detector.pe", name.pe);
    if (!name.id || (name.pe == pe->number && name.id > pe->last_detector))
        return whi_refuse(WH_EINVAL, "E-RT-14",
                          "%s: PE %d has made no detector %u: give what wh_detector_create has "
                          "stored",
                          call, name.pe, name.id);
    return WH_OK;
}

// count is not for a detector of this PE's that has ended: nothing but a root may be known by its name here.
static wh_status count(wh_pe *pe, const char *call, wh_detector name, uint64_t produced,
                       uint64_t consumed) {
    detector *d;
    wh_status st = named(pe, call, name);
    if (st != WH_OK || (name.pe == pe->number && !known(pe, name)))
        return st;
    st = find(pe, name, &d);
    if (st != WH_OK)
        return st;
    d->produced += produced;
    d->consumed += consumed;
    return WH_OK;
}

wh_status wh_detector_create(wh_pe *pe, uint32_t producers, wh_detector_fn fn, void *arg,
                             wh_detector *out) {
    if (!fn)
        return whi_refuse_function("wh_detector_create");
    if (!producers || !out)
        return whi_refuse(WH_EINVAL, "E-RT-14",
                          "wh_detector_create: there are no producers, or no place for the "
                          "detector: give how often wh_detector_done will be called");
    if (is_full(pe))
        return WH_ELIMIT;
    wh_detector name = {.pe = pe->number, .id = ++pe->last_detector};
    root *top = whi_hash_make(&pe->detectors, key_of(name), sizeof(*top));
    if (!top)
        return WH_ENOMEM;
    top->here.name = name;
    top->pe = pe;
    top->ready = (whi_ready){.run = run_root, .drop = drop_root};
    top->fn = fn;
    top->arg = arg;
    top->producers = producers;
    top->last_produced = UINT64_MAX;
    top->pause_ns = PAUSE_MIN_NS;
    whi_timer_init(&top->again, again, top);
    *out = name;
    begin_wave(pe, &top->here, 1);
    return WH_OK;
}

wh_status wh_detector_produce(wh_pe *pe, wh_detector name, uint64_t pieces) {
    return count(pe, "wh_detector_produce", name, pieces, 0);
}

wh_status wh_detector_consume(wh_pe *pe, wh_detector name, uint64_t pieces) {
    return count(pe, "wh_detector_consume", name, 0, pieces);
}

wh_status wh_detector_done(wh_pe *pe, wh_detector name) {
    record r = {.what = DONE, .name = name};
    wh_status st = named(pe, "wh_detector_done", name);
    return st == WH_OK ? tell(pe, name.pe, &r) : st;
}

void whi_pe_dump_detectors(const wh_pe *pe, whi_dump *to) {
    size_t cursor = 0;
    uint64_t key;
    const detector *d;
    while ((d = whi_hash_next(&pe->detectors, &cursor, &key))) {
        fprintf(to->file, "  detector %u of PE %d: produced %llu here, consumed %llu", d->name.id,
                d->name.pe, (unsigned long long)d->produced, (unsigned long long)d->consumed);
        if (d->name.pe == pe->number)
            fprintf(to->file, ", waits for %u producers",
                    whi_container_of(d, const root, here)->producers);
        fputc('\n', to->file);
        to->waits = true;
    }
}

void whi_detect_init(wh_pe *pe) {
    whi_hash_init(&pe->detectors);
    whi_pe_set_control(pe, WHI_CONTROL_DETECT, on_control, NULL);
}

void whi_detect_fini(wh_pe *pe) {
    size_t cursor = 0;
    uint64_t key;
    detector *d;
    while ((d = whi_hash_next(&pe->detectors, &cursor, &key))) {
        if (d->name.pe == pe->number)
            whi_timers_remove(&pe->timers, &root_of(d)->again);
        whi_free(d);
    }
    whi_hash_fini(&pe->detectors);
}
