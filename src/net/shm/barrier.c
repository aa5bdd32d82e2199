// SPDX-License-Identifier: BSD-3-Clause
//
// The barrier of the one who sleeps, which spares those who send a fence per message.
//
// A global expedited membarrier runs a full barrier on every processor that executes a registered
// process just now; processes that are not running pass one when they are scheduled.  It takes
// microseconds, which is little before a sleep and much per message.
#include <linux/membarrier.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "net/shm/shm.h"

static long membarrier(int command) {
    return syscall(SYS_membarrier, command, 0, 0);
}

bool whi_shm_barrier_init(void) {
    long needed = MEMBARRIER_CMD_GLOBAL_EXPEDITED | MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED;
    long offered = membarrier(MEMBARRIER_CMD_QUERY);
    // Registering twice is allowed, and a forked child must.
    return offered >= 0 && (offered & needed) == needed &&
           membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
}

void whi_shm_barrier(void) {
    // Where it is not to be had, no lane is asymmetric, and all that is asked for is the caller's
    // own fence.
    if (membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) != 0)
        atomic_thread_fence(memory_order_seq_cst);
}
