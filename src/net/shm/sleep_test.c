// SPDX-License-Identifier: BSD-3-Clause
//
// The shm lane: falling asleep, and who rings for whom.
#include "net/shm/shm.h"

#include "net/shm/test_pair.h"

static void fall_asleep(ear *self, bool want_space) {
    self->lane->ops->arm(self->lane, want_space);
    whi_shm_barrier();
}

static void check_bells(bool asymmetric) {
    way over = {.opts = {.ring_size = 4096,
                         .eager_limit = 1000,
                         .chunks = 2,
                         .chunk_max = 65536,
                         .asymmetric = asymmetric},
                .limit = 1 << 20};
    ear *a = &ears[0], *b = &ears[1];
    open_pair(&over, a, b);
    CHECK(say(a, 0, 8) == WH_OK);
    CHECK_EQ_INT(over.wires[0].bells, 0);
    fall_asleep(b, false);
    CHECK(b->lane->ops->ready(b->lane, false));
    (void)poll_all(b);
    fall_asleep(b, false);
    CHECK(!b->lane->ops->ready(b->lane, false));
    // One bell per arming.
    CHECK(say(a, 1, 8) == WH_OK && say(a, 2, 8) == WH_OK);
    CHECK_EQ_INT(over.wires[0].bells, 1);
    (void)poll_all(b);

    unsigned count = 3 + say_all(a, 3, 1000);
    CHECK(!a->lane->ops->ready(a->lane, true));
    fall_asleep(a, true);
    CHECK(!a->lane->ops->ready(a->lane, true));
    CHECK_EQ_INT(over.wires[1].bells, 0);
    (void)poll_all(b);
    CHECK_EQ_INT(over.wires[1].bells, 1);
    CHECK(a->lane->ops->ready(a->lane, true) && !a->lane->ops->ready(a->lane, false));
    CHECK_EQ_INT(poll_all(a), 1);
    CHECK(say(a, count, 1000) == WH_OK);

    // Bulk memory that is full waits for a chunk: the announcement, then the first.
    (void)poll_all(b);
    size_t moved = 0;
    while (push(a, 0, MEMORY, &moved) == WH_OK)
        continue;
    fall_asleep(a, true);
    CHECK(!a->lane->ops->ready(a->lane, true));
    CHECK_EQ_INT(b->lane->ops->poll(b->lane, 1), 1);
    CHECK_EQ_INT(over.wires[1].bells, 1);
    CHECK_EQ_INT(b->lane->ops->poll(b->lane, 1), 1);
    CHECK_EQ_INT(over.wires[1].bells, 2);
    CHECK(a->lane->ops->ready(a->lane, true));
    close_pair(&over, a, b);
}

TEST(bells_fenced) {
    check_bells(false);
}

TEST(bells_asymmetric) {
    if (!whi_shm_barrier_init())
        SKIP("no membarrier here");
    check_bells(true);
}

// A sleeper polls with a budget, so its last records may be consumed and not told of; whatever was
// refused must fit nevertheless.
TEST(an_empty_ring_has_space) {
    way over = {.opts = {.ring_size = 4096, .eager_limit = 1024}, .limit = 0};
    ear *a = &ears[0], *b = &ears[1];
    for (uint32_t size = 0; size <= 1024; size += 32) {
        open_pair(&over, a, b);
        unsigned count = say_all(a, 0, size);
        CHECK(say(a, count, 1024) == WH_EAGAIN);
        CHECK(b->lane->ops->poll(b->lane, (int)count) > 0);
        while (b->heard < count)
            CHECK(b->lane->ops->poll(b->lane, 1) == 1);
        CHECK(a->lane->ops->ready(a->lane, true));
        close_pair(&over, a, b);
    }
}

// Poll tells of space by the quarter of the ring; who falls asleep must not keep the rest.
TEST(a_sleeper_leaves_the_whole_ring) {
    way over = {.opts = {.ring_size = 4096, .eager_limit = 64}, .limit = 0};
    ear *a = &ears[0], *b = &ears[1];
    open_pair(&over, a, b);
    unsigned first = say_all(a, 0, 32);
    CHECK_EQ_INT(b->lane->ops->poll(b->lane, 1000), first);
    (void)poll_all(b);
    for (unsigned i = 0; i < 10; i++)
        CHECK(say(a, first + i, 32) == WH_OK);
    CHECK_EQ_INT(b->lane->ops->poll(b->lane, 1000), 10);
    fall_asleep(b, false);
    CHECK(!b->lane->ops->ready(b->lane, false));
    CHECK_EQ_INT(say_all(a, first + 10, 32), first);
    close_pair(&over, a, b);
}

// The sender waits for bulk space and asks for it in the ring that it has just changed to; the
// receiver frees that space before it has come to the change.
TEST(bulk_space_freed_before_the_new_ring) {
    way over = {.opts = {.ring_size = 4096,
                         .ring_max = 65536,
                         .eager_limit = 64,
                         .chunks = 2,
                         .chunk_max = 65536},
                .limit = 1 << 20};
    ear *a = &ears[0], *b = &ears[1];
    open_pair(&over, a, b);
    size_t moved = 0;
    while (push(a, 0, MEMORY, &moved) == WH_OK)
        continue;
    const whi_shm *lane = (const whi_shm *)a->lane;
    unsigned count = 0;
    while (lane->ring_max)
        CHECK(say(a, count++, 32) == WH_OK);
    CHECK(push(a, 0, MEMORY, &moved) == WH_EAGAIN);
    fall_asleep(a, true);
    CHECK(!a->lane->ops->ready(a->lane, true));
    // One poll, and the receiver sleeps too: it has to ring in that.
    CHECK(b->lane->ops->poll(b->lane, 1000) > 0);
    CHECK_EQ_INT(b->heard, count);
    CHECK(over.wires[1].bells > 0);
    CHECK(a->lane->ops->ready(a->lane, true));
    close_pair(&over, a, b);
}

// A bell that the system has no memory for is rung later; nobody sleeps over it meanwhile.
TEST(a_bell_is_owed_until_it_rings) {
    way over = {.opts = {.ring_size = 4096, .eager_limit = 64}, .limit = 0};
    ear *a = &ears[0], *b = &ears[1];
    open_pair(&over, a, b);
    for (int by_poll = 0; by_poll < 2; by_poll++) {
        over.wires[0].bells = 0;
        over.wires[0].mute = 2;
        fall_asleep(b, false);
        CHECK(say(a, (unsigned)by_poll, 8) == WH_OK);
        CHECK(a->unsent);
        fall_asleep(a, false);
        CHECK(a->lane->ops->ready(a->lane, false));
        CHECK_EQ_INT(over.wires[0].bells, 0);
        if (by_poll)
            CHECK(a->lane->ops->poll(a->lane, 16) >= 0);
        else
            fall_asleep(a, false);
        CHECK_EQ_INT(over.wires[0].bells, 1);
        (void)poll_all(a);
        fall_asleep(a, false);
        CHECK(!a->lane->ops->ready(a->lane, false));
        CHECK_EQ_INT(poll_all(b), 1);
        a->unsent = false;
    }
    CHECK_EQ_INT(over.wires[0].bells, 1);
    close_pair(&over, a, b);
}

TEST_MAIN()
