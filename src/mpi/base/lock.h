// SPDX-License-Identifier: BSD-3-Clause
//
// One thread at a time in the library, where the program has asked for MPI_THREAD_MULTIPLE.
//
// Each call takes the lock, and gives it up while it waits, so that the calls of other threads go on.  Below that level the lock costs a
// comparison.
#ifndef WHM_BASE_LOCK_H
#define WHM_BASE_LOCK_H

#include "mpi/base/process.h"

void whm_lock(void);
void whm_unlock(void);

// A call begins and ends; functions of the program that the library calls may call it again.
static inline void whm_enter(void) {
    if (__builtin_expect(whm_process_here.level == MPI_THREAD_MULTIPLE, 0))
        whm_lock();
}
static inline void whm_leave(void) {
    if (__builtin_expect(whm_process_here.level == MPI_THREAD_MULTIPLE, 0))
        whm_unlock();
}

// whm_drive is wh_pe_step for one of several threads that wait: it returns when there may be what this one waits for.  false: the job has ended.
bool whm_drive(void);

// whm_poll is wh_pe_turn for a thread that does not wait.  Threads that want to begin a call have their turn: one that asks in a loop would give the
// lock up for moments only.
void whm_poll(void);

#endif
