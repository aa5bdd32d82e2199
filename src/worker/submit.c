// SPDX-License-Identifier: BSD-3-Clause
//
// Work from other threads: a bounded queue that the owner empties in its progress.
//
// A full queue refuses, and then nothing has happened.
#include "base/alloc.h"
#include "worker/worker.h"

wh_status whi_worker_submit(wh_worker *worker, whi_work *work, bool releases) {
    wh_status st = WH_OK;
    if (worker->fork_generation != whi_fork_generation())
        return WH_EFORKED;
    // The lock keeps wh_worker_destroy, which takes it to say that it is over, from missing what is pushed here.
    pthread_mutex_lock(&worker->foreign_lock);
    if (worker->submit_closed)
        st = WH_ECLOSED;
    else if (!whi_mpsc_push(&worker->submit, work))
        st = WH_EAGAIN;
    // A close releases what may be the last handle: without the lock the worker could be gone.
    bool last = st == WH_OK && releases;
    if (last)
        whi_worker_notify(worker);
    pthread_mutex_unlock(&worker->foreign_lock);
    if (st == WH_OK && !last)
        whi_worker_notify(worker);
    return st;
}

unsigned whi_worker_submit_run(wh_worker *worker) {
    unsigned count = 0;
    whi_work *work;
    // At most one queue's worth, so that busy threads cannot hold the owner here.
    while (count <= worker->submit.mask && (work = whi_mpsc_pop(&worker->submit))) {
        work->fn(work);
        count++;
    }
    return count;
}

void whi_worker_ask(wh_worker *worker) {
    atomic_store(&worker->ask, true);
    whi_worker_notify(worker);
}

typedef struct call {
    whi_work work;
    void (*fn)(void *arg);
    void *arg;
} call;

static void run_call(whi_work *work) {
    call c = *whi_container_of(work, call, work);
    whi_free(whi_container_of(work, call, work));
    c.fn(c.arg);
}

wh_status wh_worker_call(wh_worker *worker, void (*fn)(void *arg), void *arg) {
    if (!worker || !fn)
        return WH_EINVAL;
    call *c = whi_malloc(sizeof(*c));
    if (!c)
        return WH_ENOMEM;
    *c = (call){{run_call}, fn, arg};
    wh_status st = whi_worker_submit(worker, &c->work, false);
    if (st != WH_OK)
        whi_free(c);
    return st;
}
