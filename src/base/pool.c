// SPDX-License-Identifier: BSD-3-Clause
//
// Chunks of pooled objects.
//
// The invariant: every object of every chunk is either out or on the free list, exactly once.  A
// chunk is one allocation: its header, padding up to the objects' alignment, the objects.
#include "base/pool.h"

#include <stdint.h>

#include "base/alloc.h"
#include "base/log.h"

typedef struct whi_pool_chunk {
    struct whi_pool_chunk *next;
    size_t size;  // of the whole allocation
} whi_pool_chunk;

enum {
    OBJECTS_FIRST = 8,          // in the first chunk, however large they are
    CHUNK_SIZE_MAX = 64 << 10,  // no doubling beyond: that would only make an idle pool expensive
};

static size_t round_up(size_t size, size_t align) {
    return (size + align - 1) & ~(align - 1);
}

void whi_pool_init(whi_pool *pool, size_t size, size_t align, const char *name) {
    if (!align)
        align = _Alignof(max_align_t);
    if (align < _Alignof(whi_pool_free))
        align = _Alignof(whi_pool_free);
    if (size < sizeof(whi_pool_free))
        size = sizeof(whi_pool_free);
    *pool = (whi_pool){
        .size = round_up(size, align), .align = align, .chunk_next = OBJECTS_FIRST, .name = name};
}

wh_status whi_pool_grow(whi_pool *pool) {
    size_t header = round_up(sizeof(whi_pool_chunk), pool->align);
    size_t count = pool->chunk_next;
    size_t size = header + count * pool->size;
    // The header of a chunk must be aligned too, which the objects' alignment may be too small for.
    size_t align = pool->align > _Alignof(whi_pool_chunk) ? pool->align : _Alignof(whi_pool_chunk);
    whi_pool_chunk *chunk = whi_aligned_alloc(align, size);
    if (!chunk)
        return WH_ENOMEM;
    chunk->next = pool->chunks;
    chunk->size = size;
    pool->chunks = chunk;
    if (2 * count * pool->size <= CHUNK_SIZE_MAX)
        pool->chunk_next = 2 * count;
    // Backwards, so that a fresh chunk is handed out from its start.
    for (size_t i = count; i-- > 0;) {
        whi_pool_free *object = (whi_pool_free *)((char *)chunk + header + i * pool->size);
        object->next = pool->free;
        pool->free = object;
        whi_pool_poison(object, pool->size);
    }
    return WH_OK;
}

size_t whi_pool_fini(whi_pool *pool) {
    size_t out = pool->out;
    if (out)
        whi_log(WHI_WARN, "W-BASE-01", "%zu %s not given back to their pool at its end", out,
                pool->name);
    while (pool->chunks) {
        whi_pool_chunk *chunk = pool->chunks;
        pool->chunks = chunk->next;
        whi_pool_unpoison(chunk, chunk->size);
        whi_free(chunk);
    }
    pool->free = NULL;
    pool->out = 0;
    pool->chunk_next = OBJECTS_FIRST;
    return out;
}
