// SPDX-License-Identifier: BSD-3-Clause
//
// Which end meets which: the k-th that one element opens to another, and the k-th of that one to it.
//
// Each opening that comes is answered once: by the opening of an end here, which meets it, or by REFUSE, when the element
// is none, or ends without one.  An end that has said its number stays until then, so that whatever is sent to it finds it.
#include "base/alloc.h"
#include "rt/channel/channels.h"

typedef struct opening {
    whi_list link;
    whi_channel_opening is;
} opening;

static uint64_t hash_of(const whi_channel_name *name) {
    return whi_hash_bytes(name->bytes, sizeof(name->bytes));
}

static bool same(const whi_channel_name *a, const whi_channel_name *b) {
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

whi_channel_element *whi_channel_element_find(const whi_channels *channels,
                                              const whi_channel_name *name) {
    whi_channel_element *at = whi_hash_get(&channels->elements, hash_of(name));
    while (at && !same(&at->name, name))
        at = at->next;
    return at;
}

static whi_channel_element *need_element(whi_channels *channels, const whi_channel_name *name) {
    whi_channel_element *element = whi_channel_element_find(channels, name);
    if (element)
        return element;
    element = whi_calloc(1, sizeof(*element));
    if (!element)
        return NULL;
    uint64_t hash = hash_of(name);
    element->name = *name;
    element->next = whi_hash_get(&channels->elements, hash);
    whi_list_init(&element->pairs);
    whi_list_init(&element->leaving);
    if (whi_hash_put(&channels->elements, hash, element) == WH_OK)
        return element;
    whi_free(element);
    return NULL;
}

static whi_channel_pair *find_pair(const whi_channel_element *element,
                                   const whi_channel_name *peer) {
    for (whi_list *node = element->pairs.next; node != &element->pairs; node = node->next) {
        whi_channel_pair *pair = whi_container_of(node, whi_channel_pair, link);
        if (same(&pair->peer, peer))
            return pair;
    }
    return NULL;
}

static whi_channel_pair *need_pair(whi_channel_element *element, const whi_channel_name *peer) {
    whi_channel_pair *pair = find_pair(element, peer);
    if (pair || !(pair = whi_calloc(1, sizeof(*pair))))
        return pair;
    pair->peer = *peer;
    whi_list_init(&pair->ends);
    whi_list_init(&pair->unmet);
    whi_list_init(&pair->openings);
    whi_list_push_back(&element->pairs, &pair->link);
    return pair;
}

static void free_pairs(whi_channel_element *element) {
    whi_list *node;
    while ((node = whi_list_pop_front(&element->pairs))) {
        whi_channel_pair *pair = whi_container_of(node, whi_channel_pair, link);
        while ((node = whi_list_pop_front(&pair->openings)))
            whi_free(whi_container_of(node, opening, link));
        whi_free(pair);
    }
}

static void forget_element(whi_channels *channels, whi_channel_element *element) {
    uint64_t hash = hash_of(&element->name);
    whi_channel_element *first = whi_hash_get(&channels->elements, hash);
    if (first != element) {
        while (first->next != element)
            first = first->next;
        first->next = element->next;
    } else if (!element->next || whi_hash_put(&channels->elements, hash, element->next) != WH_OK) {
        whi_hash_remove(&channels->elements, hash);
    }
    whi_list_remove(&element->leaving);
    whi_free(element);
}

// tidy forgets a pair, and its element, that have nothing.
static void tidy(whi_channels *channels, whi_channel_element *element, whi_channel_pair *pair) {
    if (element->busy)
        return;
    if (pair && whi_list_empty(&pair->ends) && whi_list_empty(&pair->openings)) {
        whi_list_remove(&pair->link);
        whi_free(pair);
    }
    if (whi_list_empty(&element->pairs))
        forget_element(channels, element);
}

void whi_channel_pair_leave(wh_channel *ch) {
    if (!ch->pair)
        return;
    whi_list_remove(&ch->link);
    whi_list_remove(&ch->unmet);
    tidy(ch->in, ch->element, ch->pair);
}

// ---- Opening.

static wh_status announce(whi_channels *channels, const wh_channel *ch) {
    uint8_t bytes[WHI_CHANNEL_OPENING_SIZE];
    whi_channel_opening own = {.from = ch->element->name,
                               .pe = (uint32_t)channels->pe->number,
                               .number = ch->number,
                               .window = ch->window};
    whi_channel_opening_write(&own, bytes);
    return channels->carrier.open(channels->carrier.arg, &ch->pair->peer, bytes, sizeof(bytes));
}

// meet has the first end and the first opening of a pair meet, if there are both.
static void meet(whi_channel_pair *pair) {
    if (whi_list_empty(&pair->unmet) || whi_list_empty(&pair->openings))
        return;
    wh_channel *ch = whi_container_of(whi_list_pop_front(&pair->unmet), wh_channel, unmet);
    opening *theirs = whi_container_of(whi_list_pop_front(&pair->openings), opening, link);
    whi_channel_opening is = theirs->is;
    whi_free(theirs);
    whi_channel_meet(ch, &is);
}

static wh_status open_pair(whi_channels *channels, whi_channel_element *element,
                           const whi_channel_name *peer, const whi_channel_kind *kind,
                           wh_channel **out) {
    whi_channel_pair *pair = need_pair(element, peer);
    wh_channel *ch;
    wh_status st = pair ? whi_channel_create(channels, kind->window, &ch) : WH_ENOMEM;
    if (st != WH_OK) {
        tidy(channels, element, pair);
        return st;
    }
    ch->id = kind->id;
    ch->withdraws = kind->withdraws;
    ch->element = element;
    ch->pair = pair;
    whi_list_push_back(&pair->ends, &ch->link);
    whi_list_push_back(&pair->unmet, &ch->unmet);
    st = announce(channels, ch);
    if (st != WH_OK) {
        whi_channel_free(ch);
        return st;
    }
    *out = ch;
    meet(pair);
    return WH_OK;
}

wh_status whi_channels_open(whi_channels *channels, const whi_channel_name *self,
                            const whi_channel_name *peer, const whi_channel_kind *kind,
                            wh_channel **out) {
    if (!kind->window || kind->window > WHI_CHANNEL_WINDOW_MAX || same(self, peer))
        return WH_EINVAL;
    whi_channel_element *element = need_element(channels, self);
    return element ? open_pair(channels, element, peer, kind, out) : WH_ENOMEM;
}

wh_status whi_channel_adopt(whi_channels *channels, const whi_channel_name *self,
                            const whi_channel_name *peer, uint32_t window, wh_channel **out) {
    whi_channel_element *element = need_element(channels, self);
    whi_channel_pair *pair = element ? need_pair(element, peer) : NULL;
    wh_status st = pair ? whi_channel_create(channels, window, out) : WH_ENOMEM;
    if (st != WH_OK) {
        if (element)
            tidy(channels, element, pair);
        return st;
    }
    (*out)->element = element;
    (*out)->pair = pair;
    whi_list_push_back(&pair->ends, &(*out)->link);
    return WH_OK;
}

// ---- Openings of others.

static void refuse(whi_channels *channels, const whi_channel_opening *theirs) {
    whi_channel_tell(channels, (int)theirs->pe, WHI_CHANNEL_REFUSE, theirs->number, false, 0);
}

static wh_status keep(whi_channels *channels, const whi_channel_name *self,
                      const whi_channel_opening *theirs) {
    whi_channel_element *element = need_element(channels, self);
    whi_channel_pair *pair = element ? need_pair(element, &theirs->from) : NULL;
    opening *kept = pair ? whi_malloc(sizeof(*kept)) : NULL;
    if (!kept) {
        if (element)
            tidy(channels, element, pair);
        return WH_ENOMEM;
    }
    kept->is = *theirs;
    whi_list_push_back(&pair->openings, &kept->link);
    meet(pair);
    return WH_OK;
}

wh_status whi_channels_arrive(whi_channels *channels, const whi_channel_name *self, bool alive,
                              const void *bytes, size_t size) {
    whi_channel_opening theirs;
    wh_status st = whi_channel_opening_read(bytes, size, (uint32_t)channels->pe->pes, &theirs);
    if (st != WH_OK)
        return st;
    whi_channel_element *element = whi_channel_element_find(channels, self);
    whi_channel_pair *pair = element ? find_pair(element, &theirs.from) : NULL;
    if (alive || (pair && !whi_list_empty(&pair->unmet)))
        return keep(channels, self, &theirs);
    refuse(channels, &theirs);
    return WH_OK;
}

bool whi_channels_has(const whi_channels *channels, const whi_channel_name *self) {
    return whi_channel_element_find(channels, self) != NULL;
}

// ---- All ends of an element.

wh_channel *whi_channel_next(const whi_channel_element *element, const wh_channel *after) {
    const whi_list *p = after ? &after->pair->link : element->pairs.next;
    const whi_list *e = after ? after->link.next : NULL;
    for (; p != &element->pairs; p = p->next, e = NULL) {
        const whi_channel_pair *pair =
            whi_container_of((whi_list *)(uintptr_t)p, whi_channel_pair, link);
        e = e ? e : pair->ends.next;
        if (e != &pair->ends)
            return whi_container_of((whi_list *)(uintptr_t)e, wh_channel, link);
    }
    return NULL;
}

wh_channel *whi_channel_leaving(const whi_channel_element *element, const wh_channel *after) {
    wh_channel *ch = whi_channel_next(element, after);
    while (ch && !ch->leaving)
        ch = whi_channel_next(element, ch);
    return ch;
}

wh_channel *whi_channels_find(const whi_channels *channels, const whi_channel_name *self,
                              uint32_t id) {
    const whi_channel_element *element = id ? whi_channel_element_find(channels, self) : NULL;
    wh_channel *ch = element ? whi_channel_next(element, NULL) : NULL;
    while (ch && (ch->id != id || !ch->used || ch->closed))
        ch = whi_channel_next(element, ch);
    return ch;
}

// ---- The end of an element.

static void end_pair(whi_channels *channels, whi_channel_pair *pair, bool over) {
    whi_list *node;
    whi_list_foreach(end, &pair->ends) {
        wh_channel *ch = whi_container_of(end, wh_channel, link);
        ch->used = ch->used && !over;
        whi_channel_close(ch, true);
    }
    while ((node = whi_list_pop_front(&pair->openings))) {
        opening *theirs = whi_container_of(node, opening, link);
        refuse(channels, &theirs->is);
        whi_free(theirs);
    }
}

void whi_channels_element_ends(whi_channels *channels, const whi_channel_name *self, bool over) {
    whi_channel_element *element = whi_channel_element_find(channels, self);
    if (!element)
        return;
    element->busy = true;
    whi_list_foreach(node, &element->pairs)
        end_pair(channels, whi_container_of(node, whi_channel_pair, link), over);
    element->busy = false;
    whi_list_foreach(rest, &element->pairs) {
        whi_channel_pair *pair = whi_container_of(rest, whi_channel_pair, link);
        if (!whi_list_empty(&pair->ends))
            continue;
        whi_list_remove(&pair->link);
        whi_free(pair);
    }
    tidy(channels, element, NULL);
}

void whi_channels_free_elements(whi_channels *channels) {
    size_t cursor = 0;
    uint64_t hash;
    whi_channel_element *element;
    while ((element = whi_hash_next(&channels->elements, &cursor, &hash)))
        while (element) {
            whi_channel_element *next = element->next;
            free_pairs(element);
            whi_free(element);
            element = next;
        }
}
