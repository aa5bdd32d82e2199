// SPDX-License-Identifier: BSD-3-Clause
//
// The entries of a hash map, and the hash of bytes.
//
// The invariant: between the place where a key wants to be and the place where it is, there is no
// empty place.  Putting and growing keep it by probing; removing keeps it by shifting back each
// later entry that is allowed to move into the hole.
#include "base/hash.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"

enum { PLACES_FIRST = 16 };

// The process's secret.  Without the kernel's random bytes the clock has to do: keys then only lose
// their protection against a peer that chooses them.
static uint64_t process_seed(void) {
    static _Atomic uint64_t shared;
    uint64_t seed = atomic_load_explicit(&shared, memory_order_relaxed);
    if (seed)
        return seed;
    uint64_t fresh;
    if (whi_random_bytes(&fresh, sizeof(fresh)) != WH_OK)
        fresh = whi_clock_ns();
    fresh |= 1;  // never 0, which means not yet
    return atomic_compare_exchange_strong(&shared, &seed, fresh) ? fresh : seed;
}

void whi_hash_init(whi_hash *map) {
    *map = (whi_hash){.entries = NULL, .seed = process_seed()};
}

static size_t home(const whi_hash *map, uint64_t key) {
    return whi_hash_mix(key ^ map->seed) & map->mask;
}

// Returns the place of `key`, or the empty place where it belongs.
static size_t find(const whi_hash *map, uint64_t key) {
    size_t at = home(map, key);
    while (map->entries[at].ptr && map->entries[at].key != key)
        at = (at + 1) & map->mask;
    return at;
}

static wh_status grow(whi_hash *map) {
    size_t old = map->entries ? map->mask + 1 : 0;
    size_t places = old ? 2 * old : PLACES_FIRST;
    whi_hash larger = {.mask = places - 1, .count = map->count, .seed = map->seed};
    larger.entries = whi_calloc(places, sizeof(*larger.entries));
    if (!larger.entries)
        return WH_ENOMEM;
    for (size_t i = 0; i < old; i++)
        if (map->entries[i].ptr)
            larger.entries[find(&larger, map->entries[i].key)] = map->entries[i];
    whi_free(map->entries);
    *map = larger;
    return WH_OK;
}

wh_status whi_hash_put(whi_hash *map, uint64_t key, void *ptr) {
    if (!ptr)
        return WH_EINVAL;
    if (map->count) {
        // A key that is there needs no space, so replacing must not fail for lack of it.
        whi_hash_entry *entry = &map->entries[find(map, key)];
        if (entry->ptr) {
            entry->ptr = ptr;
            return WH_OK;
        }
    }
    if (!map->entries || (map->count + 1) * 4 > (map->mask + 1) * 3) {
        wh_status status = grow(map);
        if (status != WH_OK)
            return status;
    }
    map->entries[find(map, key)] = (whi_hash_entry){key, ptr};
    map->count++;
    return WH_OK;
}

void *whi_hash_make(whi_hash *map, uint64_t key, size_t size) {
    void *made = whi_calloc(1, size);
    if (made && whi_hash_put(map, key, made) != WH_OK) {
        whi_free(made);
        made = NULL;
    }
    return made;
}

void *whi_hash_remove(whi_hash *map, uint64_t key) {
    if (!map->count)
        return NULL;
    size_t hole = find(map, key);
    void *ptr = map->entries[hole].ptr;
    if (!ptr)
        return NULL;
    for (size_t at = (hole + 1) & map->mask; map->entries[at].ptr; at = (at + 1) & map->mask) {
        // The entry may move back unless its home lies behind the hole.
        size_t wish = home(map, map->entries[at].key);
        if (((at - wish) & map->mask) < ((at - hole) & map->mask))
            continue;
        map->entries[hole] = map->entries[at];
        hole = at;
    }
    map->entries[hole].ptr = NULL;
    map->count--;
    return ptr;
}

void *whi_hash_next(const whi_hash *map, size_t *cursor, uint64_t *key) {
    size_t places = map->entries ? map->mask + 1 : 0;
    for (size_t i = *cursor; i < places; i++) {
        if (!map->entries[i].ptr)
            continue;
        *cursor = i + 1;
        *key = map->entries[i].key;
        return map->entries[i].ptr;
    }
    return NULL;
}

void whi_hash_fini(whi_hash *map) {
    whi_free(map->entries);
    map->entries = NULL;
    map->mask = map->count = 0;
}

uint64_t whi_hash_bytes(const void *data, size_t size) {
    const uint64_t odd = 0x9e3779b97f4a7c15u;
    const uint8_t *at = data;
    uint64_t hash = size * odd;
    uint64_t word;
    for (; size >= sizeof(word); at += sizeof(word), size -= sizeof(word)) {
        memcpy(&word, at, sizeof(word));
        hash = whi_hash_fold(hash ^ word, odd) + word;
    }
    word = 0;
    if (size)
        memcpy(&word, at, size);
    return whi_hash_mix(whi_hash_fold(hash ^ word, odd) + word);
}
