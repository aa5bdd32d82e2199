// SPDX-License-Identifier: BSD-3-Clause
//
// A process of a job: joining it, its PEs and their threads, leaving it.
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "base/opts.h"
#include "base/thread.h"
#include "rt/boot/boot.h"
#include "rt/channel/channels.h"
#include "rt/pe/pe.h"
#include "rt/pe/refuse.h"

enum { SECRET_BYTES = 32 };
enum { FAILED_NS = 1000000000 };  // that a process whose job has failed waits for its PEs

struct wh_rt {
    whi_boot *boot;
    wh_context *ctx;
    bool own_context;
    wh_rt_opts opts;
    int pes;  // of this process
    uint64_t exit_timeout_ms;
    size_t inbox_max;
    uint8_t ticket[WHI_TICKET_SIZE];
    char secret[2 * SECRET_BYTES + 1];
    wh_pe **pe;
    whi_wire **wires;
    pthread_t *threads;  // by PE; NULL: not begun
    int started;         // PEs that run, the first one included
    pid_t pid;
    _Atomic int failed;   // the status that it ends with since a PE could not go on; 0: all can
    _Atomic int running;  // PEs whose wire is not closed yet
    wh_pe_main_fn main_fn;
    void *main_arg;
};

int wh_rt_rank(const wh_rt *rt) {
    return whi_boot_rank(rt->boot);
}

int wh_rt_processes(const wh_rt *rt) {
    return whi_boot_size(rt->boot);
}

int wh_rt_pes(const wh_rt *rt) {
    return whi_boot_size(rt->boot) * rt->pes;
}

int wh_rt_local_pes(const wh_rt *rt) {
    return rt->pes;
}

const char *wh_rt_launcher(const wh_rt *rt) {
    return whi_boot_launcher(rt->boot);
}

wh_context *wh_rt_context(const wh_rt *rt) {
    return rt->ctx;
}

// ---- Contacts, through the launcher.

static void contact_name(int pe, char name[32]) {
    snprintf(name, 32, "pe-%d", pe);
}

static wh_status put_contact(wh_rt *rt, wh_pe *pe) {
    uint8_t blob[WH_ADDRESS_MAX];
    size_t blob_size = sizeof(blob);
    char name[32];
    wh_status st = wh_worker_address(pe->worker, blob, &blob_size);
    contact_name(pe->number, name);
    return st == WH_OK ? whi_boot_put(rt->boot, name, blob, blob_size) : st;
}

static wh_status get_contact(wh_pe *pe, int other, whi_contact *contact) {
    const wh_rt *rt = pe->rt;
    char name[32];
    contact_name(other, name);
    *contact = (whi_contact){.blob_size = 0};
    memcpy(contact->ticket, rt->ticket, sizeof(contact->ticket));
    wh_status st = whi_boot_get(rt->boot, other / rt->pes, name, contact->blob,
                                sizeof(contact->blob), &contact->blob_size);
    if (st != WH_OK)
        whi_log(WHI_ERROR, "E-RT-05", "the address of PE %d cannot be had from the launcher: %s",
                other, wh_status_text(st));
    return st;
}

// ---- Joining.

static wh_status make_context(wh_rt *rt) {
    if (rt->opts.context) {
        rt->ctx = rt->opts.context;
        return WH_OK;
    }
    const char *const *more = rt->opts.settings;
    size_t room = 3, count = 0;
    while (more && more[room - 3])
        room++;
    const char **settings = whi_calloc(room, sizeof(*settings));
    if (!settings)
        return WH_ENOMEM;
    // A PE may compute for long between two steps of a handshake, while it makes no progress.
    if (!getenv("WHERRY_HANDSHAKE_TIMEOUT"))
        settings[count++] = "handshake_timeout=10m";
    while (more && *more)
        settings[count++] = *more++;
    char secret[16 + 2 * SECRET_BYTES];
    snprintf(secret, sizeof(secret), "secret=%s", rt->secret);
    settings[count] = secret;
    rt->own_context = true;
    wh_status st = wh_context_create(settings, &rt->ctx);
    whi_free(settings);
    return st;
}

// read_setting takes over what the runtime has in the configuration.
static void read_setting(const wh_config_item *item, void *arg) {
    static const char *const ours[] = {"pes", "exit_timeout", "inbox_max"};
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
        // It was read once before, from the same text.
        if (!strcmp(item->key, ours[i]) &&
            whi_config_set(arg, item->key, item->value, NULL, 0) != WH_OK)
            return;
}

static void on_failed(wh_pe *pe, const char *sentence) {
    (void)sentence;
    wh_rt *rt = pe->rt;
    if (!atomic_compare_exchange_strong(&rt->failed, &(int){0}, pe->exit.status))
        return;
    // Other processes learn it from the launcher, which ends them.
    if (wh_rt_processes(rt) > 1)
        whi_boot_abort(rt->boot, pe->exit.status);
    for (int i = 0; i < rt->pes; i++)
        if (rt->pe[i] && rt->pe[i] != pe)
            whi_pe_stop(rt->pe[i]);
}

static wh_status create_pes(wh_rt *rt) {
    int first = whi_boot_rank(rt->boot) * rt->pes;
    rt->pe = whi_calloc((size_t)rt->pes, sizeof(wh_pe *));
    rt->wires = whi_calloc((size_t)rt->pes, sizeof(whi_wire *));
    if (!rt->pe || !rt->wires)
        return WH_ENOMEM;
    for (int i = 0; i < rt->pes; i++) {
        whi_pe_opts opts = {.rt = rt,
                            .wire = {.ctx = rt->ctx,
                                     .pe = first + i,
                                     .pes = wh_rt_pes(rt),
                                     .ticket = rt->ticket,
                                     .inbox_max = rt->inbox_max},
                            .exit_timeout_ms = rt->exit_timeout_ms,
                            .stack = rt->opts.stack ? rt->opts.stack : (size_t)256 << 10,
                            .lost = rt->opts.lost,
                            .lost_arg = rt->opts.lost_arg,
                            .failed = on_failed,
                            .contact = get_contact};
        wh_status st = whi_pe_create(&opts, &rt->pe[i]);
        if (st == WH_OK)
            whi_channels_attach(rt->pe[i]);
        if (st == WH_OK)
            rt->pe[i]->trace = whi_trace_open(wh_rt_rank(rt), first + i, wh_rt_pes(rt));
        if (st == WH_OK)
            st = put_contact(rt, rt->pe[i]);
        if (st != WH_OK)
            return st;
        rt->wires[i] = rt->pe[i]->wire;
    }
    for (int i = 0; i < rt->pes; i++)
        whi_wire_join(rt->wires[i], rt->wires, first, rt->pes);
    return WH_OK;
}

static wh_status set_pes(wh_rt *rt) {
    whi_config config;
    whi_config_init(&config);
    wh_context_config(rt->ctx, read_setting, &config);
    rt->pes = rt->opts.pes ? rt->opts.pes : (int)config.pes;
    rt->exit_timeout_ms = config.exit_timeout;
    rt->inbox_max = config.inbox_max;
    if (rt->pes >= 1 && rt->pes <= (1 << 20) / wh_rt_processes(rt))
        return WH_OK;
    whi_log(WHI_ERROR, "E-RT-06",
            "%d processing elements in each of %d processes are too many, or none", rt->pes,
            wh_rt_processes(rt));
    return WH_EINVAL;
}

static wh_status enter(wh_rt *rt, const uint8_t *ticket, const uint8_t *secret) {
    memcpy(rt->ticket, ticket, WHI_TICKET_SIZE);
    for (size_t i = 0; i < SECRET_BYTES; i++)
        snprintf(rt->secret + 2 * i, 3, "%02x", secret[i]);
    wh_status st = make_context(rt);
    return st == WH_OK ? set_pes(rt) : st;
}

// What rank 0 tells all others before anything else: a ticket, which says that a connection is of this job, a secret, which lets in
// nobody else, and how many PEs a process has.
enum { JOB_SIZE = WHI_TICKET_SIZE + SECRET_BYTES + 4 };

static wh_status tell_job(wh_rt *rt) {
    uint8_t value[JOB_SIZE], random[WHI_TICKET_SIZE + SECRET_BYTES];
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return WH_ESYSTEM;
    wh_status st = enter(rt, random, random + WHI_TICKET_SIZE);
    if (st != WH_OK)
        return st;
    whi_writer w;
    whi_writer_init(&w, value, sizeof(value));
    whi_writer_bytes(&w, random, sizeof(random));
    whi_writer_u32(&w, (uint32_t)rt->pes);
    return whi_boot_put(rt->boot, "job", value, whi_writer_size(&w));
}

// hear_job fails before the second exchange, so that nobody goes on where the numbers of PEs differ.
static wh_status hear_job(wh_rt *rt) {
    uint8_t value[JOB_SIZE], random[WHI_TICKET_SIZE + SECRET_BYTES];
    size_t size = 0;
    wh_status st = whi_boot_get(rt->boot, 0, "job", value, sizeof(value), &size);
    if (st != WH_OK)
        return st;
    whi_reader r;
    whi_reader_init(&r, value, size);
    whi_reader_copy(&r, random, sizeof(random));
    uint32_t pes = whi_reader_u32(&r);
    if (!whi_reader_done(&r))
        return WH_EPROTOCOL;
    st = enter(rt, random, random + WHI_TICKET_SIZE);
    if (st != WH_OK || pes == (uint32_t)rt->pes)
        return st;
    whi_log(WHI_ERROR, "E-RT-04",
            "the process of PE 0 has %u processing elements, this one %d: all need the same (pes)",
            pes, rt->pes);
    return WH_EINVAL;
}

static wh_status join(wh_rt *rt) {
    wh_status st = whi_boot_join(&rt->boot);
    bool first = st == WH_OK && wh_rt_rank(rt) == 0;
    if (first)
        st = tell_job(rt);
    if (st == WH_OK)
        st = whi_boot_exchange(rt->boot);
    if (st == WH_OK && !first)
        st = hear_job(rt);
    if (st == WH_OK)
        st = create_pes(rt);
    return st == WH_OK ? whi_boot_exchange(rt->boot) : st;
}

wh_status wh_rt_init(const wh_rt_opts *opts, wh_rt **out) {
    WHI_OPTS(wh_rt_opts, opts);
    wh_rt *rt = whi_calloc(1, sizeof(*rt));
    if (!rt)
        return WH_ENOMEM;
    rt->pid = getpid();
    if (opts)
        rt->opts = *opts;
    wh_status st = join(rt);
    if (st == WH_OK)
        *out = rt;
    else
        wh_rt_finish(rt);
    return st;
}

// ---- Running.

static void run_main(wh_pe *pe, void *arg) {
    (void)arg;
    pe->rt->main_fn(pe, pe->rt->main_arg);
}

// leave runs a PE that has ended until all of its process have: other processes may need something of it as long.
static void leave(wh_pe *pe) {
    wh_rt *rt = pe->rt;
    whi_pe_run(pe);
    if (atomic_fetch_sub(&rt->running, 1) == 1)
        for (int i = 0; i < rt->pes; i++)
            wh_worker_wake(rt->pe[i]->worker);
    uint64_t begin = whi_clock_ns();
    while (atomic_load(&rt->running)) {
        whi_pe_rest(pe, 100);
        uint64_t limit = atomic_load(&rt->failed) ? FAILED_NS : rt->exit_timeout_ms * 1000000;
        if (whi_clock_ns() - begin <= limit)
            continue;
        int failed = atomic_load(&rt->failed), status = failed ? failed : 1;
        whi_log(
            WHI_ERROR, "E-RT-07",
            "the job has ended, but a handler of this process does not return: the process ends now, with status %d",
            status);
        _exit(status);
    }
}

static void start_pe(wh_pe *pe) {
    wh_status st = wh_worker_adopt(pe->worker);
    if (st == WH_OK)
        st = whi_pe_start(pe, run_main, NULL);
    if (st != WH_OK)
        whi_pe_fail(pe, "it cannot start: %s", wh_status_text(st));
}

static void *thread_main(void *arg) {
    start_pe(arg);
    leave(arg);
    return NULL;
}

wh_status wh_rt_begin(wh_rt *rt, wh_pe_main_fn main_fn, void *arg, wh_pe **first) {
    if (rt->pid != getpid())
        return WH_EFORKED;
    if (!main_fn)
        return whi_refuse_function("wh_rt_begin");
    if (rt->threads)
        return whi_refuse(
            WH_EINVAL, "E-RT-13",
            "wh_rt_begin: this wh_rt runs already, or has run: wh_rt_run and wh_rt_begin "
            "are called once for each");
    rt->threads = whi_calloc((size_t)rt->pes, sizeof(*rt->threads));
    if (!rt->threads)
        return WH_ENOMEM;
    rt->main_fn = main_fn;
    rt->main_arg = arg;
    wh_status st = WH_OK;
    atomic_store(&rt->running, rt->pes);
    for (rt->started = 1; st == WH_OK && rt->started < rt->pes; rt->started += st == WH_OK)
        st = whi_thread_start(&rt->threads[rt->started], thread_main, rt->pe[rt->started]);
    if (st != WH_OK) {
        atomic_fetch_sub(&rt->running, rt->pes - rt->started);
        whi_pe_fail(rt->pe[0], "only %d of %d threads can be started", rt->started, rt->pes);
    }
    start_pe(rt->pe[0]);
    *first = rt->pe[0];
    return WH_OK;
}

static void join_threads(wh_rt *rt) {
    while (rt->started > 1)
        pthread_join(rt->threads[--rt->started], NULL);
    rt->started = 0;
}

wh_status wh_rt_end(wh_rt *rt, int *status) {
    if (!rt->started || !whi_pe_gone(rt->pe[0]))
        return whi_refuse(WH_EBUSY, "E-RT-13",
                          "wh_rt_end: %s: call it once, when wh_pe_ended says so of the first PE",
                          rt->started   ? "the job has not ended"
                          : rt->threads ? "it has been called already"
                                        : "wh_rt_begin has not been called");
    leave(rt->pe[0]);
    join_threads(rt);
    int failed = atomic_load(&rt->failed);
    *status = failed ? failed : rt->pe[0]->exit.status;
    return WH_OK;
}

wh_status wh_rt_run(wh_rt *rt, wh_pe_main_fn main_fn, void *arg, int *status) {
    wh_pe *first;
    wh_status st = wh_rt_begin(rt, main_fn, arg, &first);
    if (st != WH_OK)
        return st;
    whi_pe_run(first);
    return wh_rt_end(rt, status);
}

// ---- Leaving.

void wh_rt_abort(wh_rt *rt, int status) {
    if (rt->pid == getpid())
        whi_boot_abort(rt->boot, status & 0xFF ? status & 0xFF : 1);
}

void wh_rt_finish(wh_rt *rt) {
    if (rt->pid != getpid())  // a child of fork(): the job is its parent's
        return;
    if (rt->started) {  // wh_rt_begin without wh_rt_end
        for (int i = 0; i < rt->pes; i++)
            whi_pe_stop(rt->pe[i]);
        leave(rt->pe[0]);
        join_threads(rt);
    }
    for (int i = 0; rt->pe && i < rt->pes; i++)
        if (rt->pe[i] && wh_worker_adopt(rt->pe[i]->worker) == WH_OK) {
            whi_pe_destroy(rt->pe[i]);
            rt->pe[i] = NULL;
            rt->wires[i] = NULL;
        }
    if (rt->own_context && rt->ctx)
        wh_context_destroy(rt->ctx);
    if (rt->boot)
        whi_boot_leave(rt->boot);
    whi_free(rt->pe);
    whi_free(rt->wires);
    whi_free(rt->threads);
    whi_free(rt);
}
