// SPDX-License-Identifier: BSD-3-Clause
//
// Losing a wake-up takes one side to look for work, the other to look for sleepers, and both to
// look too early.  Here the two do so at the same moment, round after round: afterwards either the
// sleeper has seen that it must not sleep, or its bell was rung.  The stress test has all the
// states, this one hits the few nanoseconds.
#include <sched.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/test.h"
#include "net/deaf.h"
#include "net/shm/shm_lane.h"
#include "net/shm/test_barrier.h"

enum { ROUNDS = 20000 };

// The two ends; the waker runs on a thread of its own.
static whi_lane *sleeper, *waker;
static void (*wake)(void);
static _Alignas(128) _Atomic uint32_t round_no;
static _Alignas(128) _Atomic uint32_t round_done;
static _Alignas(128) _Atomic uint32_t bells;
static int passed[2] = {-1, -1};

// Lines that one side, in turn, writes right before the moment, and that the other has just had: the
// stores that follow wait behind them for a while, and looks that are not kept back overtake them.
// As many as a processor keeps waiting.
enum { BALLAST = 48 };
static struct { _Alignas(128) _Atomic uint32_t word; } ballast[BALLAST];

static void write_ballast(uint32_t value) {
    for (int i = 0; i < BALLAST; i++)
        atomic_store_explicit(&ballast[i].word, value, memory_order_relaxed);
}

// fetch_ballast brings the lines to this side.
static void fetch_ballast(uint32_t value) {
    write_ballast(value);
    atomic_thread_fence(memory_order_seq_cst);
}

static bool is_wakers(uint32_t round) {
    return round % 2;
}

static wh_status count_bell(void *arg) {
    (void)arg;
    atomic_fetch_add_explicit(&bells, 1, memory_order_relaxed);
    return WH_OK;
}

static wh_status refuse_fd(void *arg, int fd) {
    (void)arg, (void)fd;
    return WH_EAGAIN;
}

static int no_fd(void *arg) {
    (void)arg;
    return WH_EAGAIN;
}

static wh_status ignore(void *link, const whi_hdr *hdr, const void *payload) {
    (void)link, (void)hdr, (void)payload;
    return WH_OK;
}

static const whi_shm_wire wire = {count_bell, refuse_fd, no_fd};
static const whi_lane_up up = {.deliver = ignore, .sink = deaf_sink, .landed = deaf_landed};

static wh_status send_one(whi_lane *lane) {
    whi_hdr hdr = {.cls = 0x10, .size = 32};
    static const char payload[32];
    return lane->ops->send(lane, &hdr, payload);
}

static void open_lanes(bool asymmetric) {
    whi_shm_opts opts = {
        .ring_size = 4096, .eager_limit = 64, .asymmetric = asymmetric, .wire = &wire};
    CHECK(whi_shm_create(&opts, &up, NULL, &sleeper, &passed[0]) == WH_OK);
    CHECK(whi_shm_create(&opts, &up, NULL, &waker, &passed[1]) == WH_OK);
    CHECK(whi_shm_attach(sleeper, passed[1]) == WH_OK);
    CHECK(whi_shm_attach(waker, passed[0]) == WH_OK);
}

// Spins a little, and yields when the other thread seems not to run.
static void until(_Atomic uint32_t *what, uint32_t value) {
    for (unsigned spins = 0; atomic_load_explicit(what, memory_order_acquire) != value; spins++) {
        if (spins % 1000 == 999)
            sched_yield();
        else
            whi_cpu_relax();
    }
}

// The word by which the sleeper says that it sleeps.
static _Atomic uint32_t *word(bool want_space) {
    whi_shm *lane = (whi_shm *)sleeper;
    return want_space ? &lane->tx.shared->want : &lane->rx.shared->armed;
}

static void *run_waker(void *arg) {
    _Atomic uint32_t *its_word = arg;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        until(&round_no, round);
        (void)atomic_load(its_word);  // so that the look need not wait
        if (is_wakers(round))
            write_ballast(round);
        wake();
        if (!is_wakers(round + 1))
            fetch_ballast(round);
        atomic_store_explicit(&round_done, round, memory_order_release);
    }
    return NULL;
}

// Plays all rounds and returns in how many the sleeper would have slept for ever.
static unsigned play(bool asymmetric, bool want_space, void (*before)(void)) {
    pthread_t thread;
    unsigned lost = 0;
    atomic_store(&round_no, 0);
    atomic_store(&round_done, 0);
    CHECK(pthread_create(&thread, NULL, run_waker, word(want_space)) == 0);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        before();
        if (is_wakers(round))
            fetch_ballast(0);
        atomic_store(&bells, 0);
        atomic_store(word(want_space), 0);  // it need not be asleep from the round before
        atomic_store_explicit(&round_no, round, memory_order_release);
        for (uint32_t i = round % 127; i > 0; i--)
            whi_cpu_relax();
        if (!is_wakers(round))
            write_ballast(0);
        sleeper->ops->arm(sleeper, want_space);
        if (asymmetric)
            whi_shm_barrier();
        bool ready = sleeper->ops->ready(sleeper, want_space);
        until(&round_done, round);
        lost += !ready && atomic_load(&bells) == 0;
    }
    pthread_join(thread, NULL);
    sleeper->ops->close(sleeper);
    waker->ops->close(waker);
    return lost;
}

static void sleeper_drains(void) {
    while (sleeper->ops->poll(sleeper, 64) > 0)
        continue;
}

static void waker_sends(void) {
    (void)send_one(waker);
}

static void sleeper_fills(void) {
    while (send_one(sleeper) == WH_OK)
        continue;
}

static void waker_drains(void) {
    while (waker->ops->poll(waker, 64) > 0)
        continue;
}

static void check(bool asymmetric) {
    open_lanes(asymmetric);
    wake = waker_sends;
    CHECK_EQ_INT(play(asymmetric, false, sleeper_drains), 0);
    open_lanes(asymmetric);
    wake = waker_drains;
    CHECK_EQ_INT(play(asymmetric, true, sleeper_fills), 0);
}

TEST(fenced) {
    check(false);
}

static void check_asymmetric(void) {
    check(true);
}

TEST(asymmetric) {
    with_barrier(check_asymmetric);
}

TEST_MAIN()
