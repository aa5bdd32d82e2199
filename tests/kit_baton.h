// SPDX-License-Identifier: BSD-3-Clause
//
// The baton of two roles on one worker: exactly one of them runs, and it owns the worker.
#ifndef WHERRY_TESTS_KIT_BATON_H
#define WHERRY_TESTS_KIT_BATON_H

#include <pthread.h>

#include "kit.h"

typedef struct kit_baton {
    pthread_mutex_t lock;
    pthread_cond_t turned;
    int turn;
    bool finished[2];
    unsigned idle;      // fruitless turns in a row, of both
    uint64_t waits[2];  // which wait each role is in
    int wait_ms[2];     // and how long it lets the worker sleep
} kit_baton;

// kit_baton_take waits for the first turn; kit_baton_pass gives the other role its turn; kit_baton_finish leaves it to the
// other role for good.
void kit_baton_take(kit_side *me);
void kit_baton_pass(kit_side *me);
void kit_baton_finish(kit_side *me);

#endif
