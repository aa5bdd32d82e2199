// SPDX-License-Identifier: BSD-3-Clause
//
// How a process waits for messages.
#ifndef WHM_BASE_WAIT_H
#define WHM_BASE_WAIT_H

#include <stdbool.h>

enum {
    WHM_WAIT_EAGER = 64,  // looks before the first yield, until it shows whether others want to run
    WHM_WAIT_YIELDS = 30,  // of one wait: each of eight on a processor has its turn three times
    WHM_WAIT_TURNS = 4,    // looks after each
    WHM_WAIT_LOOKS = 16,   // at a word, in the time of one for messages
};

// whm_wait_look takes in messages and lets others of the processor run, for a while, and until ready(arg) says so; its last answer.  It does not
// sleep.  For what comes in shared memory, and for the thread that owns the worker.
bool whm_wait_look(bool (*ready)(const void *arg), const void *arg);

// whm_wait_step returns when something has happened; false: the job has ended.  For the thread that owns the worker.
bool whm_wait_step(void);

// Its parts, for threads that share the worker: how often to look before the first yield, and a yield.  The second may be called by any thread.
int whm_wait_eager(void);
void whm_wait_yield(void);

// whm_wait_note notes when this call has begun to wait, for who asks what a rank does: once it takes longer than a few looks.
void whm_wait_note(void);

#endif
