// SPDX-License-Identifier: BSD-3-Clause
//
// Helper threads (crew.h).
//
// One lock guards the queue and who is at work on what; parts are taken without it.  A job is in the
// queue as long as it may have parts to take; it is over when none is left and no helper is at work
// on it.  Helpers that are told to stop empty the queue first.  A forked child has no helpers: it
// forgets those of its parent, lock and all.
#include "type/crew.h"

#include <wherry/pack.h>

#include "base/fork.h"
#include "base/thread.h"
#include "type/type.h"

enum {
    HELPERS_MAX = 256,
    PART_LEAST = 1 << 18,  // packed bytes
    PARTS_EACH = 4,        // so that a helper that comes late leaves something to the others
    LINE = 64,
};

static pthread_mutex_t admin = PTHREAD_MUTEX_INITIALIZER;  // one wh_pack_set_threads at a time
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t posted = PTHREAD_COND_INITIALIZER;  // a job, or the order to stop
static pthread_cond_t left = PTHREAD_COND_INITIALIZER;    // a helper has left a job
static whi_list queue = {&queue, &queue};
static bool stopping;
static pthread_t threads[HELPERS_MAX];
static whi_fork_node fork_node;

_Atomic unsigned whi_crew_size;

// Where part `i` begins: at a line of the packed side, or at a window of the layout.
static int64_t cut(const whi_job *job, int64_t i) {
    const whi_order *o = &job->order;
    int64_t at = o->from + i * job->step;
    if (i == 0 || i >= job->parts)
        return i == 0 ? o->from : o->to;
    whi_window window = whi_elements_window(&o->elements, at);
    if (window.from < window.to)
        return window.from > o->from ? window.from : o->from;
    return at - (int64_t)((uintptr_t)(o->packed + (at - o->from)) % LINE);
}

static bool take_part(whi_job *job) {
    int64_t i = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed);
    if (i >= job->parts)
        return false;
    whi_order part = job->order;
    part.from = cut(job, i);
    part.to = cut(job, i + 1);
    part.packed += part.from - job->order.from;
    whi_order_run(&part);
    return true;
}

// Under the lock.
static void unqueue(whi_job *job) {
    if (job->queued)
        whi_list_remove(&job->link);
    job->queued = false;
}

static void *help(void *arg) {
    (void)arg;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (whi_list_empty(&queue) && !stopping)
            pthread_cond_wait(&posted, &lock);
        if (whi_list_empty(&queue))
            break;
        whi_job *job = whi_container_of(whi_list_first(&queue), whi_job, link);
        job->helpers++;
        pthread_mutex_unlock(&lock);
        while (take_part(job))
            continue;
        pthread_mutex_lock(&lock);
        unqueue(job);
        if (--job->helpers == 0)
            pthread_cond_broadcast(&left);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

void whi_crew_post(whi_job *job, const whi_order *order) {
    int64_t size = order->to - order->from;
    unsigned all = 1 + atomic_load_explicit(&whi_crew_size, memory_order_relaxed);
    int64_t step = size / (PARTS_EACH * (int64_t)all);
    job->order = *order;
    job->step = step > PART_LEAST ? step : PART_LEAST;
    job->parts = (size + job->step - 1) / job->step;
    atomic_init(&job->next, 0);
    job->helpers = 0;
    job->queued = true;
    pthread_mutex_lock(&lock);
    whi_list_push_back(&queue, &job->link);
    pthread_cond_broadcast(&posted);
    pthread_mutex_unlock(&lock);
}

bool whi_crew_done(whi_job *job) {
    if (atomic_load_explicit(&whi_crew_size, memory_order_relaxed) == 0)
        whi_crew_finish(job);
    pthread_mutex_lock(&lock);
    bool done =
        atomic_load_explicit(&job->next, memory_order_relaxed) >= job->parts && job->helpers == 0;
    pthread_mutex_unlock(&lock);
    return done;
}

void whi_crew_finish(whi_job *job) {
    while (take_part(job))
        continue;
    pthread_mutex_lock(&lock);
    unqueue(job);
    while (job->helpers > 0)
        pthread_cond_wait(&left, &lock);
    pthread_mutex_unlock(&lock);
}

// In a forked child.  No thread of the parent is here to be at work on anything.
static void forget(void *arg) {
    (void)arg;
    atomic_store(&whi_crew_size, 0);
    admin = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    posted = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    left = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    whi_list_init(&queue);
    stopping = false;
    fork_node.fn = NULL;  // not registered any more
}

static wh_status watch_forks(void) {
    if (fork_node.fn)
        return WH_OK;
    fork_node.fn = forget;
    wh_status status = whi_fork_register(&fork_node);
    if (status != WH_OK)
        fork_node.fn = NULL;
    return status;
}

static void dismiss(void) {
    unsigned n = atomic_exchange(&whi_crew_size, 0);
    pthread_mutex_lock(&lock);
    stopping = true;
    pthread_cond_broadcast(&posted);
    pthread_mutex_unlock(&lock);
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    stopping = false;
}

static unsigned hire(unsigned count) {
    unsigned n = 0;
    while (n < count && whi_thread_start(&threads[n], help, NULL) == WH_OK)
        n++;
    return n;
}

wh_status wh_pack_set_threads(unsigned count) {
    if (count > HELPERS_MAX)
        return whi_type_fail(WH_EINVAL, "wh_pack_set_threads: count is %u, more than %d", count,
                             HELPERS_MAX);
    pthread_mutex_lock(&admin);
    wh_status status = watch_forks();
    if (status == WH_OK) {
        dismiss();
        unsigned n = hire(count);
        atomic_store(&whi_crew_size, n);
        if (n < count) {
            dismiss();
            status = WH_ENOMEM;
        }
    }
    pthread_mutex_unlock(&admin);
    return status == WH_OK ? WH_OK
                           : whi_type_fail(status, "wh_pack_set_threads: no thread to be had");
}
