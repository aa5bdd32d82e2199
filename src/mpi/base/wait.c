// SPDX-License-Identifier: BSD-3-Clause
//
// Before it sleeps, a rank whose peers share its processor lets them run: a message that they send meanwhile needs no wake-up, which costs several
// times as much.  Where nobody wants its processor, a yield returns at once, and looking for messages comes first again.
#include "mpi/base/wait.h"

#include <sched.h>
#include <time.h>

#include "mpi/base/process.h"

enum {
    EAGER_LEAST = 4,    // looks before the first yield where others have run in the last one,
    EAGER_MOST = 1024,  // and where nobody has: all that answer soon have
    ALONE_NS = 1500,    // a yield to nobody is over by then; to switch and come back takes longer
    // How long messages that are under way may take before who waits for them sleeps: to be woken costs as much as half a MiB
    // does.  A receiver that does not want them yet is waited for no longer than that either.
    BYTES_PER_NS = 1,
    MOVING_MOST = 16 << 20,
};
static _Atomic int eager = WHM_WAIT_EAGER;

int whm_wait_eager(void) {
    return eager;
}

static bool take_turns(int n) {
    for (int i = 0; i < n; i++)
        if (wh_pe_turn(whm_process_here.pe))
            return true;
    return false;
}

static int64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void whm_wait_yield(void) {
    int64_t began = clock_ns();
    (void)sched_yield();
    if (clock_ns() - began > ALONE_NS)
        eager = eager / 2 > EAGER_LEAST ? eager / 2 : EAGER_LEAST;
    else
        eager = eager * 2 < EAGER_MOST ? eager * 2 : EAGER_MOST;
}

void whm_wait_note(void) {
    struct timespec now;
    if (whm_self->waits_since_ms || clock_gettime(CLOCK_MONOTONIC_COARSE, &now))
        return;
    whm_self->waits_since_ms = now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// look_while_moving goes on looking for as long as what is under way may take, where nobody else wants the processor.
static bool look_while_moving(void) {
    uint64_t bytes = whm_process_here.moving;
    int64_t most = (int64_t)(bytes < MOVING_MOST ? bytes : MOVING_MOST) / BYTES_PER_NS;
    int64_t began = most ? clock_ns() : 0;
    bool moved = false;
    while (most && !moved && eager >= WHM_WAIT_EAGER && clock_ns() - began < most) {
        whm_wait_yield();
        moved = take_turns(WHM_WAIT_EAGER);
    }
    return moved;
}

static bool let_others_run(void) {
    bool moved = take_turns(eager);
    if (!moved)
        whm_wait_note();
    for (int i = 0; i < WHM_WAIT_YIELDS && !moved; i++) {
        whm_wait_yield();
        moved = take_turns(WHM_WAIT_TURNS);
    }
    return moved || look_while_moving();
}

// Without connections a turn is a system call, and what is awaited here does not come by messages.
static bool turns_until(int n, bool (*ready)(const void *arg), const void *arg) {
    static unsigned looks;
    for (int i = 0; i < n; i++) {
        if (ready(arg))
            return true;
        if (++looks % WHM_WAIT_LOOKS == 0)
            (void)wh_pe_turn(whm_process_here.pe);
    }
    return ready(arg);
}

bool whm_wait_look(bool (*ready)(const void *arg), const void *arg) {
    bool is = turns_until(eager, ready, arg);
    for (int i = 0; i < WHM_WAIT_YIELDS && !is; i++) {
        whm_wait_yield();
        is = turns_until(1, ready, arg);
    }
    return is;
}

bool whm_wait_step(void) {
    return let_others_run() || wh_pe_step(whm_process_here.pe);
}
