// SPDX-License-Identifier: BSD-3-Clause
//
// Bulk memory: chunks never overlap what is in flight, every cut gets through, and untrusted words
// are checked.
#include "net/shm/bulk.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "base/test.h"

enum { SIZE = 256 << 10, PART = 64 << 10, IN_FLIGHT = 64, LARGE = 4 << 20 };

static whi_bulk_shared *memory;
static whi_bulk_tx tx;
static whi_bulk_rx rx;

static void begin(size_t chunk_max) {
    if (!memory)
        memory = whi_aligned_alloc(4096, sizeof(*memory) + LARGE);
    CHECK(memory);
    atomic_store(&memory->done, 0);
    whi_bulk_tx_init(&tx, memory, SIZE, chunk_max, false);
    rx = (whi_bulk_rx){.shared = memory, .size = SIZE};
}

TEST(chunks_suit_the_cache) {
    size_t size = whi_bulk_chunk_size(4);
    CHECK(size >= (256 << 10) && size <= (1 << 20) && (size & (size - 1)) == 0);
    CHECK(whi_bulk_chunk_size(64) <= size);
    CHECK_EQ_INT(whi_bulk_chunk_size(100000), 256 << 10);
}

TEST(cuts) {
    begin(PART);
    uint64_t sizes[] = {1,     100,   4096,   16384,   16385,
                        65536, 65537, 100000, 1000000, UINT64_C(1) << 40};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        uint32_t part = whi_bulk_cut(&tx, sizes[i]);
        CHECK(part > 0 && part <= sizes[i] && part <= PART);
        CHECK(part == sizes[i] || part % WHI_BULK_ALIGN == 0);
    }
    // The whole memory as one chunk would wait for ever behind the end of a lap.
    begin(SIZE);
    CHECK_EQ_INT(whi_bulk_cut(&tx, UINT64_C(1) << 40), SIZE / 2);
}

TEST(chunks_in_flight_do_not_overlap) {
    begin(SIZE);
    whi_rng rng;
    whi_rng_init(&rng, 3);
    whi_shm_chunk flying[IN_FLIGHT];
    unsigned first = 0, count = 0, full = 0;
    for (int round = 0; round < 100000; round++) {
        uint32_t size = (uint32_t)whi_rng_between(&rng, 1, SIZE / 2);
        if (whi_rng_chance(&rng, 50))
            size = size % 9000 + 1;
        wh_status status = count < IN_FLIGHT ? whi_bulk_has_space(&tx, size) : WH_EAGAIN;
        if (status == WH_OK) {
            whi_shm_chunk chunk;
            unsigned char *at = whi_bulk_take(&tx, size, &chunk);
            CHECK(chunk.size == size && at == whi_bulk_find(&rx, &chunk));
            for (unsigned i = 0; i < count; i++) {
                const whi_shm_chunk *other = &flying[(first + i) % IN_FLIGHT];
                CHECK(chunk.offset + chunk.size <= other->offset ||
                      other->offset + other->size <= chunk.offset);
            }
            flying[(first + count++) % IN_FLIGHT] = chunk;
        } else {
            CHECK(status == WH_EAGAIN && count > 0);  // with nothing in flight everything fits
            full++;
            whi_bulk_free(&rx, &flying[first++ % IN_FLIGHT]);
            count--;
        }
        CHECK(whi_bulk_idle(&tx) == (count == 0));
    }
    CHECK(full > 1000);
}

// A lap costs the sender so many cycles per KiB, short or through all of the memory.
static void laps_cost(unsigned short_lap, unsigned whole, int rounds, size_t *short_bytes,
                      size_t *whole_bytes) {
    whi_rng rng;
    whi_rng_init(&rng, 5);
    whi_shm_chunk flying[IN_FLIGHT];
    unsigned first = 0, count = 0;
    *short_bytes = *whole_bytes = 0;
    for (int round = 0; round < rounds; round++) {
        uint32_t size = whi_bulk_cut(&tx, whi_rng_between(&rng, 1, LARGE));
        bool fits = count < IN_FLIGHT && whi_bulk_has_space(&tx, size) == WH_OK;
        if (fits && !whi_rng_chance(&rng, 30)) {
            whi_shm_chunk chunk;
            CHECK(whi_bulk_find(&rx, (whi_bulk_take(&tx, size, &chunk), &chunk)));
            bool is_short = tx.lap < tx.size;
            CHECK(chunk.offset + chunk.size <= tx.lap);
            for (unsigned i = 0; i < count; i++) {
                const whi_shm_chunk *other = &flying[(first + i) % IN_FLIGHT];
                CHECK(chunk.offset + chunk.size <= other->offset ||
                      other->offset + other->size <= chunk.offset);
            }
            flying[(first + count++) % IN_FLIGHT] = chunk;
            // Memory that is new, or has left the caches, says nothing.
            bool is_cold = tx.base == 0 || (!is_short && tx.before < tx.size);
            unsigned cost = is_cold ? 20 * short_lap : is_short ? short_lap : whole;
            whi_bulk_note(&tx, (uint64_t)size / 1024 * cost, size);
            *(is_short ? short_bytes : whole_bytes) += size;
        } else if (count) {
            whi_bulk_free(&rx, &flying[first++ % IN_FLIGHT]);
            count--;
        } else {
            CHECK(fits);  // with nothing in flight everything fits
        }
    }
    if (count)
        whi_bulk_free(&rx, &flying[(first + count - 1) % IN_FLIGHT]);
}

TEST(laps_are_as_long_as_is_fast) {
    begin(PART);
    whi_bulk_tx_init(&tx, memory, LARGE, LARGE / 4, true);
    atomic_store(&memory->done, 0);
    rx.size = LARGE;
    size_t short_bytes, whole_bytes;
    laps_cost(100, 100, 400000, &short_bytes, &whole_bytes);
    CHECK(short_bytes > 2 * whole_bytes);
    laps_cost(500, 100, 400000, &short_bytes, &whole_bytes);
    laps_cost(500, 100, 400000, &short_bytes, &whole_bytes);
    CHECK(whole_bytes > 10 * short_bytes);
    laps_cost(100, 100, 400000, &short_bytes, &whole_bytes);
    laps_cost(100, 100, 400000, &short_bytes, &whole_bytes);
    CHECK(short_bytes > 2 * whole_bytes);
    // Who has set a size gets it.
    whi_bulk_tx_init(&tx, memory, LARGE, LARGE / 4, false);
    atomic_store(&memory->done, 0);
    laps_cost(100, 100, 10000, &short_bytes, &whole_bytes);
    CHECK(short_bytes == 0);
}

TEST(a_wrong_count_is_noticed) {
    begin(PART);
    whi_shm_chunk chunk;
    while (whi_bulk_has_space(&tx, PART) == WH_OK)
        (void)whi_bulk_take(&tx, PART, &chunk);
    CHECK_EQ_INT(tx.head, SIZE);
    const uint64_t wrong[] = {SIZE + 1, SIZE * UINT64_C(2), UINT64_MAX, UINT64_C(1) << 63};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        atomic_store(&memory->done, wrong[i]);
        CHECK(whi_bulk_has_space(&tx, PART) == WH_EPROTOCOL);
        CHECK(!whi_bulk_idle(&tx));
    }
    // Odd but possible words give less space, never too much.
    atomic_store(&memory->done, 1);
    CHECK(whi_bulk_has_space(&tx, PART) == WH_EAGAIN);
    atomic_store(&memory->done, 0);
    CHECK(whi_bulk_has_space(&tx, PART) == WH_EPROTOCOL);
}

TEST(a_wrong_chunk_is_noticed) {
    begin(PART);
    const whi_shm_chunk wrong[] = {{0, 0, 0},          {0, SIZE + 1, 0},           {SIZE, 1, 0},
                                   {SIZE - 1, 2, 0},   {UINT32_MAX, 1, 0},         {1, SIZE, 0},
                                   {1, UINT32_MAX, 0}, {UINT32_MAX, UINT32_MAX, 0}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        CHECK(!whi_bulk_find(&rx, &wrong[i]));
    CHECK(whi_bulk_find(&rx, &(whi_shm_chunk){0, SIZE, 0}) == memory->data);
    CHECK(whi_bulk_find(&rx, &(whi_shm_chunk){SIZE - 1, 1, 0}) == memory->data + SIZE - 1);
    whi_bulk_rx none = {0};
    CHECK(!whi_bulk_find(&none, &(whi_shm_chunk){0, 1, 0}));
}

static void move(void *ctx, uint64_t offset, void *host, size_t size) {
    uint64_t *calls = ctx;
    calls[0] = offset;
    calls[1] = size;
    memset(host, 5, size);
}

TEST(spans) {
    enum { N = 10000 };
    static unsigned char from[N], to[N + 1];
    for (int i = 0; i < N; i++)
        from[i] = (unsigned char)(i * 3);
    whi_bulk_write(&(whi_span){.ptr = to}, from, N, 0);
    CHECK_MEM(to, from, N);
    memset(to, 0, N);
    whi_bulk_write(&(whi_span){.ptr = to}, from, N, UINT64_C(1) << 50);
    CHECK_MEM(to, from, N);
    CHECK_EQ_INT(to[N], 0);
    uint64_t calls[2] = {0};
    whi_span span = {.move = move, .ctx = calls, .base = 77};
    whi_bulk_write(&span, from, 11, 0);
    CHECK(calls[0] == 77 && calls[1] == 11);
}

TEST_MAIN()
