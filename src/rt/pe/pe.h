// SPDX-License-Identifier: BSD-3-Clause
//
// A processing element from inside: for the runtime's upper floors.
#ifndef WHI_RT_PE_PE_H
#define WHI_RT_PE_PE_H

#include "base/clock.h"
#include "base/hash.h"
#include "base/idmap.h"
#include "base/timer.h"
#include "rt/pe/sched.h"
#include "rt/trace/trace.h"
#include "rt/ult/ult.h"
#include "rt/wire/gate.h"
#include "rt/wire/wire.h"

// Something that the PE does in its next turn.
typedef struct whi_ready {
    whi_queue_node link;
    void (*run)(wh_pe *pe, struct whi_ready *ready);
    void (*drop)(struct whi_ready *ready);  // frees one that is never run
} whi_ready;

// What runs now, for a timeline.
typedef struct whi_words {
    const char *name, *part;  // as the program has said: a class and its entry; NULL: it has not
    bool inside;              // of a span
} whi_words;

// Handlers of a range of ids.
enum { WHI_HANDLERS_PAGE = 256, WHI_HANDLERS_PAGES = (UINT16_MAX + 1) / WHI_HANDLERS_PAGE };

typedef struct whi_pe_handler {
    wh_pe_msg_fn fn;
    void *arg;
} whi_pe_handler;

// A floor above takes messages of its handler when their heads arrive, and decides itself when they are handled.
typedef struct whi_pe_heads {
    void (*message)(void *arg, whi_msg *msg);
    void (*arrived)(void *arg, whi_msg *msg, wh_status status);
    void *arg;
} whi_pe_heads;

// What the floors above keep in a PE, and end with it.
enum { WHI_FLOOR_CHARE, WHI_FLOOR_COLL, WHI_FLOOR_CHANNEL, WHI_FLOORS };

typedef struct whi_floor {
    void *state;
    void (*drop)(void *state,
                 whi_msg *msg);  // frees what it keeps for a message that is never handled
    void (*destroy)(void *state);
    void (*lost)(void *state, int pe);  // a PE is lost; NULL: nothing depends on one
    // The job ends, or has failed, and nothing is handled any more: called once, outside of progress.  NULL: nobody is told.
    void (*ends)(void *state, bool failed);
    void (*dump)(const void *state, whi_dump *to);  // prints what it waits for; NULL: nothing
    // Prints what a user-level thread waits for; false, or NULL: that is nothing of the floor's.
    bool (*awaited)(const void *state, const wh_wait *wait, FILE *file);
    whi_words (*name)(const void *state, const whi_msg *msg);  // what a message with `above` is for
} whi_floor;

// Kinds of control, their first byte.
enum {
    WHI_CONTROL_EXIT,
    WHI_CONTROL_QUIET,
    WHI_CONTROL_DETECT,
    WHI_CONTROL_FLOORS,  // from here on those of the floors above
    WHI_CONTROL_PLACES = WHI_CONTROL_FLOORS,
    WHI_CONTROL_CHANNEL,
    WHI_CONTROLS = 32
};

typedef void (*whi_control_fn)(wh_pe *pe, int source, const void *data, size_t size, void *arg);

// How far the end of the job has come, in this PE.
typedef enum whi_end {
    WHI_END_NONE,
    WHI_END_ASKED,  // this PE has asked for it
    WHI_END_STOPPED,  // nothing is handled any more; waits for those below it, then for the word to go
    WHI_END_GONE,
} whi_end;

typedef struct whi_exit {
    whi_end state;
    int status;
    unsigned missing;  // PEs below it that have not said that they have stopped, a bit each
    bool failed;       // the job cannot go on: nobody is waited for
    bool left;         // its wire is closed
    bool told;         // the floors above know
    whi_timer deadline;
    char *
        lost;  // what is said about the PE that was lost, unless the launcher ends this process first
} whi_exit;

typedef struct whi_quiet {
    uint64_t made, consumed;  // messages and buffers, of this PE since the begin
    whi_queue waiting;        // functions on this PE
    // The wave that this PE takes part in.
    uint64_t wave;
    bool due;                         // its answer is due when there is nothing to do
    unsigned missing;                 // PEs below it that have not answered, a bit each
    uint64_t sum_made, sum_consumed;  // of those below
    // Of PE 0.
    uint64_t last_made, last_consumed;
    bool running, asked;
    uint32_t *asks,
        *serves;  // by PE: how often it has asked, and how many of that are being looked for
    whi_timer again;
    uint64_t pause_ns;  // until the next wave
    bool lost;          // a PE is, as this one knows: there is no quiescence any more
} whi_quiet;

struct wh_pe {
    wh_rt *rt;
    int number, pes;
    whi_wire *wire;
    wh_worker *worker;
    whi_sched sched;
    whi_queue ready;
    whi_queue *now;   // those whose turn it is; NULL: none are being run
    unsigned passes;  // threads that may be run out of `ready` before the next turn
    whi_pe_handler *handlers[WHI_HANDLERS_PAGES];
    whi_pe_heads heads;  // of handler WHI_PE_HEADS
    struct {
        whi_control_fn fn;
        void *arg;
    } controls[WHI_CONTROLS];
    whi_hash gates;  // by source: messages behind one whose data is arriving
    whi_timers timers;
    whi_idmap ids;       // of timers and idle functions
    whi_list idle;       // functions
    whi_msg *handling;   // the message whose handler runs
    uint32_t *counters;  // of tags, by destination; NULL: none used yet
    whi_ult_stacks stacks;
    whi_list suspended;  // threads, for the end
    whi_exit exit;
    whi_quiet quiet;
    whi_hash detectors;  // that this PE knows of
    uint32_t last_detector;
    uint64_t exit_timeout_ms;
    wh_lost_pe_fn lost;
    void *lost_arg;
    void (*failed)(wh_pe *pe, const char *sentence);  // the job cannot go on
    wh_status (*contact)(wh_pe *pe, int other, whi_contact *contact);
    whi_trace *trace;   // NULL: nobody wants a timeline
    whi_words words;    // with it: what the program calls what runs now
    _Atomic bool stop;  // another PE of the process could not go on
    whi_floor floors[WHI_FLOORS];
    wh_pe_dump_fn on_dump;  // NULL: the program has nothing to add
    void *on_dump_arg;
    const char *exit_call;                // what ends the job; NULL: wh_pe_exit
    const struct whi_chare_above *above;  // of the floor above chares; NULL: there is none
    // Who runs now is charged for it, in nanoseconds; NULL: nobody measures that.
    uint64_t *charged, charged_since;
};

// whi_pe_charge has what runs from now on charged to `to`, or, where that is NULL, to nobody, and returns who was charged until
// now.  It costs nothing where nobody is.
static inline uint64_t *whi_pe_charge(wh_pe *pe, uint64_t *to) {
    uint64_t *before = pe->charged;
    if (__builtin_expect(!before && !to, 1))
        return NULL;
    uint64_t now = whi_clock_ns();
    if (before)
        *before += now - pe->charged_since;
    pe->charged = to;
    pe->charged_since = now;
    return before;
}

// Handlers of the runtime's own, from WH_PE_HANDLERS_MAX on.
enum {
    WHI_PE_HEADS = 0xFFFF,   // the handler whose messages a floor above takes by their heads
    WHI_PE_CHARES = 0xFFFE,  // of what else chares say
};

enum {
    WHI_PE_BURST = 32,
    WHI_PE_PASSES = 16
};  // in a turn: messages; threads that have become ready in it

typedef struct whi_pe_opts {
    wh_rt *rt;
    whi_wire_opts wire;
    uint64_t exit_timeout_ms;
    size_t stack;
    wh_lost_pe_fn lost;
    void *lost_arg;
    void (*failed)(wh_pe *pe, const char *sentence);
    wh_status (*contact)(wh_pe *pe, int other, whi_contact *contact);
} whi_pe_opts;

WH_CHECK wh_status whi_pe_create(const whi_pe_opts *opts, wh_pe **pe);

// whi_pe_start calls `fn` as the PE's first user-level thread, before anything that was sent to the PE is looked at.
WH_CHECK wh_status whi_pe_start(wh_pe *pe, wh_pe_fn fn, void *arg);

// whi_pe_run runs the PE until the end of the job, and closes its wire.
void whi_pe_run(wh_pe *pe);

// whi_pe_rest has a PE whose wire is closed do what others need of it, for at most a time.
void whi_pe_rest(wh_pe *pe, int timeout_ms);

// whi_pe_stop has a PE leave at once.  Any thread.
void whi_pe_stop(wh_pe *pe);

// whi_pe_lacks says whether the job has no such PE.
static inline bool whi_pe_lacks(const wh_pe *pe, int number) {
    return number < 0 || number >= pe->pes;
}

static inline bool whi_pe_gone(const wh_pe *pe) {
    return pe->exit.state == WHI_END_GONE;
}

void whi_pe_destroy(wh_pe *pe);

// whi_pe_do has ready->run called in the next turn.  A thread that waits before may go on with it at once, if it is a thread, too (thread.c).
static inline void whi_pe_do(wh_pe *pe, whi_ready *ready) {
    whi_queue_push(&pe->ready, &ready->link);
}

// whi_pe_handler_set and whi_pe_send are wh_pe_set_handler and wh_pe_send also for the runtime's own handlers.
WH_CHECK wh_status whi_pe_handler_set(wh_pe *pe, uint16_t id, wh_pe_msg_fn fn, void *arg);
WH_CHECK wh_status whi_pe_send(wh_pe *pe, int dest, uint16_t handler, const void *head,
                               size_t head_size, const void *data, size_t size, int32_t priority);

// whi_pe_set_control sets who takes a kind of control.
void whi_pe_set_control(wh_pe *pe, unsigned kind, whi_control_fn fn, void *arg);

// whi_pe_control sends control.  Without memory for it the job cannot go on: PEs would wait for one another for ever.
WH_CHECK wh_status whi_pe_control(wh_pe *pe, int dest, const void *data, size_t size);

// whi_pe_send_msg gives a message to the wire, which does not count for quiescence by that.
WH_CHECK wh_status whi_pe_send_msg(wh_pe *pe, int dest, whi_msg *msg);

// whi_pe_fail ends the job since something that it rests on has failed.
void whi_pe_fail(wh_pe *pe, const char *format, ...) __attribute__((format(printf, 2, 3)));

// ---- Timelines.

// whi_pe_span_begin and whi_pe_span_end stand around what is to be a span of the PE's timeline.  It is called `name`, unless the program
// calls it otherwise meanwhile.  Only where there is a timeline.
static inline whi_words whi_pe_span_begin(wh_pe *pe, uint64_t *begin) {
    whi_words outer = pe->words;
    pe->words = (whi_words){.inside = true};
    *begin = whi_trace_now();
    return outer;
}
void whi_pe_span_end(wh_pe *pe, whi_words outer, const char *name, const char *part,
                     uint64_t begin);

// whi_pe_aside ends the arrow of a message that no handler will have: it is the runtime's own, or goes on to another PE.
static inline void whi_pe_aside(wh_pe *pe, whi_msg *msg, const char *name) {
    if (__builtin_expect(!pe->trace || !msg->number, 1))
        return;
    uint64_t begin = whi_trace_now();
    whi_trace_handled(pe->trace, msg->pub.source, msg->number);
    whi_trace_span(pe->trace, name, NULL, begin);
    msg->number = 0;
}

// ---- The parts of a PE.

// whi_pe_queue puts a message that has come into its place.
void whi_pe_queue(wh_pe *pe, whi_msg *msg);
void whi_pe_queue_arrived(wh_pe *pe, whi_msg *msg, wh_status status);

// whi_pe_handle has a message handled, and frees it.
void whi_pe_handle(wh_pe *pe, whi_msg *msg);

// whi_pe_give_up: a message is no longer that of the handler that runs, and is not freed behind it.
static inline void whi_pe_give_up(wh_pe *pe, const whi_msg *msg) {
    if (pe->handling == msg)
        pe->handling = NULL;
}

wh_status whi_exit_init(wh_pe *pe);
// whi_exit_lost: one whose part in the end of the job may be missing is lost.
void whi_exit_lost(wh_pe *pe, int lost);
// whi_exit_bereft ends the job since a PE is lost and nobody has asked to be told.
void whi_exit_bereft(wh_pe *pe, int lost, const char *sentence);
wh_status whi_quiet_init(wh_pe *pe);
void whi_quiet_fini(wh_pe *pe);
void whi_quiet_idle(wh_pe *pe);  // the PE has nothing to do
void whi_quiet_lost(wh_pe *pe, int lost);
void whi_detect_init(wh_pe *pe);
void whi_detect_fini(wh_pe *pe);
void whi_detect_lost(wh_pe *pe, int lost);
void whi_threads_end(wh_pe *pe);
bool whi_pe_may_wait(const wh_pe *pe);  // what runs now is a user-level thread of this PE
// whi_thread_name says what the thread that runs is called in timelines and dumps, now and later: an entry of an element with this
// index, which is kept, not copied.
void whi_thread_name(const char *name, const char *part, const int32_t *index, int dims);
wh_status whi_thread_spawn(wh_pe *pe, const char *name, wh_pe_fn fn, void *arg);
void whi_pe_forget_timers(wh_pe *pe);
bool whi_pe_idle(wh_pe *pe);  // calls the idle functions; true: one wants more

// whi_pe_dump_gates and the others print parts of wh_pe_dump.
void whi_pe_dump_gates(const wh_pe *pe, whi_dump *to);
void whi_pe_dump_timers(const wh_pe *pe, whi_dump *to);
void whi_pe_dump_detectors(const wh_pe *pe, whi_dump *to);
void whi_pe_dump_threads(const wh_pe *pe, whi_dump *to);

// ---- The tree over all PEs, PE 0 at its root.

enum { WHI_TREE_ARITY = 4 };

static inline int whi_tree_parent(int pe) {
    return (pe - 1) / WHI_TREE_ARITY;
}
static inline int whi_tree_first_child(int pe) {
    return pe * WHI_TREE_ARITY + 1;
}
// whi_tree_children returns their number; they follow the first one.
static inline int whi_tree_children(int pe, int pes) {
    int first = whi_tree_first_child(pe), left = pes - first;
    return left < 0 ? 0 : left < WHI_TREE_ARITY ? left : WHI_TREE_ARITY;
}
// whi_tree_child_of returns which of the PEs below this one `other` is, or -1.
static inline int whi_tree_child_of(const wh_pe *pe, int other) {
    int at = other - whi_tree_first_child(pe->number);
    return at >= 0 && at < whi_tree_children(pe->number, pe->pes) ? at : -1;
}

#endif
