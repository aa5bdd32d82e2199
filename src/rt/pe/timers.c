// SPDX-License-Identifier: BSD-3-Clause
//
// Timers and idle functions of the user's.
#include "base/alloc.h"
#include "base/clock.h"
#include "rt/pe/pe.h"
#include "rt/pe/refuse.h"

// What wh_pe_cancel can forget.
typedef struct callback {
    whi_timer timer;  // of wh_pe_after
    whi_list idle;    // of wh_pe_on_idle
    wh_pe *pe;
    uint32_t id;
    wh_pe_fn fn;
    wh_pe_idle_fn idle_fn;
    void *arg;
} callback;

static void forget(callback *c) {
    whi_idmap_remove(&c->pe->ids, c->id);
    whi_timers_remove(&c->pe->timers, &c->timer);
    whi_list_remove(&c->idle);
    whi_free(c);
}

static void on_time(whi_timer *timer, void *arg) {
    (void)timer;
    callback *c = arg;
    wh_pe *pe = c->pe;
    wh_pe_fn fn = c->fn;
    void *fn_arg = c->arg;
    forget(c);
    if (pe->exit.state < WHI_END_STOPPED)
        fn(pe, fn_arg);
}

static wh_status new_callback(wh_pe *pe, void *arg, callback **out) {
    callback *c = whi_calloc(1, sizeof(*c));
    if (!c)
        return WH_ENOMEM;
    c->pe = pe;
    c->arg = arg;
    whi_timer_init(&c->timer, on_time, c);
    whi_list_init(&c->idle);
    wh_status st = whi_idmap_put(&pe->ids, c, &c->id);
    if (st != WH_OK)
        whi_free(c);
    else
        *out = c;
    return st;
}

wh_status wh_pe_after(wh_pe *pe, uint64_t delay_us, wh_pe_fn fn, void *arg, uint32_t *id) {
    uint64_t deadline;
    if (!fn)
        return whi_refuse_function("wh_pe_after");
    if (__builtin_mul_overflow(delay_us, 1000, &deadline) ||
        __builtin_add_overflow(deadline, whi_clock_ns(), &deadline))
        return whi_refuse(WH_EINVAL, "E-RT-11",
                          "wh_pe_after: delay_us is %llu, more microseconds than can be counted",
                          (unsigned long long)delay_us);
    callback *c;
    wh_status st = new_callback(pe, arg, &c);
    if (st != WH_OK)
        return st;
    c->fn = fn;
    if (id)
        *id = c->id;
    whi_timers_add(&pe->timers, &c->timer, deadline);
    return WH_OK;
}

wh_status wh_pe_on_idle(wh_pe *pe, wh_pe_idle_fn fn, void *arg, uint32_t *id) {
    callback *c;
    wh_status st = fn ? new_callback(pe, arg, &c) : whi_refuse_function("wh_pe_on_idle");
    if (st != WH_OK)
        return st;
    c->idle_fn = fn;
    if (id)
        *id = c->id;
    whi_list_push_back(&pe->idle, &c->idle);
    return WH_OK;
}

wh_status wh_pe_cancel(wh_pe *pe, uint32_t id) {
    callback *c = whi_idmap_get(&pe->ids, id);
    if (!c)
        return WH_ENOTFOUND;
    forget(c);
    return WH_OK;
}

bool whi_pe_idle(wh_pe *pe) {
    // One after the other in turns, so that a function may add and cancel any.
    whi_list *node = whi_list_pop_front(&pe->idle);
    if (!node || pe->exit.state >= WHI_END_STOPPED)
        return false;
    callback *c = whi_container_of(node, callback, idle);
    uint32_t id = c->id;
    whi_list_push_back(&pe->idle, &c->idle);
    bool more = c->idle_fn(pe, c->arg);
    c = whi_idmap_get(&pe->ids, id);
    if (c && !more)
        forget(c);
    return true;
}

void whi_pe_dump_timers(const wh_pe *pe, whi_dump *to) {
    FILE *file = to->file;
    uint32_t cursor = 0;
    const callback *c;
    unsigned timers = 0, idle = 0;
    while ((c = whi_idmap_next(&pe->ids, &cursor))) {
        timers += c->fn != NULL;
        idle += c->idle_fn != NULL;
    }
    uint64_t next = whi_timers_next_deadline(&pe->timers), now = whi_clock_ns();
    to->busy = to->busy || timers || idle;
    fprintf(file, "  timers: %u, idle functions: %u", timers, idle);
    if (next != WHI_TIMER_NEVER)
        fprintf(file, ", the next is due in %llu ms",
                (unsigned long long)(next > now ? (next - now) / 1000000 : 0));
    fputc('\n', file);
}

void whi_pe_forget_timers(wh_pe *pe) {
    uint32_t cursor = 0;
    callback *c;
    while ((c = whi_idmap_next(&pe->ids, &cursor)))
        forget(c);
}
