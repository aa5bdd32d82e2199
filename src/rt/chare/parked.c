// SPDX-License-Identifier: BSD-3-Clause
//
// Each call stands on two shelves: that of its entry and reference, and that of its entry, for who asks for any reference.
#include "rt/chare/parked.h"

#include "base/alloc.h"
#include "rt/chare/chares.h"

typedef struct shelf {
    struct shelf *next;  // of the same hash
    unsigned entry;
    bool any;  // all of the entry; it stays when it is empty
    int64_t ref;
    size_t count;
    whi_list calls;  // oldest first
} shelf;

typedef struct record {
    whi_list all, any, one;
    shelf *of_any, *of_one;
    whi_call *call;
} record;

static uint64_t hash_of(unsigned entry, bool any, int64_t ref) {
    return whi_hash_mix((uint64_t)ref) + ((uint64_t)entry << 1 | any);
}

void whi_parked_init(whi_parked *parked) {
    whi_list_init(&parked->all);
    whi_hash_init(&parked->shelves);
    parked->looked = 0;
}

static shelf *find(whi_parked *parked, unsigned entry, bool any, int64_t ref) {
    shelf *at = whi_hash_get(&parked->shelves, hash_of(entry, any, ref));
    for (; at; at = at->next) {
        parked->looked++;
        if (at->entry == entry && at->any == any && at->ref == ref)
            return at;
    }
    return NULL;
}

static shelf *need(whi_parked *parked, unsigned entry, bool any, int64_t ref) {
    shelf *s = find(parked, entry, any, ref);
    if (s || !(s = whi_calloc(1, sizeof(*s))))
        return s;
    uint64_t hash = hash_of(entry, any, ref);
    s->entry = entry;
    s->any = any;
    s->ref = ref;
    s->next = whi_hash_get(&parked->shelves, hash);
    whi_list_init(&s->calls);
    if (whi_hash_put(&parked->shelves, hash, s) == WH_OK)
        return s;
    whi_free(s);
    return NULL;
}

static void tidy(whi_parked *parked, shelf *s) {
    if (s->count || s->any)
        return;
    uint64_t hash = hash_of(s->entry, s->any, s->ref);
    shelf *first = whi_hash_get(&parked->shelves, hash);
    if (first != s) {
        while (first->next != s)
            first = first->next;
        first->next = s->next;
    } else if (!s->next) {
        whi_hash_remove(&parked->shelves, hash);
    } else if (whi_hash_put(&parked->shelves, hash, s->next) != WH_OK) {
        return;  // a key that is there needs no memory
    }
    whi_free(s);
}

wh_status whi_parked_put(whi_parked *parked, whi_call *call) {
    record *r = whi_malloc(sizeof(*r));
    shelf *any = r ? need(parked, call->entry, true, 0) : NULL;
    shelf *one = any ? need(parked, call->entry, false, call->ref) : NULL;
    if (!one) {
        whi_free(r);
        return WH_ENOMEM;
    }
    *r = (record){.of_any = any, .of_one = one, .call = call};
    whi_list_push_back(&parked->all, &r->all);
    whi_list_push_back(&any->calls, &r->any);
    whi_list_push_back(&one->calls, &r->one);
    any->count++;
    one->count++;
    return WH_OK;
}

static whi_call *take(whi_parked *parked, record *r) {
    whi_call *call = r->call;
    whi_list_remove(&r->all);
    whi_list_remove(&r->any);
    whi_list_remove(&r->one);
    r->of_any->count--;
    r->of_one->count--;
    tidy(parked, r->of_one);
    whi_free(r);
    return call;
}

whi_call *whi_parked_take(whi_parked *parked, unsigned entry, int64_t ref) {
    bool any = ref == WH_REF_ANY;
    shelf *s = find(parked, entry, any, any ? 0 : ref);
    whi_list *first = s ? whi_list_first(&s->calls) : NULL;
    if (!first)
        return NULL;
    return take(parked,
                any ? whi_container_of(first, record, any) : whi_container_of(first, record, one));
}

whi_call *whi_parked_pop(whi_parked *parked) {
    whi_list *first = whi_list_first(&parked->all);
    return first ? take(parked, whi_container_of(first, record, all)) : NULL;
}

bool whi_parked_next(const whi_parked *parked, const whi_list **cursor, whi_parked_group *group) {
    const whi_list *at = *cursor ? *cursor : &parked->all;
    while ((at = at->next) != &parked->all) {
        const record *r = whi_container_of((whi_list *)(uintptr_t)at, record, all);
        if (r->of_one->calls.next != &r->one)
            continue;  // its group has been told
        *cursor = at;
        *group = (whi_parked_group){.entry = r->of_one->entry,
                                    .ref = r->of_one->ref,
                                    .count = r->of_one->count,
                                    .first = r->call};
        return true;
    }
    return false;
}

void whi_parked_fini(whi_parked *parked) {
    size_t cursor = 0;
    uint64_t hash;
    shelf *s;
    while ((s = whi_hash_next(&parked->shelves, &cursor, &hash)))
        while (s) {
            shelf *next = s->next;
            whi_free(s);
            s = next;
        }
    whi_hash_fini(&parked->shelves);
}
