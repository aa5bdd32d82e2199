// SPDX-License-Identifier: BSD-3-Clause
//
// Offers between two lanes: taken once, revoked for good, kept when the ring grows, and never where they are not the peer's.
#include "net/shm/offers.h"

#include <sys/uio.h>

#include "net/shm/test_pair.h"

enum { SIZE = 100000 };

static way reading = {.opts = {.ring_size = 4096,
                               .ring_max = 16384,
                               .eager_limit = 1024,
                               .chunks = 4,
                               .fetch = WHI_FETCH_ALWAYS},
                      .limit = 64 << 20};
static unsigned char from[SIZE], to[SIZE];

static void begin(void) {
    int a = 1, b = 0;
    struct iovec here = {&b, sizeof(b)}, there = {&a, sizeof(a)};
    if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != sizeof(b))
        SKIP("process_vm_readv is not to be had here");
    reading.opts.peer = getpid();
    open_pair(&reading, &ears[0], &ears[1]);
    (void)poll_all(&ears[0]);
    (void)poll_all(&ears[1]);
    memset(from, 0x33, SIZE);
    memset(to, 0, SIZE);
}

static wh_status fetch_part(const whi_offer *offer, const whi_part *part, uint64_t *since) {
    whi_lane *lane = ears[1].lane;
    whi_fetch one = {.offer = offer, .part = *part, .since = since};
    bool last = part->at + part->size == part->whole;
    lane->ops->read(lane, &one, 1);
    return one.status == WH_OK && last && !lane->ops->take(lane, offer) ? WH_EAGAIN : one.status;
}

static wh_status fetch(const whi_offer *offer) {
    const whi_piece pieces[] = {{(uint64_t)(uintptr_t)from, to, 10},
                                {(uint64_t)(uintptr_t)from + 10, to + 10, SIZE - 10}};
    const whi_part all = {pieces, 2, 0, SIZE, SIZE};
    uint64_t since;
    return fetch_part(offer, &all, &since);
}

static whi_offer make_offer(void) {
    whi_offer offer;
    CHECK(ears[0].lane->ops->offer(ears[0].lane, &offer, 0));
    return offer;
}

static bool take_back(const whi_offer *offer) {
    return ears[0].lane->ops->revoke(ears[0].lane, offer);
}

TEST(taken_once) {
    begin();
    whi_offer offer = make_offer();
    CHECK_EQ_INT(fetch(&offer), WH_OK);
    CHECK_MEM(to, from, SIZE);
    CHECK_EQ_INT(fetch(&offer), WH_EAGAIN);
    CHECK(!take_back(&offer));
    close_pair(&reading, &ears[0], &ears[1]);
}

// The offer is taken with the last part, and not before.
TEST(taken_in_parts) {
    begin();
    whi_offer offer = make_offer();
    uint64_t since = 0;
    for (uint64_t at = 0; at < SIZE; at += SIZE / 4) {
        const whi_piece piece = {(uint64_t)(uintptr_t)(from + at), to + at, SIZE / 4};
        const whi_part part = {&piece, 1, at, SIZE / 4, SIZE};
        CHECK_EQ_INT(fetch_part(&offer, &part, &since), WH_OK);
        CHECK(since);
    }
    CHECK_MEM(to, from, SIZE);
    CHECK(!take_back(&offer));
    offer = make_offer();
    const whi_piece piece = {(uint64_t)(uintptr_t)from, to, SIZE / 2};
    const whi_part half = {&piece, 1, 0, SIZE / 2, SIZE};
    CHECK_EQ_INT(fetch_part(&offer, &half, &since), WH_OK);
    CHECK(take_back(&offer));
    close_pair(&reading, &ears[0], &ears[1]);
}

TEST(revoked_for_good) {
    begin();
    whi_offer old = make_offer();
    CHECK(take_back(&old));
    CHECK_EQ_INT(fetch(&old), WH_EAGAIN);
    whi_offer next = make_offer();
    CHECK_EQ_INT(next.slot, old.slot);  // and is not taken for the old one
    CHECK_EQ_INT(fetch(&old), WH_EAGAIN);
    CHECK_EQ_INT(fetch(&next), WH_OK);
    CHECK(!take_back(&next));
    close_pair(&reading, &ears[0], &ears[1]);
}

TEST(so_many_and_no_more) {
    static whi_offer offers[WHI_RING_OFFERS + 1];
    begin();
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < WHI_RING_OFFERS; i++)
            offers[i] = make_offer();
        CHECK(!ears[0].lane->ops->offer(ears[0].lane, &offers[WHI_RING_OFFERS], 0));
        for (unsigned i = round; i < WHI_RING_OFFERS; i += 3)
            CHECK_EQ_INT(fetch(&offers[i]), WH_OK);
        for (unsigned i = 0; i < WHI_RING_OFFERS; i++)
            CHECK_EQ_INT(take_back(&offers[i]), i % 3 != round);
    }
    close_pair(&reading, &ears[0], &ears[1]);
}

// The words move to the larger ring: what was taken stays so, what was not still can be.
TEST(a_ring_that_grows) {
    begin();
    whi_offer taken = make_offer(), open = make_offer(), revoked = make_offer();
    CHECK_EQ_INT(fetch(&taken), WH_OK);
    const void *before = ((whi_shm *)ears[0].lane)->tx.shared;
    unsigned count = say_all(&ears[0], 0, 1000);
    CHECK(((whi_shm *)ears[0].lane)->tx.shared != before);
    CHECK(take_back(&revoked));
    CHECK_EQ_INT(fetch(&open), WH_EAGAIN);  // the peer is in the old ring yet
    (void)poll_all(&ears[1]);
    CHECK_EQ_INT(ears[1].heard, count);
    CHECK_EQ_INT(fetch(&revoked), WH_EAGAIN);
    CHECK_EQ_INT(fetch(&open), WH_OK);
    CHECK(!take_back(&open) && !take_back(&taken));
    close_pair(&reading, &ears[0], &ears[1]);
}

TEST(offers_that_are_none) {
    begin();
    whi_offer good = make_offer();
    const whi_offer bad[] = {{0, 0},
                             {good.ticket + 1, good.slot},
                             {good.ticket, good.slot + 1},
                             {good.ticket, WHI_RING_OFFERS},
                             {good.ticket, 1 << 28},
                             {good.ticket, UINT32_MAX},
                             {UINT64_MAX, good.slot},
                             {UINT64_C(1) << 63, 5}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_EQ_INT(fetch(&bad[i]), WH_EAGAIN);
    const whi_piece wild[] = {{1, to, 100}, {UINT64_MAX - 10, to, 100}, {0, to, UINT64_MAX}};
    uint64_t since;
    for (int i = 0; i < 3; i++) {
        const whi_part part = {&wild[i], 1, 0, wild[i].size, wild[i].size};
        CHECK_EQ_INT(fetch_part(&good, &part, &since), WH_EAGAIN);
    }
    CHECK_EQ_INT(fetch(&good), WH_OK);
    CHECK(!take_back(&good));
    close_pair(&reading, &ears[0], &ears[1]);
}

// Several are read at once, and each is taken by itself; one that cannot be read is not the others' end.
TEST(together) {
    enum { COUNT = 4, EACH = SIZE / COUNT };
    for (int bad = -1; bad < COUNT; bad++) {
        begin();
        whi_offer offer[COUNT];
        whi_piece piece[COUNT];
        whi_fetch list[COUNT];
        uint64_t since[COUNT] = {0};
        for (int i = 0; i < COUNT; i++) {
            offer[i] = make_offer();
            piece[i] = (whi_piece){i == bad ? 1 : (uint64_t)(uintptr_t)(from + i * EACH),
                                   to + i * EACH, EACH};
            list[i] = (whi_fetch){
                .offer = &offer[i], .part = {&piece[i], 1, 0, EACH, EACH}, .since = &since[i]};
        }
        CHECK(take_back(&offer[2]));
        ears[1].lane->ops->read(ears[1].lane, list, COUNT);
        for (int i = 0; i < COUNT; i++) {
            CHECK_EQ_INT(list[i].status, i == bad ? WH_EAGAIN : WH_OK);
            CHECK(since[i]);
            if (i == bad)
                continue;
            CHECK_EQ_INT(ears[1].lane->ops->take(ears[1].lane, &offer[i]), i != 2);
            CHECK_MEM(to + i * EACH, from + i * EACH, EACH);
        }
        for (int i = 0; i < COUNT; i++)
            CHECK_EQ_INT(i == 2 || take_back(&offer[i]), i == 2 || i == bad);
        close_pair(&reading, &ears[0], &ears[1]);
    }
}

// reads_at_first says whether a lane that has tried sizes from `tried` on, up to twice as many bytes, reads its first payload of SIZE bytes.
static bool reads_at_first(unsigned tried, bool reads) {
    reading.opts.fetch = WHI_FETCH_AUTO;
    begin();
    whi_pick *picks = ((whi_shm *)ears[1].lane)->fetcher.picks[WHI_FETCH_ALONE];
    picks[9].tried = true;  // and the largest it does not
    picks[9].second = !reads;
    picks[tried].tried = true;
    picks[tried].second = reads;
    whi_offer offer = make_offer();
    bool read = fetch(&offer) == WH_OK;
    CHECK_EQ_INT(take_back(&offer), !read);
    close_pair(&reading, &ears[0], &ears[1]);
    reading.opts.fetch = WHI_FETCH_ALWAYS;
    return read;
}

TEST(a_new_size_begins_as_the_nearest_does) {
    CHECK(reads_at_first(2, true));  // SIZE is of the class 3
    CHECK(!reads_at_first(2, false));
    CHECK(reads_at_first(5, true));
    CHECK(!reads_at_first(5, false));
    CHECK(reads_at_first(0, true));
}

// What comes while this side has payloads out for the peer is judged apart, and with what the peer's copies cost.
TEST(both_ways) {
    reading.opts.fetch = WHI_FETCH_AUTO;
    begin();
    whi_shm *lane = (whi_shm *)ears[1].lane;
    const whi_piece piece = {(uint64_t)(uintptr_t)from, to, SIZE};
    const whi_part all = {&piece, 1, 0, SIZE, SIZE};
    for (int both = 0; both < 2; both++) {
        whi_offer mine, offer = make_offer();
        if (both)
            CHECK(lane->lane.ops->offer(&lane->lane, &mine, 0));
        uint64_t since = 0;
        CHECK_EQ_INT(fetch_part(&offer, &all, &since), WH_EAGAIN);
        int row = both ? WHI_FETCH_BOTH_WAYS : WHI_FETCH_ALONE;
        whi_pick *pick = &lane->fetcher.picks[row][3];
        CHECK(pick->begun);
        CHECK(!lane->fetcher.picks[WHI_FETCH_BOTH_WAYS][3].begun || both);
        whi_copy_method *method = &lane->bulk_method[false];
        method->cost[method->nontemporal] = 1 << 30;
        lane->lane.ops->came(&lane->lane, SIZE, SIZE, SIZE, since);
        double peers = (double)SIZE / 1024 * (1 << 30);
        CHECK((pick->cycles >= peers) == both);
        if (both)
            CHECK(lane->lane.ops->revoke(&lane->lane, &mine));
        CHECK(take_back(&offer));
        CHECK_EQ_INT(lane->offered.out, 0);
    }
    close_pair(&reading, &ears[0], &ears[1]);
    reading.opts.fetch = WHI_FETCH_ALWAYS;
}

TEST(a_lane_that_does_not_read) {
    way plain = {.opts = reading.opts, .limit = 64 << 20};
    plain.opts.fetch = WHI_FETCH_NEVER;
    open_pair(&plain, &ears[0], &ears[1]);
    whi_offer offer;
    CHECK(!ears[0].lane->ops->offer(ears[0].lane, &offer, 0));
    CHECK_EQ_INT(fetch(&(whi_offer){1, 0}), WH_EAGAIN);
    close_pair(&plain, &ears[0], &ears[1]);
}

TEST_MAIN()
