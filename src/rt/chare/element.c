// SPDX-License-Identifier: BSD-3-Clause
//
// Elements on their PE: made, run, ended.
//
// An element that is destroyed leaves the places at once, so that nothing finds it any more; its memory goes when no entry or thread
// of it runs and no call to it is left in the scheduler.
#include "base/alloc.h"
#include "rt/chare/why.h"

_Static_assert(offsetof(whi_element, state) % 16 == 0, "the state is aligned");

// By their epochs; nearly always the last place is the right one.
static void link_element(whi_element *element) {
    whi_list *head = &element->collection->elements, *at = head->prev;
    while (at != head && whi_container_of(at, whi_element, link)->epoch > element->epoch)
        at = at->prev;
    whi_list_insert(at, &element->link);
}

void whi_element_set_epoch(whi_element *element, uint64_t epoch) {
    element->epoch = epoch;
    whi_list_remove(&element->link);
    link_element(element);
}

whi_element *whi_element_new(whi_chares *c, whi_collection *in, const whi_named *cls,
                             const whi_place_key *key) {
    size_t size;
    if (__builtin_add_overflow(sizeof(whi_element), cls->cls.state, &size))
        return NULL;
    whi_element *element = whi_calloc(1, size);
    if (!element)
        return NULL;
    if (in->def.balance && !(element->sync = whi_calloc(1, sizeof(*element->sync)))) {
        whi_free(element);
        return NULL;
    }
    if (element->sync)
        element->sync->told = -1;
    element->pub = (wh_chare){.pe = c->pe, .state = element->state, .proxy = whi_proxy_of(key)};
    element->collection = in;
    element->cls = &cls->cls;
    element->epoch = in->epoch;
    element->moves_to = -1;
    link_element(element);
    in->count++;
    return element;
}

whi_place_key whi_element_key(const whi_element *element) {
    const wh_proxy *proxy = &element->pub.proxy;
    whi_place_key key = {.collection = proxy->collection, .dims = proxy->dims};
    memcpy(key.index, proxy->index, sizeof(key.index));
    return key;
}

static void destruct(whi_element *element) {
    element->destructed = true;
    element->running++;
    if (element->cls->destruct)
        element->cls->destruct(&element->pub);
    element->running--;
}

static void free_element(whi_chares *c, whi_element *element) {
    whi_when_free(c, element);
    whi_list_remove(&element->link);
    whi_free(element->sync);
    whi_free(element);
}

// settle does what has waited until nothing of an element runs.
static void settle(whi_chares *c, whi_element *element) {
    if (element->running)
        return;
    if (!element->dying) {
        if (element->moves_to >= 0)
            (void)whi_move_element(c, element, element->moves_to);
        return;
    }
    if (!element->destructed) {
        whi_place_key key = whi_element_key(element);
        destruct(element);
        if (c->pe->above)
            c->pe->above->ended(c->pe, &key);
    }
    if (!element->queued)
        free_element(c, element);
}

void whi_element_left(whi_chares *c, whi_element *element) {
    element->dying = true;
    element->collection->count--;
    destruct(element);
    free_element(c, element);
}

void whi_element_enter(whi_element *element) {
    element->running++;
}

void whi_element_leave(whi_chares *c, whi_element *element) {
    element->running--;
    settle(c, element);
}

static const char *entry_name(const wh_class *cls, wh_entry_fn fn) {
    for (size_t i = 0; i < cls->entry_count; i++)
        if (cls->entries[i].fn == fn)
            return cls->entries[i].name;
    return "construct";
}

void whi_element_run(whi_chares *c, whi_element *element, wh_entry_fn fn, const wh_call *call) {
    whi_element *outer = c->current;
    whi_element_enter(element);
    c->current = element;
    uint64_t begin = 0;
    whi_words words = c->pe->trace ? whi_pe_span_begin(c->pe, &begin) : c->pe->words;
    uint64_t *charged = whi_pe_charge(c->pe, element->sync ? &element->sync->spent : NULL);
    fn(&element->pub, call);
    (void)whi_pe_charge(c->pe, charged);
    if (c->pe->trace)
        whi_pe_span_end(c->pe, words, whi_element_class(element), entry_name(element->cls, fn),
                        begin);
    c->current = outer;
    whi_element_leave(c, element);
}

// is_member says whether a new element takes part in reductions.
static bool is_member(const whi_collection *in, bool inserted) {
    if (in->def.kind == WHI_SINGLES || in->def.flags & WH_ARRAY_ON_DEMAND)
        return false;
    return !inserted || in->inserting;
}

wh_status whi_element_make(whi_chares *c, whi_collection *in, const whi_named *cls,
                           const whi_place_key *key, const wh_call *call, bool inserted) {
    whi_element *element = whi_element_new(c, in, cls, key);
    if (!element)
        return WH_ENOMEM;
    element->reduces = is_member(in, inserted);
    wh_status st = whi_places_insert(c->places, key, element);
    if (st != WH_OK) {
        whi_list_remove(&element->link);
        in->count--;
        whi_free(element->sync);
        whi_free(element);
        return st;
    }
    in->inserted += inserted && element->reduces;
    if (cls->cls.construct)
        whi_element_run(c, element, cls->cls.construct, call);
    return WH_OK;
}

// ---- Calls whose turn has come.

static void unknown_entry(whi_chares *c, whi_element *element, whi_call *call) {
    wh_proxy proxy = element->pub.proxy;
    unsigned entry = call->entry;
    int source = (int)call->place.stamp.source;
    const wh_class *cls = element->cls;
    whi_buffers_refuse(c, call);
    whi_call_free(c, call);
    whi_chares_error(c, &proxy,
                     "PE %d has called entry %u of class %s, for %s; the class has %zu entries: %s",
                     source, entry, cls->name, whi_say_proxy(c, &proxy).text, cls->entry_count,
                     whi_say_entries(cls).text);
}

// now has an element do what a call says.
static void now(whi_chares *c, whi_element *element, whi_call *call) {
    const wh_class *cls = element->cls;
    if (call->entry == WHI_ENTRY_DESTROY) {
        whi_call_free(c, call);
        whi_element_destroy(c, element);
    } else if (cls->entries[call->entry].flags & WH_ENTRY_THREADED) {
        whi_when_spawn(c, element, call);
    } else {
        wh_call pub = whi_call_public(call);
        whi_element_run(c, element, cls->entries[call->entry].fn, &pub);
        whi_call_free(c, call);
    }
}

// is_behind says whether a call waits for another one of its PE, in front of `end`.
static bool is_behind(const whi_element *element, const whi_call *call, const whi_call *end) {
    whi_queue_node *node = element->waits ? whi_queue_first(&element->waits->posted) : NULL;
    for (; node; node = node->next) {
        const whi_call *other = whi_container_of(node, whi_call, place.node);
        if (other == end)
            return false;
        if (other->place.stamp.source == call->place.stamp.source)
            return true;
    }
    return false;
}

static void bad_buffers(whi_chares *c, whi_element *element, whi_call *call) {
    wh_proxy proxy = element->pub.proxy;
    wh_status st = whi_buffers_status(call);
    const char *cls = element->cls->name, *entry = element->cls->entries[call->entry].name;
    whi_call_free(c, call);
    if (st == WH_ETRUNCATED || st == WH_EINVAL)
        whi_chares_error(
            c, &proxy,
            "entry %s of class %s has posted less memory than the buffers of its call have", entry,
            cls);
    else if (st != WH_EPEER && st != WH_ECLOSED &&
             st != WH_ECANCELLED)  // of a loss its sentence tells
        whi_chares_error(c, &proxy, "buffers of entry %s of class %s did not arrive: %s", entry,
                         cls, wh_status_text(st));
}

static whi_call *next_landed(whi_element *element) {
    whi_waits *w = element->waits;
    for (whi_queue_node **at = &w->posted.first; *at; at = &(*at)->next) {
        whi_call *call = whi_container_of(*at, whi_call, place.node);
        if (!whi_buffers_landed(call) || is_behind(element, call, call))
            continue;
        whi_queue_take_out(&w->posted, at);
        return call;
    }
    return NULL;
}

void whi_element_advance(whi_chares *c, whi_element *element) {
    whi_call *call;
    whi_element_enter(element);
    while ((call = next_landed(element))) {
        bool posted = call->posted != NULL;
        c->pe->quiet.consumed += posted;
        if (whi_buffers_status(call) != WH_OK)
            bad_buffers(c, element, call);
        else if (element->dying)
            whi_call_free(c, call);
        else
            now(c, element, call);
        element->running--;  // since it waited; it is entered once more here
    }
    whi_element_leave(c, element);
}

// later has a call wait for its buffers, or behind one that does.  The element stays meanwhile.
static void later(whi_chares *c, whi_element *element, whi_call *call) {
    whi_waits *w = whi_waits_of(element);
    wh_post_fn post =
        call->entry < element->cls->entry_count ? element->cls->entries[call->entry].post : NULL;
    if (!w) {
        whi_pe_fail(c->pe, "there is no memory for a message");
        whi_call_free(c, call);
        return;
    }
    whi_element_enter(element);
    whi_queue_push(&w->posted, &call->place.node);
    if (call->buffers)
        (void)whi_buffers_post(c, call, post);
}

void whi_element_take(whi_chares *c, whi_call *call) {
    whi_element *element = call->element;
    const wh_class *cls = element->cls;
    bool destroy = call->entry == WHI_ENTRY_DESTROY;
    if (element->dying) {
        whi_call_reject(c, call);
        settle(c, element);
    } else if (element->held) {
        whi_move_keep(c, element, call);
    } else if (call->number) {
        whi_follow_take(c, element, call);
    } else if (call->entry == WHI_ENTRY_NOTHING && call->follows) {
        whi_call_free(c, call);
    } else if (call->entry == WHI_ENTRY_FORGET) {
        whi_share_forget(element, (uint64_t)call->ref);
        whi_call_free(c, call);
    } else if (call->entry == WHI_ENTRY_ABOVE && c->pe->above) {
        whi_place_key key = call->place.key;
        c->pe->above->message(c->pe, &key, true, (int)call->place.stamp.source, call->msg->pub.data,
                              call->msg->pub.size);
        whi_call_free(c, call);
    } else if (!destroy && call->entry >= cls->entry_count) {
        unknown_entry(c, element, call);
    } else if (!destroy && (cls->entries[call->entry].flags & WH_ENTRY_WHEN) &&
               !whi_when_take(c, element, call)) {
        return;
    } else if (call->buffers || is_behind(element, call, NULL)) {
        later(c, element, call);
    } else {
        now(c, element, call);
    }
}

// ---- The end.

void whi_element_destroy(whi_chares *c, whi_element *element) {
    if (element->dying)
        return;
    whi_place_key key = whi_element_key(element);
    void *state;
    size_t size;
    wh_status st = whi_places_remove(c->places, &key, &state, &size);
    if (st != WH_OK) {
        whi_pe_fail(c->pe, "an element of class %s cannot be destroyed: %s", element->cls->name,
                    wh_status_text(st));
        return;
    }
    if (state)
        whi_move_vacant(c, element, state, size);
    element->dying = true;
    element->collection->count--;
    c->reduce.ended(c, element);
    whi_list_remove(&element->link);
    whi_list_push_back(&c->dying, &element->link);
    whi_when_close(c, element);
    if (c->pe->above)
        c->pe->above->ending(c->pe, &key);
    settle(c, element);
}

static void free_list(whi_chares *c, whi_list *list) {
    whi_list *node;
    while ((node = whi_list_pop_front(list))) {
        whi_element *element = whi_container_of(node, whi_element, link);
        whi_when_free(c, element);
        whi_free(element->sync);
        whi_free(element);
    }
}

void whi_element_free_all(whi_chares *c) {
    size_t cursor = 0;
    uint64_t id;
    whi_collection *in;
    while ((in = whi_hash_next(&c->collections, &cursor, &id)))
        free_list(c, &in->elements);
    free_list(c, &c->dying);
}
