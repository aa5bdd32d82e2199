// SPDX-License-Identifier: BSD-3-Clause
//
// Blocks of device memory: where they lie, that they are joined again, and what all have in common: a bound.
#include "mem/device_pool.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "base/test.h"
#include "mem/sim.h"

enum { K = 1 << 10, M = 1 << 20, UNIT = 256 * K };

static whi_device_pool pool;

static void begin(uint64_t max) {
    whi_device_pool_init(&pool, max);
}

static void end(void) {
    CHECK_EQ_INT(pool.used, 0);
    whi_device_pool_fini(&pool);
    CHECK_EQ_INT(pool.size, 0);
    CHECK_EQ_INT(atomic_load(&whi_mem_device_allocations), 0);
}

static whi_device_block *take(int device, uint64_t wanted) {
    whi_device_block *block = NULL;
    CHECK_EQ_INT(whi_device_pool_take(&pool, &whi_mem_sim, device, wanted, &block), WH_OK);
    return block;
}

static wh_status none(int device, uint64_t wanted) {
    whi_device_block *block = NULL;
    wh_status st = whi_device_pool_take(&pool, &whi_mem_sim, device, wanted, &block);
    CHECK(!block);
    return st;
}

static void put(whi_device_block *block) {
    whi_device_pool_put(&pool, block);
}

TEST(blocks_are_parts_of_few_allocations) {
    begin(64 * M);
    whi_device_block *blocks[32];
    for (int i = 0; i < 32; i++)
        blocks[i] = take(0, 1 + (uint64_t)i % 2 * M);
    CHECK_EQ_INT(pool.used, 16 * UNIT + 16 * (M + UNIT));
    CHECK_EQ_INT(pool.size, 31 * M);
    CHECK(atomic_load(&whi_mem_device_allocations) <= 6);
    for (int i = 0; i < 32; i++)
        put(blocks[i]);
    // They were joined: what is as large as an allocation fits into one.
    whi_device_block *large = take(0, 16 * M);
    CHECK_EQ_INT(large->size, 16 * M);
    CHECK_EQ_INT(pool.size, 31 * M);
    put(large);
    end();
}

TEST(neighbours_are_joined_in_any_order) {
    begin(4 * M);
    put(take(0, 2 * M));
    whi_device_block *blocks[8];
    for (int order = 0; order < 4; order++) {
        for (int i = 0; i < 8; i++)
            blocks[i] = take(0, UNIT);
        CHECK_EQ_INT(pool.size, 2 * M);
        for (int i = 0; i < 8; i++)
            put(blocks[order == 0 ? i : order == 1 ? 7 - i : order == 2 ? i * 3 % 8 : i * 5 % 8]);
        whi_device_block *whole = take(0, 2 * M);
        CHECK_EQ_INT(whole->size, 2 * M);
        CHECK_EQ_INT(pool.size, 2 * M);
        put(whole);
    }
    end();
}

TEST(what_suits_best_is_taken) {
    begin(8 * M);
    whi_device_block *large = take(0, 3 * M), *small = take(0, UNIT);
    put(large);
    // Before it 3 MiB are free, behind it three quarters of one.
    whi_device_block *fits = take(0, 2 * UNIT);
    CHECK(fits->memory == small->memory + UNIT);
    CHECK_EQ_INT(pool.size, 4 * M);
    put(fits);
    put(small);
    end();
}

TEST(there_is_a_bound) {
    begin(4 * M);
    whi_device_block *one = take(0, 100 * M);
    CHECK_EQ_INT(one->size, 2 * M);
    whi_device_block *two = take(0, 1536 * K);
    CHECK_EQ_INT(two->size, 1536 * K);
    CHECK_EQ_INT(pool.size, 4 * M);
    // Half a megabyte is left: a quarter of what is wanted, and enough for that.
    whi_device_block *rest = take(0, 2 * M);
    CHECK_EQ_INT(rest->size, 512 * K);
    CHECK_EQ_INT(none(0, 1), WH_EAGAIN);
    put(rest);
    whi_device_block *little = take(0, 1);
    // A quarter of a megabyte is too little for two, and enough for one.
    CHECK_EQ_INT(none(0, 2 * M), WH_EAGAIN);
    rest = take(0, M);
    CHECK_EQ_INT(rest->size, 256 * K);
    put(rest);
    put(little);
    put(one);
    one = take(0, 2 * M);
    CHECK_EQ_INT(one->size, 2 * M);
    put(one);
    put(two);
    end();
}

TEST(what_will_never_be_there) {
    begin(0);
    CHECK_EQ_INT(none(0, 1), WH_ELIMIT);
    end();
    begin(100 * K);
    CHECK_EQ_INT(none(0, 1), WH_ELIMIT);
    end();
    begin(2 * M);
    whi_device_block *one = take(0, M), *two = take(0, M);
    CHECK_EQ_INT(none(0, M), WH_EAGAIN);
    CHECK_EQ_INT(none(1, M), WH_ELIMIT);  // all is another device's
    put(one);
    CHECK_EQ_INT(none(1, M), WH_ELIMIT);
    put(two);
    end();
}

TEST(devices_have_their_own) {
    begin(8 * M);
    whi_device_block *zero = take(0, M), *one = take(1, M);
    wh_mem_info info;
    whi_mem_query(zero->memory, &info);
    CHECK_EQ_INT(info.device, 0);
    whi_mem_query(one->memory, &info);
    CHECK_EQ_INT(info.device, 1);
    put(zero);
    put(one);
    end();
}

TEST(no_memory_for_notes) {
    for (uint64_t n = 1; n <= 4; n++) {
        begin(8 * M);
        whi_device_block *block = NULL;
        whi_alloc_fail_at(n);
        wh_status st = whi_device_pool_take(&pool, &whi_mem_sim, 0, UNIT, &block);
        whi_alloc_fail_at(0);
        if (st == WH_OK) {
            // What cannot be noted is part of the block.
            CHECK(block->size == UNIT || block->size == M);
            put(block);
            put(take(0, M));
        } else {
            CHECK_EQ_INT(st, WH_ELIMIT);
        }
        end();
    }
}

// Any order: no two blocks have bytes in common, and at the end all is one again.
TEST(any_order) {
    enum { BLOCKS = 24, STEPS = 20000 };
    whi_rng rng;
    whi_rng_init(&rng, 7);
    whi_device_block *blocks[BLOCKS] = {NULL};
    begin(16 * M);
    for (int step = 0; step < STEPS; step++) {
        whi_device_block **one = &blocks[whi_rng_below(&rng, BLOCKS)];
        if (*one) {
            put(*one);
            *one = NULL;
            continue;
        }
        uint64_t wanted = 1 + whi_rng_below(&rng, 4 * M);
        wh_status st = whi_device_pool_take(&pool, &whi_mem_sim, 0, wanted, one);
        CHECK(st == WH_OK || st == WH_EAGAIN);
        for (int i = 0; i < BLOCKS && st == WH_OK; i++) {
            const whi_device_block *other = blocks[i];
            CHECK(!other || other == *one || other->memory + other->size <= (*one)->memory ||
                  (*one)->memory + (*one)->size <= other->memory);
        }
        CHECK(pool.size <= 16 * M && pool.used <= pool.size);
    }
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i])
            put(blocks[i]);
    whi_device_block *large = take(0, 8 * M);
    CHECK_EQ_INT(large->size, 8 * M);
    put(large);
    end();
}

TEST_MAIN()
