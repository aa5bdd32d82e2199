// SPDX-License-Identifier: BSD-3-Clause
#include "rt/section/destroyed.h"

#include "base/alloc.h"

static uint32_t maker_of(uint64_t id) {
    return (uint32_t)(id >> 32);
}

static uint64_t number_of(uint64_t id) {
    return (uint32_t)id;
}

void whi_destroyed_init(whi_destroyed *d) {
    whi_hash_init(&d->ids);
    whi_hash_init(&d->below);
}

void whi_destroyed_fini(whi_destroyed *d) {
    size_t cursor = 0;
    uint64_t maker;
    uint64_t *below;
    while ((below = whi_hash_next(&d->below, &cursor, &maker)))
        whi_free(below);
    whi_hash_fini(&d->ids);
    whi_hash_fini(&d->below);
}

static uint64_t *bound_of(const whi_destroyed *d, uint32_t maker) {
    return whi_hash_get(&d->below, maker + 1ull);
}

static uint64_t *need_bound(whi_destroyed *d, uint32_t maker) {
    uint64_t *below = bound_of(d, maker);
    if (!below && (below = whi_hash_make(&d->below, maker + 1ull, sizeof(*below))))
        *below = 1;
    return below;
}

bool whi_destroyed_has(const whi_destroyed *d, uint64_t id) {
    const uint64_t *below = bound_of(d, maker_of(id));
    return (below && number_of(id) < *below) || whi_hash_get(&d->ids, id);
}

static void drop_all_below(whi_destroyed *d) {
    whi_hash rest;
    size_t cursor = 0;
    uint64_t id;
    bool fine = true;
    whi_hash_init(&rest);
    while (fine && whi_hash_next(&d->ids, &cursor, &id)) {
        const uint64_t *below = bound_of(d, maker_of(id));
        if (!below || number_of(id) >= *below)
            fine = whi_hash_put(&rest, id, d) == WH_OK;
    }
    if (!fine) {
        whi_hash_fini(&rest);
        return;
    }
    whi_hash_fini(&d->ids);
    d->ids = rest;
}

// drop_below forgets ids that a bound says, which was `from` and has gone up: as long as it goes up by a few, those of other makers,
// which may be many, are not looked at.
static void drop_below(whi_destroyed *d, uint32_t maker, uint64_t from, uint64_t bound) {
    if (bound - from > whi_hash_count(&d->ids)) {
        drop_all_below(d);
        return;
    }
    for (uint64_t number = from; number < bound; number++)
        whi_hash_remove(&d->ids, (uint64_t)maker << 32 | (uint32_t)number);
}

void whi_destroyed_add(whi_destroyed *d, uint64_t id, uint64_t below) {
    uint64_t *bound = need_bound(d, maker_of(id));
    if (bound && below > *bound) {
        uint64_t from = *bound;
        *bound = below;
        drop_below(d, maker_of(id), from, below);
    }
    if (!whi_destroyed_has(d, id))
        (void)!whi_hash_put(&d->ids, id, d);  // it is forgotten
}

uint64_t whi_destroyed_below(whi_destroyed *d, uint32_t maker) {
    uint64_t *bound = need_bound(d, maker);
    if (!bound)
        return 0;
    while (whi_hash_remove(&d->ids, (uint64_t)maker << 32 | (uint32_t)*bound))
        ++*bound;
    return *bound;
}
