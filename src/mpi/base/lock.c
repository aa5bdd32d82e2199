// SPDX-License-Identifier: BSD-3-Clause
//
// The worker belongs to one thread at a time: who has the lock adopts it.  A thread that waits for the lock wakes the one that has it, which
// may sleep in the worker; one that has waited for a message and wants to go on does not, as only messages concern it.
#include "mpi/base/lock.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local char here;  // its address names the thread
static const char *_Atomic owner;
static const char *adopted;
static int depth;
static _Atomic int entering, resuming;  // threads that wait for the lock
static _Atomic unsigned served;         // how often one of them got it
// Of the threads that have given up the lock in a call that waits, so many have looked since the last whm_wake.
static int waiting, looked;
static unsigned looked_at;  // whm_wakes, then

static void got(int calls) {
    atomic_store(&owner, &here);
    depth = calls;
    if (adopted == &here || !whm_process_here.worker)
        return;
    adopted = &here;
    // It cannot be refused: the former owner is not inside a call.
    (void)!(wh_worker_adopt(whm_process_here.worker) == WH_OK);
}

void whm_lock(void) {
    if (atomic_load(&owner) == &here) {
        depth++;
        return;
    }
    if (pthread_mutex_trylock(&mutex)) {
        atomic_fetch_add(&entering, 1);
        wh_worker_wake(whm_process_here.worker);
        pthread_mutex_lock(&mutex);
        atomic_fetch_sub(&entering, 1);
        atomic_fetch_add(&served, 1);
    }
    got(1);
}

void whm_unlock(void) {
    if (atomic_load(&owner) != &here || --depth)
        return;
    atomic_store(&owner, NULL);
    pthread_mutex_unlock(&mutex);
}

// hand_over gives up the lock and takes it again, for a thread that has found that what it waits for has not happened.
static void hand_over(void) {
    unsigned now = whm_wakes;
    looked = looked_at == now ? looked + 1 : 1;
    looked_at = now;
    waiting++;
    int calls = depth;
    const char *call = whm_self->call;
    unsigned seen = atomic_load(&served);
    atomic_store(&owner, NULL);
    pthread_mutex_unlock(&mutex);
    while ((atomic_load(&entering) || atomic_load(&resuming)) && atomic_load(&served) == seen)
        sched_yield();
    atomic_fetch_add(&resuming, 1);
    pthread_mutex_lock(&mutex);
    atomic_fetch_sub(&resuming, 1);
    atomic_fetch_add(&served, 1);
    waiting--;
    if (looked_at == now)
        looked--;
    got(calls);
    whm_self->call = call;
}

bool whm_others_first(void) {
    if (!atomic_load(&entering) && waiting == (looked_at == whm_wakes ? looked : 0))
        return false;
    hand_over();
    return true;
}
