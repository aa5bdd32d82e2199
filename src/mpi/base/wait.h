// SPDX-License-Identifier: BSD-3-Clause
//
// How a process waits for messages.
#ifndef WHM_BASE_WAIT_H
#define WHM_BASE_WAIT_H

#include <stdbool.h>

// whm_wait_look takes in messages and lets others of the processor run, for a while, and until ready(arg) says so; its last answer.  It does not
// sleep.  For what comes in shared memory, and for the thread that owns the worker.
bool whm_wait_look(bool (*ready)(const void *arg), const void *arg);

// whm_wait_step returns when something has happened; false: the job has ended.  For the thread that owns the worker.
bool whm_wait_step(void);

#endif
