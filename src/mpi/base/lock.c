// SPDX-License-Identifier: BSD-3-Clause
//
// The worker belongs to one thread at a time: who has the lock adopts it.  Of the threads that wait for messages one drives the worker, and sleeps
// in it with the lock; the others sleep on a condition.  When something has happened that may be what some of them wait for
// (whm_wake), all of them look before anybody drives on.  A thread that enters a call wakes the one that drives, which lets it in.
#include "mpi/base/lock.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "mpi/base/wait.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;  // there was news
// Its address names the thread.
static _Thread_local char here __attribute__((tls_model("initial-exec")));
static const char *_Atomic owner;
static _Atomic int entering;     // threads that wait for the lock to begin a call
static _Atomic unsigned served;  // how often one of them got it

// The rest belongs to who has the lock.
static const char *adopted;
static int depth;      // calls within calls of the thread that has it
static bool driven;    // a thread drives the worker, or lets others in meanwhile
static int waiters;    // threads that sleep until there is news
static int behind;     // of these, those that have not looked at the last
static unsigned news;  // how often there was some
static unsigned told;  // of whm_process_here.events

static void got(int calls) {
    atomic_store(&owner, &here);
    depth = calls;
    if (adopted == &here || !whm_process_here.worker)
        return;
    adopted = &here;
    // It cannot be refused: the former owner is not inside a call.
    (void)!(wh_worker_adopt(whm_process_here.worker) == WH_OK);
}

static void announce(void) {
    told = whm_process_here.events;
    news++;
    behind = waiters;
    pthread_cond_broadcast(&changed);
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
    if (waiters && !driven && !behind)
        announce();  // who has driven so far leaves: one of them goes on
    atomic_store(&owner, NULL);
    pthread_mutex_unlock(&mutex);
}

// give_up and take_again stand around what is done without the lock.
static int give_up(const char **call) {
    int calls = depth;
    *call = whm_self->call;
    atomic_store(&owner, NULL);
    return calls;
}

static void take_again(int calls, const char *call) {
    got(calls);
    whm_self->call = call;
}

// let_in has threads begin their calls that have woken this one for it.
static void let_in(void) {
    const char *call;
    int calls = give_up(&call);
    unsigned seen = atomic_load(&served);
    pthread_mutex_unlock(&mutex);
    while (atomic_load(&entering) && atomic_load(&served) == seen)
        sched_yield();
    pthread_mutex_lock(&mutex);
    take_again(calls, call);
}

static void await_news(void) {
    const char *call;
    unsigned seen = news;
    int calls = give_up(&call);
    waiters++;
    while (news == seen)
        pthread_cond_wait(&changed, &mutex);
    waiters--;
    behind--;
    take_again(calls, call);
}

bool whm_drive(void) {
    if (told != whm_process_here.events)
        announce();
    // While others look at the news, none drives: the last of them does, or who leaves sees to it.
    if (driven || behind) {
        await_news();
        return true;
    }
    driven = true;
    bool goes_on = whm_wait_step();
    if (atomic_load(&entering))
        let_in();
    driven = false;
    return goes_on;
}
