// SPDX-License-Identifier: BSD-3-Clause
//
// The barrier: two threads store and then look at the other's word.  One of them issues the
// barrier, the other only keeps the compiler from reordering; both missing the other's store is
// what must not happen.
#include <sched.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/test.h"
#include "net/shm/ring.h"
#include "net/shm/shm.h"
#include "net/shm/test_barrier.h"

enum { ROUNDS = 30000 };

static _Alignas(128) _Atomic uint32_t word, sleeps;
static _Alignas(128) _Atomic uint32_t round_no;
static _Alignas(128) _Atomic uint32_t seen_by_sender, sender_done;

// Spins a little, and yields when the other thread seems not to run.
static void until(_Atomic uint32_t *what, uint32_t value) {
    for (unsigned spins = 0; atomic_load_explicit(what, memory_order_acquire) != value; spins++) {
        if (spins % 1000 == 999)
            sched_yield();
        else
            whi_cpu_relax();
    }
}

static void *sender(void *arg) {
    bool asymmetric = *(bool *)arg;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        until(&round_no, round);
        atomic_store_explicit(&word, round, memory_order_release);
        whi_ring_order(asymmetric);
        uint32_t seen = atomic_load_explicit(&sleeps, memory_order_relaxed);
        atomic_store_explicit(&seen_by_sender, seen, memory_order_relaxed);
        atomic_store_explicit(&sender_done, round, memory_order_release);
    }
    return NULL;
}

static void store_and_look(bool asymmetric) {
    pthread_t thread;
    atomic_store(&word, 0);
    atomic_store(&sleeps, 0);
    atomic_store(&round_no, 0);
    atomic_store(&sender_done, 0);
    CHECK(pthread_create(&thread, NULL, sender, &asymmetric) == 0);
    unsigned missed = 0;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        atomic_store_explicit(&round_no, round, memory_order_release);
        for (uint32_t i = round % 64; i > 0; i--)
            whi_cpu_relax();
        atomic_store_explicit(&sleeps, round, memory_order_relaxed);
        if (asymmetric)
            whi_shm_barrier();
        else
            atomic_thread_fence(memory_order_seq_cst);
        uint32_t seen = atomic_load_explicit(&word, memory_order_relaxed);
        until(&sender_done, round);
        missed += seen != round && atomic_load(&seen_by_sender) != round;
    }
    pthread_join(thread, NULL);
    CHECK_EQ_INT(missed, 0);
}

TEST(with_fences) {
    store_and_look(false);
}

static void store_and_look_asymmetric(void) {
    CHECK(whi_shm_barrier_init());  // twice is once
    store_and_look(true);
}

TEST(with_the_barrier) {
    with_barrier(store_and_look_asymmetric);
}

TEST_MAIN()
