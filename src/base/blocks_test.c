// SPDX-License-Identifier: BSD-3-Clause
//
// Blocks: they are aligned and whole, come back where they fit, and no more is kept than may be.
#include "base/blocks.h"

#include <stdint.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "base/test.h"

enum { LARGE = 1 << 20 };

static whi_blocks blocks;

static void *get(size_t size) {
    char *block = whi_blocks_get(&blocks, size);
    CHECK(block);
    CHECK_EQ_INT((uintptr_t)block % WHI_BLOCK_ALIGN, 0);
    memset(block, 7, size);
    return block;
}

// allocates says whether a block of this size is a new one.
static bool allocates(size_t size) {
    whi_alloc_fail_at(UINT64_MAX);
    void *block = get(size);
    bool fresh = whi_alloc_count() > 0;
    whi_alloc_fail_at(0);
    whi_blocks_put(&blocks, block);
    return fresh;
}

TEST(come_back_where_they_fit) {
    whi_blocks_init(&blocks);
    whi_blocks_put(&blocks, NULL);
    whi_blocks_put(&blocks, get(LARGE));
    CHECK(!allocates(LARGE));
    CHECK(!allocates(LARGE / 2));
    CHECK(allocates(LARGE / 2 - 2));  // too large a one for that
    CHECK(allocates(LARGE + 1));
    CHECK(!allocates(LARGE + 1));
    whi_blocks_fini(&blocks);
}

TEST(small_ones_are_not_kept) {
    whi_blocks_init(&blocks);
    whi_blocks_put(&blocks, get(0));
    whi_blocks_put(&blocks, get(WHI_BLOCK_MIN - 1));
    CHECK_EQ_INT(blocks.bytes, 0);
    CHECK(allocates(WHI_BLOCK_MIN - 1));
    whi_blocks_put(&blocks, get(WHI_BLOCK_MIN));
    CHECK_EQ_INT(blocks.bytes, WHI_BLOCK_MIN);
    whi_blocks_fini(&blocks);
}

TEST(no_more_is_kept_than_may_be) {
    enum { COUNT = 12 };
    void *all[COUNT];
    whi_blocks_init(&blocks);
    for (int i = 0; i < COUNT; i++)
        all[i] = get(LARGE + (size_t)i);
    for (int i = 0; i < COUNT; i++)
        whi_blocks_put(&blocks, all[i]);
    CHECK(blocks.bytes <= WHI_BLOCKS_KEPT);
    CHECK(blocks.bytes > WHI_BLOCKS_KEPT - 2 * LARGE);
    CHECK(!allocates(LARGE + COUNT - 1));  // the oldest are gone, not the last
    whi_blocks_put(&blocks, get(WHI_BLOCKS_KEPT + 1));
    CHECK(blocks.bytes > 0 && blocks.bytes <= WHI_BLOCKS_KEPT);
    whi_blocks_fini(&blocks);
    CHECK_EQ_INT(blocks.bytes, 0);
}

TEST(without_memory) {
    whi_blocks_init(&blocks);
    CHECK(!whi_blocks_get(&blocks, SIZE_MAX));
    whi_alloc_fail_at(1);
    CHECK(!whi_blocks_get(&blocks, LARGE));
    whi_alloc_fail_at(0);
    whi_blocks_fini(&blocks);
}

TEST(any_sizes) {
    enum { COUNT = 20, ROUNDS = 3000 };
    struct {
        unsigned char *at;
        size_t size;
    } held[COUNT] = {{NULL, 0}};
    whi_rng rng;
    whi_rng_init(&rng, 42);
    whi_blocks_init(&blocks);
    for (int i = 0; i < ROUNDS; i++) {
        size_t at = whi_rng_below(&rng, COUNT);
        if (held[at].at) {
            CHECK_EQ_INT(held[at].at[0], at + 1);
            CHECK_EQ_INT(held[at].at[held[at].size - 1], at + 1);
        }
        whi_blocks_put(&blocks, held[at].at);
        held[at].size = 1 + whi_rng_below(&rng, 64 << 10);
        held[at].at = get(held[at].size);
        memset(held[at].at, (int)at + 1, held[at].size);
    }
    for (size_t i = 0; i < COUNT; i++)
        whi_blocks_put(&blocks, held[i].at);
    whi_blocks_fini(&blocks);
}

TEST_MAIN()
