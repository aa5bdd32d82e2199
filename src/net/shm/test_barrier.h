// SPDX-License-Identifier: BSD-3-Clause
//
// For tests of the barrier alone: it must reach all threads, which Linux does not promise every process.
#ifndef WHI_NET_SHM_TEST_BARRIER_H
#define WHI_NET_SHM_TEST_BARRIER_H

#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/test.h"
#include "net/shm/shm.h"

// with_barrier runs a test in a new process, which registers before it has run on a second processor.  One where it has
// run may still have its memory loaded, and then does not notice that it is registered (docs/design/barrier.md).
static inline void with_barrier(void (*run)(void)) {
    if (!whi_shm_barrier_init())
        SKIP("no membarrier here");
    cpu_set_t all, here;
    CPU_ZERO(&here);
    CPU_SET(sched_getcpu(), &here);
    CHECK(sched_getaffinity(0, sizeof(all), &all) == 0);
    CHECK(sched_setaffinity(0, sizeof(here), &here) == 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        CHECK(whi_shm_barrier_init());
        CHECK(sched_setaffinity(0, sizeof(all), &all) == 0);
        run();
        _exit(0);
    }
    int status = -1;
    CHECK(sched_setaffinity(0, sizeof(all), &all) == 0);
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_EQ_INT(status, 0);
}

#endif
