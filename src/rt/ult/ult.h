// SPDX-License-Identifier: BSD-3-Clause
//
// User-level threads: functions with stacks of their own, which one thread of the system runs in turns.
//
// A user-level thread runs when whi_ult_run is called and until it suspends itself or returns; nothing interrupts it.  It stays
// with the thread that made it, so that thread-local variables are that thread's at any time.  Each stack has
// an inaccessible page below it: who runs over its end is killed by SIGSEGV, and harms nobody else's memory.
#ifndef WHI_RT_ULT_H
#define WHI_RT_ULT_H

#include <stdbool.h>
#include <stddef.h>

#include <wherry/status.h>

typedef struct whi_ult whi_ult;

// The stacks of one thread.  Those of threads that have ended are kept for the next ones, up to a number.
typedef struct whi_ult_stacks {
    size_t size;  // of a stack, without the pages around it
    unsigned keep, kept;
    unsigned mapped;  // so far
    unsigned alive;   // threads that have not ended
    whi_ult *free;
} whi_ult_stacks;

enum { WHI_ULT_STACK_MIN = 16 << 10 };

// whi_ult_stacks_init makes no stack yet.  `size` is rounded up to pages, and is at least WHI_ULT_STACK_MIN.
void whi_ult_stacks_init(whi_ult_stacks *stacks, size_t size, unsigned keep);

// whi_ult_stacks_fini gives back what is kept.  All threads must have ended, or been given up by whi_ult_drop.
void whi_ult_stacks_fini(whi_ult_stacks *stacks);

// whi_ult_new makes a thread that will call fn(arg).  WH_ENOMEM: there is no memory, or the system gives no more mappings
// (vm.max_map_count; each stack has two).
WH_CHECK wh_status whi_ult_new(whi_ult_stacks *stacks, void (*fn)(void *arg), void *arg,
                               whi_ult **ult);

// whi_ult_run runs a thread until it, or who it has passed on to, suspends itself or ends.  True: it is suspended; false: it has ended and is gone.
// A user-level thread may run another one, which returns to it.  errno of both sides stays as it was.
bool whi_ult_run(whi_ult *ult);

// whi_ult_suspend returns to who has run this thread.  It comes back from the next whi_ult_run.
void whi_ult_suspend(void);

// whi_ult_pass suspends this thread, too, and runs another one that is suspended, in its place: whi_ult_run returns when that one suspends itself
// or ends, with what has become of that one.
void whi_ult_pass(whi_ult *next);

// whi_ult_drop ends a suspended thread, or one that has never run, where it is: nothing on its stack is undone.
void whi_ult_drop(whi_ult *ult);

// whi_ult_here returns the user-level thread that runs, or NULL.
whi_ult *whi_ult_here(void);

#endif
