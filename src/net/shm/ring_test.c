// SPDX-License-Identifier: BSD-3-Clause
//
// The ring on plain memory: contents, laps, space, and words that no honest peer writes.
#include "net/shm/ring.h"

#include <sched.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "base/test.h"
#include "net/shm/classes.h"

enum { SIZE = 4096, LARGEST = 1000 };

// One ring and both of its ends.
static whi_ring_shared *memory;
static whi_ring_tx tx;
static whi_ring_rx rx;

static void begin(void) {
    if (!memory)
        memory = whi_aligned_alloc(4096, sizeof(*memory) + SIZE);
    CHECK(memory);
    memset(memory, 0, sizeof(*memory) + SIZE);
    whi_ring_tx_init(&tx, memory, SIZE);
    whi_ring_rx_init(&rx, memory, SIZE);
}

static uint32_t size_of(uint64_t number) {
    return (uint32_t)(whi_splitmix64(&number) % (LARGEST + 1));
}

static unsigned char byte_of(uint64_t number) {
    return (unsigned char)(number * 7 + 1);
}

// Writes record `number`, whose size and bytes follow from that.
static wh_status put(uint64_t number) {
    whi_hdr hdr = {.size = size_of(number),
                   .cls = 0x11,
                   .flags = 0x22,
                   .aux = 0x3344,
                   .ep = 0x55667788,
                   .seq = (uint32_t)number,
                   .tag = ~number,
                   .arg = number << 32};
    if (!whi_ring_fits(&tx, hdr.size)) {
        wh_status status = whi_ring_make_space(&tx, hdr.size);
        if (status != WH_OK)
            return status;
    }
    memset(whi_ring_payload(&tx), byte_of(number), hdr.size);
    whi_ring_publish(&tx, &hdr, number % 3 == 0);
    return WH_OK;
}

// Takes the next record but pads, and checks that it is `number`.
static wh_status get(uint64_t number) {
    whi_hdr hdr = {0};
    unsigned char *payload;
    wh_status status;
    while ((status = whi_ring_peek(&rx, &hdr, &payload)) == WH_OK && hdr.cls == WHI_SHM_PAD)
        whi_ring_consume(&rx, hdr.size);
    if (status != WH_OK)
        return status;
    whi_hdr want = {size_of(number),  0x11,    0x22,        0x3344, 0x55667788,
                    (uint32_t)number, ~number, number << 32};
    CHECK(memcmp(&hdr, &want, sizeof(hdr)) == 0);
    for (uint32_t i = 0; i < hdr.size; i++)
        CHECK_EQ_INT(payload[i], byte_of(number));
    whi_ring_consume(&rx, hdr.size);
    if (whi_ring_untold(&rx))
        whi_ring_tell(&rx);
    return WH_OK;
}

TEST(space_of_a_record) {
    CHECK_EQ_INT(whi_ring_space(0), 64);
    CHECK_EQ_INT(whi_ring_space(8), 64);
    CHECK_EQ_INT(whi_ring_space(32), 64);
    CHECK_EQ_INT(whi_ring_space(33), 128);
    CHECK_EQ_INT(whi_ring_space(UINT32_MAX), (UINT64_C(1) << 32) + 64);
}

TEST(records_come_as_they_were_sent) {
    begin();
    whi_rng rng;
    whi_rng_init(&rng, 1);
    uint64_t sent = 0, taken = 0;
    while (taken < 20000) {
        for (uint64_t n = whi_rng_below(&rng, 12); n && put(sent) == WH_OK; n--)
            sent++;
        for (uint64_t n = whi_rng_below(&rng, 12); n && get(taken) == WH_OK; n--)
            taken++;
        CHECK(tx.head - tx.tail <= SIZE && taken <= sent);
        if (taken == sent)
            whi_ring_tell(&rx);
    }
}

TEST(what_is_not_published_is_empty) {
    begin();
    // A payload of ones looks like live records at every step.
    uint64_t lead;
    for (int round = 0; round < 300; round++) {
        whi_hdr hdr = {.size = 777};
        unsigned char *payload;
        CHECK(whi_ring_make_space(&tx, hdr.size) == WH_OK);
        memset(whi_ring_payload(&tx), 0xff, hdr.size);
        whi_ring_publish(&tx, &hdr, round % 2);
        while (whi_ring_peek(&rx, &hdr, &payload) == WH_OK)
            whi_ring_consume(&rx, hdr.size);
        CHECK(rx.pos == tx.head && whi_ring_empty(&rx));
        whi_ring_tell(&rx);
        for (size_t at = 0; at < SIZE; at += WHI_RING_STEP) {
            memcpy(&lead, memory->data + at, sizeof(lead));
            CHECK_EQ_INT(lead, 0);
        }
    }
}

TEST(a_gap_only_where_there_is_space) {
    begin();
    whi_hdr hdr = {.size = 8};
    unsigned char *payload;
    unsigned apart = 0, count = 0;
    for (; whi_ring_make_space(&tx, hdr.size) == WH_OK; count++) {
        uint64_t head = tx.head;
        whi_ring_publish(&tx, &hdr, true);
        apart += tx.head - head == 64 + WHI_RING_GAP;
        CHECK(tx.head + WHI_RING_RESERVE <= SIZE);
    }
    CHECK(apart > 0 && count > apart);
    for (; count; count--) {
        CHECK(whi_ring_peek(&rx, &hdr, &payload) == WH_OK);
        whi_ring_consume(&rx, hdr.size);
    }
    CHECK(rx.pos == tx.head && whi_ring_empty(&rx));
}

TEST(a_gap_that_leaves_the_ring_is_none) {
    begin();
    for (uint64_t at = 0; at < SIZE; at += WHI_RING_STEP) {
        whi_hdr hdr;
        unsigned char *payload;
        uint64_t lead = WHI_RING_LIVE | WHI_RING_APART;
        rx.pos = at;
        rx.at = rx.data + at;
        memcpy(rx.at, &lead, sizeof(lead));
        CHECK(whi_ring_peek(&rx, &hdr, &payload) ==
              (at + WHI_RING_STEP + WHI_RING_GAP <= SIZE ? WH_OK : WH_EPROTOCOL));
    }
}

TEST(the_reserve_is_for_the_last_record) {
    begin();
    whi_hdr small = {.size = 1};
    unsigned count = 0;
    for (; whi_ring_make_space(&tx, small.size) == WH_OK; count++)
        whi_ring_publish(&tx, &small, false);
    CHECK_EQ_INT(count, SIZE / 64 - 1);
    CHECK(whi_ring_has_space(&tx, 0) == WH_EAGAIN);
    CHECK(!whi_ring_fits(&tx, 0));
    CHECK_EQ_INT(tx.head + WHI_RING_RESERVE, SIZE);
    whi_hdr last = {.cls = 0x99}, hdr = {0};
    whi_ring_publish(&tx, &last, false);
    unsigned char *payload;
    for (; count; count--) {
        CHECK(whi_ring_peek(&rx, &hdr, &payload) == WH_OK && hdr.size == 1);
        whi_ring_consume(&rx, hdr.size);
    }
    CHECK(whi_ring_peek(&rx, &hdr, &payload) == WH_OK && hdr.cls == 0x99);
}

TEST(the_largest_record_always_fits_once_empty) {
    for (unsigned before = 0; before < SIZE / 64; before++) {
        begin();
        whi_hdr hdr = {.size = 0};
        unsigned char *payload;
        for (unsigned i = 0; i < before; i++) {
            CHECK(whi_ring_make_space(&tx, 0) == WH_OK);
            whi_ring_publish(&tx, &hdr, false);
            CHECK(whi_ring_peek(&rx, &hdr, &payload) == WH_OK);
            whi_ring_consume(&rx, hdr.size);
            whi_ring_tell(&rx);
        }
        CHECK(whi_ring_make_space(&tx, SIZE / 4) == WH_OK);
        CHECK(whi_ring_payload(&tx) + SIZE / 4 <= memory->data + SIZE);
    }
}

TEST(the_tail_is_told_each_quarter) {
    begin();
    whi_hdr hdr = {.size = 0};
    unsigned char *payload;
    for (unsigned i = 1; i <= 16; i++) {
        CHECK(whi_ring_make_space(&tx, 0) == WH_OK);
        whi_ring_publish(&tx, &hdr, false);
        CHECK(!whi_ring_untold(&rx));
        CHECK(whi_ring_peek(&rx, &hdr, &payload) == WH_OK);
        whi_ring_consume(&rx, hdr.size);
    }
    CHECK(whi_ring_untold(&rx));
    whi_ring_tell(&rx);
    CHECK(!whi_ring_untold(&rx));
    CHECK_EQ_INT(atomic_load(&memory->tail), SIZE / 4);
}

TEST(a_wrong_tail_is_noticed) {
    begin();
    for (uint64_t i = 0; i < 4 && put(i) == WH_OK && get(i) == WH_OK; i++)
        continue;
    whi_ring_tell(&rx);
    CHECK(whi_ring_make_space(&tx, 0) == WH_OK);
    uint64_t tail = tx.tail, head = tx.head;
    CHECK(tail == head && head >= 256);
    CHECK(put(4) == WH_OK && tx.head > head);
    const uint64_t wrong[] = {0,           tail - 64,  tail + 1,    tx.head + 64,
                              tail + SIZE, UINT64_MAX, tail - SIZE, UINT64_C(1) << 63};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        atomic_store(&memory->tail, wrong[i]);
        CHECK(whi_ring_make_space(&tx, 0) == WH_EPROTOCOL);
        CHECK(whi_ring_has_space(&tx, 0) == WH_EPROTOCOL);
        CHECK_EQ_INT(tx.tail, tail);
    }
    atomic_store(&memory->tail, tx.head);
    CHECK(whi_ring_make_space(&tx, 0) == WH_OK);
}

static wh_status peek_lead(uint64_t lead) {
    whi_hdr hdr;
    unsigned char *payload;
    memcpy(rx.at, &lead, sizeof(lead));
    return whi_ring_peek(&rx, &hdr, &payload);
}

TEST(a_wrong_lead_word_is_noticed) {
    begin();
    CHECK(peek_lead(0) == WH_EAGAIN);
    CHECK(peek_lead(1) == WH_EPROTOCOL);
    CHECK(peek_lead(WHI_RING_LIVE - 1) == WH_EPROTOCOL);
    CHECK(peek_lead(UINT64_C(1) << 32) == WH_EPROTOCOL);
    CHECK(peek_lead(WHI_RING_LIVE | (SIZE - 32)) == WH_OK);
    CHECK(peek_lead(WHI_RING_LIVE | (SIZE - 31)) == WH_EPROTOCOL);
    CHECK(peek_lead(WHI_RING_LIVE | 0x7fffffff) == WH_EPROTOCOL);
    CHECK(peek_lead(UINT64_MAX) == WH_EPROTOCOL);
    // At the end of the ring only what is left of it.
    rx.pos = SIZE - 64;
    rx.at = rx.data + SIZE - 64;
    CHECK(peek_lead(WHI_RING_LIVE | 32) == WH_OK);
    CHECK(peek_lead(WHI_RING_LIVE | 33) == WH_EPROTOCOL);
}

TEST(random_memory_is_survived) {
    for (uint64_t seed = 0; seed < 2000; seed++) {
        begin();
        whi_rng rng;
        whi_rng_init(&rng, seed);
        for (size_t at = 0; at < SIZE; at += 64) {
            uint64_t lead = whi_rng_u64(&rng) & ~UINT64_C(0x7ffff000);
            if (whi_rng_chance(&rng, 80))
                lead |= WHI_RING_LIVE;
            memcpy(memory->data + at, &lead, sizeof(lead));
        }
        whi_hdr hdr;
        unsigned char *payload;
        uint64_t sum = 0;
        // All is consumed within one lap: each record behind that reads as zero.
        while (whi_ring_peek(&rx, &hdr, &payload) == WH_OK) {
            CHECK(payload >= memory->data && payload + hdr.size <= memory->data + SIZE);
            for (uint32_t i = 0; i < hdr.size; i++)
                sum += payload[i];
            whi_ring_consume(&rx, hdr.size);
            CHECK(rx.pos <= SIZE);
        }
        CHECK(sum < UINT64_MAX);
    }
}

enum { THREADED = 200000 };

static void *produce(void *arg) {
    (void)arg;
    for (uint64_t number = 0; number < THREADED;) {
        if (put(number) == WH_OK)
            number++;
        else
            sched_yield();
    }
    return NULL;
}

TEST(two_threads) {
    begin();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, produce, NULL) == 0);
    for (uint64_t number = 0; number < THREADED;) {
        if (get(number) == WH_OK) {
            number++;
        } else {
            whi_ring_tell(&rx);
            sched_yield();
        }
    }
    pthread_join(thread, NULL);
}

TEST_MAIN()
