// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/base/process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <wherry/am.h>
#include <wherry/log.h>

#include "mpi/base/lock.h"
#include "mpi/base/offered.h"
#include "mpi/base/streams.h"
#include "mpi/base/wait.h"

whm_process whm_process_here;

size_t whm_process_stack(void) {
    const char *text = getenv("WHERRY_MPI_STACK");
    unsigned long long kib = text ? strtoull(text, NULL, 10) : 0;
    return (size_t)(kib ? kib : 1024) << 10;
}

static void nothing(wh_pe *pe, void *arg) {
    (void)pe;
    (void)arg;
}

// Ranks are dealt out in blocks; the first processes have one more where they do not go up.
static int first_of(int process) {
    const whm_process *p = &whm_process_here;
    int each = p->ranks / p->processes, more = p->ranks % p->processes;
    return process * each + (process < more ? process : more);
}

static int process_of(int world) {
    const whm_process *p = &whm_process_here;
    if (p->home)
        return p->home[world];
    if (p->ranks == p->processes)
        return world;
    int each = p->ranks / p->processes, more = p->ranks % p->processes;
    return world < more * (each + 1) ? world / (each + 1)
                                     : more + (world - more * (each + 1)) / each;
}

static void wake_all(void) {
    const whm_process *p = &whm_process_here;
    for (int i = 0; i < p->local; i++)
        if (p->rank[i])
            whm_wake(p->rank[i]);
}

const char *whm_hint_of(wh_status status) {
    return status == WH_ELIMIT ? ", most often that of open files (ulimit -n)" : "";
}

int whm_say_status(wh_status status, const char *what) {
    whm_process_lost(status);
    const char *more = wh_log_take_error();
    int code = status == WH_ENOMEM         ? MPI_ERR_NO_MEM
               : status == WH_ETRUNCATED   ? MPI_ERR_TRUNCATE
               : status == WH_ETYPE        ? MPI_ERR_TYPE
               : status == WH_ENOTSUP      ? MPI_ERR_UNSUPPORTED_OPERATION
               : whm_tells_of_loss(status) ? MPI_ERR_PROC_ABORTED
                                           : MPI_ERR_OTHER;
    return whm_fail(code, "%s: %s%s%s", what, wh_status_text(status),
                    *more ? ": " : whm_hint_of(status), more);
}

// ---- Of a job that goes on when a process is lost.

static whm_mourner *mourners;

void whm_on_loss(whm_mourner *mourner) {
    for (const whm_mourner *m = mourners; m; m = m->next)
        if (m == mourner)
            return;
    mourner->next = mourners;
    mourners = mourner;
}

static void on_lost(wh_pe *pe, int lost, const char *sentence, void *arg) {
    (void)pe;
    (void)sentence;  // the launcher says it
    (void)arg;
    whm_process *p = &whm_process_here;
    if (!p->gone || p->gone[lost])
        return;
    p->gone[lost] = p->bereft = true;
    p->losses++;
    for (const whm_mourner *m = mourners; m; m = m->next)
        m->fn();
    wake_all();
}

bool whm_is_gone(int world) {
    const whm_process *p = &whm_process_here;
    return p->losses && p->gone[process_of(world)];
}

int whm_gone_rank(int rank) {
    return whm_fail(MPI_ERR_PROC_ABORTED, "the process of rank %d has ended before its time", rank);
}

// A process knows only of those that it is connected to, and one that waits for a message may be to none.
static wh_status connect_all(void) {
    whm_process *p = &whm_process_here;
    wh_status st = WH_OK;
    for (int i = 0; i < p->processes && p->stays && st == WH_OK; i++)
        if (i != wh_rt_rank(p->rt))
            st = wh_pe_endpoint(p->pe, i, &p->to[i].ep);
    return whm_tells_of_loss(st) ? WH_OK : st;
}

// ---- Joining and leaving.

int whm_process_join(int ranks) {
    whm_process *p = &whm_process_here;
    wh_log_hold_errors(true);  // what is logged is part of the error that the program hears of
    p->stays = getenv("WHERRYRUN_NO_CLEANUP") != NULL;
    // What a rank sends must not keep what it sends behind that from those who receive that first.
    static const char *const many[] = {"announce_max=1048576", NULL};
    whm_offered_take();
    wh_status st = wh_rt_init(WH_RT_OPTS(.pes = 1, .stack = whm_process_stack(),
                                         .lost = p->stays ? on_lost : NULL,
                                         .settings = getenv("WHERRY_ANNOUNCE_MAX") ? NULL : many),
                              &p->rt);
    if (st == WH_OK)
        st = wh_rt_begin(p->rt, nothing, NULL, &p->pe);
    int rc = st == WH_OK ? MPI_SUCCESS : whm_fail_status(st, "this process cannot join its job");
    wh_log_hold_errors(false);
    if (rc != MPI_SUCCESS)
        return rc;
    p->worker = wh_pe_worker(p->pe);
    p->processes = wh_rt_processes(p->rt);
    whm_offered_agree(p->processes);
    p->ranks = ranks ? ranks : p->processes;
    if (p->ranks < p->processes)
        return whm_fail(MPI_ERR_OTHER, "%d ranks cannot be dealt out to %d processes: ask for more",
                        p->ranks, p->processes);
    int process = wh_rt_rank(p->rt);
    p->first = first_of(process);
    p->local = first_of(process + 1) - p->first;
    p->to = calloc((size_t)p->processes, sizeof(whm_way));
    if (p->to && p->stays)
        p->gone = calloc((size_t)p->processes, sizeof(*p->gone));
    if (!p->to || (p->stays && !p->gone))
        return whm_no_memory();
    st = connect_all();
    return st == WH_OK ? MPI_SUCCESS : whm_fail_status(st, "other processes cannot be reached");
}

void whm_process_level(int level) {
    whm_process_here.level = level;
    whm_process_here.guarded = level == MPI_THREAD_MULTIPLE || whm_process_here.use_heap;
}

void whm_process_spread(int *home, whm_rank **rank) {
    whm_process *p = &whm_process_here;
    for (int i = 0; i < p->ranks; i++)
        home[i] = process_of(i);
    p->home = home;
    p->rank = rank;
    p->first = 0;
    p->local = p->ranks;
}

int whm_process_begin(int level) {
    static whm_rank *only[1];
    whm_process *p = &whm_process_here;
    if (p->rt)
        return MPI_SUCCESS;
    int rc = whm_process_join(0);
    if (rc != MPI_SUCCESS)
        return rc;
    whm_process_level(level);
    only[0] = whm_self;
    p->rank = only;
    whm_self->world = p->first;
    return MPI_SUCCESS;
}

int whm_process_flush(void) {
    whm_process *p = &whm_process_here;
    wh_status st = WH_OK;
    for (int i = 0; i < p->processes && st == WH_OK; i++)
        if (p->to[i].ep) {
            st = wh_endpoint_flush_wait(p->to[i].ep, -1);
            if (p->stays && whm_tells_of_loss(st))
                st = WH_OK;
        }
    return st == WH_OK ? MPI_SUCCESS
                       : whm_fail_status(st, "a process has not taken what was sent to it");
}

int whm_process_end(void) {
    whm_process *p = &whm_process_here;
    int status = 0;
    if (wh_rt_rank(p->rt) == 0 && !p->losses)
        wh_pe_exit(p->pe, 0);
    // Those that are left do not wait for each other: who ends it may be gone.
    while (!p->losses && wh_pe_step(p->pe))
        ;
    wh_status st = wh_pe_ended(p->pe) ? wh_rt_end(p->rt, &status) : WH_OK;
    if (st != WH_OK || status)
        return st != WH_OK ? whm_fail_status(st, "the job cannot be left")
                           : whm_fail(MPI_ERR_OTHER, "the job has ended with status %d", status);
    wh_rt_finish(p->rt);
    free(p->to);
    free(p->gone);
    *p = (whm_process){.ranks = p->ranks};
    return MPI_SUCCESS;
}

void whm_process_give_way(void) {
    if (whm_process_here.bereft && !whm_process_here.stays)
        usleep(500000);
}

void whm_process_abort(int status) {
    // The launcher sees a process that has not left the job, and ends the others.
    _exit(status & 0xFF ? status : 1);
}

void whm_process_no_memory(void) {
    fprintf(stderr,
            "MPI rank %d: there is no memory in the middle of a collective call, where other ranks "
            "wait for this one: its process ends\n",
            whm_self->world);
    whm_process_abort(1);
}

void whm_job_abort(int status) {
    if (whm_process_here.stays && whm_process_here.rt)
        wh_rt_abort(whm_process_here.rt, status);
    whm_process_abort(status);
}

int whm_endpoint(int world, wh_endpoint **ep) {
    whm_process *p = &whm_process_here;
    int process = process_of(world);
    whm_way *way = &p->to[process];
    if (!way->ep) {
        wh_status st = wh_pe_endpoint(p->pe, process, &way->ep);
        if (st != WH_OK)
            return whm_fail_status(st, "there is no way to the process of that rank");
    }
    if (!way->connected)
        way->connected = wh_endpoint_status(way->ep) != WH_PENDING;
    *ep = way->ep;
    return MPI_SUCCESS;
}

wh_endpoint *whm_connected(int world) {
    const whm_way *way = &whm_process_here.to[process_of(world)];
    return way->connected ? way->ep : NULL;
}

static void on_notified(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    (void)arg;
    whm_process *p = &whm_process_here;
    whm_process_lost(result->status);
    p->early--;
    wake_all();
}

wh_status whm_notify(wh_endpoint *ep, uint16_t id, const void *head, size_t size) {
    wh_op_opts opts = {.size = sizeof(opts), .done = on_notified};
    bool early = wh_endpoint_status(ep) == WH_PENDING;
    whm_process_here.started++;
    wh_status st = wh_am_send_copy(ep, id, head, size, NULL, 0, early ? &opts : NULL, NULL);
    if (early && st == WH_PENDING)
        whm_process_here.early++;
    return st;
}

whm_handled whm_handled_get(void) {
    void **now = whm_process_here.handled;
    return now ? (whm_handled){now[0], (uintptr_t)now[1]} : (whm_handled){NULL, 0};
}

void whm_handled_set(whm_handled to) {
    void **now = whm_process_here.handled;
    if (!now)
        return;
    now[0] = to.caught;
    now[1] = (void *)to.uncaught;
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

// Where ranks move it is known for how long each has computed.
void whm_run_ends(whm_rank *rank) {
    whm_process *p = &whm_process_here;
    if (__builtin_expect(!p->home, 1))
        return;
    int64_t now = now_ns();
    rank->computed_ns += now - p->runs_since_ns;
    p->runs_since_ns = now;
}
void whm_run_begins(void) {
    whm_process *p = &whm_process_here;
    if (__builtin_expect(p->home && !p->runs_since_ns, 0))
        p->runs_since_ns = now_ns();
}

// suspend lets other ranks run: until this one is woken, or, if it only yields, until its turn comes.
static void suspend(bool yields) {
    whm_rank *me = whm_self;
    whm_handled mine = whm_handled_get();
    whm_streams_leave(me);
    whm_run_ends(me);
    wh_status st = WH_OK;
    if (yields) {
        wh_pe_yield(whm_process_here.pe);
    } else {
        me->blocked = true;
        me->wait.done = false;
        st = wh_pe_wait(whm_process_here.pe, &me->wait);
        me->blocked = false;
    }
    whm_self = me;
    whm_run_begins();
    whm_handled_set(mine);
    whm_streams_return(me);
    if (st != WH_OK)  // it was called from outside a rank's thread
        whm_process_abort(1);
}

void whm_progress(void) {
    if (whm_process_here.virtual)
        suspend(true);
    else if (__builtin_expect(whm_process_here.level == MPI_THREAD_MULTIPLE, 0))
        whm_poll();
    else
        (void)wh_pe_turn(whm_process_here.pe);
}

bool whm_look(bool (*ready)(const void *arg), const void *arg) {
    // Other ranks of the process run while this one is in whm_block; other threads, too, as the lock is held here.
    const whm_process *p = &whm_process_here;
    if (p->virtual || p->level == MPI_THREAD_MULTIPLE)
        return ready(arg);
    return whm_wait_look(ready, arg);
}

static void block(const bool *done) {
    if (whm_process_here.virtual) {
        whm_wait_note();
        suspend(false);
        return;
    }
    // The job may have ended under this program: another rank has aborted, and the launcher says so.
    bool many = __builtin_expect(whm_process_here.level == MPI_THREAD_MULTIPLE, 0);
    int error = errno;  // a socket that has nothing to read sets it
    if (!(many ? whm_drive(done) : whm_wait_step()))
        whm_process_abort(1);
    errno = error;
}

void whm_block(void) {
    block(NULL);
}

void whm_block_until(const bool *done) {
    while (!*(volatile const bool *)done)
        block(done);
}
