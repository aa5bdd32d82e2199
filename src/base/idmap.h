// SPDX-License-Identifier: BSD-3-Clause
//
// 32-bit names for pointers: what one side puts on the wire and the other side sends back.
//
// An id is a slot number and a generation that changes with each use of the slot, so that an id
// which comes back late, or was made up by a peer, is seen to be stale instead of finding a
// stranger.  Free slots are reused oldest first, which keeps a generation from coming round again
// for as long as possible.  All operations are O(1); 0 is never an id.  A map belongs to one thread
// or one lock and never owns what its pointers point to.
#ifndef WHI_BASE_IDMAP_H
#define WHI_BASE_IDMAP_H

#include <stddef.h>
#include <stdint.h>

#include <wherry/status.h>

enum {
    WHI_IDMAP_SLOT_BITS = 22,  // 4 million pointers at a time, 1023 uses of a slot before a repeat
    WHI_IDMAP_SLOTS_MAX = 1 << WHI_IDMAP_SLOT_BITS,
};

typedef struct whi_idmap_slot {
    void *ptr;      // NULL while free
    uint32_t id;    // the id in use, or the one that the next use will get
    uint32_t next;  // the next free slot, while free
} whi_idmap_slot;

typedef struct whi_idmap {
    whi_idmap_slot *slots;
    uint32_t capacity, count;
    uint32_t free_first, free_last;  // meaningful while count < capacity
} whi_idmap;

// whi_idmap_init makes an empty map.  It allocates nothing; so does zeroing one.
void whi_idmap_init(whi_idmap *map);

// whi_idmap_put names `ptr`, which must not be NULL.
//
// Fails with WH_ENOMEM, or WH_ELIMIT when all slots are in use; then the map is unchanged.
WH_CHECK wh_status whi_idmap_put(whi_idmap *map, void *ptr, uint32_t *id);

// whi_idmap_get returns the pointer of `id`, or NULL when the id is not in use.
static inline void *whi_idmap_get(const whi_idmap *map, uint32_t id) {
    uint32_t index = id & (WHI_IDMAP_SLOTS_MAX - 1);
    if (index >= map->capacity || map->slots[index].id != id)
        return NULL;
    return map->slots[index].ptr;
}

// whi_idmap_replace has `id`, which must be in use, name `ptr` from now on.
void whi_idmap_replace(whi_idmap *map, uint32_t id, void *ptr);

// whi_idmap_remove ends the use of `id` and returns its pointer, or NULL when it was not in use.
void *whi_idmap_remove(whi_idmap *map, uint32_t id);

// whi_idmap_next returns the pointers in use one after the other, then NULL.  *cursor is 0 at first; what it has returned
// may be removed meanwhile.
void *whi_idmap_next(const whi_idmap *map, uint32_t *cursor);

// whi_idmap_fini frees the map, whether or not it is empty.
void whi_idmap_fini(whi_idmap *map);

#endif
