// SPDX-License-Identifier: BSD-3-Clause
#include "net/shm/long.h"

#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "net/shm/test_pair.h"

enum { PART = 4096 - sizeof(whi_hdr) };

static unsigned char bytes[64 << 10];

static way over_ring(size_t size, size_t max) {
    return (way){
        .opts = {.ring_size = size, .ring_max = max, .eager_limit = size / 4, .takes_long = true},
        .limit = 0};
}

static void open_long(way *over, ear **a, ear **b) {
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(i * 7 + i / 256);
    *a = &ears[0], *b = &ears[1];
    open_pair(over, *a, *b);
}

static size_t limit_of(const ear *self) {
    return self->lane->ops->long_limit(self->lane);
}

static wh_status send_long(ear *self, size_t size) {
    whi_hdr hdr = {.cls = WHI_CLASS_LONG, .size = (uint32_t)size};
    return self->lane->ops->send_long(self->lane, NULL, NULL, &hdr, &(whi_span){.ptr = bytes});
}

static wh_status send_followed(ear *self, uint32_t number, size_t size) {
    whi_hdr hdr = {.cls = 0x12, .size = 40, .seq = number},
            next = {.cls = WHI_CLASS_LONG, .size = (uint32_t)size, .seq = number};
    return self->lane->ops->send_long(self->lane, &hdr, bytes, &next, &(whi_span){.ptr = bytes});
}

TEST(sizes) {
    way over = over_ring(32 << 10, 256 << 10);
    ear *a, *b;
    open_long(&over, &a, &b);
    const size_t sizes[] = {1,        8,     PART - 1, PART,  PART + 1,
                            2 * PART, 12000, 16384,    32768, limit_of(a)};
    uint64_t landed = 0;
    CHECK_EQ_INT(limit_of(a), sizeof(bytes));
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        memset(b->memory, 0, sizes[i] + 1);
        CHECK(send_followed(a, i, sizes[i]) == WH_OK);
        (void)poll_all(b);
        landed += sizes[i];
        CHECK_EQ_INT(b->landed, landed);
        CHECK_EQ_INT(b->heard, i + 1);
        CHECK(!memcmp(b->memory, bytes, sizes[i]) && !b->memory[sizes[i]]);
    }
    close_pair(&over, a, b);
}

// Each part is a record of its own, which may be taken out before the next one is there.
TEST(part_by_part) {
    way over = over_ring(64 << 10, 0);
    ear *a, *b;
    open_long(&over, &a, &b);
    CHECK(send_long(a, 3 * PART) == WH_OK);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ_INT(b->landed, 0);
        CHECK_EQ_INT(b->lane->ops->poll(b->lane, 1), 1);
        CHECK(!memcmp(b->memory + (size_t)i * PART, bytes + (size_t)i * PART, PART));
    }
    CHECK_EQ_INT(b->landed, 3 * PART);
    close_pair(&over, a, b);
}

// move_and_poll produces a payload, and has its reader take what was produced before.
static void move_and_poll(void *ctx, uint64_t offset, void *host, size_t size) {
    ear *reader = ctx;
    CHECK_EQ_INT(reader->lane->ops->poll(reader->lane, 1), 1);
    CHECK(!memcmp(reader->memory, bytes, offset));
    memcpy(host, bytes + offset, size);
}

// So does one that is moved: its reader has a part before the next one is there.
TEST(moved_part_by_part) {
    way over = over_ring(64 << 10, 0);
    ear *a, *b;
    open_long(&over, &a, &b);
    memset(b->memory, 0, 3 * PART);
    whi_hdr hdr = {.cls = 0x12, .size = 40},
            next = {.cls = WHI_CLASS_LONG, .size = 3 * PART - 1, .seq = 0};
    whi_span src = {.move = move_and_poll, .ctx = b};
    CHECK(a->lane->ops->send_long(a->lane, &hdr, bytes, &next, &src) == WH_OK);
    CHECK_EQ_INT(b->heard, 1);
    CHECK_EQ_INT(b->landed, 0);
    CHECK_EQ_INT(b->lane->ops->poll(b->lane, 1), 1);
    CHECK_EQ_INT(b->landed, 3 * PART - 1);
    CHECK(!memcmp(b->memory, bytes, 3 * PART - 1));
    close_pair(&over, a, b);
}

// A reader that is behind gets fewer unasked, until it has caught up.
TEST(behind) {
    way over = over_ring(256 << 10, 0);
    ear *a, *b;
    open_long(&over, &a, &b);
    size_t most = limit_of(a);
    CHECK_EQ_INT(most, 64 << 10);
    for (int sent = 0; sent < 64 << 10; sent += 16 << 10) {
        CHECK_EQ_INT(limit_of(a), most);
        CHECK(send_long(a, 16 << 10) == WH_OK);
    }
    CHECK_EQ_INT(limit_of(a), 12 << 10);
    (void)poll_all(b);
    CHECK_EQ_INT(limit_of(a), most);
    close_pair(&over, a, b);
}

// One that finds no space leaves nothing behind, and what it stood in comes through.
TEST(whole_or_not) {
    way over = over_ring(32 << 10, 128 << 10);
    ear *a, *b;
    open_long(&over, &a, &b);
    unsigned count = 0;
    while (send_followed(a, count, 12000) == WH_OK)
        count++;
    CHECK(count >= (128 << 10) / 13000 - 2);
    (void)poll_all(b);
    CHECK_EQ_INT(b->heard, count);
    CHECK_EQ_INT(b->landed, count * 12000);
    CHECK_EQ_INT(poll_all(a), 1);  // there is space again
    for (unsigned i = 0; i < 100; i++) {
        CHECK(send_followed(a, count + i, 12000) == WH_OK);
        (void)poll_all(b);
    }
    CHECK_EQ_INT(b->landed, (count + 100) * 12000);
    close_pair(&over, a, b);
}

// Whoever answers leaves a gap behind its record, but not behind a part, as no space is reserved for that.
TEST(answers) {
    way over = over_ring(64 << 10, 0);
    ear *a, *b;
    open_long(&over, &a, &b);
    for (unsigned i = 0; i < 1000; i++) {
        size_t size = PART + 1 + i * 64 % 8192;
        CHECK(say(b, i, 8) == WH_OK);
        CHECK_EQ_INT(poll_all(a), 1);
        uint64_t landed = b->landed;
        CHECK(send_long(a, size) == WH_OK);
        (void)poll_all(b);
        CHECK_EQ_INT(b->landed - landed, size);
        CHECK(!memcmp(b->memory, bytes, size));
    }
    close_pair(&over, a, b);
}

// What lies in memory that is not bytes is moved part by part.
static uint64_t moved_to;

static void move(void *ctx, uint64_t offset, void *host, size_t size) {
    CHECK_EQ_INT(offset, moved_to);
    memcpy((char *)ctx + offset, host, size);
    moved_to += size;
}

static wh_status sink_by_move(void *link, const whi_hdr *hdr, whi_span *span) {
    CHECK(hdr->cls == WHI_CLASS_LONG && !hdr->arg);
    *span = (whi_span){.move = move, .ctx = ((ear *)link)->memory, .base = 100};
    moved_to = 100;
    return WH_OK;
}

TEST(into_no_bytes) {
    static const whi_lane_up by_move = {
        .deliver = ear_deliver, .sink = sink_by_move, .landed = ear_landed};
    way over = over_ring(64 << 10, 0);
    ear *a, *b;
    open_long(&over, &a, &b);
    b->lane->up = &by_move;
    CHECK(send_long(a, 12000) == WH_OK);
    (void)poll_all(b);
    CHECK_EQ_INT(moved_to, 12100);
    CHECK(!memcmp(b->memory + 100, bytes, 12000));
    close_pair(&over, a, b);
}

// Where three eighths of the ring hold none they are no longer than other records; where the peer takes none there are none.
TEST(limits) {
    const size_t rings[][2] = {{4096, 0}, {16 << 10, 0}, {16 << 10, 64 << 10}, {64 << 10, 1 << 20}};
    const size_t limits[] = {1, 1, 22 << 10, 64 << 10};
    for (int i = 0; i < 4; i++) {
        way over = over_ring(rings[i][0], rings[i][1]);
        ear *a, *b;
        open_long(&over, &a, &b);
        CHECK_EQ_INT(limit_of(a), limits[i]);
        close_pair(&over, a, b);
        over.opts.takes_long = false;
        open_long(&over, &a, &b);
        CHECK_EQ_INT(limit_of(a), 0);
        close_pair(&over, a, b);
    }
}

// A ring that cannot grow has shorter ones from then on.
TEST(no_larger_ring) {
    way over = over_ring(32 << 10, 256 << 10);
    ear *a, *b;
    open_long(&over, &a, &b);
    whi_log_set_level(WHI_LOG_OFF);
    CHECK(limit_of(a) == 64 << 10);
    whi_alloc_fail_at(1);
    CHECK(send_long(a, 32 << 10) == WH_EAGAIN);
    whi_alloc_fail_at(0);
    CHECK(limit_of(a) == 10 << 10);
    CHECK(send_long(a, 10 << 10) == WH_OK);
    (void)poll_all(b);
    CHECK_EQ_INT(b->landed, 10 << 10);
    close_pair(&over, a, b);
}

// The longest, and a record before it, fit into a ring that is empty, wherever in it the next record begins.
TEST(the_longest_always_fits) {
    for (size_t size = 16 << 10; size <= 256 << 10; size *= 2) {
        way over = over_ring(size, 0);
        ear *a, *b;
        open_long(&over, &a, &b);
        whi_hdr front = {.cls = 0x12, .size = 1024}, next = {.cls = WHI_CLASS_LONG};
        for (size_t begin = 0; begin < size; begin += 64) {
            CHECK(say(a, front.seq++, 24) == WH_OK);
            (void)poll_all(b);
            next.size = (uint32_t)limit_of(a);
            next.seq = front.seq;
            CHECK(a->lane->ops->send_long(a->lane, &front, bytes, &next,
                                          &(whi_span){.ptr = bytes}) == WH_OK);
            front.seq++;
            (void)poll_all(b);
        }
        close_pair(&over, a, b);
    }
}

static way over_shared_memory(void) {
    way over = over_ring(256 << 10, 0);
    over.opts.fetch = WHI_FETCH_AUTO;
    over.opts.peer = getpid();
    return over;
}

static bool is_better(const ear *self, size_t size) {
    return self->lane->ops->long_better(self->lane, size);
}

// offer makes an offer that the peer takes, if it is to.
static void offer(ear *self, ear *peer, size_t size, bool taken) {
    whi_offer offer;
    CHECK(self->lane->ops->offer(self->lane, &offer, size));
    if (taken)
        CHECK(peer->lane->ops->take(peer->lane, &offer));
    CHECK_EQ_INT(self->lane->ops->revoke(self->lane, &offer), !taken);
}

static whi_pick *pick_of(const ear *self, size_t size) {
    return whi_pick_of(((whi_shm *)self->lane)->long_tx.picks, size);
}

// transfer moves 40,000 bytes the way that is the better one now, and returns whether that is a long record.  An offer is taken or not.
static bool transfer(ear *self, ear *peer, bool taken) {
    bool is_long = is_better(self, 40000);
    if (is_long) {
        CHECK(send_long(self, 40000) == WH_OK);
        (void)poll_all(peer);
    } else {
        offer(self, peer, 40000, taken);
    }
    return is_long;
}

// Both ways are tried, and what costs less is better; of each size apart.
TEST(what_is_read_faster_is_offered) {
    for (int read_is_dear = 0; read_is_dear < 2; read_is_dear++) {
        way over = over_shared_memory();
        ear *a, *b;
        open_long(&over, &a, &b);
        unsigned offered = 0;
        for (int i = 0; i < 20000; i++) {
            whi_pick *pick = pick_of(a, 40000);
            double had = pick->cycles;
            bool is_long = transfer(a, b, true);
            offered += !is_long;
            if (pick->cycles > had && is_long != read_is_dear)
                pick->cycles += 1e9;
            CHECK(is_better(a, 32 << 10) && is_better(a, 70000));
        }
        CHECK(read_is_dear ? offered < 1000 && offered > 10 : offered > 19000);
        close_pair(&over, a, b);
    }
}

// What an offer costs is only seen of one that was alone and could have been a long record.
TEST(offers_that_tell_nothing) {
    way over = over_shared_memory();
    ear *a, *b;
    open_long(&over, &a, &b);
    whi_pick *pick = pick_of(a, 40000);
    offer(a, b, 40000, true);  // before the trial
    while (!pick->trial)
        (void)whi_pick_choose(pick);
    for (int i = 0; i < 100; i++) {
        whi_offer other;
        CHECK(a->lane->ops->offer(a->lane, &other, 0));
        offer(a, b, 40000, true);
        CHECK(a->lane->ops->revoke(a->lane, &other));
        offer(a, b, 0, true);
        offer(a, b, 70000, true);
    }
    CHECK(pick->cost[0] == 0 && !pick->cycles);
    CHECK(is_better(a, 40000));  // the trial has gone on as far as one goes, and no further
    close_pair(&over, a, b);
}

// A peer that does not read what it is offered, or does not any more, gets long records.
TEST(offers_that_are_not_taken) {
    way over = over_shared_memory();
    ear *a, *b;
    open_long(&over, &a, &b);
    whi_pick *pick = pick_of(a, 40000);
    pick->second = false;
    pick->cost[0] = 1e-9;  // so cheap was it
    unsigned offered = 0;
    for (int i = 0; i < 1000; i++) {
        bool is_long = transfer(a, b, false);
        if (is_long && pick->cycles > 1e6)
            pick->cycles = 1000;  // other work on the processor
        offered += !is_long;
    }
    CHECK(offered < 500);
    close_pair(&over, a, b);
}

// With all offers out one cannot be asked for.
TEST(no_offer_left) {
    static whi_offer offers[WHI_RING_OFFERS];
    way over = over_shared_memory();
    ear *a, *b;
    open_long(&over, &a, &b);
    pick_of(a, 40000)->second = false;
    for (unsigned i = 0; i < WHI_RING_OFFERS; i++) {
        CHECK(!is_better(a, 40000));
        CHECK(a->lane->ops->offer(a->lane, &offers[i], 0));
    }
    CHECK(is_better(a, 40000));
    for (unsigned i = 0; i < WHI_RING_OFFERS; i++)
        CHECK(a->lane->ops->revoke(a->lane, &offers[i]));
    CHECK(!is_better(a, 40000));
    close_pair(&over, a, b);
}

// Where this side offers nothing there is no question.
TEST(nothing_to_offer) {
    way over = over_ring(256 << 10, 0);
    ear *a, *b;
    open_long(&over, &a, &b);
    pick_of(a, 40000)->second = false;
    CHECK(is_better(a, 40000));
    close_pair(&over, a, b);
}

TEST_MAIN()
