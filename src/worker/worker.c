// SPDX-License-Identifier: BSD-3-Clause
//
// The life of a worker, see worker.h.
//
// A worker is emptied once, by its owner, and freed when the last handle goes.  Between the two it has no owner, so that
// every call on a handle that is left finds it closed.
#include "worker/worker.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/opts.h"
#include "base/rng.h"
#include "base/sync.h"
#include "base/thread.h"
#include "mem/mem.h"
#include "worker/dump.h"
#include "worker/pollable.h"
#include "worker/post.h"

_Thread_local char whi_thread_token __attribute__((tls_model("initial-exec")));

// in_child runs in a forked child: the descriptors are the parent's conversations.
static void in_child(void *arg) {
    wh_worker *worker = arg;
    atomic_store_explicit(&worker->owner, NULL, memory_order_relaxed);
    close(worker->epoll_fd);
    // All others, links' and listeners' too, are watched.  Their objects are not to be looked at: their owner may have been in
    // the middle of changing them while this thread forked.
    whi_fdset_close(&worker->watched);
    // The numbers will be other files'.
    worker->epoll_fd = worker->event_fd = worker->timer_fd = -1;
    // Another thread may have held the lock, and been in the middle of what it guards.  What the parent's threads had is
    // left alone: each call only needs to get as far as WH_EFORKED.
    pthread_mutex_init(&worker->foreign_lock, NULL);
    pthread_mutex_init(&worker->entry_lock, NULL);
    whi_rooms_foreach(room, worker) if ((*room)->in_child)(*room)->in_child(worker);
}

static void drain_event(whi_watch *watch, uint32_t events) {
    (void)events;
    uint64_t count;
    while (read(watch->fd, &count, sizeof(count)) == sizeof(count)) {
    }
}

static void on_timer_fd(whi_watch *watch, uint32_t events) {
    drain_event(watch, events);
    wh_worker *worker = whi_container_of(watch, wh_worker, timer_watch);
    worker->timer_set_ns = WHI_TIMER_NEVER;
    worker->countdown = 0;
}

static wh_status open_fds(wh_worker *w) {
    w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    w->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    w->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (w->epoll_fd < 0 || w->event_fd < 0 || w->timer_fd < 0) {
        whi_log(WHI_ERROR, "E-WRK-01", "a worker cannot open its descriptors: %m; see ulimit -n");
        return errno == EMFILE || errno == ENFILE ? WH_ELIMIT : WH_ESYSTEM;
    }
    w->event_watch.fn = drain_event;
    w->timer_watch.fn = on_timer_fd;
    wh_status st = whi_worker_watch(w, &w->event_watch, w->event_fd, EPOLLIN);
    if (st == WH_OK)
        st = whi_worker_watch(w, &w->timer_watch, w->timer_fd, EPOLLIN);
    return st;
}

static void free_worker(wh_worker *w) {
    whi_rooms_foreach(room, w) if ((*room)->fini)(*room)->fini(w);
    if (w->submit.cells)
        whi_mpsc_fini(&w->submit);
    whi_fdset_fini(&w->watched);
    if (w->event_fd >= 0)
        close(w->event_fd);
    pthread_mutex_destroy(&w->foreign_lock);
    pthread_mutex_destroy(&w->entry_lock);
    whi_context_release(w->ctx);
    whi_free(w->accept_data);
    whi_free(w);
}

static bool in_use(const wh_worker *w) {
    bool used = w->handles != 0;
    whi_rooms_foreach(room, w) used = used || ((*room)->in_use && (*room)->in_use(w));
    return used;
}

void whi_worker_unlock_or_free(wh_worker *worker) {
    bool free_it = !in_use(worker);
    pthread_mutex_unlock(&worker->foreign_lock);
    if (free_it)
        free_worker(worker);
}

static void close_fds(wh_worker *w) {
    int *fds[] = {&w->epoll_fd, &w->timer_fd};
    for (int i = 0; i < 2; i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
}

static wh_status worker_init(wh_worker *w, const wh_worker_opts *opts) {
    static const wh_progress_mode modes[] = {[WHI_PROGRESS_WAIT] = WH_PROGRESS_WAIT,
                                             [WHI_PROGRESS_SPIN] = WH_PROGRESS_SPIN,
                                             [WHI_PROGRESS_ADAPTIVE] = WH_PROGRESS_ADAPTIVE};
    const whi_config *config = &w->ctx->config;
    w->epoll_fd = w->event_fd = w->timer_fd = -1;
    w->eager_max = config->eager_max;
    w->mode = opts->mode ? opts->mode : modes[config->progress];
    w->accept = opts->accept;
    w->accept_arg = opts->accept_arg;
    w->answer = opts->answer;
    w->spin_luck = 1;
    atomic_store(&w->owner, &whi_thread_token);
    whi_list *lists[] = {&w->hot, &w->dirty, &w->looks, &w->completed, &w->dead};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        whi_list_init(lists[i]);
    whi_timers_init(&w->timers);
    w->timer_set_ns = WHI_TIMER_NEVER;
    wh_status st = whi_random_bytes(w->uuid, sizeof(w->uuid));
    for (const whi_room *const *room = w->rooms; st == WH_OK && *room; room++)
        if ((*room)->init)
            st = (*room)->init(w);
    if (st == WH_OK)
        st = whi_connect_data_copy(opts->accept_data, opts->accept_data_size, "worker",
                                   &w->accept_data);
    if (st == WH_OK)
        st = whi_mpsc_init(&w->submit, config->submit_max);
    return st == WH_OK ? open_fds(w) : st;
}

static wh_status start_thread(wh_worker *worker);

wh_status whi_worker_new(wh_context *ctx, const wh_worker_opts *opts, size_t size,
                         const whi_room *const *rooms, wh_worker **worker) {
    static const wh_worker_opts defaults = {.size = sizeof(defaults)};
    WHI_OPTS(wh_worker_opts, opts);
    if (!opts)
        opts = &defaults;
    if (!ctx || !worker || opts->mode > WH_PROGRESS_ADAPTIVE)
        return WH_EINVAL;
    whi_mem_notice();
    wh_worker *w = whi_aligned_alloc(64, size);
    if (!w)
        return WH_ENOMEM;
    memset(w, 0, size);
    w->ctx = ctx;
    w->rooms = rooms;
    whi_context_retain(ctx);
    pthread_mutex_init(&w->foreign_lock, NULL);
    pthread_mutex_init(&w->entry_lock, NULL);
    wh_status st = worker_init(w, opts);
    if (st == WH_OK) {
        w->fork_node.fn = in_child;
        w->fork_node.arg = w;
        st = whi_fork_register(&w->fork_node);
        w->fork_generation = whi_fork_generation();
        if (st == WH_OK && ctx->config.sigusr1_dump)
            whi_dump_on_signal(w);
        if (st == WH_OK && opts->progress_thread)
            st = start_thread(w);
        if (st != WH_OK) {
            whi_dump_forget(w);
            whi_fork_unregister(&w->fork_node);
        }
    }
    if (st != WH_OK) {
        close_fds(w);
        free_worker(w);
        return st;
    }
    *worker = w;
    return WH_OK;
}

wh_status whi_worker_check(const wh_worker *worker) {
    if (!worker)
        return WH_EINVAL;
    if (whi_worker_is_owner(worker))
        return WH_OK;
    if (worker->fork_generation != whi_fork_generation())
        return WH_EFORKED;
    return worker->destroyed ? WH_ECLOSED : WH_ETHREAD;
}

wh_status wh_worker_adopt(wh_worker *worker) {
    wh_status st = whi_worker_check(worker);
    if (st != WH_ETHREAD)
        return st;
    if (worker->has_thread)
        return WH_EINVAL;
    atomic_store(&worker->owner, &whi_thread_token);
    return WH_OK;
}

wh_context *wh_worker_context(const wh_worker *worker) {
    return worker ? worker->ctx : NULL;
}

void wh_worker_uuid(const wh_worker *worker, uint8_t uuid[16]) {
    memcpy(uuid, worker->uuid, 16);
}

static wh_status worker_counters_owned(const wh_worker *worker, wh_counters *counters) {
    wh_counters now = worker->counters;
    whi_rooms_foreach(room, worker) if ((*room)->count)(*room)->count(worker, &now);
    return whi_opts_give(counters, &now, sizeof(now), "wh_counters");
}

wh_status wh_worker_counters(const wh_worker *worker, wh_counters *counters) {
    return worker && counters
               ? WHI_OWNED((wh_worker *)(uintptr_t)worker, worker_counters_owned(worker, counters))
               : WH_EINVAL;
}

wh_status whi_worker_watch(wh_worker *worker, whi_watch *watch, int fd, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = watch};
    watch->fd = fd;
    if (epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0) {
        whi_fdset_add(&worker->watched, fd);
        return WH_OK;
    }
    watch->fd = -1;
    return errno == ENOMEM ? WH_ENOMEM : errno == ENOSPC ? WH_ELIMIT : WH_ESYSTEM;
}

void whi_worker_rewatch(wh_worker *worker, whi_watch *watch, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = watch};
    if (watch->fd >= 0)
        epoll_ctl(worker->epoll_fd, EPOLL_CTL_MOD, watch->fd, &event);
}

void whi_worker_unwatch(wh_worker *worker, whi_watch *watch) {
    if (watch->fd >= 0) {
        whi_fdset_remove(&worker->watched, watch->fd);
        epoll_ctl(worker->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
    }
    watch->fd = -1;
}

void whi_worker_defer(wh_worker *worker, whi_deferred *deferred, void (*fn)(whi_deferred *)) {
    deferred->fn = fn;
    whi_list_push_back(&worker->dead, &deferred->link);
}

// A progress thread and a thread that enters the worker pass it to and fro by this word.
enum { ENTRY_NONE, ENTRY_ASKED, ENTRY_GIVEN };

// rest halts the progress thread while another one owns the worker.
static void rest(wh_worker *worker) {
    if (atomic_load(&worker->entry) != ENTRY_ASKED)
        return;
    atomic_store(&worker->entry, ENTRY_GIVEN);
    whi_futex_wake(&worker->entry, 1);
    while (atomic_load(&worker->entry) == ENTRY_GIVEN)
        (void)whi_futex_wait(&worker->entry, ENTRY_GIVEN, WHI_FOREVER);
}

wh_status whi_worker_enter(wh_worker *worker) {
    wh_status st = whi_worker_check(worker);
    if (st == WH_OK) {
        worker->entry_depth += worker->entry_depth != 0;
        return WH_OK;
    }
    if (st != WH_ETHREAD || !worker->has_thread)
        return st;
    pthread_mutex_lock(&worker->entry_lock);
    st = whi_worker_check(worker);
    if (st != WH_ETHREAD) {  // it was destroyed meanwhile, and its thread is gone
        pthread_mutex_unlock(&worker->entry_lock);
        return st;
    }
    atomic_store(&worker->entry, ENTRY_ASKED);
    wh_worker_wake(worker);
    while (atomic_load(&worker->entry) == ENTRY_ASKED)
        (void)whi_futex_wait(&worker->entry, ENTRY_ASKED, WHI_FOREVER);
    worker->entry_depth = 1;
    worker->resting = atomic_load(&worker->owner);
    atomic_store(&worker->owner, &whi_thread_token);
    return WH_OK;
}

void whi_worker_leave(wh_worker *worker) {
    if (!worker->entry_depth || --worker->entry_depth)
        return;
    atomic_store(&worker->owner, worker->resting);
    atomic_store(&worker->entry, ENTRY_NONE);
    whi_futex_wake(&worker->entry, 1);
    pthread_mutex_unlock(&worker->entry_lock);
}

static void *thread_main(void *arg) {
    wh_worker *worker = arg;
    atomic_store(&worker->owner, &whi_thread_token);
    while (!atomic_load(&worker->thread_stop)) {
        wh_status st = wh_worker_wait(worker, -1);
        assert(st == WH_OK);  // without a limit there is nothing else to come back for
        (void)st;
        rest(worker);
    }
    return NULL;
}

static wh_status start_thread(wh_worker *worker) {
    // The owner is set before anybody has the handle, so that no call takes the creator for it.
    atomic_store(&worker->owner, NULL);
    worker->has_thread = true;
    wh_status st = whi_thread_start(&worker->thread, thread_main, worker);
    if (st != WH_OK)
        return st;
    while (!atomic_load(&worker->owner))
        whi_cpu_relax();
    return WH_OK;
}

// stop_thread makes the caller the owner.  It keeps the lock of those who enter, who could wait for ever for a thread
// that has ended.
static void stop_thread(wh_worker *worker) {
    pthread_mutex_lock(&worker->entry_lock);
    atomic_store(&worker->thread_stop, true);
    wh_worker_wake(worker);
    pthread_join(worker->thread, NULL);
    atomic_store(&worker->owner, &whi_thread_token);
}

// close_rooms ends all that is open, from the top.
static void close_rooms(wh_worker *worker) {
    size_t count = 0;
    while (worker->rooms[count])
        count++;
    while (count--)
        if (worker->rooms[count]->close)
            worker->rooms[count]->close(worker);
}

// more_ends says whether ends, or the callbacks of ends, have left something to do.
static bool more_ends(const wh_worker *worker) {
    return !whi_list_empty(&worker->completed) || !whi_list_empty(&worker->dead) ||
           !whi_posts_empty(worker);
}

// run_ends does what ends leave behind, until nothing is left.
static void run_ends(wh_worker *worker) {
    for (int rounds = 0; rounds < 1000 && more_ends(worker); rounds++) {
        (void)worker->notify(worker);
        (void)whi_posts_run(worker);
        (void)whi_worker_reap(worker);
        close_rooms(worker);  // a callback may have started something
    }
}

// end_everything completes what is pending; the callbacks run here, as progress would run them.
static void end_everything(wh_worker *worker) {
    worker->in_progress = true;
    (void)whi_worker_submit_run(worker);
    (void)whi_posts_run(worker);
    close_rooms(worker);
    run_ends(worker);
    whi_rooms_foreach(room, worker) {
        if ((*room)->finish)
            (*room)->finish(worker);
        run_ends(worker);
    }
    worker->in_progress = false;
    if (!whi_posts_empty(worker))
        whi_log(
            WHI_ERROR, "E-WRK-04",
            "wh_worker_destroy: nodes that post themselves anew in each of their calls are left");
}

void wh_worker_destroy(wh_worker *worker) {
    if (!worker)
        return;
    wh_status st = whi_worker_check(worker);
    if (st == WH_EFORKED) {
        // The parent's conversations go on; here only memory is left, and the descriptors are closed already.
        return;
    }
    bool stops = worker->has_thread && st == WH_ETHREAD;
    if (stops)
        stop_thread(worker);
    else if (st != WH_OK || worker->in_progress) {
        whi_log(WHI_ERROR, "E-WRK-02", "wh_worker_destroy: %s; nothing was done",
                worker->in_progress ? "called from a callback"
                                    : "only the thread that owns the worker may do this");
        return;
    }
    whi_dump_forget(worker);
    whi_fork_unregister(&worker->fork_node);
    pthread_mutex_lock(&worker->foreign_lock);
    worker->submit_closed = true;  // what is in the queue now is all there will be
    pthread_mutex_unlock(&worker->foreign_lock);
    end_everything(worker);
    close_fds(worker);
    pthread_mutex_lock(&worker->foreign_lock);
    worker->destroyed = true;
    // From here on other threads free for themselves; what they have left for the owner until now is done here.
    whi_rooms_foreach(room, worker) if ((*room)->free_foreign)(*room)->free_foreign(worker);
    atomic_store(&worker->owner, NULL);
    if (stops)
        pthread_mutex_unlock(&worker->entry_lock);
    whi_worker_unlock_or_free(worker);
}
