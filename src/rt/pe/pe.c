// SPDX-License-Identifier: BSD-3-Clause
//
// Processing elements: the scheduler's turn, handlers, and what a PE hears from its wire.
#include "rt/pe/pe.h"
#include "rt/pe/refuse.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <wherry/layer.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"

static __thread wh_pe *here __attribute__((tls_model("initial-exec")));

wh_pe *wh_pe_here(void) {
    return here;
}

wh_rt *wh_pe_rt(const wh_pe *pe) {
    return pe->rt;
}

int wh_pe_number(const wh_pe *pe) {
    return pe->number;
}

wh_worker *wh_pe_worker(const wh_pe *pe) {
    return pe->worker;
}

void whi_pe_fail(wh_pe *pe, const char *format, ...) {
    char sentence[512];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof(sentence), format, args);
    va_end(args);
    whi_log(WHI_ERROR, "E-RT-03", "processing element %d: %s", pe->number, sentence);
    if (pe->exit.status == 0)
        pe->exit.status = 1;
    pe->exit.state = WHI_END_GONE;
    pe->exit.failed = true;
    pe->failed(pe, sentence);
}

// ---- Handlers.

wh_status whi_pe_handler_set(wh_pe *pe, uint16_t id, wh_pe_msg_fn fn, void *arg) {
    whi_pe_handler **page = &pe->handlers[id / WHI_HANDLERS_PAGE];
    if (!*page && !fn)
        return WH_OK;
    if (!*page && !(*page = whi_calloc(WHI_HANDLERS_PAGE, sizeof(**page))))
        return WH_ENOMEM;
    (*page)[id % WHI_HANDLERS_PAGE] = (whi_pe_handler){fn, arg};
    return WH_OK;
}

WHI_COLD static wh_status refuse_handler(const wh_pe *pe, const char *call, uint16_t id) {
    return whi_refuse(WH_EINVAL, "E-RT-08",
                      "%s: PE %d: handler %u is the runtime's own: programs have those below %u "
                      "(WH_PE_HANDLERS_MAX)",
                      call, pe->number, id, (unsigned)WH_PE_HANDLERS_MAX);
}

wh_status wh_pe_set_handler(wh_pe *pe, uint16_t id, wh_pe_msg_fn fn, void *arg) {
    return id < WH_PE_HANDLERS_MAX ? whi_pe_handler_set(pe, id, fn, arg)
                                   : refuse_handler(pe, "wh_pe_set_handler", id);
}

static void drop_message(wh_pe *pe, whi_msg *msg) {
    if (msg->above)
        pe->floors[msg->floor].drop(pe->floors[msg->floor].state, msg);
    whi_msg_free(msg);
}

void whi_pe_span_end(wh_pe *pe, whi_words outer, const char *name, const char *part,
                     uint64_t begin) {
    bool named = pe->words.name;
    whi_trace_span(pe->trace, named ? pe->words.name : name, named ? pe->words.part : part, begin);
    pe->words = outer;
}

void wh_pe_name_span(wh_pe *pe, const char *name, const char *part) {
    if (!pe->trace || pe->words.name)
        return;
    pe->words.name = name;
    pe->words.part = part;
}

static void run_traced(wh_pe *pe, const whi_pe_handler *handler, whi_msg *msg) {
    char name[32];
    uint64_t begin;
    whi_words outer = whi_pe_span_begin(pe, &begin);
    snprintf(name, sizeof(name), msg->pub.handler < WHI_PE_CHARES ? "handler %u" : "chares",
             msg->pub.handler);
    if (msg->number)  // it has come from somewhere, and not out of a floor above
        whi_trace_handled(pe->trace, msg->pub.source, msg->number);
    msg->number = 0;  // it may be kept, and handled again
    handler->fn(pe, &msg->pub, handler->arg);
    whi_pe_span_end(pe, outer, name, NULL, begin);
}

void whi_pe_handle(wh_pe *pe, whi_msg *msg) {
    const whi_pe_handler *page = pe->handlers[msg->pub.handler / WHI_HANDLERS_PAGE];
    const whi_pe_handler *handler = page ? &page[msg->pub.handler % WHI_HANDLERS_PAGE] : NULL;
    pe->quiet.consumed++;
    if (!whi_msg_open(msg)) {
        whi_pe_fail(pe, "there was no memory to keep a message of PE %d", msg->pub.source);
    } else if (!handler || !handler->fn) {
        whi_pe_fail(
            pe,
            "PE %d has sent a message to handler %u, which is not set here: set handlers before the "
            "first message can come",
            msg->pub.source, msg->pub.handler);
    } else {
        pe->handling = msg;
        if (pe->trace)
            run_traced(pe, handler, msg);
        else
            handler->fn(pe, &msg->pub, handler->arg);
        if (pe->handling != msg)
            msg = NULL;  // it is somebody else's
        pe->handling = NULL;
    }
    if (msg)
        drop_message(pe, msg);
}

void wh_pe_msg_keep(wh_pe_msg *pub) {
    whi_msg *msg = whi_msg_of(pub);
    if (here)
        whi_pe_give_up(here, msg);
    whi_msg_uncharge(msg);  // else a program that keeps many would get no more
}

void wh_pe_msg_free(wh_pe *pe, wh_pe_msg *pub) {
    whi_pe_give_up(pe, whi_msg_of(pub));
    whi_msg_free(whi_msg_of(pub));
}

// ---- Sending.

// make_message makes one with space for its data, or, where `lent` is not NULL, with that for its data.
static wh_status make_message(wh_pe *pe, uint16_t handler, const void *head, size_t head_size,
                              const void *lent, size_t size, wh_pe_msg **out) {
    if (head_size > WH_PE_HEAD_MAX || (head_size && !head))
        return whi_refuse(
            WH_EINVAL, "E-RT-12",
            "wh_pe_send, wh_pe_msg_new: a message of PE %d to handler %u has a head of %zu bytes at %p: a head has at "
            "most %d; put the rest into its data",
            pe->number, handler, head_size, head, WH_PE_HEAD_MAX);
    whi_msg *msg = lent ? whi_msg_lend(pe->wire, head_size, lent, size)
                        : whi_msg_new(pe->wire, head_size, size);
    if (!msg)
        return WH_ENOMEM;
    msg->pub.handler = handler;
    if (head_size)
        memcpy(msg->own, head, head_size);
    *out = &msg->pub;
    return WH_OK;
}

wh_status wh_pe_msg_new(wh_pe *pe, uint16_t handler, const void *head, size_t head_size,
                        size_t size, wh_pe_msg **out) {
    return handler < WH_PE_HANDLERS_MAX
               ? make_message(pe, handler, head, head_size, NULL, size, out)
               : refuse_handler(pe, "wh_pe_msg_new", handler);
}

wh_status whi_pe_send_msg(wh_pe *pe, int dest, whi_msg *msg) {
    uint64_t begin = pe->trace ? whi_trace_now() : 0;
    wh_status st = whi_wire_send(pe->wire, dest, msg);
    if (!pe->trace || st != WH_OK)
        return st;
    whi_trace_sent(pe->trace, dest, begin);
    if (!pe->words.inside)  // an arrow begins in a span
        whi_trace_span(pe->trace, "send", NULL, begin);
    return st;
}

wh_status wh_pe_msg_send(wh_pe *pe, int dest, wh_pe_msg *pub) {
    whi_msg *msg = whi_msg_of(pub);
    whi_pe_give_up(pe, msg);
    wh_status st = whi_pe_send_msg(pe, dest, msg);
    pe->quiet.made += st == WH_OK;
    return __builtin_expect(st == WH_OK, 1) || !whi_pe_lacks(pe, dest)
               ? st
               : whi_refuse_pe(pe, "wh_pe_msg_send", "dest", dest);
}

wh_status whi_pe_send(wh_pe *pe, int dest, uint16_t handler, const void *head, size_t head_size,
                      const void *data, size_t size, int32_t priority) {
    if (size && !data)
        return WH_EINVAL;
    bool lends = size >= WHI_MSG_LENT_MIN;
    wh_pe_msg *msg;
    wh_status st = make_message(pe, handler, head, head_size, lends ? data : NULL, size, &msg);
    if (st != WH_OK)
        return st;
    if (size && !lends)
        memcpy(msg->data, data, size);
    msg->priority = priority;
    st = whi_pe_send_msg(pe, dest, whi_msg_of(msg));
    pe->quiet.made += st == WH_OK;
    return st;
}

WHI_COLD static wh_status refuse_send(const wh_pe *pe, int dest, const void *data, size_t size,
                                      wh_status st) {
    if (st == WH_EINVAL && size && !data)
        return whi_refuse_data("wh_pe_send", "data", size);
    return st == WH_EINVAL && whi_pe_lacks(pe, dest) ? whi_refuse_pe(pe, "wh_pe_send", "dest", dest)
                                                     : st;  // it has been said
}

wh_status wh_pe_send(wh_pe *pe, int dest, uint16_t handler, const void *head, size_t head_size,
                     const void *data, size_t size, int32_t priority) {
    if (handler >= WH_PE_HANDLERS_MAX)
        return refuse_handler(pe, "wh_pe_send", handler);
    wh_status st = whi_pe_send(pe, dest, handler, head, head_size, data, size, priority);
    return __builtin_expect(st == WH_OK, 1) ? st : refuse_send(pe, dest, data, size, st);
}

typedef struct call {
    wh_post post;
    whi_ready ready;
    wh_pe *pe;
    wh_pe_fn fn;
    void *arg;
} call;

static void run_call(wh_pe *pe, whi_ready *ready) {
    call *c = whi_container_of(ready, call, ready);
    c->fn(pe, c->arg);
    whi_free(c);
}

static void drop_call(whi_ready *ready) {
    whi_free(whi_container_of(ready, call, ready));
}

static void on_call(wh_post *post) {
    call *c = whi_container_of(post, call, post);
    whi_pe_do(c->pe, &c->ready);
}

wh_status wh_pe_call(wh_pe *pe, wh_pe_fn fn, void *arg) {
    call *c = fn ? whi_malloc(sizeof(*c)) : NULL;
    if (!c)
        return fn ? WH_ENOMEM : whi_refuse_function("wh_pe_call");
    *c = (call){.post.fn = on_call,
                .ready = {.run = run_call, .drop = drop_call},
                .pe = pe,
                .fn = fn,
                .arg = arg};
    wh_worker_post(pe->worker, &c->post);
    return WH_OK;
}

// ---- Control.

static void on_control(void *owner, int source, const void *data, size_t size) {
    wh_pe *pe = owner;
    uint8_t kind = size ? *(const uint8_t *)data : WHI_CONTROLS;
    if (kind < WHI_CONTROLS && pe->controls[kind].fn)
        pe->controls[kind].fn(pe, source, data, size, pe->controls[kind].arg);
    else
        whi_wire_reject(pe->wire, source, "it has sent control of a kind that is unknown here");
}

wh_status whi_pe_control(wh_pe *pe, int dest, const void *data, size_t size) {
    wh_status st = whi_wire_control(pe->wire, dest, data, size);
    if (st == WH_ENOMEM && !pe->exit.failed)
        whi_pe_fail(pe, "there is no memory for what it has to say to PE %d", dest);
    return st;
}

void whi_pe_set_control(wh_pe *pe, unsigned kind, whi_control_fn fn, void *arg) {
    pe->controls[kind].fn = fn;
    pe->controls[kind].arg = arg;
}

static void on_lost(void *owner, int lost, wh_status why, const char *sentence) {
    wh_pe *pe = owner;
    (void)why;
    for (int i = 0; i < WHI_FLOORS; i++)
        if (pe->floors[i].lost)
            pe->floors[i].lost(pe->floors[i].state, lost);
    if (pe->exit.state < WHI_END_STOPPED && pe->lost)
        pe->lost(pe, lost, sentence, pe->lost_arg);
    else if (pe->exit.state < WHI_END_STOPPED)
        whi_exit_bereft(pe, lost, sentence);
    whi_quiet_lost(pe, lost);
    whi_detect_lost(pe, lost);
    whi_exit_lost(pe, lost);
}

static wh_status on_contact(void *owner, int other, whi_contact *contact) {
    wh_pe *pe = owner;
    return pe->contact(pe, other, contact);
}

// ---- The turn.

static unsigned run_ready(wh_pe *pe) {
    unsigned done = 0;
    whi_queue now;  // what becomes ready meanwhile is for the next turn
    if (whi_queue_empty(&pe->ready) || pe->exit.state >= WHI_END_STOPPED)
        return 0;
    whi_queue_take(&now, &pe->ready);
    whi_queue_node *node;
    whi_queue *outer = pe->now;
    pe->now = &now;
    pe->passes = WHI_PE_PASSES;
    while ((node = whi_queue_pop(&now))) {
        whi_ready *ready = whi_container_of(node, whi_ready, link);
        ready->run(pe, ready);
        done++;
    }
    pe->now = outer;
    return done;
}

static unsigned run_messages(wh_pe *pe) {
    unsigned done = 0;
    whi_msg *msg;
    while (done < WHI_PE_BURST && pe->exit.state < WHI_END_STOPPED &&
           (msg = whi_sched_pop(&pe->sched))) {
        whi_pe_handle(pe, msg);
        done++;
    }
    return done;
}

// has_more says whether a PE without messages has something to do in its next turn, and must not sleep: a function, or, alone in
// its job, the next wave of quiescence.
static bool has_more(const wh_pe *pe) {
    return !whi_queue_empty(&pe->ready) || (pe->quiet.due && !pe->quiet.missing);
}

static void tell_floors(wh_pe *pe) {
    pe->exit.told = true;
    for (int i = 0; i < WHI_FLOORS; i++)
        if (pe->floors[i].ends)
            pe->floors[i].ends(pe->floors[i].state, pe->exit.failed);
}

// do_turn does what there is to do; what the worker's progress has to do is done already, or done here first.
static unsigned do_turn(wh_pe *pe, bool progressed) {
    if (atomic_load_explicit(&pe->stop, memory_order_relaxed)) {
        pe->exit.state = WHI_END_GONE;
        pe->exit.failed = true;
        pe->exit.status = pe->exit.status ? pe->exit.status : 1;
        return 1;
    }
    wh_pe *outer = here;
    here = pe;
    unsigned done = progressed ? 0 : wh_worker_progress(pe->worker);
    done += run_ready(pe);
    done += run_messages(pe);
    if (__builtin_expect(pe->exit.state >= WHI_END_STOPPED && !pe->exit.told, 0))
        tell_floors(pe);
    if (whi_timers_count(&pe->timers))
        done += (unsigned)whi_timers_run(&pe->timers, whi_clock_ns());
    if (!done && pe->exit.state < WHI_END_STOPPED && whi_queue_empty(&pe->ready)) {
        whi_quiet_idle(pe);
        done = whi_pe_idle(pe) || has_more(pe);
    }
    here = outer;
    return done;
}

static unsigned turn(wh_pe *pe, bool progressed) {
    if (!pe->trace)
        return do_turn(pe, progressed);
    uint64_t begin = whi_trace_now();
    unsigned done = do_turn(pe, progressed);
    whi_trace_turn(pe->trace, begin, done);
    return done;
}

unsigned wh_pe_turn(wh_pe *pe) {
    return turn(pe, false);
}

void whi_pe_stop(wh_pe *pe) {
    atomic_store(&pe->stop, true);
    wh_worker_wake(pe->worker);
}

// left_ms returns how long the PE may sleep.
static int left_ms(const wh_pe *pe) {
    uint64_t next = whi_timers_next_deadline(&pe->timers);
    if (next == WHI_TIMER_NEVER)
        return -1;
    uint64_t now = whi_clock_ns();
    return next <= now ? 0
                       : (int)((next - now) / 1000000 < 3600000 ? (next - now + 999999) / 1000000
                                                                : 3600000);
}

wh_status wh_pe_arm(wh_pe *pe, int *timeout_ms) {
    if (whi_pe_gone(pe) || pe->sched.count || has_more(pe) || !whi_list_empty(&pe->idle))
        return WH_EBUSY;
    *timeout_ms = left_ms(pe);
    return *timeout_ms ? wh_worker_arm(pe->worker) : WH_EBUSY;
}

bool wh_pe_ended(const wh_pe *pe) {
    return whi_pe_gone(pe);
}

// close_wire gives peers the time of one exit to take the word to go.
static void close_wire(wh_pe *pe) {
    uint64_t deadline = whi_clock_ns() + pe->exit_timeout_ms * 1000000;
    whi_wire_close(pe->wire, (int)pe->exit_timeout_ms);
    while (!whi_wire_closed(pe->wire) && !pe->exit.failed && whi_clock_ns() < deadline)
        whi_pe_rest(pe, 100);
}

void whi_pe_rest(wh_pe *pe, int timeout_ms) {
    // What it returns changes nothing: the caller looks at what it waits for, and at the clock.
    (void)!(wh_worker_wait(pe->worker, timeout_ms) == WH_OK);
}

wh_status whi_pe_start(wh_pe *pe, wh_pe_fn fn, void *arg) {
    wh_pe *outer = here;
    here = pe;
    wh_status st = whi_thread_spawn(pe, "main", fn, arg);
    here = outer;
    return st;
}

bool wh_pe_step(wh_pe *pe) {
    if (whi_pe_gone(pe))
        return false;
    if (wh_pe_turn(pe) || whi_pe_gone(pe))
        return true;
    wh_pe *outer = here;
    here = pe;
    wh_status st = wh_worker_wait(pe->worker, left_ms(pe));
    here = outer;
    if (st != WH_OK && st != WH_ETIMEDOUT)
        whi_pe_fail(pe, "its worker cannot wait: %s", wh_status_text(st));
    else
        (void)turn(pe, true);
    return true;
}

void whi_pe_run(wh_pe *pe) {
    while (wh_pe_step(pe))
        ;
    if (!pe->exit.left)
        close_wire(pe);
    pe->exit.left = true;
    if (pe->trace)
        whi_trace_flush(pe->trace);
}

// ---- Life.

static void wire_message(void *owner, whi_msg *msg) {
    wh_pe *pe = owner;
    if (pe->trace)
        msg->number = whi_trace_came(pe->trace, msg->pub.source);
    whi_pe_queue(pe, msg);
}

static void wire_arrived(void *owner, whi_msg *msg, wh_status status) {
    whi_pe_queue_arrived(owner, msg, status);
}

static const whi_wire_up wire_up = {.message = wire_message,
                                    .arrived = wire_arrived,
                                    .control = on_control,
                                    .lost = on_lost,
                                    .contact = on_contact};

static void dump(FILE *file, void *arg) {
    wh_pe_dump(arg, file);
}

static wh_status init_pe(wh_pe *pe, const whi_pe_opts *opts) {
    pe->rt = opts->rt;
    pe->number = opts->wire.pe;
    pe->pes = opts->wire.pes;
    pe->exit_timeout_ms = opts->exit_timeout_ms;
    pe->lost = opts->lost;
    pe->lost_arg = opts->lost_arg;
    pe->failed = opts->failed;
    pe->contact = opts->contact;
    whi_sched_init(&pe->sched);
    whi_queue_init(&pe->ready);
    whi_hash_init(&pe->gates);
    whi_timers_init(&pe->timers);
    whi_idmap_init(&pe->ids);
    whi_list_init(&pe->idle);
    whi_list_init(&pe->suspended);
    whi_detect_init(pe);
    whi_ult_stacks_init(&pe->stacks, opts->stack, 64);
    whi_wire_opts wire = opts->wire;
    wire.up = &wire_up;
    wire.owner = pe;
    wh_status st = whi_wire_create(&wire, &pe->wire);
    if (st != WH_OK)
        return st;
    pe->worker = whi_wire_worker(pe->wire);
    st = wh_worker_on_dump(pe->worker, dump, pe);
    if (st == WH_OK)
        st = whi_exit_init(pe);
    return st == WH_OK ? whi_quiet_init(pe) : st;
}

wh_status whi_pe_create(const whi_pe_opts *opts, wh_pe **out) {
    wh_pe *pe = whi_calloc(1, sizeof(*pe));
    if (!pe)
        return WH_ENOMEM;
    wh_status st = init_pe(pe, opts);
    if (st == WH_OK)
        *out = pe;
    else
        whi_pe_destroy(pe);
    return st;
}

static void free_ready(wh_pe *pe) {
    whi_queue_node *node;
    while ((node = whi_queue_pop(&pe->ready))) {
        whi_ready *ready = whi_container_of(node, whi_ready, link);
        ready->drop(ready);
    }
}

void whi_pe_destroy(wh_pe *pe) {
    wh_pe *outer = here;
    here = pe;
    pe->exit.state = WHI_END_GONE;
    whi_msg *msg;
    while ((msg = whi_sched_pop(&pe->sched)))
        drop_message(pe, msg);
    whi_gates_free(&pe->gates, NULL, NULL);
    if (pe->wire)
        whi_wire_end(pe->wire);
    here = outer;
    // Not before: what threads wait for writes to their stacks when it ends.
    whi_threads_end(pe);
    free_ready(pe);
    for (int i = 0; i < WHI_FLOORS; i++)
        if (pe->floors[i].state)
            pe->floors[i].destroy(pe->floors[i].state);
    if (pe->wire)
        whi_wire_destroy(pe->wire);
    whi_pe_forget_timers(pe);
    whi_quiet_fini(pe);
    whi_detect_fini(pe);
    whi_hash_fini(&pe->gates);
    whi_idmap_fini(&pe->ids);
    whi_ult_stacks_fini(&pe->stacks);
    for (size_t i = 0; i < sizeof(pe->handlers) / sizeof(pe->handlers[0]); i++)
        whi_free(pe->handlers[i]);
    whi_free(pe->counters);
    whi_free(pe->exit.lost);
    whi_trace_close(pe->trace);
    whi_free(pe);
}
