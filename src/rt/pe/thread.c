// SPDX-License-Identifier: BSD-3-Clause
//
// User-level threads of a PE, and what they wait for.
#include "base/alloc.h"
#include "rt/pe/pe.h"
#include "rt/pe/refuse.h"

// What a switch looks at comes first.
typedef struct thread {
    whi_ready ready;
    wh_pe *pe;
    whi_ult *ult;
    uint64_t *charged;  // while it does not run
    bool yields;
    bool nested;         // it was begun by another thread, which goes on when it waits
    whi_list suspended;  // while it waits
    wh_pe_fn fn;
    void *arg;
    const char *name, *part;  // for timelines and dumps
    const int32_t *index;     // of an element
    int dims;
    const wh_wait *waits;  // for this; NULL: it runs, or could
} thread;

// In the static block, where it costs no call; so are the two like it.
static __thread thread *running __attribute__((tls_model("initial-exec")));

static void body(void *arg) {
    thread *t = arg;
    t->fn(t->pe, t->arg);
}

// put_aside keeps a thread that waits, or yields, until its turn comes.
static void put_aside(thread *t) {
    if (t->yields)
        whi_pe_do(t->pe, &t->ready);
    else
        whi_list_push_back(&t->pe->suspended, &t->suspended);
}

// run_thread runs a thread until it, or who it has passed on to, waits or ends.
static void run_thread(thread *t) {
    thread *outer = running;
    wh_pe *pe = t->pe;
    t->nested = outer != NULL;
    running = t;
    whi_trace *trace = pe->trace;
    uint64_t begin = 0;
    whi_words outer_words = trace ? whi_pe_span_begin(pe, &begin) : pe->words;
    uint64_t *outer_charged = whi_pe_charge(pe, t->charged);
    bool suspended = whi_ult_run(t->ult);
    t = running;
    t->charged = whi_pe_charge(pe, outer_charged);
    if (trace)
        whi_pe_span_end(pe, outer_words, t->name, t->part, begin);
    running = outer;
    if (!suspended)
        whi_free(t);
    else
        put_aside(t);
}

static void run_ready(wh_pe *pe, whi_ready *ready) {
    (void)pe;
    run_thread(whi_container_of(ready, thread, ready));
}

// next_of takes out the thread that runs next, if what runs next is one.  What has become ready since the turn began may be taken, too, a few times;
// but who yields has to wait for the next turn.
static thread *next_of(wh_pe *pe) {
    if (!pe->now || pe->trace || pe->exit.state >= WHI_END_STOPPED)
        return NULL;
    bool early = whi_queue_empty(pe->now);
    whi_queue *from = early ? &pe->ready : pe->now;
    whi_queue_node *node = whi_queue_first(from);
    if (!node || whi_container_of(node, whi_ready, link)->run != run_ready)
        return NULL;
    thread *next = whi_container_of(whi_container_of(node, whi_ready, link), thread, ready);
    if (early && (next->yields || !pe->passes))
        return NULL;
    pe->passes -= early;
    (void)whi_queue_pop(from);
    return next;
}

// suspend leaves the thread that runs until somebody runs it again.  To go on with the next thread at once saves a turn, and
// returns into functions where the processor expects them.
static void suspend(thread *t) {
    thread *next = t->nested ? NULL : next_of(t->pe);
    if (!next) {
        whi_ult_suspend();
        return;
    }
    put_aside(t);
    t->charged = whi_pe_charge(t->pe, next->charged);
    next->nested = false;
    running = next;
    whi_ult_pass(next->ult);
}

// drop leaves a thread where it is: nothing on its stack is undone.
static void drop(thread *t) {
    whi_list_remove(&t->suspended);
    whi_ult_drop(t->ult);
    whi_free(t);
}

static void drop_ready(whi_ready *ready) {
    drop(whi_container_of(ready, thread, ready));
}

wh_status wh_pe_spawn(wh_pe *pe, wh_pe_fn fn, void *arg) {
    return whi_thread_spawn(pe, "thread", fn, arg);
}

wh_status whi_thread_spawn(wh_pe *pe, const char *name, wh_pe_fn fn, void *arg) {
    thread *t = fn ? whi_calloc(1, sizeof(*t)) : NULL;
    if (!t)
        return fn ? WH_ENOMEM : whi_refuse_function("wh_pe_spawn");
    t->ready = (whi_ready){.run = run_ready, .drop = drop_ready};
    whi_list_init(&t->suspended);
    t->pe = pe;
    t->name = name;
    t->fn = fn;
    t->arg = arg;
    wh_status st = whi_ult_new(&pe->stacks, body, t, &t->ult);
    if (st == WH_OK)
        run_thread(t);
    else
        whi_free(t);
    return st;
}

void whi_thread_name(const char *name, const char *part, const int32_t *index, int dims) {
    running->name = name;
    running->part = part;
    running->index = index;
    running->dims = dims;
}

bool whi_pe_may_wait(const wh_pe *pe) {
    return running && running->pe == pe;
}

wh_status wh_pe_wait(wh_pe *pe, wh_wait *wait) {
    thread *t = running;
    if (!whi_pe_may_wait(pe))
        return whi_refuse(
            WH_EINVAL, "E-RT-09",
            "wh_pe_wait: what runs now on PE %d is no user-level thread%s: wait in the "
            "main function, in a thread of wh_pe_spawn, or in an entry with the flag "
            "WH_ENTRY_THREADED",
            pe->number, t ? " of it, but of another PE" : "");
    if (wait->thread && !wait->done)
        return whi_refuse(
            WH_EBUSY, "E-RT-09",
            "wh_pe_wait: another thread of PE %d waits for this wh_wait already: take "
            "one for each thread",
            pe->number);
    t->waits = wait;
    while (!wait->done) {
        wait->thread = t;
        suspend(t);
        wait->thread = NULL;
    }
    t->waits = NULL;
    return WH_OK;
}

void wh_pe_resume(wh_pe *pe, wh_wait *wait) {
    thread *t = wait->thread;
    if (wait->done)
        return;
    wait->done = true;
    if (!t)
        return;
    wait->thread = NULL;
    whi_list_remove(&t->suspended);
    whi_pe_do(pe, &t->ready);
}

void wh_wait_done(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    wh_wait *wait = arg;
    thread *t = wait->thread;
    wait->result = *result;
    if (t)
        wh_pe_resume(t->pe, wait);
    else
        wait->done = true;
}

void wh_pe_yield(wh_pe *pe) {
    thread *t = running;
    if (!t || t->pe != pe)
        return;
    t->yields = pe->exit.state < WHI_END_STOPPED;  // else it does not come back
    suspend(t);
    t->yields = false;
}

static void dump_thread(const thread *t, FILE *file) {
    const wh_pe *pe = t->pe;
    bool told = false;
    fprintf(file, "    %s", t->name);
    whi_dump_index(file, t->index, t->dims);
    fprintf(file, "%s%s waits for ", t->part ? "." : "", t->part ? t->part : "");
    for (int i = 0; !told && t->waits && i < WHI_FLOORS; i++)
        if (pe->floors[i].awaited && pe->floors[i].state)
            told = pe->floors[i].awaited(pe->floors[i].state, t->waits, file);
    fputs(told ? "\n" : "an operation, or a wh_pe_resume of the program's\n", file);
}

void whi_pe_dump_threads(const wh_pe *pe, whi_dump *to) {
    size_t suspended = 0, ready = 0, told = 0;
    whi_list_foreach(node, (whi_list *)(uintptr_t)&pe->suspended) suspended++;
    for (const whi_queue_node *node = pe->ready.first; node; node = node->next)
        ready++;
    to->waits = to->waits || suspended;
    to->busy = to->busy || ready;
    fprintf(to->file, "  threads that wait: %zu, ready to run: %zu\n", suspended, ready);
    whi_list_foreach(each, (whi_list *)(uintptr_t)&pe->suspended) {
        if (whi_dump_line(&told))
            dump_thread(whi_container_of(each, thread, suspended), to->file);
    }
    whi_dump_rest(to, told, "threads that wait");
}

void whi_threads_end(wh_pe *pe) {
    whi_list *node;
    while ((node = whi_list_first(&pe->suspended)))
        drop(whi_container_of(node, thread, suspended));
}
