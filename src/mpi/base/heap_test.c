// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/base/heap.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/test.h"

enum { RANGE = 64 << 20, BLOCKS = 2000, ROUNDS = 60000 };

static void *range(void) {
    void *at = mmap(NULL, RANGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

typedef struct block {
    unsigned char *at;
    size_t size;
    unsigned char with;
} block;

static void look(const block *b) {
    for (size_t i = 0; i < b->size; i++)
        CHECK(b->at[i] == b->with);
}

static uint64_t state = 1;
static unsigned some(unsigned below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % below;
}

static size_t some_size(void) {
    unsigned how = some(100);
    return how < 80 ? some(200) : how < 98 ? some(5000) : some(400000);
}

// Blocks of random sizes and alignments keep what is written into them, and are apart.
static void test_random(void) {
    static block blocks[BLOCKS];
    void *at = range();
    whm_heap *heap = whm_heap_make(at, RANGE);
    for (int i = 0; i < ROUNDS; i++) {
        block *b = &blocks[some(BLOCKS)];
        if (b->at) {
            look(b);
            whm_heap_free(b->at);
            b->at = NULL;
            if (some(500) == 0)
                whm_heap_trim(heap);
            continue;
        }
        size_t align = (size_t)16 << some(9) * (some(10) == 0);
        bool zero = some(2);
        size_t size = some_size();
        unsigned char *p = whm_heap_alloc(heap, size, align, zero);
        if (!p)
            continue;
        *b = (block){p, size, (unsigned char)some(256)};
        CHECK((uintptr_t)p % align == 0);
        CHECK(whm_heap_size(p) >= size);
        for (size_t k = 0; zero && k < size; k++)
            CHECK(p[k] == 0);
        memset(p, b->with, size);
        CHECK(p >= (unsigned char *)at && p + size <= (unsigned char *)whm_heap_end(heap));
    }
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].at)
            look(&blocks[i]);
    munmap(at, RANGE);
}

// Each size has a class that holds it, with no more than a quarter to spare above a KiB.
static void test_sizes(void) {
    void *at = range();
    whm_heap *heap = whm_heap_make(at, RANGE);
    for (size_t size = 0; size < 3 << 20; size += size < 5000 ? 1 : 4093) {
        void *p = whm_heap_alloc(heap, size, 16, false);
        CHECK(p);
        size_t room = whm_heap_size(p);
        CHECK(room >= size && room <= (size < 1024 ? size + 16 : size + size / 4 + 16));
        whm_heap_free(p);
        CHECK(whm_heap_alloc(heap, size, 16, false) == p);  // the last that was freed
        whm_heap_free(p);
    }
    munmap(at, RANGE);
}

// A block that changes its size keeps what it has.
static void test_resize(void) {
    void *at = range();
    whm_heap *heap = whm_heap_make(at, RANGE);
    size_t size = 1;
    unsigned char *p = whm_heap_alloc(heap, size, 16, false);
    *p = 0;
    for (size_t next = 1; next < 3000000; next += next / 3 + 1) {
        p = whm_heap_resize(p, next);
        CHECK(p && whm_heap_size(p) >= next);
        for (size_t i = 0; i < size; i += 97)
            CHECK(p[i] == (unsigned char)(i % 251));
        for (size_t i = size; i < next; i++)
            p[i] = (unsigned char)(i % 251);
        size = next;
    }
    CHECK(!whm_heap_resize(p, (size_t)RANGE * 2));
    p = whm_heap_resize(p, 1000);
    for (size_t i = 0; i < 1000; i++)
        CHECK(p[i] == (unsigned char)(i % 251));
    munmap(at, RANGE);
}

// A full heap says so, and has room again for what was freed; sizes that wrap are refused.
static void test_full(void) {
    void *at = range();
    whm_heap *heap = whm_heap_make(at, RANGE);
    void *last = NULL, *p;
    int n = 0;
    while ((p = whm_heap_alloc(heap, 1 << 20, 16, false))) {
        memset(p, 7, 1 << 20);
        last = p;
        n++;
    }
    CHECK(n >= RANGE / (1 << 20) * 3 / 4);
    whm_heap_free(last);
    p = whm_heap_alloc(heap, 1 << 20, 16, true);
    CHECK(p == last && ((char *)p)[(1 << 20) - 1] == 0);
    CHECK(!whm_heap_alloc(heap, SIZE_MAX, 16, false));
    CHECK(!whm_heap_alloc(heap, SIZE_MAX - 8, 4096, false));
    CHECK(!whm_heap_alloc(heap, (size_t)1 << 60, 16, false));
    munmap(at, RANGE);
}

int main(void) {
    test_random();
    test_sizes();
    test_resize();
    test_full();
    return 0;
}
