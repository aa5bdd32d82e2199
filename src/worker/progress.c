// SPDX-License-Identifier: BSD-3-Clause
//
// Progress: what one pass does, and when a worker may sleep.
//
// The invariant: a worker never sleeps with work that only its progress can move.  Before sleeping it progresses until
// nothing moves, asks every polled lane to ring, issues one barrier, and looks once more: at the lanes, at what waits
// to be sent, at finished requests and at the submit queue.  A pass costs as much as there are hot links; a link that had
// nothing for a while leaves the hot list and is woken by its bell.
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "net/shm/shm.h"
#include "worker/dump.h"
#include "worker/pollable.h"
#include "worker/post.h"
#include "worker/worker.h"

enum {
    PASSES_BUSY = 1024,  // passes between two looks at the sockets while rings are polled
    PASSES_CLOCK = 32,   // passes between two looks at the clock, while the sockets wait
    LOOK_NS = 2000000,   // after which they have their turn, however few the passes were
    PASSES_SOCKET = 32,  // the same while a socket is polled directly: a pass is a system call then
    EVENTS = 64,         // of one look at the sockets
    IDLE_PASSES = 20000,  // without an event, after which one of many links is no longer polled
    IDLE_SOCKET = 100,    // the same for a socket: a poll is a system call, and epoll tells anyway
    EAGER_PASSES = 500,   // of a spin, before it leaves the core's other thread some room
    FEW_LINKS = 4,        // so many are polled for as long as the worker is awake
};

static unsigned run_events(wh_worker *worker, int timeout_ms, uint64_t timeout_ns) {
    struct epoll_event events[EVENTS];
    int n;
    if (timeout_ms == 0) {
        n = epoll_wait(worker->epoll_fd, events, EVENTS, 0);
    } else {
        struct timespec ts = {.tv_sec = (time_t)(timeout_ns / WHI_NS_PER_S),
                              .tv_nsec = (long)(timeout_ns % WHI_NS_PER_S)};
        n = epoll_pwait2(worker->epoll_fd, events, EVENTS,
                         timeout_ns == WHI_TIMER_NEVER ? NULL : &ts, NULL);
        if (n < 0 && errno == ENOSYS)  // before Linux 5.11
            n = epoll_wait(worker->epoll_fd, events, EVENTS,
                           timeout_ns == WHI_TIMER_NEVER ? -1
                                                         : (int)(timeout_ns / WHI_NS_PER_MS) + 1);
    }
    unsigned count = 0;
    for (int i = 0; i < n; i++) {
        whi_watch *watch = events[i].data.ptr;
        // A callback before this one may have ended the watch; its memory is still there.
        if (watch->fd >= 0) {
            watch->fn(watch, events[i].events);
            count++;
        }
    }
    return count;
}

static unsigned run_timers(wh_worker *worker) {
    if (!whi_timers_count(&worker->timers))
        return 0;
    return (unsigned)whi_timers_run(&worker->timers, whi_clock_ns());
}

unsigned whi_worker_reap(wh_worker *worker) {
    unsigned count = 0;
    whi_list *node;
    // Only what is here now: some put themselves off until another pass.
    whi_list batch;
    whi_list_take(&batch, &worker->dead);
    while ((node = whi_list_pop_front(&batch))) {
        whi_deferred *d = whi_container_of(node, whi_deferred, link);
        d->fn(d);
        count++;
    }
    return count;
}

static unsigned run_slow(wh_worker *worker) {
    unsigned count = run_events(worker, 0, 0);
    count += run_timers(worker);
    whi_pollable_look(worker);
    whi_rooms_foreach(room, worker) if ((*room)->look) count += (*room)->look(worker);
    whi_dump_if_asked(worker);
    return count;
}

static whi_pollable *hot_pollable(const whi_list *node) {
    return whi_container_of((whi_list *)(uintptr_t)node, whi_pollable, hot_link);
}

static whi_pollable *dirty_pollable(const whi_list *node) {
    return whi_container_of((whi_list *)(uintptr_t)node, whi_pollable, dirty_link);
}

static int next_countdown(const wh_worker *worker) {
    if (whi_list_empty(&worker->hot))
        return 1;
    whi_rooms_foreach(room, worker) if ((*room)->busy && (*room)->busy(worker)) return 1;
    for (const whi_list *node = worker->hot.next; node != &worker->hot; node = node->next)
        if (hot_pollable(node)->syscall)
            return PASSES_SOCKET;
    return PASSES_BUSY;
}

static bool few_hot(const wh_worker *worker) {
    int count = 0;
    for (const whi_list *node = worker->hot.next; node != &worker->hot; node = node->next)
        if (++count > FEW_LINKS)
            return false;
    return true;
}

// cool_idle stops polling links that had nothing for long, when there are many.  A cooled lane must be armed,
// and be looked at again behind the barrier.
static void cool_idle(wh_worker *worker) {
    if (few_hot(worker))
        return;
    whi_list idle;
    whi_list_init(&idle);
    whi_list_foreach(node, &worker->hot) {
        whi_pollable *pollable = hot_pollable(node);
        uint32_t patience = pollable->syscall ? IDLE_SOCKET : IDLE_PASSES;
        if (pollable->idle > patience && !pollable->dirty && pollable->rings) {
            whi_list_remove(node);
            whi_list_push_back(&idle, node);
            if (pollable->ops->arm(pollable))
                whi_pollable_look_later(worker, pollable);
        }
    }
    if (whi_list_empty(&idle))
        return;
    whi_shm_barrier();
    whi_list_foreach(node, &idle) {
        whi_pollable *pollable = hot_pollable(node);
        whi_list_remove(node);
        pollable->hot = false;
        if (pollable->ops->ready(pollable))
            whi_pollable_heat(worker, pollable);
    }
}

// run_asked has the rooms do what other threads have left a word about.
static void run_asked(wh_worker *worker) {
    atomic_store(&worker->ask, false);
    whi_rooms_foreach(room, worker) if ((*room)->asked)(*room)->asked(worker);
}

// run_due has the rooms do what the polls have left for their end.
static unsigned run_due(wh_worker *worker) {
    unsigned count = 0;
    worker->due = false;
    whi_rooms_foreach(room, worker) if ((*room)->due) count += (*room)->due(worker);
    return count;
}

// is_late says whether sockets and timers must have their turn before the passes are counted down: passes of a program that
// computes for milliseconds between them would have it see a timeout, or the death of a peer, after seconds.
static bool is_late(const wh_worker *worker) {
    return worker->countdown % PASSES_CLOCK == 0 && whi_clock_ns() - worker->looked_ns > LOOK_NS;
}

unsigned whi_worker_pass(wh_worker *worker) {
    worker->in_progress = true;
    if (atomic_load_explicit(&worker->gate.sleeping, memory_order_relaxed))
        atomic_store_explicit(&worker->gate.sleeping, 0, memory_order_relaxed);
    unsigned count = 0;
    // A handler may end any pollable, not only its own: whi_pollable_cool keeps the cursor off what it takes out.
    for (whi_list *node = worker->hot.next; node != &worker->hot; node = worker->hot_next) {
        worker->hot_next = node->next;
        whi_pollable *pollable = hot_pollable(node);
        count += pollable->ops->pass(pollable);
    }
    if (worker->due)
        count += run_due(worker);
    if (__builtin_expect(!whi_mpsc_empty(&worker->submit), 0))
        count += whi_worker_submit_run(worker);
    if (__builtin_expect(!whi_posts_empty(worker), 0))
        count += whi_posts_run(worker);
    if (atomic_load_explicit(&worker->ask, memory_order_relaxed))
        run_asked(worker);
    if (--worker->countdown <= 0 || is_late(worker)) {
        worker->looked_ns = whi_clock_ns();
        count += run_slow(worker);
        cool_idle(worker);
        worker->countdown = next_countdown(worker);
    }
    if (!whi_list_empty(&worker->dirty)) {
        whi_list_foreach(node, &worker->dirty) {
            whi_pollable *pollable = dirty_pollable(node);
            if (!pollable->hot)
                count += pollable->ops->send(pollable);
        }
    }
    if (!whi_list_empty(&worker->completed))
        count += worker->notify(worker);
    if (!whi_list_empty(&worker->dead))
        count += whi_worker_reap(worker);
    worker->in_progress = false;
    return count;
}

unsigned wh_worker_progress(wh_worker *worker) {
    if (__builtin_expect(!worker || !whi_worker_is_owner(worker) || worker->in_progress, 0))
        return 0;
    return whi_worker_pass(worker);
}

// all_quiet says whether nothing in the worker itself is left to do.
static bool all_quiet(const wh_worker *worker) {
    if (!whi_list_empty(&worker->completed) || !whi_list_empty(&worker->dead) ||
        !whi_mpsc_empty(&worker->submit) || !whi_posts_empty(worker) || worker->due ||
        atomic_load(&worker->ask))
        return false;
    for (const whi_list *node = worker->dirty.next; node != &worker->dirty; node = node->next)
        if (!dirty_pollable(node)->blocked)
            return false;
    return true;
}

// arm_pollables arms the hot pollables and those that wait for space, and says whether all may sleep.
static bool arm_pollables(wh_worker *worker) {
    whi_list_foreach(node, &worker->hot) {
        whi_pollable *pollable = hot_pollable(node);
        if (pollable->ops->arm(pollable))
            whi_pollable_look_later(worker, pollable);
    }
    whi_list_foreach(node, &worker->dirty) {
        whi_pollable *pollable = dirty_pollable(node);
        if (pollable->ops->want_space(pollable))
            whi_pollable_look_later(worker, pollable);
    }
    whi_shm_barrier();
    bool quiet = true;
    whi_rooms_foreach(room, worker) if ((*room)->arm && (*room)->arm(worker) != WH_OK) {
        quiet = false;
        worker->countdown = 0;  // the next pass gives the room its turn
    }
    whi_list_foreach(node, &worker->hot) {
        whi_pollable *pollable = hot_pollable(node);
        quiet = quiet && !pollable->ops->ready(pollable);
    }
    whi_list_foreach(node, &worker->dirty) {
        whi_pollable *pollable = dirty_pollable(node);
        quiet = quiet && !pollable->ops->has_space(pollable);
    }
    return quiet;
}

// try_sleep makes the worker ready to sleep, or says that it must not.
static wh_status try_sleep(wh_worker *worker) {
    if (!all_quiet(worker))
        return WH_EBUSY;
    atomic_store(&worker->gate.sleeping, 1);
    if (!arm_pollables(worker) || !all_quiet(worker)) {
        atomic_store(&worker->gate.sleeping, 0);
        return WH_EBUSY;
    }
    // From here on each pollable's descriptor brings it back.
    whi_list_foreach(node, &worker->hot) {
        whi_pollable *pollable = hot_pollable(node);
        if (pollable->rings)  // one within the process has none, and nothing to say while we sleep
            whi_pollable_cool(worker, pollable);
    }
    worker->counters.sleeps++;
    return WH_OK;
}

// next_look returns when the worker has to be awake again, whatever happens.
static uint64_t next_look(const wh_worker *worker) {
    uint64_t next = whi_timers_next_deadline(&worker->timers);
    uint64_t again = whi_pollable_next_look(worker);
    next = again < next ? again : next;
    whi_rooms_foreach(room, worker) {
        uint64_t look = (*room)->next_look ? (*room)->next_look(worker) : WHI_TIMER_NEVER;
        next = look < next ? look : next;
    }
    return next;
}

// set_timer_fd has the descriptor tell in time.  Waking once too early costs less than setting it at each sleep.
static void set_timer_fd(wh_worker *worker) {
    uint64_t next = next_look(worker);
    if (next >= worker->timer_set_ns)
        return;
    struct itimerspec spec = {.it_value = {.tv_sec = (time_t)(next / WHI_NS_PER_S),
                                           .tv_nsec = (long)(next % WHI_NS_PER_S) + (next == 0)}};
    timerfd_settime(worker->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
    worker->timer_set_ns = next;
}

wh_status wh_worker_arm(wh_worker *worker) {
    wh_status st = whi_worker_check(worker);
    if (st != WH_OK)
        return st;
    if (worker->in_progress)
        return WH_EBUSY;
    // A worker that was armed and not progressed since has nothing new to say for itself.
    worker->countdown = 0;
    st = try_sleep(worker);
    if (st == WH_OK)
        set_timer_fd(worker);
    return st;
}

int wh_worker_fd(const wh_worker *worker) {
    return worker ? worker->epoll_fd : -1;
}

// sleep_once blocks until something happens or `deadline_ns` is reached, and returns how many events came.
static unsigned sleep_once(wh_worker *worker, uint64_t deadline_ns) {
    uint64_t next = next_look(worker);
    uint64_t until = next < deadline_ns ? next : deadline_ns;
    uint64_t ns = WHI_TIMER_NEVER;
    if (until != WHI_TIMER_NEVER) {
        uint64_t now = whi_clock_ns();
        ns = until > now ? until - now : 0;
    }
    worker->in_progress = true;
    unsigned events = run_events(worker, ns == 0 ? 0 : 1, ns);
    worker->in_progress = false;
    atomic_store_explicit(&worker->gate.sleeping, 0, memory_order_relaxed);
    worker->counters.wakeups += events != 0;
    worker->countdown = next_countdown(worker);
    if (next <= until)
        worker->countdown = 0;
    return events;
}

// Spinning pays while the answer mostly comes within the budget.  Luck goes up with each time it did and
// down with each time it did not; without luck only every eighth wait tries again.
enum { LUCK_MAX = 8, LUCK_RETRY = -8 };

static bool spin_pays(wh_worker *worker) {
    if (worker->spin_luck > 0)
        return true;
    if (--worker->spin_luck > LUCK_RETRY)
        return false;
    worker->spin_luck = 1;
    return true;
}

static uint64_t spin_budget(wh_worker *worker) {
    if (!worker->spin_cycles) {
        // Below the price of a wake-up, two workers that talk to each other would both stay asleep for good.
        uint64_t ns = worker->ctx->config.spin_us * WHI_NS_PER_US, wake = 2 * whi_wake_cost_ns();
        worker->spin_cycles = whi_clock_cycles_of(ns > wake ? ns : wake) + 1;
    }
    return worker->spin_cycles;
}

// spin polls for at most the budget (0: for ever) and says whether something happened.
static bool spin(wh_worker *worker, uint64_t cycles, uint64_t deadline_ns) {
    uint64_t start = whi_clock_cycles();
    for (unsigned i = 1;; i++) {
        if (whi_worker_pass(worker))
            return true;
        // A pause costs as much as the answer of a peer that is awake takes: only for those that are not.
        if (i > EAGER_PASSES)
            whi_cpu_relax();
        if (cycles && (i & 15) == 0 && whi_clock_cycles() - start > cycles)
            return false;
        if ((i & 255) == 0 && deadline_ns != WHI_TIMER_NEVER && whi_clock_ns() >= deadline_ns)
            return false;
    }
}

wh_status wh_worker_wait(wh_worker *worker, int timeout_ms) {
    wh_status st = whi_worker_check(worker);
    if (st != WH_OK)
        return st;
    if (worker->in_progress)
        return WH_EBUSY;
    if (timeout_ms == 0)  // polling from outside: whether spinning pays cannot be seen by that
        return whi_worker_pass(worker) ? WH_OK : WH_ETIMEDOUT;
    uint64_t deadline =
        timeout_ms < 0 ? WHI_TIMER_NEVER : whi_clock_ns() + (uint64_t)timeout_ms * WHI_NS_PER_MS;
    if (worker->mode == WH_PROGRESS_SPIN)
        return spin(worker, 0, deadline) ? WH_OK : WH_ETIMEDOUT;
    bool spins = worker->mode == WH_PROGRESS_ADAPTIVE && spin_pays(worker);
    for (;;) {
        if (spins) {
            if (spin(worker, spin_budget(worker), deadline)) {
                worker->spin_luck += worker->spin_luck < LUCK_MAX;
                return WH_OK;
            }
            worker->spin_luck--;
            spins = false;
        }
        if (whi_worker_pass(worker))
            return WH_OK;
        if (deadline != WHI_TIMER_NEVER && whi_clock_ns() >= deadline)
            return WH_ETIMEDOUT;
        if (try_sleep(worker) == WH_OK && sleep_once(worker, deadline))
            return WH_OK;
    }
}

void wh_worker_wake(wh_worker *worker) {
    uint64_t one = 1;
    int saved = errno;
    if (worker && worker->event_fd >= 0 && write(worker->event_fd, &one, sizeof(one)) < 0) {
        // The counter is full: the worker is about to wake in any case.
    }
    errno = saved;
}

void whi_worker_notify(wh_worker *worker) {
    atomic_thread_fence(memory_order_seq_cst);
    whi_worker_rouse(worker);
}
