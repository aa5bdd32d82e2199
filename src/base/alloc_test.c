// SPDX-License-Identifier: BSD-3-Clause
//
// Allocation: contents, alignment, overflow, and failures exactly where they were asked for.
#include "base/alloc.h"

#include "base/test.h"

TEST(contents) {
    unsigned char *zero = whi_calloc(100, 7);
    for (int i = 0; i < 700; i++)
        CHECK_EQ_INT(zero[i], 0);
    memset(zero, 5, 700);
    zero = whi_realloc(zero, 70000);
    for (int i = 0; i < 700; i++)
        CHECK_EQ_INT(zero[i], 5);
    unsigned char *copy = whi_memdup(zero, 700);
    CHECK(copy != zero);
    CHECK_MEM(copy, zero, 700);
    whi_free(copy);
    whi_free(zero);
    char *text = whi_strdup("wherry");
    CHECK_EQ_STR(text, "wherry");
    whi_free(text);
    whi_free(NULL);
}

TEST(size_zero_can_be_freed) {
    void *a = whi_malloc(0), *b = whi_realloc(NULL, 0), *c = whi_memdup(NULL, 0);
    CHECK(a && b && c);
    b = whi_realloc(b, 0);
    CHECK(b);
    whi_free(a);
    whi_free(b);
    whi_free(c);
}

TEST(overflow_is_out_of_memory) {
    volatile size_t third = SIZE_MAX / 3;  // volatile: the compiler would warn, rightly
    CHECK(!whi_calloc(third + 1, 3));
    CHECK(!whi_calloc(3, third + 1));
    CHECK(!whi_calloc(third, third));
}

TEST(alignment) {
    for (size_t align = 1; align <= 65536; align *= 2)
        for (size_t size = 0; size <= 100; size += 33) {
            char *ptr = whi_aligned_alloc(align, size);
            CHECK(ptr);
            CHECK_EQ_INT((uintptr_t)ptr % align, 0);
            memset(ptr, 1, size);
            whi_free(ptr);
        }
}

// Makes one allocation of each kind and returns which of them failed, counted from 1; 0 for none.
static int which_fails(void) {
    char *resized = malloc(1);
    char *grown = whi_realloc(resized, 20);
    void *got[] = {whi_malloc(1),      whi_calloc(1, 1), grown, whi_aligned_alloc(64, 1),
                   whi_memdup("a", 1), whi_strdup("a")};
    int failed = 0;
    for (int i = 0; i < 6; i++) {
        if (!got[i])
            failed = i + 1;
        whi_free(got[i]);
    }
    if (!grown)
        free(resized);
    return failed;
}

TEST(every_kind_can_fail) {
    // The realloc comes before the others.
    static const int order[] = {3, 1, 2, 4, 5, 6};
    for (uint64_t n = 1; n <= 6; n++) {
        whi_alloc_fail_at(n);
        CHECK_EQ_INT(which_fails(), order[n - 1]);
        CHECK_EQ_INT(whi_alloc_count(), 6);
        CHECK_EQ_INT(which_fails(), 0);  // once only
        whi_alloc_fail_at(0);
    }
}

TEST(count_without_failing) {
    whi_alloc_fail_at(UINT64_MAX);
    CHECK_EQ_INT(whi_alloc_count(), 0);
    CHECK_EQ_INT(which_fails(), 0);
    whi_alloc_fail_at(0);
    CHECK_EQ_INT(which_fails(), 0);
    CHECK_EQ_INT(whi_alloc_count(), 6);
}

enum { THREADS = 4, EACH = 1000 };

static void *allocate_many(void *arg) {
    intptr_t failed = 0;
    for (int i = 0; i < EACH; i++) {
        void *ptr = whi_malloc(8);
        failed += !ptr;
        whi_free(ptr);
    }
    (void)arg;
    return (void *)failed;
}

TEST(exactly_one_of_many_threads_fails) {
    pthread_t threads[THREADS];
    whi_alloc_fail_at(THREADS * EACH / 2);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, allocate_many, NULL);
    intptr_t failed = 0;
    for (int i = 0; i < THREADS; i++) {
        void *one;
        pthread_join(threads[i], &one);
        failed += (intptr_t)one;
    }
    whi_alloc_fail_at(0);
    CHECK_EQ_INT(failed, 1);
    CHECK_EQ_INT(whi_alloc_count(), THREADS * EACH);
}

TEST_MAIN()
