// SPDX-License-Identifier: BSD-3-Clause
//
// The worker belongs to one thread at a time: who has the lock adopts it.  Of the threads that wait for messages one drives the worker; the others
// watch without the lock for news, for a while, and then sleep until there is some.  When something has happened that may be what some of
// them wait for (whm_wake), all look again.  Who drives keeps the lock between turns only while nobody wants it, and when it goes to sleep in the
// worker, an entry wakes it.  Who leaves while others wait hands the worker over.
#include "mpi/base/lock.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "mpi/base/wait.h"

enum { LOOKS = 16 };  // at a word, in the time of a turn

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;  // there was news
// Its address names the thread.
static _Thread_local char here __attribute__((tls_model("initial-exec")));
static const char *_Atomic owner;
static _Atomic int entering;     // threads that wait for the lock
static _Atomic unsigned served;  // how often one of them got it
static _Atomic bool driven;      // a thread drives the worker, or lets others in meanwhile
static _Atomic bool dozes;       // and may be asleep in it
static _Atomic unsigned news;    // how often there was some

// The rest belongs to who has the lock.
static const char *adopted;
static bool many;      // more than one thread has called
static int depth;      // calls within calls of the thread that has it
static int watchers;   // threads that look for news,
static int sleepers;   // and those that sleep until there is some
static unsigned told;  // of whm_process_here.events

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

static void served_one(void) {
    atomic_fetch_sub(&entering, 1);
    atomic_fetch_add(&served, 1);
}

static bool try_lock(void) {
    return !atomic_load_explicit(&owner, memory_order_relaxed) && !pthread_mutex_trylock(&mutex);
}

static bool try_for_a_while(void) {
    for (int i = LOOKS * whm_wait_eager(); i; i--)
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
    served_one();
}

static void announce(void) {
    told = whm_process_here.events;
    atomic_fetch_add(&news, 1);
    if (!sleepers)
        return;
    atomic_fetch_add(&entering, sleepers);
    sleepers = 0;
    pthread_cond_broadcast(&changed);
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
    if ((watchers || sleepers) &&
        (told != whm_process_here.events || (!atomic_load(&driven) && !watchers)))
        announce();
    atomic_store(&owner, NULL);
    pthread_mutex_unlock(&mutex);
}

// give_up and take_again stand around what is done without the lock.
static int give_up(const char **call) {
    int calls = depth;
    *call = whm_self->call;
    atomic_store(&owner, NULL);
    pthread_mutex_unlock(&mutex);
    return calls;
}

static void take_again(int calls, const char *call) {
    got(calls);
    whm_self->call = call;
}

// let_in has threads go on that wait for the lock.
static void let_in(void) {
    const char *call;
    unsigned seen = atomic_load(&served);
    int calls = give_up(&call);
    while (atomic_load(&entering) && atomic_load(&served) == seen)
        sched_yield();
    pthread_mutex_lock(&mutex);
    take_again(calls, call);
}

static void yield(void) {
    const char *call;
    int calls = give_up(&call);
    whm_wait_yield();
    lock();
    take_again(calls, call);
}

// ---- Threads that do not drive.

// is_over says whether a thread has to look again, or to drive.
static bool is_over(unsigned seen) {
    return atomic_load(&news) != seen || !atomic_load(&driven);
}

static bool watch(unsigned seen) {
    for (int i = LOOKS * whm_wait_eager(); i; i--)
        if (is_over(seen))
            return true;
    for (int i = 0; i < WHM_WAIT_YIELDS; i++) {
        whm_wait_yield();
        if (is_over(seen))
            return true;
    }
    return false;
}

static void await_news(void) {
    const char *call;
    unsigned seen = atomic_load(&news);
    whm_wait_note();
    watchers++;
    int calls = give_up(&call);
    (void)watch(seen);
    lock();
    watchers--;
    if (!is_over(seen)) {
        sleepers++;
        while (atomic_load(&news) == seen)
            pthread_cond_wait(&changed, &mutex);
        served_one();
    }
    take_again(calls, call);
}

// ---- The one that drives.

// turns looks for messages, and lets others in; true: the caller has to look.
static bool turns(int n, unsigned seen) {
    for (int i = 0; i < n; i++) {
        if (wh_pe_turn(whm_process_here.pe))
            return true;
        if (atomic_load(&entering))
            let_in();
        if (whm_process_here.events != seen)
            return true;
    }
    return false;
}

static bool drive(void) {
    unsigned seen = whm_process_here.events;
    // The partner of this thread may run, however many others want this processor.
    int least = WHM_WAIT_EAGER, eager = whm_wait_eager();
    bool moved = turns(eager > least ? eager : least, seen), goes_on = true;
    if (!moved)
        whm_wait_note();
    for (int i = 0; i < WHM_WAIT_YIELDS && !moved; i++) {
        yield();
        moved = turns(WHM_WAIT_TURNS, seen);
    }
    if (moved)
        return true;
    atomic_store(&dozes, true);
    if (!atomic_load(&entering))
        goes_on = wh_pe_step(whm_process_here.pe);
    atomic_store(&dozes, false);
    if (atomic_load(&entering))
        let_in();
    return goes_on;
}

// ---- One that asks and does not wait.

// rest gives the processor and the lock to threads that want them.
static void rest(void) {
    const char *call;
    unsigned seen = atomic_load(&served);
    int calls = give_up(&call);
    do
        whm_wait_yield();
    while (atomic_load(&entering) && atomic_load(&served) == seen);
    lock();
    take_again(calls, call);
}

void whm_poll(void) {
    bool moved = wh_pe_turn(whm_process_here.pe);
    if (atomic_load(&entering) || (many && !moved))
        rest();
}

bool whm_drive(void) {
    if (told != whm_process_here.events)
        announce();
    if (atomic_load(&driven)) {
        await_news();
        return true;
    }
    atomic_store(&driven, true);
    bool goes_on = drive();
    atomic_store(&driven, false);
    return goes_on;
}
