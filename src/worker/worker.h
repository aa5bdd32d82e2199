// SPDX-License-Identifier: BSD-3-Clause
//
// Worker: one progress domain, and what its owner thread keeps of it: pollables, timers,
// descriptors, the sleep, and work from other threads.
//
// A worker does not know what runs on it: the rooms above add a part of their own and a table of
// what they want to be asked (room.h).
//
// Only what stands under "other threads", `gate`, `owner` and event_fd is touched by others.  The struct lives until
// its last handle (endpoint, request, listener, message) has been freed; wh_worker_destroy only empties it.  From then
// on it has no owner, and `foreign_lock` guards all of it.
#ifndef WHI_WORKER_WORKER_H
#define WHI_WORKER_WORKER_H

#include <pthread.h>
#include <stdatomic.h>

#include <wherry/layer.h>
#include <wherry/post.h>
#include <wherry/worker.h>

#include "base/fdset.h"
#include "base/fork.h"
#include "base/list.h"
#include "base/mpsc.h"
#include "base/timer.h"
#include "worker/connect_data.h"
#include "worker/context.h"
#include "worker/room.h"

typedef struct whi_pollable whi_pollable;

// Something in the worker's epoll set.  `fn` runs in progress; the watch may go away in any callback.
typedef struct whi_watch {
    void (*fn)(struct whi_watch *watch, uint32_t events);
    int fd;
} whi_watch;

struct wh_worker {
    // Read by every operation.
    _Atomic(const void *) owner;  // the owner's thread token; NULL: nobody's, or forked
    wh_context *ctx;
    uint64_t eager_max;

    // Progress.
    whi_list hot;        // those that are polled in each pass
    whi_list *hot_next;  // the one that is polled next, in the middle of that
    whi_list dirty;      // pollables with something to send
    whi_list looks;  // those that were armed of late, to be looked at once more, the earliest first
    whi_list completed;  // operations whose users are to be notified, which `notify` does
    unsigned (*notify)(wh_worker *worker);
    int countdown;       // passes until sockets and timers have their turn
    uint64_t looked_ns;  // when they last had it
    bool in_progress;
    bool due;       // a room has something to do behind the polls of this pass, or of the next
    whi_list dead;  // whi_deferred: called at the end of this pass
    wh_counters counters;
    const whi_room *const *rooms;  // those above, the lowest first, up to a NULL

    // Sleeping.
    wh_progress_mode mode;
    int epoll_fd, timer_fd;
    int event_fd;  // open as long as the struct is there: any thread that has a handle may write to it
    whi_fdset watched;      // by the epoll: what a forked child is to close
    uint64_t timer_set_ns;  // the deadline that timer_fd is set to; WHI_TIMER_NEVER
    uint64_t spin_cycles;   // 0 until measured
    int spin_luck;          // how often spinning has paid of late
    whi_timers timers;
    whi_watch event_watch, timer_watch;

    // Where other threads come in: what they push, and whether they have to wake the owner, in a line of its own, since
    // they need both at once and the owner looks at both in each pass.
    struct {
        _Alignas(64) _Atomic(wh_post *) posts;  // the newest first
        _Atomic uint32_t sleeping;              // 1: who sets it back to 0 writes to event_fd
        uint8_t no_other_fields_here[52];
    } gate;

    // Other threads.  What is atomic here shares no word with what is not (message/request.h says why).
    whi_mpsc submit;   // of whi_work
    _Atomic bool ask;  // a room has something to do that another thread has left for it
    _Atomic bool thread_stop;
    _Atomic bool destroyed;  // written under foreign_lock
    _Atomic uint32_t entry;  // ENTRY_*: what passes between the progress thread and who enters
    pthread_mutex_t
        foreign_lock;  // guards what other threads leave for the owner, and the worker's end
    pthread_t thread;
    bool has_thread;  // never changes
    // Held by the thread that owns the worker for a moment, and by the one that destroys a worker with a progress thread.
    pthread_mutex_t entry_lock;
    unsigned entry_depth;
    const void *resting;  // the progress thread's token meanwhile
    size_t handles;       // endpoints and listeners that the user holds
    bool submit_closed;   // under foreign_lock: other threads' work comes too late
    bool dumps;           // SIGUSR1 asks for one
    uint32_t dumps_seen;
    wh_dump_fn dump_more;  // of a layer
    void *dump_more_arg;
    whi_fork_node fork_node;
    uint32_t fork_generation;

    // Peers.
    uint8_t uuid[16];
    wh_accept_fn accept;  // of the options
    void *accept_arg;
    whi_connect_data *accept_data;
    wh_answer_fn answer;
};

// whi_worker_new makes a worker of `size` bytes, the parts of `rooms` among them, and runs their init.
WH_CHECK wh_status whi_worker_new(wh_context *ctx, const wh_worker_opts *opts, size_t size,
                                  const whi_room *const *rooms, wh_worker **worker);

// The token of the calling thread: an address that no other living thread has.
extern _Thread_local char whi_thread_token __attribute__((tls_model("initial-exec")));

static inline bool whi_worker_is_owner(const wh_worker *worker) {
    return atomic_load_explicit(&worker->owner, memory_order_relaxed) == &whi_thread_token;
}

// whi_worker_check says whether the calling thread may use the worker as its owner: WH_OK, WH_ETHREAD,
// WH_EFORKED or WH_ECLOSED.
wh_status whi_worker_check(const wh_worker *worker);

// whi_worker_enter makes the calling thread the owner for a moment when the worker has a progress thread, which rests
// meanwhile; whi_worker_leave ends that.  For the owner both are nothing.
WH_CHECK wh_status whi_worker_enter(wh_worker *worker);
void whi_worker_leave(wh_worker *worker);

// WHI_OWNED evaluates a call that only the owner may make, in between.
#define WHI_OWNED(worker, call)                                                                    \
    ({                                                                                             \
        wh_worker *whi_owned = (worker); /* the call may free what the argument is read from */    \
        wh_status whi_owned_status = whi_worker_enter(whi_owned);                                  \
        if (whi_owned_status == WH_OK) {                                                           \
            whi_owned_status = (call);                                                             \
            whi_worker_leave(whi_owned);                                                           \
        }                                                                                          \
        whi_owned_status;                                                                          \
    })

// whi_worker_unlock_or_free frees a destroyed worker once nobody has a handle of it.  The caller holds foreign_lock,
// which is released.
void whi_worker_unlock_or_free(wh_worker *worker);

// whi_worker_watch adds a descriptor to what wakes the worker; `events` as for epoll.
WH_CHECK wh_status whi_worker_watch(wh_worker *worker, whi_watch *watch, int fd, uint32_t events);
void whi_worker_rewatch(wh_worker *worker, whi_watch *watch, uint32_t events);
// whi_worker_unwatch may be called from any callback; the watch's memory must stay until whi_worker_defer's
// function runs.
void whi_worker_unwatch(wh_worker *worker, whi_watch *watch);

// Memory that may still be in the hands of a caller further up is freed at the end of the pass.
typedef struct whi_deferred {
    whi_list link;
    void (*fn)(struct whi_deferred *deferred);
} whi_deferred;
void whi_worker_defer(wh_worker *worker, whi_deferred *deferred,
                      void (*fn)(whi_deferred *deferred));

// whi_worker_reap calls them, and returns how many: they count as events, since a link that was doomed is to be read to its end.
unsigned whi_worker_reap(wh_worker *worker);

// whi_worker_pass is one pass of progress without the checks of the public call.
unsigned whi_worker_pass(wh_worker *worker);

// Work that another thread hands to the owner, whose progress calls `fn`.
typedef struct whi_work {
    void (*fn)(struct whi_work *work);
} whi_work;

// whi_worker_submit hands work over: WH_OK, WH_EAGAIN when the queue is full, WH_ECLOSED, WH_EFORKED.  On an error nothing
// has happened.  `releases`: the caller has no handle of the worker's after it.  Any thread.
WH_CHECK wh_status whi_worker_submit(wh_worker *worker, whi_work *work, bool releases);

// whi_worker_submit_run takes what other threads have handed over.
unsigned whi_worker_submit_run(wh_worker *worker);

// whi_worker_ask has the rooms look for what the calling thread has left for the owner.  Any thread.
void whi_worker_ask(wh_worker *worker);

// whi_worker_rouse wakes the owner if it sleeps, after something was put where it looks by a sequentially consistent
// operation: of all threads that do so during one sleep, one makes the system call.  whi_worker_notify is for what was
// put there by any other store.  Any thread.
static inline void whi_worker_rouse(wh_worker *worker) {
    if (atomic_load(&worker->gate.sleeping) && atomic_exchange(&worker->gate.sleeping, 0))
        wh_worker_wake(worker);
}
void whi_worker_notify(wh_worker *worker);

// whi_wake_cost_ns returns what waking a sleeping thread takes here, measured once per process.
uint64_t whi_wake_cost_ns(void);

#endif
