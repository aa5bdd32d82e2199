// SPDX-License-Identifier: BSD-3-Clause
//
// Worker: one progress domain, and all that its owner thread keeps.
//
// Only what stands under "other threads" and `owner` and `sleeping` is touched by others.  The struct lives until
// its last handle (endpoint, request, listener, message) has been freed; wh_worker_destroy only empties it.  From then
// on it has no owner, and `foreign_lock` guards all of it.
#ifndef WHI_COMM_WORKER_H
#define WHI_COMM_WORKER_H

#include <pthread.h>

#include <wherry/am.h>
#include <wherry/listener.h>
#include <wherry/worker.h>

#include "base/fdset.h"
#include "base/fork.h"
#include "base/hash.h"
#include "base/mpsc.h"
#include "base/pool.h"
#include "base/timer.h"
#include "message/match.h"
#include "net/shm/shm.h"
#include "net/ucx/ucx.h"
#include "worker/context.h"

enum { WHI_MATCH_TAG, WHI_MATCH_OBJECT, WHI_MATCH_COUNT };
enum { WHI_MESSAGE_POOLS = 4, WHI_MEM_KINDS = 4 };

// Something in the worker's epoll set.  `fn` runs in progress; the watch may go away in any callback.
typedef struct whi_watch {
    void (*fn)(struct whi_watch *watch, uint32_t events);
    int fd;
} whi_watch;

typedef struct whi_am_handler {
    wh_am_fn fn;
    void *arg;
} whi_am_handler;

typedef struct whi_allocator {
    wh_alloc_fn alloc;
    wh_free_fn free_fn;
    void *arg;
} whi_allocator;

struct wh_worker {
    // Read by every operation.
    _Atomic(const void *) owner;  // the owner's thread token; NULL: nobody's, or forked
    wh_context *ctx;
    uint64_t eager_max;
    uint8_t *scratch;  // eager_max bytes, to put a payload together in
    uint8_t *arrived;  // eager_max bytes, for a private copy of a payload that has arrived

    // Progress.
    whi_list hot;        // links that are polled each pass
    whi_list *hot_next;  // the one that is polled next, in the middle of that
    whi_list dirty;      // links with something to send
    whi_list completed;  // requests whose end has to be told
    int countdown;       // passes until sockets and timers have their turn
    bool in_progress;
    whi_list dead;  // whi_deferred: called at the end of this pass
    whi_match match[WHI_MATCH_COUNT];
    whi_list any_source;  // receives of the worker that have not matched
    whi_pool requests;
    whi_pool messages[WHI_MESSAGE_POOLS];
    whi_pool controls;
    wh_counters counters;

    // Sleeping.
    wh_progress_mode mode;
    int epoll_fd, event_fd, timer_fd;
    whi_fdset watched;      // by the epoll: what a forked child is to close
    uint64_t timer_set_ns;  // the deadline that timer_fd is set to; WHI_TIMER_NEVER
    uint64_t spin_cycles;   // 0 until measured
    int spin_luck;          // how often spinning has paid of late
    _Atomic uint32_t sleeping;
    whi_timers timers;
    whi_watch event_watch, timer_watch;

    // Other threads.
    whi_mpsc submit;
    _Atomic uint32_t waiters;  // threads that sleep on some request
    _Atomic bool cancel_scan;  // a request somewhere has its cancel flag set, or memory is recalled
    pthread_mutex_t foreign_lock;  // guards the next two
    whi_pool foreign;              // requests made by other threads
    whi_list foreign_free;         // requests of the owner's pool that others have let go of
    _Atomic uint32_t foreign_freed;
    whi_list foreign_aborts;  // endpoints that other threads have aborted
    pthread_t thread;
    bool has_thread;
    _Atomic bool thread_stop;
    pthread_mutex_t borrow_lock;  // held by the thread that owns the worker for a moment
    _Atomic uint32_t borrow;      // BORROW_*: what passes between it and the progress thread
    unsigned borrow_depth;
    const void *lender;      // the progress thread's token meanwhile
    size_t handles;          // endpoints and listeners that the user holds
    bool submit_closed;      // under foreign_lock: other threads' work comes too late
    _Atomic bool destroyed;  // written under foreign_lock
    bool dumps;              // SIGUSR1 asks for one
    uint32_t dumps_seen;
    whi_fork_node fork_node;
    uint32_t fork_generation;

    // Peers.
    uint8_t uuid[16];
    whi_hash links;      // by hash of the peer's uuid
    whi_list endpoints;  // all of them
    whi_list listeners, dials, hands;
    size_t hand_count;
    whi_list processes;          // peer processes that are watched (liveness.c)
    struct whi_local *local;     // the AF_UNIX name of this worker; NULL until needed
    wh_listener *blob_listener;  // what an address blob leads to
    wh_accept_fn accept;
    void *accept_arg;
    uint64_t next_listener_id;
    whi_shm_budget bulk_budget;
    whi_ucx *ucx;  // NULL until a link needs it (ucx.c)
    bool ucx_failed;
    char ucx_why[256];     // and why
    uint64_t ucx_nap_ns;   // the longest sleep, since UCX loses wake-ups
    whi_watch ucx_watch;   // armed while the worker sleeps
    whi_list shares;       // memory that UCX has registered for peers (share.c)
    whi_hash am_handlers;  // by id
    whi_allocator allocators[WHI_MEM_KINDS];
};

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
// which is given up.
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

// whi_worker_pass is one pass of progress without the checks of the public call.
unsigned whi_worker_pass(wh_worker *worker);

// whi_worker_empty closes all that is open.  Part of wh_worker_destroy.
void whi_worker_empty(wh_worker *worker);

// whi_worker_submit_run takes what other threads have handed over.
unsigned whi_worker_submit_run(wh_worker *worker);

// whi_worker_cancel_run withdraws the requests that other threads want cancelled.
void whi_worker_cancel_run(wh_worker *worker);

// whi_worker_notify wakes the owner after something was put where it looks.
void whi_worker_notify(wh_worker *worker);

// whi_wake_cost_ns returns what waking a sleeping thread takes here, measured once per process.
uint64_t whi_wake_cost_ns(void);

#endif
