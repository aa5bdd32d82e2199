// SPDX-License-Identifier: BSD-3-Clause
//
// What calls begin and end with: one thread at a time in the library, where the program has asked for MPI_THREAD_MULTIPLE; and, where ranks move, what the
// library allocates is not the rank's, unless it says so (base/memory.h).
//
// Each call takes the lock, and gives it up while it waits, so that the calls of other threads go on.  Below that level, and where ranks stay, it costs a
// comparison.
#ifndef WHM_BASE_LOCK_H
#define WHM_BASE_LOCK_H

#include "mpi/base/process.h"

void whm_lock(void);
void whm_unlock(void);

// For who waits (drive.c).  whm_lock_give_up and whm_lock_take_again stand around what is done without the lock.
typedef struct whm_outside {
    int calls;
    const char *call;
} whm_outside;
whm_outside whm_lock_give_up(void);
void whm_lock_take_again(whm_outside me);

// whm_lock_is_wanted says whether threads wait for the lock; whm_lock_let_in has them go on, whm_lock_rest the processor's others, too.
bool whm_lock_is_wanted(void);
void whm_lock_let_in(void);
void whm_lock_rest(void);

// whm_lock_many says whether more than one thread has called.
bool whm_lock_many(void);

// whm_lock_doze is wh_pe_step, which a thread that wants the lock ends.
bool whm_lock_doze(void);

// A call begins and ends; functions of the program that the library calls may call it again.
static inline void whm_enter(void) {
    if (__builtin_expect(whm_process_here.guarded, 0))
        whm_lock();
}
static inline void whm_leave(void) {
    if (__builtin_expect(whm_process_here.guarded, 0))
        whm_unlock();
}

// whm_go_out and whm_come_back stand around each function of the program that the library calls: what it allocates is the rank's.
static inline void whm_go_out(void) {
    if (__builtin_expect(whm_process_here.use_heap != NULL, 0))
        whm_process_here.use_heap(whm_self->heap);
}
static inline void whm_come_back(void) {
    if (__builtin_expect(whm_process_here.use_heap != NULL, 0))
        whm_process_here.use_heap(NULL);
}

// whm_drive waits, as one of several threads, until *done, or, if that is NULL, until there may be what this one waits for.  false: the job has ended.
bool whm_drive(const bool *done);

// whm_hand_on is called by who is about to give the lock up: those that wait go on, or one of them drives.
void whm_hand_on(void);

// whm_poll is wh_pe_turn for a thread that does not wait.  Threads that want to begin a call have their turn: one that asks in a loop would give the
// lock up for moments only.
void whm_poll(void);

#endif
