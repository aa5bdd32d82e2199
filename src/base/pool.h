// SPDX-License-Identifier: BSD-3-Clause
//
// A pool of objects of one size: taking and giving back is a few instructions.
//
// Objects come in chunks that begin with eight of them and double as long as that is at most 64 KiB;
// a free object holds the link to the next free one in its own first bytes.  The last given back is the next taken, while
// it is still in the cache.  Memory returns to the heap in whi_pool_fini only.  A pool belongs to
// one thread or one lock.  Under the address sanitizer, free objects are poisoned.
#ifndef WHI_BASE_POOL_H
#define WHI_BASE_POOL_H

#include <stddef.h>
#include <stdint.h>

#include <wherry/status.h>

#if defined(__SANITIZE_ADDRESS__)
#define WHI_POOL_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WHI_POOL_ASAN 1
#endif
#endif
#ifdef WHI_POOL_ASAN
#include <sanitizer/asan_interface.h>
#define whi_pool_poison(ptr, size) __asan_poison_memory_region((ptr), (size))
#define whi_pool_unpoison(ptr, size) __asan_unpoison_memory_region((ptr), (size))
#else
#define whi_pool_poison(ptr, size) ((void)(ptr), (void)(size))
#define whi_pool_unpoison(ptr, size) ((void)(ptr), (void)(size))
#endif

typedef struct whi_pool_free {
    struct whi_pool_free *next;
} whi_pool_free;

typedef struct whi_pool {
    whi_pool_free *free;
    size_t size;        // of an object, rounded up to its alignment
    size_t align;       // of every object
    size_t out;         // objects taken and not given back
    size_t chunk_next;  // objects in the next chunk
    struct whi_pool_chunk *chunks;
    const char *name;  // of what is pooled, for the report of leaks
} whi_pool;

// whi_pool_init makes an empty pool of objects of `size` bytes, aligned to `align`: a power of two,
// or 0 for what malloc aligns to.  `name`, a static string, is what whi_pool_fini calls the
// objects.  It allocates nothing.
void whi_pool_init(whi_pool *pool, size_t size, size_t align, const char *name);

// Not for callers: adds a chunk.
WH_CHECK wh_status whi_pool_grow(whi_pool *pool);

// whi_pool_get takes an object of undefined content, or returns NULL when memory is out.
static inline void *whi_pool_get(whi_pool *pool) {
    if (__builtin_expect(!pool->free, 0) && whi_pool_grow(pool) != WH_OK)
        return NULL;
    whi_pool_free *object = pool->free;
    whi_pool_unpoison(object, pool->size);
    pool->free = object->next;
    pool->out++;
    return object;
}

// whi_pool_put gives back an object that this pool handed out; NULL is not allowed.
static inline void whi_pool_put(whi_pool *pool, void *object) {
    whi_pool_free *link = object;
    link->next = pool->free;
    pool->free = link;
    pool->out--;
    whi_pool_poison(object, pool->size);
}

// whi_pool_out returns how many objects are taken and not given back.
static inline size_t whi_pool_out(const whi_pool *pool) {
    return pool->out;
}

// whi_pool_fini frees all chunks.  Objects that are still out are a bug of the owner: they are
// logged, their number is returned, and their memory goes all the same.
size_t whi_pool_fini(whi_pool *pool);

#endif
