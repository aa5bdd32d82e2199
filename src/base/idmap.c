// SPDX-License-Identifier: BSD-3-Clause
//
// The slots of an id map.
//
// The idea: a slot always stores a full id; in use it is the current one, free it is the one that
// the next use will get.  So whi_idmap_get compares one word, and the generation moves on at
// removal.  The invariant: free slots form one list from free_first to free_last, oldest first.
#include "base/idmap.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

enum { CAPACITY_FIRST = 16 };

static const uint32_t generation_one = UINT32_C(1) << WHI_IDMAP_SLOT_BITS;

void whi_idmap_init(whi_idmap *map) {
    memset(map, 0, sizeof(*map));
}

// Called when no slot is free: the new ones are the whole free list.
static wh_status grow(whi_idmap *map) {
    uint32_t old = map->capacity;
    uint32_t capacity = old ? 2 * old : CAPACITY_FIRST;
    if (capacity > WHI_IDMAP_SLOTS_MAX)
        return WH_ELIMIT;
    whi_idmap_slot *slots = whi_realloc(map->slots, capacity * sizeof(*slots));
    if (!slots)
        return WH_ENOMEM;
    // Generation 0 is left out, so that no id is ever 0.
    for (uint32_t i = old; i < capacity; i++)
        slots[i] = (whi_idmap_slot){.ptr = NULL, .id = generation_one | i, .next = i + 1};
    map->slots = slots;
    map->capacity = capacity;
    map->free_first = old;
    map->free_last = capacity - 1;
    return WH_OK;
}

wh_status whi_idmap_put(whi_idmap *map, void *ptr, uint32_t *id) {
    if (!ptr)
        return WH_EINVAL;
    if (map->count == map->capacity) {
        wh_status status = grow(map);
        if (status != WH_OK)
            return status;
    }
    whi_idmap_slot *slot = &map->slots[map->free_first];
    map->free_first = slot->next;
    map->count++;
    slot->ptr = ptr;
    *id = slot->id;
    return WH_OK;
}

void *whi_idmap_remove(whi_idmap *map, uint32_t id) {
    void *ptr = whi_idmap_get(map, id);
    if (!ptr)
        return NULL;
    uint32_t index = id & (WHI_IDMAP_SLOTS_MAX - 1);
    whi_idmap_slot *slot = &map->slots[index];
    slot->ptr = NULL;
    slot->id = id + generation_one;
    if (slot->id < generation_one)  // it came round to generation 0
        slot->id += generation_one;
    if (map->count == map->capacity)
        map->free_first = index;
    else
        map->slots[map->free_last].next = index;
    map->free_last = index;
    map->count--;
    return ptr;
}

void whi_idmap_replace(whi_idmap *map, uint32_t id, void *ptr) {
    assert(ptr && whi_idmap_get(map, id));
    map->slots[id & (WHI_IDMAP_SLOTS_MAX - 1)].ptr = ptr;
}

void *whi_idmap_next(const whi_idmap *map, uint32_t *cursor) {
    while (*cursor < map->capacity) {
        void *ptr = map->slots[(*cursor)++].ptr;
        if (ptr)
            return ptr;
    }
    return NULL;
}

void whi_idmap_fini(whi_idmap *map) {
    whi_free(map->slots);
    whi_idmap_init(map);
}
