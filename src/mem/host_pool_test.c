// SPDX-License-Identifier: BSD-3-Clause
//
// The pool of host memory: size classes, reuse, the bound, giving back in time, threads, forks, and
// running out.
#include "mem/host_pool.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/test.h"
#include "mem/mem.h"

enum { MIB = 1 << 20 };

static whi_host_watcher watcher;

static size_t kept(void) {
    return whi_host_trim(0);
}

static void *get(size_t size) {
    char *made = whi_host_alloc(size);
    CHECK(made);
    CHECK_EQ_INT((uintptr_t)made % WHI_HOST_ALIGN, 0);
    if (size)
        made[0] = made[size - 1] = 1;
    return made;
}

static void put(void *ptr) {
    CHECK(whi_host_free(ptr));
}

// is_mapped says whether the pages of a mapped block are still there.
static bool is_mapped(void *ptr) {
    return msync(ptr, (size_t)sysconf(_SC_PAGESIZE), MS_ASYNC) == 0;
}

TEST(every_size_is_whole_and_aligned) {
    static const size_t sizes[] = {0,       1,           100,           4096,          65535,
                                   65536,   65537,       81920,         100000,        MIB,
                                   MIB + 1, 2 * MIB - 1, 2 * MIB,       2 * MIB + 1,   3 * MIB + 5,
                                   7 * MIB, 33 * MIB,    100000000 + 1, 128 * MIB - 1, 128 * MIB};
    for (int watched = 0; watched < 2; watched++) {
        if (watched)
            whi_host_watch(&watcher, (size_t)64 * MIB);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            void *ptr = get(sizes[i]);
            CHECK(sizes[i] < WHI_HOST_HUGE || (uintptr_t)ptr % WHI_HOST_HUGE == 0);
            put(ptr);
        }
    }
    whi_host_unwatch(&watcher);
    CHECK_EQ_INT(kept(), 0);
    CHECK(whi_host_free(NULL));
    volatile size_t all = SIZE_MAX;  // or compilers warn
    CHECK(!whi_host_alloc(all - 5) && !whi_host_alloc(all / 4 + 1));
}

TEST(nothing_is_kept_unwatched) {
    void *ptr = get(4 * MIB);
    put(ptr);
    CHECK_EQ_INT(kept(), 0);
    CHECK(!is_mapped(ptr));
}

TEST(a_block_is_used_again) {
    whi_host_watch(&watcher, (size_t)64 * MIB);
    for (size_t size = WHI_HOST_KEPT; size <= 16 * MIB; size += size / 2) {
        void *first = get(size);
        put(first);
        CHECK(kept() >= size && kept() <= size + size / 4);
        void *again = get(size);
        CHECK(again == first);
        CHECK_EQ_INT(kept(), 0);
        put(again);
        CHECK_EQ_INT(whi_host_trim(whi_clock_ns()), 0);
    }
    // One that is half as large is not wasted on it; the one that was freed last is the first.
    void *large = get(8 * MIB), *other = get(8 * MIB);
    put(large);
    put(other);
    void *small = get(4 * MIB);
    CHECK(small != large && small != other);
    CHECK(get(8 * MIB) == other && get(8 * MIB) == large);
    put(large);
    put(other);
    put(small);
    // Small ones are malloc's.
    size_t before = kept();
    put(get(WHI_HOST_KEPT - 1));
    CHECK_EQ_INT(kept(), before);
    whi_host_unwatch(&watcher);
    CHECK_EQ_INT(kept(), 0);
}

TEST(large_ones_are_kept_once_they_were_missed) {
    enum { LARGE = 40 * MIB, SAME_SIZE_CLASS = 39 * MIB, OTHER = 100 * MIB };
    whi_host_watch(&watcher, (size_t)512 * MIB);
    for (int turn = 0; turn < 2; turn++) {
        put(get(LARGE));
        CHECK_EQ_INT(kept(), 0);
        put(get(OTHER));  // says nothing about the other size class
        CHECK_EQ_INT(kept(), 0);
        void *missed = get(SAME_SIZE_CLASS), *beside = get(LARGE);
        put(missed);
        put(beside);
        CHECK_EQ_INT(kept(), 2 * LARGE);
        CHECK(get(LARGE) == beside && get(LARGE) == missed);
        put(missed);
        put(beside);
        // What lay unused for a while is forgotten with it.
        CHECK_EQ_INT(whi_host_trim(whi_clock_ns()), 0);
    }
    whi_host_unwatch(&watcher);
}

TEST(the_bound_holds) {
    whi_host_watch(&watcher, 10 * MIB);
    void *ptr[8];
    for (int i = 0; i < 8; i++)
        ptr[i] = get(2 * MIB);
    for (int i = 0; i < 8; i++) {
        put(ptr[i]);
        CHECK(kept() <= 10 * MIB);
    }
    CHECK_EQ_INT(kept(), 10 * MIB);
    CHECK(!is_mapped(ptr[0]) && !is_mapped(ptr[2]));  // the oldest went
    CHECK(is_mapped(ptr[3]) && is_mapped(ptr[7]));
    // What is larger than the bound is not kept, and costs the others nothing.
    put(get(11 * MIB));
    CHECK_EQ_INT(kept(), 10 * MIB);
    put(get(10 * MIB));
    CHECK_EQ_INT(kept(), 10 * MIB);
    CHECK(!is_mapped(ptr[7]));
    whi_host_unwatch(&watcher);
    whi_host_watch(&watcher, 0);  // off
    put(get(2 * MIB));
    CHECK_EQ_INT(kept(), 0);
    whi_host_unwatch(&watcher);
}

TEST(the_largest_watcher_counts) {
    whi_host_watcher other = {.watching = false};
    whi_host_watch(&watcher, 4 * MIB);
    whi_host_watch(&other, 16 * MIB);
    whi_host_watch(&other, 16 * MIB);  // again: no second time
    void *a = get(2 * MIB), *b = get(8 * MIB);
    put(b);
    put(a);
    CHECK_EQ_INT(kept(), 10 * MIB);
    whi_host_unwatch(&other);
    CHECK_EQ_INT(kept(), 2 * MIB);
    whi_host_unwatch(&other);
    whi_host_unwatch(&watcher);
    CHECK_EQ_INT(kept(), 0);
}

TEST(what_lies_unused_is_given_back) {
    whi_host_watch(&watcher, (size_t)64 * MIB);
    void *old = get(4 * MIB), *fresh = get(4 * MIB);
    put(old);
    uint64_t then = whi_clock_ns();
    while (whi_clock_ns() == then)
        ;
    put(fresh);
    CHECK_EQ_INT(whi_host_trim(then), 4 * MIB);
    CHECK(!is_mapped(old) && is_mapped(fresh));
    CHECK_EQ_INT(whi_host_trim(then), 4 * MIB);
    CHECK_EQ_INT(whi_host_trim(whi_clock_ns()), 0);
    whi_host_unwatch(&watcher);
}

TEST(what_is_no_block_is_refused) {
    whi_host_watch(&watcher, (size_t)64 * MIB);
    char *ptr = get(4 * MIB);
    CHECK(!whi_host_free(ptr + 1) && !whi_host_free(ptr + 4096));
    put(ptr);
    CHECK(!whi_host_free(ptr));  // twice
    CHECK_EQ_INT(kept(), 4 * MIB);
    whi_host_unwatch(&watcher);
    void *public;
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_HOST, 0, 5 * MIB, &public), WH_OK);
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_HOST, (char *)public + 64), WH_EINVAL);
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_HOST, public), WH_OK);
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_HOST, NULL), WH_OK);
}

TEST(memory_may_run_out) {
    whi_host_watch(&watcher, (size_t)64 * MIB);
    for (size_t size = 1000; size < 10 * MIB; size *= 7) {
        whi_alloc_fail_at(1);
        void *none = whi_host_alloc(size);
        whi_alloc_fail_at(0);
        CHECK(!none);
    }
    CHECK_EQ_INT(kept(), 0);
    // Where the system has no more, what is kept goes first.
    put(get(4 * MIB));
    CHECK(!whi_host_alloc((size_t)1 << 47));
    CHECK_EQ_INT(kept(), 0);
    whi_host_unwatch(&watcher);
}

// ---- threads: blocks go from hand to hand, so most are freed by another thread

enum { THREADS = 4, ROUNDS = 2000, HANDS = 16 };
static _Atomic(uint64_t *) hands[HANDS];

static void *juggle(void *arg) {
    whi_rng rng;
    whi_rng_init(&rng, (uint64_t)(uintptr_t)arg);
    for (int i = 0; i < ROUNDS; i++) {
        size_t size = (size_t)WHI_HOST_KEPT << whi_rng_below(&rng, 7);
        uint64_t *block = whi_host_alloc(size);
        CHECK(block);
        block[0] = size;
        block[size / 8 - 1] = ~size;
        uint64_t *old = atomic_exchange(&hands[whi_rng_below(&rng, HANDS)], block);
        if (!old)
            continue;
        CHECK(old[old[0] / 8 - 1] == ~old[0]);  // nobody else had it meanwhile
        CHECK(whi_host_free(old));
        if (i % 64 == 0)
            (void)whi_host_trim(i % 128 ? 0 : whi_clock_ns());
    }
    return NULL;
}

TEST(threads) {
    whi_host_watch(&watcher, 8 * MIB);
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        CHECK(!pthread_create(&threads[i], NULL, juggle, (void *)(i + 1)));
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(kept() <= 8 * MIB);
    whi_host_unwatch(&watcher);
    CHECK_EQ_INT(kept(), 0);
    for (int i = 0; i < HANDS; i++)
        put(atomic_exchange(&hands[i], NULL));
}

// ---- forks

static int in_child(void *live, void *idle) {
    // What was kept is used again, what was live is freed, and nothing is kept where nobody
    // watches.
    void *again = whi_host_alloc(4 * MIB);
    if (again != idle || !whi_host_free(again) || !whi_host_free(live) || whi_host_trim(0))
        return 1;
    whi_host_watch(&watcher, 8 * MIB);  // which it does not do by inheritance
    void *own = whi_host_alloc(MIB);
    if (!own || !whi_host_free(own) || whi_host_trim(0) != MIB)
        return 2;
    whi_host_unwatch(&watcher);
    return whi_host_trim(0) ? 3 : 0;
}

static _Atomic bool stop;

static void *churn(void *arg) {
    (void)arg;
    while (!atomic_load(&stop))
        put(get(WHI_HOST_KEPT));
    return NULL;
}

TEST(forks) {
    whi_host_watch(&watcher, (size_t)64 * MIB);
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, churn, NULL));  // it has the lock now and then
    for (int i = 0; i < 50; i++) {
        void *live = get(3 * MIB), *idle = get(4 * MIB);
        put(idle);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (!pid) {
            alarm(20);
            _exit(in_child(live, idle));
        }
        int status;
        CHECK_EQ_INT(waitpid(pid, &status, 0), pid);
        CHECK_EQ_INT(status, 0);
        put(live);
        void *again = get(4 * MIB);
        CHECK(again == idle);
        put(again);
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    whi_host_unwatch(&watcher);
    CHECK_EQ_INT(kept(), 0);
}

TEST_MAIN()
