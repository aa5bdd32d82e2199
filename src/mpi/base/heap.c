// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/base/heap.h"

#include <assert.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum {
    GRAIN = 16,
    SMALL = 1024,                   // below it a class every GRAIN
    SMALL_CLASSES = SMALL / GRAIN,  // of 16, 32, ... 1024 bytes
    CLASSES = SMALL_CLASSES + 4 * 38,
    PAGE = 4096,
    LARGE = 32 << 20,  // from it on, freed pages go back to the system at once
    SOME = 16 << 10,   // and from it on when the heap is trimmed
};

// Before each block.  In one with a larger alignment than GRAIN there is another before what is handed out, which leads to this one.
typedef struct head {
    whm_heap *heap;
    uint32_t class;  // of the block; ALIGNED: `back`
    uint32_t back;   // bytes from the block to the one that was allocated
} head;
_Static_assert(sizeof(head) == GRAIN, "what follows it is aligned");
enum { ALIGNED = 0xFFFF };

typedef struct spare {
    struct spare *next;
} spare;

struct whm_heap {
    char *top, *end;
    bool shared;  // by threads
    atomic_flag busy;
    spare *spares[CLASSES];
};

// class_of returns the class of blocks that `size` bytes fit into; CLASSES: none is so large.
static unsigned class_of(size_t size) {
    if (size <= SMALL)
        return size ? (unsigned)((size - 1) / GRAIN) : 0;
    // The quarter of [2^bits, 2^(bits+1)) that ends at or above it.
    unsigned bits = 63 - (unsigned)__builtin_clzll(size - 1);
    size_t step = (size_t)1 << (bits - 2);
    unsigned quarter = (unsigned)((size - 1 - ((size_t)1 << bits)) / step);
    unsigned class = SMALL_CLASSES + (bits - 10) * 4 + quarter;
    return class < CLASSES ? class : CLASSES;
}

static size_t room_of(unsigned class) {
    if (class < SMALL_CLASSES)
        return (size_t)(class + 1) * GRAIN;
    unsigned bits = (class - SMALL_CLASSES) / 4 + 10, quarter = (class - SMALL_CLASSES) % 4;
    return ((size_t)1 << bits) + (quarter + 1) * ((size_t)1 << (bits - 2));
}

whm_heap *whm_heap_make(void *begin, size_t size) {
    whm_heap *heap = begin;
    uintptr_t first = ((uintptr_t)(heap + 1) + GRAIN - 1) & ~(uintptr_t)(GRAIN - 1);
    heap->top = (char *)first;
    heap->end = (char *)begin + size;
    return heap;
}

void whm_heap_share(whm_heap *heap) {
    heap->shared = true;
}

static void lock(whm_heap *heap) {
    while (heap->shared && atomic_flag_test_and_set_explicit(&heap->busy, memory_order_acquire))
        sched_yield();
}

static void unlock(whm_heap *heap) {
    if (heap->shared)
        atomic_flag_clear_explicit(&heap->busy, memory_order_release);
}

static void *take_locked(whm_heap *heap, size_t size, bool zero) {
    unsigned class = class_of(size);
    if (class == CLASSES)
        return NULL;
    spare *old = heap->spares[class];
    if (old) {
        heap->spares[class] = old->next;
        return zero ? memset(old, 0, size) : old;
    }
    size_t room = room_of(class);
    if (room + sizeof(head) > (size_t)(heap->end - heap->top))
        return NULL;
    head *h = (head *)heap->top;
    heap->top += sizeof(head) + room;
    *h = (head){heap, class, 0};
    return h + 1;  // never used: zero
}

static void *take(whm_heap *heap, size_t size, bool zero) {
    lock(heap);
    void *block = take_locked(heap, size, zero);
    unlock(heap);
    return block;
}

void *whm_heap_alloc(whm_heap *heap, size_t size, size_t align, bool zero) {
    if (align <= GRAIN)
        return take(heap, size, zero);
    if (size > SIZE_MAX / 2 || align > 1u << 30)
        return NULL;
    char *block = take(heap, size + align, zero);
    if (!block)
        return NULL;
    char *aligned = block + (-(uintptr_t)block & (align - 1));
    if (aligned != block)  // at least GRAIN away
        ((head *)aligned)[-1] = (head){heap, ALIGNED, (uint32_t)(aligned - block)};
    return aligned;
}

static head *head_of(const void *block) {
    head *h = (head *)(uintptr_t)block - 1;
    return h->class == ALIGNED ? (head *)((uintptr_t)block - h->back) - 1 : h;
}

// drop gives the pages of a free block back to the system; but for the first it is zero then, or what it was.
static void drop(spare *s, unsigned class) {
    uintptr_t from = ((uintptr_t)(s + 1) + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
    uintptr_t to = ((uintptr_t)s + room_of(class)) & ~(uintptr_t)(PAGE - 1);
    if (from < to)
        (void)madvise((void *)from, to - from, MADV_DONTNEED);
}

void whm_heap_free(void *block) {
    head *h = head_of(block);
    assert(h->class < CLASSES);
    spare *s = (spare *)(h + 1);
    if (room_of(h->class) >= LARGE)
        drop(s, h->class);
    lock(h->heap);
    s->next = h->heap->spares[h->class];
    h->heap->spares[h->class] = s;
    unlock(h->heap);
}

void *whm_heap_resize(void *block, size_t size) {
    size_t had = whm_heap_size(block);
    if (size <= had && size >= had / 2)
        return block;
    void *other = whm_heap_alloc(head_of(block)->heap, size, 0, false);
    if (!other)
        return NULL;
    memcpy(other, block, had < size ? had : size);
    whm_heap_free(block);
    return other;
}

void whm_heap_trim(whm_heap *heap) {
    for (unsigned class = 0; class < CLASSES; class ++)
        for (spare *s = room_of(class) >= SOME ? heap->spares[class] : NULL; s; s = s->next)
            drop(s, class);
}

size_t whm_heap_size(const void *block) {
    const head *h = head_of(block);
    return room_of(h->class) - (size_t)((uintptr_t)block - (uintptr_t)(h + 1));
}

void *whm_heap_end(const whm_heap *heap) {
    return heap->top;
}
