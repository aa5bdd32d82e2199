// SPDX-License-Identifier: BSD-3-Clause
//
// Threads that wait for messages: one drives the worker, the others look at a word of their own, for a while, and then sleep until that is set.  Who
// changes what ranks may wait for (whm_wake) has it set for those only whose wait is over.  Who drives keeps the lock between turns only while
// nobody wants it, and when it goes to sleep in the worker, an entry wakes it.  While it yields, another thread of its processor may run, which drives instead
// of it, if it has to wait, too: its messages come without a switch of threads.  Who leaves while all others that wait are asleep wakes one, which drives.
#include <semaphore.h>
#include <stdatomic.h>

#include "mpi/base/lock.h"
#include "mpi/base/wait.h"

// A thread that waits.
typedef struct waiter waiter;
struct waiter {
    waiter *next, *prev;
    const bool *done;   // this is what it waits for; NULL: any news
    unsigned seen;      // of whm_process_here.events, when it began
    int yields;         // left before it sleeps
    bool fresh;         // it has not driven yet
    bool asleep;        // or about to be
    _Atomic bool told;  // its wait is over
    sem_t call;         // ends its sleep
};

// All of it belongs to who has the lock; who looks without it reads the driver alone.
static waiter ring = {.next = &ring,
                      .prev = &ring};  // no waiter, but before the first and after the last
static waiter *_Atomic driver;
static bool rests;        // it yields
static unsigned told_of;  // of whm_process_here.events

static void enter(waiter *w) {
    w->next = &ring;
    w->prev = ring.prev;
    w->prev->next = w;
    ring.prev = w;
}

static void leave(waiter *w) {
    w->prev->next = w->next;
    w->next->prev = w->prev;
    if (atomic_load(&driver) == w)
        atomic_store(&driver, NULL);
}

static bool is_over(const waiter *w) {
    return w->done ? *(volatile const bool *)w->done : w->seen != whm_process_here.events;
}

static void rouse(waiter *w) {
    w->asleep = false;
    sem_post(&w->call);
}

// tell returns whether others than this one go on.
static bool tell(const waiter *me) {
    bool some = false;
    if (told_of == whm_process_here.events)
        return false;
    told_of = whm_process_here.events;
    for (waiter *w = ring.next; w != &ring; w = w->next) {
        if (atomic_load_explicit(&w->told, memory_order_relaxed) || !is_over(w))
            continue;
        atomic_store(&w->told, true);
        some = some || w != me;
        if (w->asleep)
            rouse(w);
    }
    return some;
}

void whm_hand_on(void) {
    (void)tell(NULL);
    if (atomic_load(&driver))
        return;
    for (waiter *w = ring.next; w != &ring; w = w->next)
        if (!w->asleep)
            return;  // it will look
    if (ring.next != &ring)
        rouse(ring.next);
}

static void rest(waiter *me) {
    me->yields--;
    whm_outside out = whm_lock_give_up();
    whm_wait_yield();
    whm_lock_take_again(out);
}

// ---- One that does not drive.

static void look(const waiter *me) {
    for (int i = WHM_WAIT_LOOKS * whm_wait_eager(); i; i--)
        if (atomic_load(&me->told) || !atomic_load(&driver))
            return;
}

static void await(waiter *me) {
    whm_wait_note();
    if (me->yields && whm_wait_eager() >= WHM_WAIT_EAGER) {
        me->yields--;
        whm_outside out = whm_lock_give_up();
        look(me);
        if (!atomic_load(&me->told))
            whm_wait_yield();
        whm_lock_take_again(out);
        return;
    }
    me->asleep = true;
    whm_outside out = whm_lock_give_up();
    while (sem_wait(&me->call))
        ;
    whm_lock_take_again(out);
}

// ---- The one that drives.

// Two processes, each on a processor, may run threads of two different pairs, whose partners do not run.  If both changed over as soon as they have
// news for the other pair, they would do so at the same time, for ever.
static bool coin(void) {
    static uint32_t state;
    state = state * 1664525 + 1013904223 + 2 * (uint32_t)whm_process_here.first;
    return state >> 31;
}

// Who has received so many bytes may be about to answer, and the peer's processor has nothing to do until then; the next look may copy as many.
enum { LONG_BYTES = 64 << 10 };

// turns looks for messages, and lets others in, until this one need not go on, or should let others of its processor run.
static void turns(int n, waiter *me) {
    for (int i = 0; i < n && !is_over(me) && atomic_load(&driver) == me; i++) {
        uint64_t moving = whm_process_here.moving;
        if (wh_pe_turn(whm_process_here.pe)) {
            bool was_long = moving >= whm_process_here.moving + LONG_BYTES;
            me->yields = WHM_WAIT_YIELDS;
            i = 0;
            if (tell(me) && !is_over(me) && (was_long || coin()))
                return;
        }
        if (whm_lock_is_wanted())
            whm_lock_let_in();
        (void)tell(me);
    }
}

static bool drive(waiter *me) {
    // The partner of this thread may run, however many others want this processor.
    int eager = whm_wait_eager(), n = eager > WHM_WAIT_EAGER ? eager : WHM_WAIT_EAGER;
    if (!me->fresh)
        n = WHM_WAIT_TURNS;
    atomic_store(&driver, me);
    rests = me->fresh = false;
    turns(n, me);
    if (is_over(me) || atomic_load(&driver) != me)
        return true;
    whm_wait_note();
    if (!me->yields)
        return whm_lock_doze();
    rests = true;
    rest(me);
    if (atomic_load(&driver) == me)
        rests = false;
    return true;
}

bool whm_drive(const bool *done) {
    waiter me = {
        .done = done, .seen = whm_process_here.events, .yields = WHM_WAIT_YIELDS, .fresh = true};
    bool goes_on = true;
    sem_init(&me.call, 0, 0);
    enter(&me);
    (void)tell(&me);
    while (goes_on && !is_over(&me)) {
        const waiter *other = atomic_load(&driver);
        if (!other || other == &me || (rests && me.fresh))
            goes_on = drive(&me);
        else
            await(&me);
    }
    leave(&me);
    sem_destroy(&me.call);
    return goes_on;
}

void whm_poll(void) {
    bool moved = wh_pe_turn(whm_process_here.pe);
    if (whm_lock_is_wanted() || (whm_lock_many() && !moved))
        whm_lock_rest();
}
