// SPDX-License-Identifier: BSD-3-Clause
//
// The pool of host memory, see host_pool.h.
//
// Each block has its header right before its first byte, so freeing needs no search.  The
// invariant, under the lock: a block is kept exactly when it is in the list of its size class and
// in that of all by age, and `kept`, the sum of their capacities, is at most `limit` whenever the
// lock is free, except in a child between its birth and the first block that it frees.  What leaves
// the pool is unmapped after the lock was given back, since that may take milliseconds.
#include "mem/host_pool.h"

#include <assert.h>
#include <pthread.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/pool.h"

enum {
    LEAD = 64 << 10,  // in front of a mapped block, for its header: a multiple of any page size
    STEPS = 4,        // size classes of a doubling
    KEPT_BITS = 16,   // log2 of WHI_HOST_KEPT
    SIZE_CLASSES = 24 * STEPS,
    NO_SIZE_CLASS = SIZE_CLASSES,  // too small or too large to be kept
    SCARCE = 32 << 20,             // from here on a block is kept only where its like was missed
};
static_assert(WHI_HOST_KEPT == 1 << KEPT_BITS, "the first size class");

enum { MAGIC_LIVE = 0x57484c56, MAGIC_KEPT = 0x57484b50 };

typedef struct block {
    // While it is kept: in the list of its size class, last freed first, and in that of all by age.
    whi_list peers, age;
    uint64_t since_ns;  // when it was freed
    size_t capacity;
    uint32_t magic;
    uint16_t size_class;
    bool mapped;
} block;
static_assert(sizeof(block) <= WHI_HOST_ALIGN, "it lies within one alignment before the data");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
// Under the lock:
static whi_list size_classes[SIZE_CLASSES];
static whi_list ages = {&ages, &ages};
static whi_list watchers = {&watchers, &watchers};
static size_t kept, limit;
// Of each size class: when a block of it was freed last, 0: not lately; and whether one was allocated after that and
// had to be made, so that keeping them pays.
static uint64_t freed_ns[SIZE_CLASSES];
static bool missed[SIZE_CLASSES];

static block *block_of(void *data) {
    return (block *)((char *)data - WHI_HOST_ALIGN);
}

static void *data_of(block *b) {
    return (char *)b + WHI_HOST_ALIGN;
}

// ---- Forks.

static void before_fork(void) {
    pthread_mutex_lock(&lock);
}

static void after_in_parent(void) {
    pthread_mutex_unlock(&lock);
}

// The child has the kept blocks as well, and may use them; but the workers that watch are not its
// own.
static void after_in_child(void) {
    whi_list *link;
    while ((link = whi_list_pop_front(&watchers)))
        whi_container_of(link, whi_host_watcher, link)->watching = false;
    limit = 0;
    pthread_mutex_unlock(&lock);
}

static bool forks_are_safe;

static void set_up(void) {
    for (int i = 0; i < SIZE_CLASSES; i++)
        whi_list_init(&size_classes[i]);
    forks_are_safe = pthread_atfork(before_fork, after_in_parent, after_in_child) == 0;
}

static void take_lock(void) {
    pthread_once(&once, set_up);
    pthread_mutex_lock(&lock);
}

// ---- Blocks.

// fit rounds a size up to that of its size class, which it returns.
static unsigned fit(size_t *size) {
    if (*size < WHI_HOST_KEPT)
        return NO_SIZE_CLASS;
    unsigned log = 63u - (unsigned)__builtin_clzll(*size);
    size_t step = (size_t)1 << (log - 2);
    size_t capacity = (*size + step - 1) & ~(step - 1);
    log = 63u - (unsigned)__builtin_clzll(capacity);
    unsigned size_class =
        (log - KEPT_BITS) * STEPS + (unsigned)(capacity >> (log - 2) & (STEPS - 1));
    if (size_class >= SIZE_CLASSES) {
        *size = (*size + LEAD - 1) & ~(size_t)(LEAD - 1);
        return NO_SIZE_CLASS;
    }
    *size = capacity;
    return size_class;
}

static block *map(size_t capacity) {
    size_t whole = LEAD + capacity + WHI_HOST_HUGE;
    char *at = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    uintptr_t aligned =
        ((uintptr_t)at + LEAD + WHI_HOST_HUGE - 1) & ~(uintptr_t)(WHI_HOST_HUGE - 1);
    size_t head = aligned - LEAD - (uintptr_t)at, tail = WHI_HOST_HUGE - head;
    if (head)
        munmap(at, head);
    if (tail)
        munmap(at + whole - tail, tail);
    // Where there are no huge pages, small ones do.
    (void)madvise(at + head, LEAD + capacity, MADV_HUGEPAGE);
    return block_of(at + head + LEAD);
}

// give_back returns a block that nobody can reach to the system.
static void give_back(block *b) {
    whi_pool_unpoison(data_of(b), b->capacity);
    b->magic = 0;
    if (b->mapped)
        munmap((char *)data_of(b) - LEAD, LEAD + b->capacity);
    else
        whi_free(b);
}

static void give_back_all(whi_list *list) {
    whi_list *link;
    while ((link = whi_list_pop_front(list)))
        give_back(whi_container_of(link, block, age));
}

// take_out takes a block out of the pool.
static void take_out(block *b) {
    whi_list_remove(&b->peers);
    whi_list_remove(&b->age);
    kept -= b->capacity;
}

// shrink moves the oldest blocks to `out`, for give_back_all, until `max` bytes are left.
static void shrink(size_t max, whi_list *out) {
    whi_list_init(out);
    while (kept > max) {
        block *b = whi_container_of(whi_list_first(&ages), block, age);
        take_out(b);
        whi_list_push_back(out, &b->age);
    }
}

static void shrink_to(size_t max) {
    whi_list out;
    take_lock();
    shrink(max, &out);
    pthread_mutex_unlock(&lock);
    give_back_all(&out);
}

static block *reuse(unsigned size_class) {
    block *b = NULL;
    take_lock();
    if (!whi_list_empty(&size_classes[size_class])) {
        b = whi_container_of(whi_list_first(&size_classes[size_class]), block, peers);
        take_out(b);
        whi_pool_unpoison(data_of(b), b->capacity);
    } else if (freed_ns[size_class]) {
        missed[size_class] = true;
    }
    pthread_mutex_unlock(&lock);
    return b;
}

static block *make(size_t capacity, unsigned size_class) {
    bool mapped = capacity >= WHI_HOST_HUGE;
    block *b =
        mapped ? map(capacity) : whi_aligned_alloc(WHI_HOST_ALIGN, WHI_HOST_ALIGN + capacity);
    if (!b && mapped) {
        // What is kept may be what the system lacks.
        shrink_to(0);
        b = map(capacity);
    }
    if (b)
        *b = (block){.capacity = capacity, .size_class = (uint16_t)size_class, .mapped = mapped};
    return b;
}

void *whi_host_alloc(size_t size) {
    if (size > SIZE_MAX / 4)
        return NULL;
    unsigned size_class = fit(&size);
    // A block of malloc's asks by itself whether a test denies it.
    if (size >= WHI_HOST_HUGE && whi_alloc_denied())
        return NULL;
    block *b = size_class == NO_SIZE_CLASS ? NULL : reuse(size_class);
    if (!b)
        b = make(size, size_class);
    if (!b)
        return NULL;
    b->magic = MAGIC_LIVE;
    return data_of(b);
}

// is_wanted says whether a block that is being freed may be kept and had better be.
static bool is_wanted(const block *b, uint64_t now) {
    if (b->size_class == NO_SIZE_CLASS || b->capacity > limit)
        return false;
    freed_ns[b->size_class] = now;
    return b->capacity < SCARCE || missed[b->size_class];
}

// keep puts a block into the pool, at the cost of the oldest; false: it is not kept.
static bool keep(block *b) {
    whi_list out;
    uint64_t now = whi_clock_ns();
    take_lock();
    bool fits = is_wanted(b, now);
    shrink(fits ? limit - b->capacity : limit, &out);
    if (fits) {
        b->magic = MAGIC_KEPT;
        b->since_ns = now;
        whi_list_push_front(&size_classes[b->size_class], &b->peers);
        whi_list_push_back(&ages, &b->age);
        kept += b->capacity;
        whi_pool_poison(data_of(b), b->capacity);
    }
    pthread_mutex_unlock(&lock);
    give_back_all(&out);
    return fits;
}

bool whi_host_free(void *ptr) {
    if (!ptr)
        return true;
    if ((uintptr_t)ptr % WHI_HOST_ALIGN || block_of(ptr)->magic != MAGIC_LIVE)
        return false;
    block *b = block_of(ptr);
    if (b->capacity < WHI_HOST_KEPT || !keep(b))
        give_back(b);
    return true;
}

// ---- Who watches.

// find_limit works out how much may be kept, and gives back what is more.
static void find_limit(void) {
    limit = 0;
    whi_list_foreach(node, &watchers) {
        const whi_host_watcher *w = whi_container_of(node, whi_host_watcher, link);
        if (w->max > limit)
            limit = w->max;
    }
}

void whi_host_watch(whi_host_watcher *watcher, size_t max) {
    take_lock();
    if (!watcher->watching && forks_are_safe) {
        watcher->watching = true;
        whi_list_push_back(&watchers, &watcher->link);
    }
    watcher->max = max;
    find_limit();
    pthread_mutex_unlock(&lock);
}

void whi_host_unwatch(whi_host_watcher *watcher) {
    whi_list out;
    take_lock();
    if (watcher->watching)
        whi_list_remove(&watcher->link);
    watcher->watching = false;
    find_limit();
    shrink(limit, &out);
    pthread_mutex_unlock(&lock);
    give_back_all(&out);
}

static void forget(unsigned size_class) {
    freed_ns[size_class] = 0;
    missed[size_class] = false;
}

size_t whi_host_trim(uint64_t before_ns) {
    whi_list out;
    whi_list_init(&out);
    take_lock();
    for (unsigned i = 0; i < SIZE_CLASSES; i++)
        if (freed_ns[i] <= before_ns)
            forget(i);
    while (!whi_list_empty(&ages)) {
        block *b = whi_container_of(whi_list_first(&ages), block, age);
        if (b->since_ns > before_ns)
            break;
        take_out(b);
        whi_list_push_back(&out, &b->age);
    }
    size_t left = kept;
    pthread_mutex_unlock(&lock);
    give_back_all(&out);
    return left;
}
