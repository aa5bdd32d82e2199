// SPDX-License-Identifier: BSD-3-Clause
//
// The table of handles (handles.h).
//
// Places lie in blocks, each twice as large as the one before, which are made when needed and never
// move or go away: a lookup reads them without a lock.  The state of a place is one word, its
// generation, whether it is alive, and its pins; whoever takes the word to "dead and not pinned"
// empties the place and gives it to the next handle under the next generation.
#include "handles.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum {
    BLOCK_BITS = 6,  // places in the first block: 64
    BLOCKS = 25,     // 2 thousand million places in all
};

#define ALIVE ((uint64_t)1 << 31)
#define PINS (ALIVE - 1)

typedef struct place place;
struct place {
    _Atomic uint64_t state;  // generation << 32 | ALIVE | pins
    wh_type *type;
    whu_kind kind;
    uint32_t index;
    _Atomic bool streams;  // of an info: it has one
    _Atomic(void *) stream;
    place *next;  // the next free one
};

static _Atomic(place *) blocks[BLOCKS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // guards the two below
static place *free_places;
static uint32_t made;  // places that have ever been in use

static void lock_table(void) {
    pthread_mutex_lock(&lock);
}

static void unlock_table(void) {
    pthread_mutex_unlock(&lock);
}

// A child that is forked while another thread gives out a handle must not find the table locked.
__attribute__((constructor)) static void survive_fork(void) {
    (void)pthread_atfork(lock_table, unlock_table, unlock_table);
}

// The block in which a place lies, and its number there.
static unsigned block_of(uint32_t index, uint32_t *within) {
    uint64_t at = (uint64_t)index + (1 << BLOCK_BITS);
    unsigned top = 63 - (unsigned)__builtin_clzll(at);
    *within = (uint32_t)(at - ((uint64_t)1 << top));
    return top - BLOCK_BITS;
}

static place *find(uint64_t handle) {
    uint32_t within;
    unsigned block = block_of((uint32_t)handle, &within);
    place *places =
        block < BLOCKS ? atomic_load_explicit(&blocks[block], memory_order_acquire) : NULL;
    return places ? &places[within] : NULL;
}

// Under the lock: a place that was never in use.
static place *fresh_place(void) {
    uint32_t within;
    unsigned block = block_of(made, &within);
    if (block >= BLOCKS)
        return NULL;
    place *places = atomic_load_explicit(&blocks[block], memory_order_relaxed);
    if (!places) {
        places = calloc((size_t)1 << (BLOCK_BITS + block), sizeof(*places));
        if (!places)
            return NULL;
        atomic_store_explicit(&blocks[block], places, memory_order_release);
    }
    places[within].index = made++;
    atomic_store_explicit(&places[within].state, (uint64_t)1 << 32, memory_order_relaxed);
    return &places[within];
}

uint64_t whu_new(whu_kind kind, wh_type *type) {
    lock_table();
    place *at = free_places;
    if (at)
        free_places = at->next;
    else
        at = fresh_place();
    unlock_table();
    if (!at) {
        wh_type_release(type);
        return 0;
    }
    at->type = type;
    at->kind = kind;
    atomic_store_explicit(&at->streams, false, memory_order_relaxed);
    uint64_t generation = atomic_load_explicit(&at->state, memory_order_relaxed) & ~(ALIVE | PINS);
    atomic_store_explicit(&at->state, generation | ALIVE, memory_order_release);
    return generation | at->index;
}

// The place is dead and nobody has pinned it.  Generation 0 is left out: it is that of no handle.
static void empty(place *at) {
    uint32_t generation =
        (uint32_t)(atomic_load_explicit(&at->state, memory_order_relaxed) >> 32) + 1;
    wh_type_release(at->type);
    at->type = NULL;
    atomic_store_explicit(&at->state, (uint64_t)(generation ? generation : 1) << 32,
                          memory_order_relaxed);
    lock_table();
    at->next = free_places;
    free_places = at;
    unlock_table();
}

static bool is_alive(uint64_t state, uint64_t handle) {
    return state >> 32 == handle >> 32 && state & ALIVE;
}

// Adds `change` to the state of a place that is alive under this handle.
static bool change_state(place *at, uint64_t handle, uint64_t change, uint64_t *now) {
    uint64_t state = atomic_load_explicit(&at->state, memory_order_relaxed);
    do {
        if (!is_alive(state, handle))
            return false;
        *now = state + change;
    } while (!atomic_compare_exchange_weak_explicit(&at->state, &state, *now, memory_order_acq_rel,
                                                    memory_order_relaxed));
    return true;
}

bool whu_pin(uint64_t handle, whu_kind kind, const wh_type **type) {
    uint64_t now;
    place *at = find(handle);
    if (!at || !change_state(at, handle, 1, &now))
        return false;
    if (at->kind != kind) {
        whu_unpin(handle);
        return false;
    }
    *type = at->type;
    return true;
}

void whu_unpin(uint64_t handle) {
    place *at = find(handle);
    uint64_t now = atomic_fetch_sub_explicit(&at->state, 1, memory_order_acq_rel) - 1;
    if (!(now & (ALIVE | PINS)))
        empty(at);
}

bool whu_free(uint64_t handle, whu_kind kind) {
    const wh_type *type;
    uint64_t now;
    if (!whu_pin(handle, kind, &type))
        return false;
    bool mine = change_state(find(handle), handle, -ALIVE, &now);
    whu_unpin(handle);
    return mine;
}

bool whu_set_stream(uint64_t handle, void *stream) {
    const wh_type *none;
    if (!whu_pin(handle, WHU_INFO, &none))
        return false;
    place *at = find(handle);
    atomic_store(&at->stream, stream);
    atomic_store(&at->streams, true);
    whu_unpin(handle);
    return true;
}

bool whu_get_stream(uint64_t handle, void **stream) {
    const wh_type *none;
    if (!whu_pin(handle, WHU_INFO, &none))
        return false;
    place *at = find(handle);
    bool there = atomic_load(&at->streams);
    if (there)
        *stream = atomic_load(&at->stream);
    whu_unpin(handle);
    return there;
}
