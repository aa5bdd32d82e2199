// SPDX-License-Identifier: BSD-3-Clause
//
// Collections: what a PE knows of them, where their elements are at first, and how they come to be.
//
// The creator of a collection numbers it, without asking anybody: PE + k * number of PEs, above 2^20.  Its description goes down a tree
// whose root is the creator, and each PE makes the elements that belong to it.  What names a collection before its
// description is there waits for it.  Collection 0 are the single chares: their index is (PE, creator, serial number).
#include <assert.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/opts.h"

#include "rt/chare/why.h"

// ---- Maps.

// scattered is the number of an index outside of its shape.
static uint64_t scattered(const whi_collection_def *def, const int32_t *index) {
    uint64_t mixed = 0;
    for (int i = 0; i < def->dims; i++)
        mixed = whi_hash_mix(mixed ^ (uint32_t)index[i]) + 1;
    return mixed;
}

// number_of counts an index within a shape of `all` elements; 0: it is outside.
static uint64_t number_of(const whi_collection_def *def, const int32_t *index, uint64_t *all) {
    uint64_t number = 0;
    *all = 1;
    for (int i = 0; i < def->dims; i++) {
        if (index[i] < 0 || index[i] >= def->shape[i]) {
            *all = 0;
            return scattered(def, index);
        }
        number = number * (uint32_t)def->shape[i] + (uint32_t)index[i];
        *all *= (uint32_t)def->shape[i];
    }
    return number;
}

static int block(const whi_collection_def *def, const int32_t *index, int pes) {
    uint64_t all, number = number_of(def, index, &all), product;
    if (!all)
        return (int)(number % (unsigned)pes);
    if (!__builtin_mul_overflow(number, (unsigned)pes, &product))
        return (int)(product / all);  // a division of 128 bits takes as long as all else here
    return (int)((unsigned __int128)number * (unsigned)pes / all);
}

static int round_robin(const whi_collection_def *def, const int32_t *index, int pes) {
    uint64_t all, number = number_of(def, index, &all);
    return (int)(number % (unsigned)pes);
}

static int array_home(const whi_collection *in, const int32_t *index, int pes) {
    if (!in->def.map)
        return block(&in->def, index, pes);
    if (!in->map)
        return round_robin(&in->def, index, pes);
    int pe = in->map->map(index, in->def.dims, in->def.shape, pes, in->map->arg);
    return pe % pes < 0 ? pe % pes + pes : pe % pes;
}

uint32_t whi_collection_home(whi_chares *c, const whi_place_key *key) {
    const whi_collection *in = whi_collection_get(c, key->collection);
    int pes = c->pe->pes, at = key->index[0], local;
    switch (in ? (whi_collection_kind)in->def.kind : WHI_SINGLES) {
    case WHI_NODE_GROUP:
        local = whi_wire_local(c->pe->wire);
        at = at >= 0 && at < pes / local ? at * local : 0;
        break;
    case WHI_ARRAY: at = array_home(in, key->index, pes); break;
    case WHI_SINGLES:
    case WHI_GROUP:
    case WHI_COLLECTION_KINDS: break;
    }
    return at >= 0 && at < pes ? (uint32_t)at : 0;
}

// Of a creator the single chares come in the order of their numbers: what is above the last one is still coming.
static bool single_awaited(whi_chares *c, const whi_place_key *key) {
    if (key->index[0] != c->pe->number || key->index[1] < 0 || key->index[1] >= c->pe->pes)
        return false;
    uintptr_t last = (uintptr_t)whi_hash_get(&c->singles, (uint32_t)key->index[1]);
    return (uint32_t)key->index[2] > last;
}

// It is asked within a call of the places, so an element on demand is made by a message.
bool whi_collection_awaits(whi_chares *c, const whi_place_key *key) {
    const whi_collection *in = whi_collection_get(c, key->collection);
    if (!in || !in->known || in->ended)
        return false;
    if (in->def.kind == WHI_SINGLES)
        return single_awaited(c, key);
    if (in->def.kind != WHI_ARRAY || c->closing)
        return false;
    if (in->def.flags & WH_ARRAY_ON_DEMAND) {
        whi_head head = {.kind = WHI_HEAD_ELEMENT, .element = {.key = *key}};
        return whi_chares_tell(c, c->pe->number, &head, NULL, 0) == WH_OK;
    }
    return in->inserting;
}

// ---- What is known.

whi_collection *whi_collection_find(whi_chares *c, uint32_t id) {
    whi_collection *in = whi_collection_get(c, id);
    if (in)
        return in;
    in = whi_hash_make(&c->collections, id + 1ull, sizeof(*in));
    if (!in)
        return NULL;
    in->def.id = id;
    in->known = id == WHI_SINGLES_ID;
    in->def.dims = 3;  // of single chares
    whi_list_init(&in->elements);
    whi_list_init(&in->departed);
    whi_queue_init(&in->waiting);
    whi_queue_init(&in->inserts);
    return in;
}

void whi_collection_free_all(whi_chares *c) {
    size_t cursor = 0;
    uint64_t id;
    whi_collection *in;
    while ((in = whi_hash_next(&c->collections, &cursor, &id))) {
        whi_queue_node *node;
        while ((node = whi_queue_pop(&in->waiting))) {
            whi_call *call = whi_container_of(node, whi_call, place.node);
            if (call->msg->arriving)
                whi_pool_put(&c->calls, call);  // the wire frees the message
            else
                whi_call_free(c, call);
        }
        while ((node = whi_queue_pop(&in->inserts)))
            whi_msg_free(whi_container_of(node, whi_msg, link));
        whi_follow_free(in);
        c->reduce.free(in->reductions);
        c->reduce.free(in->syncs);
        c->balance.free(in->balance);
        whi_free(in);
    }
    whi_hash_fini(&c->collections);
}

// ---- Elements of a new collection.

static bool next_index(const whi_collection_def *def, int32_t *index) {
    for (int i = def->dims - 1; i >= 0; i--) {
        if (++index[i] < def->shape[i])
            return true;
        index[i] = 0;
    }
    return false;
}

static wh_status make_elements(whi_chares *c, whi_collection *in, const wh_call *call) {
    whi_place_key key = {.collection = in->def.id, .dims = in->def.dims};
    int local = whi_wire_local(c->pe->wire);
    bool node = in->def.kind == WHI_NODE_GROUP;
    if (in->def.kind != WHI_ARRAY) {
        key.index[0] = node ? c->pe->number / local : c->pe->number;
        return node && c->pe->number % local ? WH_OK
                                             : whi_element_make(c, in, in->cls, &key, call, false);
    }
    wh_status st = WH_OK;
    for (int i = 0; i < in->def.dims; i++)
        if (!in->def.shape[i])
            return WH_OK;
    do {
        if (whi_collection_home(c, &key) == (uint32_t)c->pe->number)
            st = whi_element_make(c, in, in->cls, &key, call, false);
    } while (st == WH_OK && next_index(&in->def, key.index));
    return st;
}

bool whi_map_is_known(const whi_chares *c, uint64_t id) {
    return !id || whi_named_find(c, id, WHI_NAMED_MAP) ||
           id == whi_named_id(WHI_NAMED_MAP, "round-robin");
}

// release lets go what has waited until a collection was known.
static void release(whi_chares *c, whi_collection *in) {
    whi_queue_node *node;
    while ((node = whi_queue_pop(&in->inserts))) {
        whi_msg *early = whi_container_of(node, whi_msg, link);
        early->pub.priority = INT32_MIN;  // it is in front of what has come since
        whi_sched_push(&c->pe->sched, early);
    }
    whi_call_release(c, in);
    whi_move_open_all(c);
}

WHI_COLD static void refuse_def(whi_chares *c, const whi_collection *in,
                                const whi_collection_def *def, int source, const char *lacks) {
    const char *cls = in->cls ? in->cls->name : "?";
    if (!lacks)
        whi_pe_fail(
            c->pe, "PE %d has made an array of class %s with the entry resume %u, and %s here: %s",
            source, cls, def->resume, "the class lacks it", whi_say_entries(&in->cls->cls).text);
    else
        whi_pe_fail(
            c->pe,
            "PE %d has made a collection%s%s of a %s that is not registered here: register "
            "classes, maps and balancers on all PEs, first of all in the main function; the "
            "classes here are: %s",
            source, in->cls ? " of class " : "", in->cls ? cls : "", lacks,
            whi_say_names(c, WHI_NAMED_CLASS).text);
}

void whi_collection_create(whi_chares *c, const whi_head *head, wh_pe_msg *msg) {
    const whi_collection_def *def = &head->create;
    whi_collection *in = whi_collection_find(c, def->id);
    wh_status st =
        in ? whi_tree_tell(c, (int)(def->id % (unsigned)c->pe->pes), head, msg->data, msg->size)
           : WH_ENOMEM;
    if (st != WH_OK) {
        whi_pe_fail(c->pe, "collection %u cannot be made: %s", def->id, wh_status_text(st));
        return;
    }
    in->cls = whi_named_find(c, def->cls, WHI_NAMED_CLASS);
    in->map = whi_named_find(c, def->map, WHI_NAMED_MAP);
    const char *lacks = in->known || !in->cls                     ? "class"
                        : !whi_map_is_known(c, def->map)          ? "map"
                        : !whi_balancer_is_known(c, def->balance) ? "balancer"
                                                                  : NULL;
    if (lacks || (def->balance && def->resume >= in->cls->cls.entry_count)) {
        refuse_def(c, in, def, msg->source, lacks);
        return;
    }
    in->def = *def;
    in->known = true;
    in->inserting = def->flags & WH_ARRAY_INSERTING;
    wh_call call = {
        .struct_size = sizeof(call), .args = msg->data, .size = msg->size, .source = msg->source};
    st = make_elements(c, in, &call);
    if (st != WH_OK) {
        whi_pe_fail(c->pe, "elements of class %s cannot be made: %s", in->cls->name,
                    wh_status_text(st));
        return;
    }
    release(c, in);
}

wh_status whi_collection_restore(whi_chares *c, const whi_collection_def *def, uint64_t members) {
    unsigned pes = (unsigned)c->pe->pes;
    whi_collection *in = whi_collection_find(c, def->id);
    if (!in || in->known)
        return in ? WH_EBUSY : WH_ENOMEM;
    in->def = *def;
    in->cls = whi_named_find(c, def->cls, WHI_NAMED_CLASS);
    in->map = whi_named_find(c, def->map, WHI_NAMED_MAP);
    in->known = in->restored = true;
    in->members = members;
    // This PE's next one gets another number.
    if (def->id % pes == (unsigned)c->pe->number && c->next_collection < def->id / pes)
        c->next_collection = def->id / pes;
    release(c, in);
    return WH_OK;
}

// check_class says whether elements of a class can be made here.
static wh_status check_class(const wh_pe *pe, const char *call, const char *cls, const void *args,
                             size_t size) {
    const whi_chares *c = whi_chares_get(pe);
    if (!c)
        return whi_refuse_unregistered(pe, call, WH_ENOTFOUND);
    if (!cls)
        return whi_refuse(WH_EINVAL, "E-CHARE-04", "%s: the name of the class is NULL", call);
    if (size && !args)
        return whi_refuse_data(call, "args", size);
    return whi_named_find(c, whi_named_id(WHI_NAMED_CLASS, cls), WHI_NAMED_CLASS)
               ? WH_OK
               : whi_refuse_name(c, call, WHI_NAMED_CLASS, cls);
}

// check_names does so for what else an array names.
static wh_status check_names(const whi_chares *c, const char *cls, const wh_array_opts *opts,
                             const whi_collection_def *def) {
    const wh_class *found = &whi_named_find(c, def->cls, WHI_NAMED_CLASS)->cls;
    if (!whi_map_is_known(c, def->map))
        return whi_refuse_name(c, "wh_array_create", WHI_NAMED_MAP, opts->map);
    if (!whi_balancer_is_known(c, def->balance))
        return whi_refuse_name(c, "wh_array_create", WHI_NAMED_BALANCER, opts->balance);
    if (def->balance && def->resume >= found->entry_count)
        return whi_refuse(WH_EINVAL, "E-CHARE-05",
                          "wh_array_create: resume is entry %u, and class %s has %zu: %s",
                          def->resume, cls, found->entry_count, whi_say_entries(found).text);
    return WH_OK;
}

static wh_status create(wh_pe *pe, whi_collection_def *def, const void *args, size_t size,
                        wh_proxy *proxy) {
    whi_chares *c = whi_chares_get(pe);
    uint64_t id = (uint64_t)(c->next_collection + 1) * (unsigned)pe->pes + (unsigned)pe->number;
    if (id > UINT32_MAX)
        return WH_ELIMIT;
    def->id = (uint32_t)id;
    whi_head head = {.kind = WHI_HEAD_CREATE, .create = *def};
    wh_status st = whi_chares_tell(c, pe->number, &head, args, size);
    if (st != WH_OK)
        return st;
    c->next_collection++;
    *proxy = (wh_proxy){.collection = def->id};
    return WH_OK;
}

static wh_status create_group(wh_pe *pe, whi_collection_kind kind, const char *call,
                              const char *cls, const void *args, size_t size, wh_proxy *group) {
    wh_status st = check_class(pe, call, cls, args, size);
    if (st != WH_OK)
        return st;
    whi_collection_def def = {.kind = kind, .dims = 1, .cls = whi_named_id(WHI_NAMED_CLASS, cls)};
    return create(pe, &def, args, size, group);
}

wh_status wh_group_create(wh_pe *pe, const char *cls, const void *args, size_t size,
                          wh_proxy *group) {
    return create_group(pe, WHI_GROUP, "wh_group_create", cls, args, size, group);
}

wh_status wh_node_group_create(wh_pe *pe, const char *cls, const void *args, size_t size,
                               wh_proxy *group) {
    return create_group(pe, WHI_NODE_GROUP, "wh_node_group_create", cls, args, size, group);
}

wh_status wh_array_create(wh_pe *pe, const char *cls, const wh_array_opts *opts, const void *args,
                          size_t size, wh_proxy *array) {
    WHI_OPTS(wh_array_opts, opts);
    const whi_text why = whi_why_array(opts);
    if (*why.text)
        return whi_refuse(WH_EINVAL, "E-CHARE-05", "wh_array_create: class %s: %s", cls ? cls : "?",
                          why.text);
    wh_status st = check_class(pe, "wh_array_create", cls, args, size);
    if (st != WH_OK)
        return st;
    const char *map = opts->map, *balance = opts->balance;
    whi_collection_def def = {
        .kind = WHI_ARRAY,
        .dims = (uint8_t)opts->dims,
        .flags = (uint8_t)opts->flags,
        .cls = whi_named_id(WHI_NAMED_CLASS, cls),
        .map = map && strcmp(map, "block") != 0 ? whi_named_id(WHI_NAMED_MAP, map) : 0,
        .balance = balance ? whi_named_id(WHI_NAMED_BALANCER, balance) : 0,
        .resume = (uint16_t)opts->resume};
    memcpy(def.shape, opts->shape, (size_t)opts->dims * sizeof(*def.shape));
    st = check_names(whi_chares_get(pe), cls, opts, &def);
    return st == WH_OK ? create(pe, &def, args, size, array) : st;
}

// ---- Single chares, and elements that are inserted.

wh_status wh_chare_create(wh_pe *pe, const char *cls, int where, const void *args, size_t size,
                          wh_proxy *element) {
    whi_chares *c = whi_chares_get(pe);
    wh_status st = check_class(pe, "wh_chare_create", cls, args, size);
    if (st == WH_OK && where >= pe->pes)
        st = whi_refuse_pe(pe, "wh_chare_create", "where", where);
    if (st != WH_OK)
        return st;
    uint64_t id = whi_named_id(WHI_NAMED_CLASS, cls);
    if (where < 0)
        where = (int)((c->next_where++ + (unsigned)pe->number) % (unsigned)pe->pes);
    if (c->serials[where] == INT32_MAX)
        return WH_ELIMIT;
    const int32_t index[3] = {where, pe->number, (int32_t)(c->serials[where] + 1)};
    whi_head head = {.kind = WHI_HEAD_ELEMENT, .element.cls = id};
    st = whi_place_key_make(WHI_SINGLES_ID, index, 3, &head.element.key);
    if (st == WH_OK)
        st = whi_chares_tell(c, where, &head, args, size);
    if (st != WH_OK)
        return st;
    c->serials[where]++;
    *element = whi_proxy_of(&head.element.key);
    return WH_OK;
}

WHI_COLD static wh_status refuse_insert(const wh_pe *pe, const wh_proxy *element) {
    const whi_chares *c = whi_chares_get(pe);
    whi_text why = whi_why_proxy(pe, element);
    return whi_refuse(WH_EINVAL, "E-CHARE-06", "wh_array_insert: %s%s",
                      *why.text ? why.text : whi_say_proxy(c, element).text,
                      *why.text       ? ""
                      : element->dims ? ": only arrays are inserted into"
                                      : ": give the element's index, see wh_proxy_at");
}

wh_status wh_array_insert(wh_pe *pe, wh_proxy element, const void *args, size_t size) {
    whi_chares *c = whi_chares_get(pe);
    whi_collection *in = c ? whi_collection_find(c, element.collection) : NULL;
    if (!in)
        return c ? WH_ENOMEM : whi_refuse_unregistered(pe, "wh_array_insert", WH_ENOTFOUND);
    whi_head head = {.kind = WHI_HEAD_ELEMENT};
    if (size && !args)
        return whi_refuse_data("wh_array_insert", "args", size);
    if (!element.dims || element.dims > WH_CHARE_DIMS_MAX ||
        element.collection < (unsigned)pe->pes ||
        (in->known && (in->def.kind != WHI_ARRAY || in->def.dims != element.dims)))
        return refuse_insert(pe, &element);
    wh_status st =
        whi_place_key_make(element.collection, element.index, element.dims, &head.element.key);
    if (st != WH_OK)
        return st;
    assert(pe->pes > 0);
    // Where it belongs is known as soon as the collection is; its creator knows by then.
    int to = in->known ? (int)whi_collection_home(c, &head.element.key)
                       : (int)(element.collection % (unsigned)pe->pes);
    return whi_chares_tell(c, to, &head, args, size);
}

static void single_made(whi_chares *c, const whi_place_key *key) {
    uint32_t creator = (uint32_t)key->index[1];
    if (whi_hash_put(&c->singles, creator, (void *)(uintptr_t)(uint32_t)key->index[2]) != WH_OK)
        whi_pe_fail(c->pe, "there is no memory for a chare");
}

void whi_collection_element(whi_chares *c, const whi_head *head, wh_pe_msg *msg) {
    const whi_place_key *key = &head->element.key;
    bool single = key->collection == WHI_SINGLES_ID;
    whi_collection *in = whi_collection_find(c, key->collection);
    wh_proxy proxy = whi_proxy_of(key);
    const whi_named *cls = in && single ? whi_named_find(c, head->element.cls, WHI_NAMED_CLASS)
                           : in         ? in->cls
                                        : NULL;
    if (in && !in->known) {
        wh_pe_msg_keep(msg);
        c->pe->quiet.made++;
        whi_queue_push(&in->inserts, &whi_msg_of(msg)->link);
        return;
    }
    if (!in || !cls || in->def.dims != key->dims || (!single && in->def.kind != WHI_ARRAY)) {
        whi_pe_fail(
            c->pe,
            "PE %d makes an element of a class or array that is not known here: register classes on all PEs, first of all in the main function",
            msg->source);
        return;
    }
    if (in->ended) {
        whi_chares_error(c, &proxy, "PE %d inserts %s, which has been destroyed as a whole",
                         msg->source, whi_say_key(c, key).text);
        return;
    }
    uint32_t home = whi_collection_home(c, key);
    if (home != (uint32_t)c->pe->number) {
        if (whi_chares_tell(c, (int)home, head, msg->data, msg->size) != WH_OK)
            whi_pe_fail(c->pe, "an element cannot be made on PE %u", home);
        return;
    }
    wh_call call = {
        .struct_size = sizeof(call), .args = msg->data, .size = msg->size, .source = msg->source};
    wh_status st = whi_element_make(c, in, cls, key, &call, true);
    if (single)
        single_made(c, key);
    if (st == WH_EINVAL && in->def.flags & WH_ARRAY_ON_DEMAND)
        return;  // two messages wanted it
    if (st == WH_EINVAL)
        whi_chares_error(c, &proxy, "PE %d inserts %s, which is there already", msg->source,
                         whi_say_key(c, key).text);
    else if (st != WH_OK)
        whi_pe_fail(c->pe, "an element of class %s cannot be made: %s", cls->name,
                    wh_status_text(st));
}
