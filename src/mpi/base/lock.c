// SPDX-License-Identifier: BSD-3-Clause
//
// The worker belongs to one thread at a time: who has the lock adopts it.  Who waits in a call gives it up (drive.c).
#include "mpi/base/lock.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "mpi/base/wait.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
// Its address names the thread.
static _Thread_local char here __attribute__((tls_model("initial-exec")));
static const char *_Atomic owner;
static _Atomic int entering;     // threads that wait for the lock
static _Atomic unsigned served;  // how often one of them got it
static _Atomic bool dozes;       // who has it may be asleep in the worker

// The rest belongs to who has the lock.
static const char *adopted;
static bool many;  // more than one thread has called
static int depth;  // calls within calls of the thread that has it

static void got(int calls) {
    atomic_store(&owner, &here);
    depth = calls;
    if (adopted == &here || !whm_process_here.worker)
        return;
    many = adopted != NULL;
    adopted = &here;
    // It cannot be refused: the former owner is not inside a call.
    (void)!(wh_worker_adopt(whm_process_here.worker) == WH_OK);
}

static bool try_lock(void) {
    return !atomic_load_explicit(&owner, memory_order_relaxed) && !pthread_mutex_trylock(&mutex);
}

static bool try_for_a_while(void) {
    for (int i = WHM_WAIT_LOOKS * whm_wait_eager(); i; i--)
        if (try_lock())
            return true;
    for (int i = 0; i < WHM_WAIT_YIELDS; i++) {
        whm_wait_yield();
        if (try_lock())
            return true;
    }
    return false;
}

static void lock(void) {
    if (!pthread_mutex_trylock(&mutex))
        return;
    atomic_fetch_add(&entering, 1);
    if (atomic_load(&dozes))
        wh_worker_wake(whm_process_here.worker);
    if (!try_for_a_while())
        pthread_mutex_lock(&mutex);
    atomic_fetch_sub(&entering, 1);
    atomic_fetch_add(&served, 1);
}

void whm_lock(void) {
    if (whm_process_here.use_heap) {  // one thread
        whm_process_here.use_heap(NULL);
        return;
    }
    if (atomic_load(&owner) == &here) {
        depth++;
        return;
    }
    lock();
    got(1);
}

void whm_unlock(void) {
    if (whm_process_here.use_heap) {
        whm_process_here.use_heap(whm_self->heap);
        return;
    }
    if (atomic_load(&owner) != &here || --depth)
        return;
    whm_hand_on();
    atomic_store(&owner, NULL);
    pthread_mutex_unlock(&mutex);
}

// ---- For who waits.

whm_outside whm_lock_give_up(void) {
    whm_outside me = {.calls = depth, .call = whm_self->call};
    atomic_store(&owner, NULL);
    pthread_mutex_unlock(&mutex);
    return me;
}

static void go_on(whm_outside me) {
    got(me.calls);
    whm_self->call = me.call;
}

void whm_lock_take_again(whm_outside me) {
    lock();
    go_on(me);
}

bool whm_lock_is_wanted(void) {
    return atomic_load(&entering) > 0;
}

bool whm_lock_many(void) {
    return many;
}

void whm_lock_let_in(void) {
    unsigned seen = atomic_load(&served);
    whm_outside me = whm_lock_give_up();
    while (atomic_load(&entering) && atomic_load(&served) == seen)
        sched_yield();
    pthread_mutex_lock(&mutex);
    go_on(me);
}

void whm_lock_rest(void) {
    unsigned seen = atomic_load(&served);
    whm_outside me = whm_lock_give_up();
    do
        whm_wait_yield();
    while (atomic_load(&entering) && atomic_load(&served) == seen);
    whm_lock_take_again(me);
}

bool whm_lock_doze(void) {
    bool goes_on = true;
    atomic_store(&dozes, true);
    if (!atomic_load(&entering))
        goes_on = wh_pe_step(whm_process_here.pe);
    atomic_store(&dozes, false);
    if (atomic_load(&entering))
        whm_lock_let_in();
    return goes_on;
}
