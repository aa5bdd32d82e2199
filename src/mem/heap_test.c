// SPDX-License-Identifier: BSD-3-Clause
//
// The heap grows and shrinks; what lies elsewhere is not in it.
#include <sys/mman.h>
#include <unistd.h>

#include "base/test.h"
#include "mem/heap.h"

enum { SIZE = 1 << 16 };

static char data[SIZE];

TEST(it_is_empty_before_the_first_look) {
    CHECK(!whi_heap_has(sbrk(0)));
    CHECK(!whi_heap_has((char *)sbrk(0) - 1));
    CHECK(!whi_heap_has(data));
}

TEST(it_ends_where_it_did_at_the_last_look) {
    whi_heap_look();
    char *more = sbrk(SIZE);
    CHECK(more != (char *)-1);
    CHECK(!whi_heap_has(more));
    whi_heap_look();
    CHECK(whi_heap_has(more));
    CHECK(whi_heap_has(more + SIZE - 1));
    CHECK(!whi_heap_has((char *)sbrk(0)));
    CHECK(sbrk(-SIZE) != (void *)-1);
    whi_heap_look();
    CHECK(!whi_heap_has(more));
}

TEST(other_memory_is_not_in_it) {
    char local;
    char *mapped = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mapped != MAP_FAILED);
    whi_heap_look();
    CHECK(!whi_heap_has(NULL));
    CHECK(!whi_heap_has(&local));
    CHECK(!whi_heap_has(mapped));
    CHECK(!whi_heap_has(data));  // it lies before the heap
    CHECK(!whi_heap_has(data + SIZE - 1));
    munmap(mapped, SIZE);
}

TEST_MAIN()
