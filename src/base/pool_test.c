// SPDX-License-Identifier: BSD-3-Clause
//
// Pools: objects do not overlap, are aligned, come back, and are missed when they do not.
#include "base/pool.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/test.h"

TEST(objects_do_not_overlap) {
    enum { COUNT = 3000 };
    static const size_t sizes[] = {1, 8, 24, 100, 5000};
    for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
        whi_pool pool;
        whi_pool_init(&pool, sizes[s], 0, "tests");
        static unsigned char *objects[COUNT];
        for (int i = 0; i < COUNT; i++) {
            objects[i] = whi_pool_get(&pool);
            CHECK(objects[i]);
            memset(objects[i], i % 251, sizes[s]);
        }
        CHECK_EQ_INT(whi_pool_out(&pool), COUNT);
        for (int i = 0; i < COUNT; i++)
            for (size_t b = 0; b < sizes[s]; b += sizes[s] - 1 ? sizes[s] - 1 : 1)
                CHECK_EQ_INT(objects[i][b], i % 251);
        for (int i = 0; i < COUNT; i++)
            whi_pool_put(&pool, objects[i]);
        CHECK_EQ_INT(whi_pool_out(&pool), 0);
        CHECK_EQ_INT(whi_pool_fini(&pool), 0);
    }
}

TEST(alignment) {
    for (size_t align = 1; align <= 4096; align *= 2) {
        whi_pool pool;
        whi_pool_init(&pool, 40, align, "tests");
        void *objects[100];
        for (int i = 0; i < 100; i++) {
            objects[i] = whi_pool_get(&pool);
            CHECK_EQ_INT((uintptr_t)objects[i] % align, 0);
        }
        for (int i = 0; i < 100; i++)
            whi_pool_put(&pool, objects[i]);
        CHECK_EQ_INT(whi_pool_fini(&pool), 0);
    }
    whi_pool pool;
    whi_pool_init(&pool, 1, 0, "tests");
    void *object = whi_pool_get(&pool);
    CHECK_EQ_INT((uintptr_t)object % _Alignof(max_align_t), 0);
    whi_pool_put(&pool, object);
    whi_pool_fini(&pool);
}

TEST(last_back_is_next_out) {
    whi_pool pool;
    whi_pool_init(&pool, 64, 0, "tests");
    void *a = whi_pool_get(&pool), *b = whi_pool_get(&pool);
    whi_pool_put(&pool, a);
    whi_pool_put(&pool, b);
    CHECK(whi_pool_get(&pool) == b);
    CHECK(whi_pool_get(&pool) == a);
    whi_pool_put(&pool, a);
    whi_pool_put(&pool, b);
    whi_pool_fini(&pool);
}

TEST(steady_use_allocates_nothing) {
    whi_pool pool;
    whi_pool_init(&pool, 64, 0, "tests");
    void *objects[100];
    for (int round = 0; round < 50; round++) {
        if (round == 1)
            whi_alloc_fail_at(UINT64_MAX);
        for (int i = 0; i < 100; i++)
            objects[i] = whi_pool_get(&pool);
        for (int i = 0; i < 100; i++)
            whi_pool_put(&pool, objects[i]);
    }
    whi_alloc_fail_at(0);
    CHECK_EQ_INT(whi_alloc_count(), 0);
    whi_pool_fini(&pool);
}

TEST(chunks_grow_but_not_without_end) {
    whi_pool pool;
    whi_pool_init(&pool, 64, 0, "tests");
    enum { COUNT = 64 * 1024 };
    static void *objects[COUNT];
    whi_alloc_fail_at(UINT64_MAX);
    for (int i = 0; i < COUNT; i++)
        objects[i] = whi_pool_get(&pool);
    whi_alloc_fail_at(0);
    // 4 MiB in chunks of 64 KiB, and a few small ones at the start.
    CHECK(whi_alloc_count() >= 64 && whi_alloc_count() <= 80);
    for (int i = 0; i < COUNT; i++)
        whi_pool_put(&pool, objects[i]);
    CHECK_EQ_INT(whi_pool_fini(&pool), 0);
}

TEST(every_allocation_may_fail) {
    for (uint64_t n = 1; n <= 4; n++) {
        whi_pool pool;
        whi_pool_init(&pool, 64, 0, "tests");
        void *objects[100];
        int refused = 0;
        whi_alloc_fail_at(n);
        for (int i = 0; i < 100; i++)
            while (!(objects[i] = whi_pool_get(&pool)))
                refused++;
        whi_alloc_fail_at(0);
        CHECK_EQ_INT(refused, 1);
        CHECK_EQ_INT(whi_pool_out(&pool), 100);
        for (int i = 0; i < 100; i++)
            whi_pool_put(&pool, objects[i]);
        CHECK_EQ_INT(whi_pool_fini(&pool), 0);
    }
}

static char complaint[256];

static void hear(const char *level, const char *id, const char *text, void *arg) {
    (void)level, (void)id, (void)arg;
    snprintf(complaint, sizeof(complaint), "%s", text);
}

TEST(fini_misses_what_is_out) {
    whi_pool pool;
    whi_pool_init(&pool, 64, 0, "requests");
    void *a = whi_pool_get(&pool), *b = whi_pool_get(&pool);
    CHECK(a && b);
    whi_pool_put(&pool, a);
    whi_log_set_sink(hear, NULL);
    size_t out = whi_pool_fini(&pool);
    whi_log_set_sink(NULL, NULL);
    CHECK_EQ_INT(out, 1);
    CHECK_EQ_STR(complaint, "1 requests not given back to their pool at its end");
    // It can be used again.
    a = whi_pool_get(&pool);
    CHECK(a);
    whi_pool_put(&pool, a);
    CHECK_EQ_INT(whi_pool_fini(&pool), 0);
}

TEST(freed_objects_are_poisoned) {
#ifdef WHI_POOL_ASAN
    whi_pool pool;
    whi_pool_init(&pool, 64, 0, "tests");
    char *object = whi_pool_get(&pool);
    CHECK(!__asan_address_is_poisoned(object + 63));
    whi_pool_put(&pool, object);
    CHECK(__asan_address_is_poisoned(object));
    CHECK(__asan_address_is_poisoned(object + 63));
    whi_pool_fini(&pool);
#else
    SKIP("needs the address sanitizer");
#endif
}

TEST_MAIN()
