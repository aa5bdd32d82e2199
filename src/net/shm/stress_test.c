// SPDX-License-Identifier: BSD-3-Clause
//
// Two ends that send, push, fall asleep and wake each other as fast as they can: two threads, which
// the thread sanitizer sees, and two processes.
//
// Everything follows from a seed.  An end that has nothing to do arms and sleeps at once, so that
// most messages meet a peer who is just falling asleep; a wake-up that got lost leaves both asleep,
// which the sleeper's time limit turns into a failure.
#include <sched.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/rng.h"
#include "base/test.h"
#include "net/shm/test_wire.h"

enum { MESSAGES = 12000, BULK_EVERY = 50, BULK_LARGEST = 400000, ASLEEP_MS = 15000 };

typedef struct side {
    whi_lane *lane;
    test_wire *wire;
    whi_shm_opts opts;
    whi_shm_budget budget;
    uint64_t seed, peer_seed;
    whi_rng dice;
    unsigned sent, heard;     // messages
    uint64_t pushed, landed;  // of the bulk message under way
    unsigned sleeps;
    unsigned char memory[BULK_LARGEST];
} side;

static uint64_t value_of(uint64_t seed, unsigned number) {
    uint64_t state = seed * 1000003 + number;
    return whi_splitmix64(&state);
}

static bool is_bulk(unsigned number) {
    return number % BULK_EVERY == BULK_EVERY - 1;
}

static uint64_t size_of(uint64_t seed, unsigned number, size_t eager_limit) {
    uint64_t value = value_of(seed, number);
    if (is_bulk(number))
        return 1 + value % BULK_LARGEST;
    return value % 3 ? value % 40 : value % (eager_limit + 1);
}

static unsigned char byte_of(uint64_t seed, unsigned number, uint64_t at) {
    return (unsigned char)(seed * 31 + number * 7 + at / 64);
}

static wh_status on_deliver(void *link, const whi_hdr *hdr, const void *payload) {
    side *self = link;
    const unsigned char *bytes = payload;
    CHECK_EQ_INT(hdr->seq, self->heard);
    CHECK_EQ_INT(hdr->size, size_of(self->peer_seed, self->heard, self->opts.eager_limit));
    for (uint32_t i = 0; i < hdr->size; i++)
        CHECK_EQ_INT(bytes[i], byte_of(self->peer_seed, self->heard, i));
    self->heard++;
    return WH_OK;
}

static wh_status on_sink(void *link, const whi_hdr *hdr, whi_span *span) {
    side *self = link;
    CHECK(is_bulk(self->heard));
    CHECK_EQ_INT(hdr->seq, self->heard);
    CHECK_EQ_INT(hdr->arg, self->landed);
    CHECK(hdr->arg + hdr->size <= size_of(self->peer_seed, self->heard, self->opts.eager_limit));
    *span = (whi_span){.ptr = self->memory + hdr->arg};
    return WH_OK;
}

static wh_status on_landed(void *link, const whi_hdr *hdr) {
    side *self = link;
    self->landed += hdr->size;
    if (self->landed < size_of(self->peer_seed, self->heard, self->opts.eager_limit))
        return WH_OK;
    for (uint64_t i = 0; i < self->landed; i++)
        CHECK_EQ_INT(self->memory[i], byte_of(self->peer_seed, self->heard, i));
    self->landed = 0;
    self->heard++;
    return WH_OK;
}

static const whi_lane_up up = {.deliver = on_deliver, .sink = on_sink, .landed = on_landed};

static void produce(void *ctx, uint64_t offset, void *host, size_t size) {
    side *self = ctx;
    for (size_t i = 0; i < size; i++)
        ((unsigned char *)host)[i] = byte_of(self->seed, self->sent, offset + i);
}

// Sends the next message or a part of it; false: there is no space.
static bool say(side *self) {
    uint64_t size = size_of(self->seed, self->sent, self->opts.eager_limit);
    whi_hdr hdr = {.cls = 0x10, .seq = self->sent, .size = (uint32_t)size};
    wh_status status;
    if (is_bulk(self->sent)) {
        hdr = (whi_hdr){.cls = WHI_CLASS_CHUNK, .seq = self->sent, .arg = self->pushed};
        whi_span src = {.move = produce, .ctx = self, .base = self->pushed};
        size_t moved = 0;
        status = self->lane->ops->push(self->lane, &hdr, &src, size - self->pushed, &moved);
        self->pushed += moved;
        if (status == WH_OK && self->pushed < size)
            return true;
    } else {
        unsigned char payload[8192];
        produce(self, 0, payload, size);
        status = self->lane->ops->send(self->lane, &hdr, payload);
    }
    CHECK(status == WH_OK || status == WH_EAGAIN);
    if (status == WH_EAGAIN)
        return false;
    self->pushed = 0;
    self->sent++;
    return true;
}

static void fall_asleep(side *self, bool want_space) {
    self->lane->ops->arm(self->lane, want_space);
    if (self->opts.asymmetric)
        whi_shm_barrier();
    if (self->lane->ops->ready(self->lane, want_space))
        return;
    self->sleeps++;
    CHECK(test_wire_sleep(self->wire, ASLEEP_MS));
}

static void run(side *self) {
    while (self->sent < MESSAGES || self->heard < MESSAGES) {
        bool space = true, moved = false;
        for (uint64_t n = whi_rng_below(&self->dice, 6); n && space && self->sent < MESSAGES; n--) {
            space = say(self);
            moved = moved || space;
        }
        int events = self->lane->ops->poll(self->lane, (int)whi_rng_between(&self->dice, 1, 8));
        CHECK(events >= 0);
        bool waits = self->sent == MESSAGES || !space;
        if (events == 0 && !moved && waits)
            fall_asleep(self, !space);
    }
}

static void begin(side *self, uint64_t seed, int which, test_wire *wire, const whi_shm_opts *opts) {
    self->seed = seed * 2 + (unsigned)which;
    self->peer_seed = seed * 2 + !which;
    whi_rng_init(&self->dice, self->seed);
    whi_shm_budget_init(&self->budget, 64 << 20);
    self->wire = wire;
    self->opts = *opts;
    self->opts.budget = &self->budget;
    self->opts.wire = &test_wire_ops;
    self->opts.wire_arg = wire;
    int fd = -1;
    CHECK(whi_shm_create(&self->opts, &up, self, &self->lane, &fd) == WH_OK);
    CHECK(test_wire_send_fd(wire, fd) == WH_OK);
    close(fd);
}

static void join(side *self) {
    int fd;
    while ((fd = test_wire_take_fd(self->wire)) < 0)
        sched_yield();
    CHECK(whi_shm_attach(self->lane, fd) == WH_OK);
}

static void end(side *self) {
    self->lane->ops->close(self->lane);
    close(self->wire->fd);
}

static side sides[2];

static void *run_other(void *arg) {
    run(arg);
    return NULL;
}

static void two_threads(uint64_t seed, const whi_shm_opts *opts) {
    test_wire wires[2];
    test_wire_pair(wires);
    memset(sides, 0, sizeof(sides));
    for (int i = 0; i < 2; i++)
        begin(&sides[i], seed, i, &wires[i], opts);
    for (int i = 0; i < 2; i++)
        join(&sides[i]);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run_other, &sides[1]) == 0);
    run(&sides[0]);
    pthread_join(thread, NULL);
    CHECK(sides[0].sleeps + sides[1].sleeps > 0);
    for (int i = 0; i < 2; i++)
        end(&sides[i]);
}

static void one_process(uint64_t seed, int which, test_wire *wires, const whi_shm_opts *opts) {
    side *self = &sides[which];
    close(wires[!which].fd);
    if (opts->asymmetric)
        CHECK(whi_shm_barrier_init());
    memset(self, 0, sizeof(*self));
    begin(self, seed, which, &wires[which], opts);
    join(self);
    run(self);
}

static void two_processes(uint64_t seed, const whi_shm_opts *opts) {
    test_wire wires[2];
    test_wire_pair(wires);
    pid_t child = fork();
    if (child == 0) {
        one_process(seed, 1, wires, opts);
        _exit(0);
    }
    one_process(seed, 0, wires, opts);
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    end(&sides[0]);
}

// Three shapes, and both ways to order a wake-up.
static const whi_shm_opts shapes[] = {
    {.ring_size = 4096, .eager_limit = 1000, .chunks = 2, .chunk_max = 64 << 10},
    {.ring_size = 4096,
     .ring_max = 65536,
     .eager_limit = 1024,
     .chunks = 4,
     .chunk_max = 256 << 10},
    {.ring_size = 65536, .ring_max = 131072, .eager_limit = 8192},
};

static void all_shapes(void (*go)(uint64_t, const whi_shm_opts *), bool asymmetric) {
    if (asymmetric && !whi_shm_barrier_init())
        SKIP("no membarrier here");
    for (unsigned i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
        whi_shm_opts opts = shapes[i];
        opts.asymmetric = asymmetric;
        go(10 + i, &opts);
    }
}

TEST(threads_fenced) {
    all_shapes(two_threads, false);
}

TEST(threads_asymmetric) {
    all_shapes(two_threads, true);
}

TEST(processes_fenced) {
    all_shapes(two_processes, false);
}

TEST(processes_asymmetric) {
    all_shapes(two_processes, true);
}

TEST_MAIN()
