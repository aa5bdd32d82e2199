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

// whm_others_first, of a call that waits and has found nothing, lets threads in that begin a call, and those that wait, too, for what may have
// happened since they have looked: before a thread sleeps, nobody may be left who can go on.  True: it has, and the caller looks again.
bool whm_others_first(void);

#endif
