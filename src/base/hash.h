// SPDX-License-Identifier: BSD-3-Clause
//
// A map from 64-bit keys to pointers, and a hash of bytes to make such keys.
//
// Open addressing with linear probing at a load of at most 3/4; removing shifts later entries back,
// so that there are no tombstones and a map that is used for years stays as fast as a fresh one.
// Where a key lands depends on a secret of the process, so that a peer that chooses keys cannot
// make them all collide.  A map belongs to one thread or one lock and never owns what it points to.
#ifndef WHI_BASE_HASH_H
#define WHI_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include <wherry/status.h>

typedef struct whi_hash_entry {
    uint64_t key;
    void *ptr;  // NULL: this place is empty
} whi_hash_entry;

typedef struct whi_hash {
    whi_hash_entry *entries;
    size_t mask;   // places - 1, a power of two less one; 0 while nothing is allocated
    size_t count;  // of entries in use
    uint64_t seed;
} whi_hash;

// whi_hash_mix spreads a 64-bit value over all its bits.
static inline uint64_t whi_hash_mix(uint64_t x) {
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    return x ^ (x >> 32);
}

// whi_hash_fold multiplies to 128 bits and folds: each bit of the result depends on all bits of both factors.
static inline uint64_t whi_hash_fold(uint64_t a, uint64_t b) {
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

// whi_hash_bytes returns a good 64-bit hash of any bytes, such as a uuid.  It is the same in every
// process on machines of the same byte order, and no secret: do not rely on it against an attacker.
uint64_t whi_hash_bytes(const void *data, size_t size);

// whi_hash_init makes an empty map.  It allocates nothing.
void whi_hash_init(whi_hash *map);

// whi_hash_put maps `key` to `ptr`, which must not be NULL, and replaces what the key had before.
//
// WH_ENOMEM, or WH_EINVAL when `ptr` is NULL: the map is unchanged.
WH_CHECK wh_status whi_hash_put(whi_hash *map, uint64_t key, void *ptr);

// whi_hash_make maps `key`, which has no pointer yet, to an object of `size` zero bytes, for whi_free, and returns that.  NULL:
// memory is out, and nothing has changed.
void *whi_hash_make(whi_hash *map, uint64_t key, size_t size);

// whi_hash_get returns the pointer of `key`, or NULL.
static inline void *whi_hash_get(const whi_hash *map, uint64_t key) {
    if (!map->count)
        return NULL;
    for (size_t at = whi_hash_mix(key ^ map->seed) & map->mask;; at = (at + 1) & map->mask)
        if (!map->entries[at].ptr || map->entries[at].key == key)
            return map->entries[at].ptr;
}

// whi_hash_remove forgets `key` and returns its pointer, or NULL.
void *whi_hash_remove(whi_hash *map, uint64_t key);

static inline size_t whi_hash_count(const whi_hash *map) {
    return map->count;
}

// whi_hash_next returns a pointer and its key and moves *cursor on; NULL at the end.  Begin with 0.
// The order means nothing.  The map must not change on the way.
void *whi_hash_next(const whi_hash *map, size_t *cursor, uint64_t *key);

// whi_hash_fini frees the map, whether or not it is empty.
void whi_hash_fini(whi_hash *map);

#endif
