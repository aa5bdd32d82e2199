// SPDX-License-Identifier: BSD-3-Clause
//
// A peer that writes rubbish: into the rings and the bulk memory, at any moment, and over the wire.
//
// The attacker is another process, so nothing but the shared memory joins the two.  It speaks
// through a proper lane, which takes the victim's code to all its corners, and scribbles
// meanwhile.  The victim polls, sends, pushes and arms until its lane fails or the time is over: it
// must neither crash nor hang, and never tell its owner of a size that was not agreed.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/test.h"
#include "net/shm/shm_lane.h"
#include "net/shm/test_wire.h"
#include "net/test_linger.h"

enum { SEEDS = 40, ROUND_MS = 25, EAGER = 1000, LARGEST = 256 << 10 };

static whi_shm_budget budget;
static unsigned char memory[LARGEST];
static volatile unsigned sum;

static wh_status on_deliver(void *link, const whi_hdr *hdr, const void *payload) {
    (void)link;
    CHECK(hdr->size <= EAGER && hdr->cls < WHI_CLASS_LANE && hdr->cls > WHI_CLASS_LONG);
    for (uint32_t i = 0; i < hdr->size; i++)
        sum += ((const unsigned char *)payload)[i];
    return WH_OK;
}

static wh_status on_sink(void *link, const whi_hdr *hdr, whi_span *span) {
    (void)link;
    CHECK(hdr->size > 0 && (hdr->cls == WHI_CLASS_CHUNK || hdr->cls == WHI_CLASS_LONG));
    // The owner checks the size against what it has granted.
    if (hdr->size > LARGEST)
        return WH_EPROTOCOL;
    *span = (whi_span){.ptr = memory};
    return WH_OK;
}

static wh_status on_landed(void *link, const whi_hdr *hdr) {
    (void)link;
    sum += hdr->size;
    return WH_OK;
}

static const whi_lane_up up = {.deliver = on_deliver, .sink = on_sink, .landed = on_landed};

static whi_lane *make_lane(test_wire *wire, uint64_t seed) {
    whi_shm_opts opts = {.ring_size = 4096,
                         .ring_max = seed % 2 ? 32768 : 0,
                         .eager_limit = EAGER,
                         .takes_long = seed % 3 != 0,
                         .chunks = 2,
                         .chunk_max = 64 << 10,
                         .budget = &budget,
                         .wire = &test_wire_ops,
                         .wire_arg = wire};
    whi_lane *lane = NULL;
    int fd = -1;
    CHECK(whi_shm_create(&opts, &up, NULL, &lane, &fd) == WH_OK);
    CHECK(test_wire_send_fd(wire, fd) == WH_OK);
    close(fd);
    while ((fd = test_wire_take_fd(wire)) < 0)
        sched_yield();
    CHECK(whi_shm_attach(lane, fd) == WH_OK);
    return lane;
}

// Says something random through the vtable; the statuses are the lane's business.
static void speak(whi_lane *lane, whi_rng *rng) {
    whi_hdr hdr = {.cls = 0x10, .size = (uint32_t)whi_rng_below(rng, EAGER + 1)};
    if (whi_rng_chance(rng, 70)) {
        (void)lane->ops->send(lane, &hdr, memory);
        return;
    }
    size_t moved = 0, most = lane->ops->long_limit(lane);
    if (most && whi_rng_chance(rng, 50)) {
        whi_hdr next = {.cls = WHI_CLASS_LONG, .size = 1 + (uint32_t)whi_rng_below(rng, most)};
        (void)lane->ops->send_long(lane, &hdr, memory, &next, &(whi_span){.ptr = memory});
        return;
    }
    whi_span src = {.ptr = memory};
    hdr.cls = WHI_CLASS_CHUNK;
    (void)lane->ops->push(lane, &hdr, &src, 1 + whi_rng_below(rng, LARGEST), &moved);
}

// ---- the attacker

static void scribble(const whi_region *region, whi_rng *rng) {
    if (!region)
        return;
    // The beginnings of pages, where the words are, more often than the rest.
    size_t at = whi_rng_below(rng, region->size / 8) * 8;
    if (whi_rng_chance(rng, 50))
        at = whi_rng_below(rng, 6) * 128;
    else if (whi_rng_chance(rng, 80))
        at = (4096 + at / 64 * 64) % region->size;
    uint64_t value = whi_rng_u64(rng);
    switch (whi_rng_below(rng, 5)) {
    case 0: value &= 0xffff; break;
    case 1: value = (value & 0x1f000007ff) | WHI_RING_LIVE; break;
    case 2: value = (0xe0 + value % 8) << 32 | WHI_RING_LIVE | value % 3 * 16; break;
    case 3: value = (value % 8192) & ~(uint64_t)63; break;
    default: break;
    }
    *(volatile uint64_t *)((char *)region->base + at) = value;
}

static void pass_something(test_wire *wire, whi_rng *rng) {
    int fd = -1;
    switch (whi_rng_below(rng, 4)) {
    case 0: fd = open("/dev/null", O_RDWR | O_CLOEXEC); break;
    case 1: fd = memfd_create("hostile", MFD_CLOEXEC); break;
    default: {
        static const size_t sizes[] = {8192, 8192 + 4096, 4096 + (128 << 10), 4096 + (64 << 10)};
        whi_region *region = NULL;
        if (whi_region_create("hostile", sizes[whi_rng_below(rng, 4)], &region, &fd) == WH_OK) {
            scribble(region, rng);
            whi_region_release(region);
        }
    }
    }
    if (fd >= 0) {
        (void)test_wire_send_fd(wire, fd);
        close(fd);
    }
}

static void attack(test_wire *wire, uint64_t seed) {
    whi_rng rng;
    whi_rng_init(&rng, seed);
    whi_shm *lane = (whi_shm *)make_lane(wire, seed);
    // Some seeds let the lane live long, others break it at once.
    unsigned calm = (unsigned)(seed % 5) * 200;
    for (unsigned round = 0;; round++) {
        speak(&lane->lane, &rng);
        (void)lane->lane.ops->poll(&lane->lane, 8);
        if (round < calm || whi_rng_chance(&rng, 50))
            continue;
        const whi_region *regions[] = {lane->tx_region, lane->rx_region, lane->out_region,
                                       lane->in_region};
        scribble(regions[whi_rng_below(&rng, 4)], &rng);
        if (whi_rng_chance(&rng, 1))
            pass_something(wire, &rng);
    }
}

// ---- the victim

static wh_status suffer(test_wire *wire, uint64_t seed) {
    whi_rng rng;
    whi_rng_init(&rng, ~seed);
    whi_lane *lane = make_lane(wire, seed);
    uint64_t until = whi_clock_ns() + ROUND_MS * WHI_NS_PER_MS;
    int events = 0;
    while (events >= 0 && whi_clock_ns() < until) {
        speak(lane, &rng);
        events = lane->ops->poll(lane, 8);
        lane->ops->arm(lane, true);
        (void)lane->ops->ready(lane, true);
    }
    if (events < 0) {
        // Once failed, always failed, and everybody is told.
        CHECK(lane->ops->poll(lane, 8) == events && lane->ops->ready(lane, false));
        whi_hdr hdr = {.cls = 0x10};
        CHECK((int)lane->ops->send(lane, &hdr, NULL) == events);
    }
    lane->ops->close(lane);
    return events < 0 ? (wh_status)events : WH_OK;
}

static wh_status one_attack(uint64_t seed) {
    test_wire wires[2];
    test_wire_pair(wires);
    pid_t child = fork();
    if (child == 0) {
        close(wires[0].fd);
        attack(&wires[1], seed);
    }
    close(wires[1].fd);
    wh_status status = suffer(&wires[0], seed);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(wires[0].fd);
    return status;
}

TEST(scribbling_peer) {
    whi_shm_budget_init(&budget, 64 << 20);
    whi_log_set_level(WHI_LOG_OFF);
    unsigned noticed = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        wh_status status = one_attack(seed);
        CHECK(status == WH_OK || status == WH_EPROTOCOL);
        noticed += status == WH_EPROTOCOL;
    }
    CHECK_EQ_INT(budget.used, 0);
    // Rubbish that never does harm would test nothing.
    CHECK(noticed > SEEDS / 2);
}

// ---- one wrong record each

// Makes a victim and the attacker's bare ring for it.
static whi_lane *meet(test_wire wires[2], whi_region **region, whi_ring_tx *tx) {
    int fd = -1;
    test_wire_pair(wires);
    CHECK(whi_region_create("hostile", 4096 + 4096, region, &fd) == WH_OK);
    CHECK(test_wire_send_fd(&wires[1], fd) == WH_OK);
    close(fd);
    whi_ring_tx_init(tx, (*region)->base, 4096);
    whi_lane *lane = make_lane(&wires[0], 0);
    close(test_wire_take_fd(&wires[1]));  // the victim's ring, which this attacker leaves alone
    return lane;
}

static void part(test_wire wires[2], whi_region *region, whi_lane *lane) {
    lane->ops->close(lane);
    whi_region_release(region);
    close(wires[0].fd);
    close(wires[1].fd);
}

static int poll_one(uint8_t cls, uint32_t size, const whi_shm_chunk *payload) {
    test_wire wires[2];
    whi_region *region = NULL;
    whi_ring_tx tx;
    whi_lane *lane = meet(wires, &region, &tx);
    whi_hdr hdr = {.cls = cls, .size = size};
    memcpy(whi_ring_payload(&tx), payload, sizeof(*payload));
    whi_ring_publish(&tx, &hdr, false);
    int events = lane->ops->poll(lane, 8);
    part(wires, region, lane);
    return events;
}

TEST(wrong_records) {
    const whi_shm_chunk chunk = {.offset = 0, .size = 16, .end = 4096};
    whi_log_set_level(WHI_LOG_OFF);
    CHECK_EQ_INT(poll_one(0x10, EAGER, &chunk), 1);
    CHECK_EQ_INT(poll_one(0x10, EAGER + 1, &chunk), WH_EPROTOCOL);
    CHECK_EQ_INT(poll_one(WHI_CLASS_CHUNK, 16, &chunk), 1);
    CHECK_EQ_INT(poll_one(WHI_CLASS_CHUNK, 0, &chunk), WH_EPROTOCOL);
    CHECK_EQ_INT(poll_one(WHI_CLASS_CHUNK, EAGER + 1, &chunk), WH_EPROTOCOL);
    CHECK_EQ_INT(poll_one(WHI_SHM_PAD, 4096 - 32, &chunk), 1);
    CHECK_EQ_INT(poll_one(WHI_SHM_RING, 0, &chunk), WH_EPROTOCOL);
    CHECK_EQ_INT(poll_one(WHI_SHM_BULK, 0, &chunk), WH_EPROTOCOL);
    CHECK_EQ_INT(poll_one(WHI_SHM_BULK_GONE, 0, &chunk), WH_EPROTOCOL);
    CHECK_EQ_INT(poll_one(WHI_SHM_CHUNK, sizeof(chunk), &chunk), WH_EPROTOCOL);
    CHECK_EQ_INT(poll_one(WHI_SHM_CHUNK + 1, 0, &chunk), WH_EPROTOCOL);
    CHECK_EQ_INT(poll_one(0xff, 0, &chunk), WH_EPROTOCOL);
}

// Polls what begins as a long record: two records, and what their headers say.
static int poll_long(bool agreed, uint32_t size, uint64_t whole, uint8_t cls, uint32_t next_size) {
    test_wire wires[2];
    whi_region *region = NULL;
    whi_ring_tx tx;
    whi_lane *lane = meet(wires, &region, &tx);
    ((whi_shm *)lane)->takes_long = agreed;
    whi_hdr first = {.cls = WHI_CLASS_LONG, .size = size, .arg = whole},
            second = {.cls = cls, .size = next_size};
    whi_ring_publish(&tx, &first, false);
    whi_ring_publish(&tx, &second, false);
    int events = lane->ops->poll(lane, 8);
    part(wires, region, lane);
    return events;
}

TEST(wrong_long_records) {
    whi_log_set_level(WHI_LOG_OFF);
    CHECK_EQ_INT(poll_long(true, 100, 200, WHI_SHM_REST, 100), 2);
    CHECK_EQ_INT(poll_long(true, 100, 200, WHI_SHM_REST, 99), 2);
    CHECK_EQ_INT(poll_long(true, 100, 100, 0x10, 0), 2);
    CHECK_EQ_INT(poll_long(false, 100, 200, WHI_SHM_REST, 100), WH_EPROTOCOL);
    CHECK_EQ_INT(poll_long(true, 0, 200, WHI_SHM_REST, 100), WH_EPROTOCOL);
    CHECK_EQ_INT(poll_long(true, 0, 0, WHI_SHM_REST, 100), WH_EPROTOCOL);
    CHECK_EQ_INT(poll_long(true, 101, 100, 0x10, 0), WH_EPROTOCOL);
    CHECK_EQ_INT(poll_long(true, 100, WHI_SHM_LONG_MOST + 1, WHI_SHM_REST, 100), WH_EPROTOCOL);
    CHECK_EQ_INT(poll_long(true, 100, UINT64_C(1) << 32 | 200, WHI_SHM_REST, 100), WH_EPROTOCOL);
    CHECK_EQ_INT(poll_long(true, 100, 200, WHI_SHM_REST, 101), WH_EPROTOCOL);
    CHECK_EQ_INT(poll_long(true, 100, 200, WHI_SHM_REST, 0), WH_EPROTOCOL);
    CHECK_EQ_INT(poll_long(true, 100, 200, WHI_CLASS_LONG, 100), WH_EPROTOCOL);
    CHECK_EQ_INT(poll_long(true, 100, 200, WHI_CLASS_CHUNK, 100), WH_EPROTOCOL);
    CHECK_EQ_INT(poll_long(true, 100, 100, WHI_SHM_REST, 1), WH_EPROTOCOL);
}

// Announces bulk memory, and a chunk in it.
static int poll_bulk(size_t size, const whi_shm_chunk *chunk, uint32_t record_size, bool twice) {
    test_wire wires[2];
    whi_region *region = NULL, *bulk = NULL;
    whi_ring_tx tx;
    whi_lane *lane = meet(wires, &region, &tx);
    for (int i = 0; i <= (int)twice; i++) {
        int fd = -1;
        CHECK(whi_region_create("hostile", 4096 + size, &bulk, &fd) == WH_OK);
        CHECK(test_wire_send_fd(&wires[1], fd) == WH_OK);
        close(fd);
        whi_region_release(bulk);
        whi_ring_publish(&tx, &(whi_hdr){.cls = WHI_SHM_BULK}, false);
    }
    memcpy(whi_ring_payload(&tx), chunk, sizeof(*chunk));
    whi_ring_publish(&tx, &(whi_hdr){.cls = WHI_SHM_CHUNK, .size = record_size}, false);
    int events = lane->ops->poll(lane, 8);
    part(wires, region, lane);
    return events;
}

TEST(wrong_bulk) {
    const uint32_t size = 128 << 10;
    const uint32_t record = sizeof(whi_shm_chunk);
    const whi_shm_chunk good = {.size = size, .end = size}, empty = {.end = size};
    const whi_shm_chunk outside = {.offset = 4096, .size = size, .end = size};
    whi_log_set_level(WHI_LOG_OFF);
    CHECK_EQ_INT(poll_bulk(size, &good, record, false), 2);
    CHECK_EQ_INT(poll_bulk(size, &good, record, true), WH_EPROTOCOL);
    CHECK_EQ_INT(poll_bulk(size, &good, record - 1, false), WH_EPROTOCOL);
    CHECK_EQ_INT(poll_bulk(size, &empty, record, false), WH_EPROTOCOL);
    CHECK_EQ_INT(poll_bulk(size, &outside, record, false), WH_EPROTOCOL);
    CHECK_EQ_INT(poll_bulk(size / 2, &good, record, false), WH_EPROTOCOL);
}

static int poll_ring(size_t size) {
    test_wire wires[2];
    whi_region *region = NULL, *next = NULL;
    whi_ring_tx tx;
    whi_lane *lane = meet(wires, &region, &tx);
    int fd = -1;
    CHECK(whi_region_create("hostile", size, &next, &fd) == WH_OK);
    CHECK(test_wire_send_fd(&wires[1], fd) == WH_OK);
    close(fd);
    whi_region_release(next);
    whi_ring_publish(&tx, &(whi_hdr){.cls = WHI_SHM_RING}, false);
    int events = lane->ops->poll(lane, 8);
    part(wires, region, lane);
    return events;
}

TEST(wrong_rings) {
    whi_log_set_level(WHI_LOG_OFF);
    CHECK_EQ_INT(poll_ring(4096 + 8192), 1);
    CHECK_EQ_INT(poll_ring(4096 + 12288), WH_EPROTOCOL);
    CHECK_EQ_INT(poll_ring(4096 + 8192 + 64), WH_EPROTOCOL);
    CHECK_EQ_INT(poll_ring(4096), WH_EPROTOCOL);
    CHECK_EQ_INT(poll_ring(4096 + 2 * WHI_RING_MAX), WH_EPROTOCOL);
}

// What a peer passes as a ring may be a socket that waits when it is closed.
TEST(lingering_socket_for_a_ring) {
    static const uint8_t classes[] = {WHI_SHM_RING, WHI_SHM_BULK};
    whi_log_set_level(WHI_LOG_OFF);
    for (size_t i = 0; i < sizeof(classes); i++) {
        test_wire wires[2];
        int others[2];
        whi_region *region = NULL;
        whi_ring_tx tx;
        whi_lane *lane = meet(wires, &region, &tx);
        int fd = linger_open(others);
        CHECK(test_wire_send_fd(&wires[1], fd) == WH_OK);
        close(fd);
        whi_ring_publish(&tx, &(whi_hdr){.cls = classes[i]}, false);
        LINGER_CHECK(CHECK_EQ_INT(lane->ops->poll(lane, 8), WH_EPROTOCOL));
        part(wires, region, lane);
        close(others[0]);
        close(others[1]);
    }
}

// A peer that punches holes into what it shares: the pages come back as zeros, never as a signal.
TEST(hole_punching_peer) {
    test_wire wires[2];
    whi_region *region = NULL;
    whi_ring_tx tx;
    whi_lane *lane = meet(wires, &region, &tx);
    whi_hdr hdr = {.cls = 0x10, .size = 8};
    whi_ring_publish(&tx, &hdr, false);
    CHECK(madvise(region->base, region->size, MADV_REMOVE) == 0);
    CHECK_EQ_INT(lane->ops->poll(lane, 8), 0);
    whi_ring_tx_init(&tx, region->base, 4096);
    whi_ring_publish(&tx, &hdr, false);
    CHECK_EQ_INT(lane->ops->poll(lane, 8), 1);
    part(wires, region, lane);
}

TEST_MAIN()
