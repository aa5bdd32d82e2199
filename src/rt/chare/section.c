// SPDX-License-Identifier: BSD-3-Clause
//
// Sections: a tree of the PEs that have members, with the section's maker as its root.
//
// The maker finds out where the members are at home, and each PE of the tree gets what concerns it and those below
// it: its members, its parent, its children.  Messages go to the maker and down; what members contribute goes up.  All
// of it is in the order of ordinary messages, so that nothing comes before the section but contributions, which wait.
#include "base/alloc.h"
#include "base/opts.h"
#include "rt/chare/branch.h"
#include "rt/chare/why.h"

static int root_of(uint64_t id) {
    return (int)(id >> 32);
}

whi_branch *whi_branch_of(whi_chares *c, uint64_t id, whi_collection *in) {
    whi_branch *s = whi_hash_get(&c->sections, id);
    if (s || !(s = whi_hash_make(&c->sections, id, sizeof(*s))))
        return s;
    s->id = id;
    s->in = in;
    whi_queue_init(&s->early);
    return s;
}

static void free_section(whi_branch *s) {
    whi_branch_drop_early(s);
    whi_reductions_free(s->reductions);
    whi_free(s->members);
    whi_free(s);
}

void whi_section_free_all(whi_chares *c) {
    size_t cursor = 0;
    uint64_t id;
    whi_branch *s;
    while ((s = whi_hash_next(&c->sections, &cursor, &id)))
        free_section(s);
    whi_hash_fini(&c->sections);
    whi_destroyed_fini(&c->destroyed);
}

// ---- Making.

static wh_status send_part(whi_chares *c, const whi_branch *s, const whi_member *members,
                           size_t count) {
    int dims = s->in->def.dims;
    size_t size = whi_members_encoded_size(dims, count);
    void *bytes = whi_malloc(size);
    if (!bytes)
        return WH_ENOMEM;
    whi_members_encode(members, count, dims, c->pe->number, bytes);
    whi_head head = {
        .kind = WHI_HEAD_SECTION,
        .section = {.what = WHI_SECTION_MAKE, .collection = s->in->def.id, .id = s->id}};
    wh_status st = whi_chares_tell(c, members[0].pe, &head, bytes, size);
    whi_free(bytes);
    return st;
}

static size_t end_of_pe(const whi_member *members, size_t at, size_t count) {
    int pe = members[at].pe;
    while (at < count && members[at].pe == pe)
        at++;
    return at;
}

// share parts what is below this PE among its children, equally by PEs.
static wh_status share(whi_chares *c, whi_branch *s, const whi_member *members, size_t count) {
    size_t pes = 0, at = 0;
    for (size_t next = 0; next < count; next = end_of_pe(members, next, count))
        pes++;
    size_t parts = pes < WHI_TREE_ARITY ? pes : WHI_TREE_ARITY;
    wh_status st = WH_OK;
    for (size_t i = 0; st == WH_OK && i < parts; i++) {
        size_t first = at, take = pes / parts + (i < pes % parts);
        while (take--)
            at = end_of_pe(members, at, count);
        s->children[s->child_count++] = members[first].pe;
        st = send_part(c, s, members + first, at - first);
    }
    return st;
}

static whi_place_key key_of(const whi_branch *s, const whi_member *m) {
    whi_place_key key = {.collection = s->in->def.id, .dims = s->in->def.dims};
    memcpy(key.index, m->index, sizeof(key.index));
    return key;
}

// leave_those_gone takes those out that ended before the section came here, and have contributed nothing.
static void leave_those_gone(whi_chares *c, whi_branch *s) {
    for (size_t i = 0; i < s->count; i++) {
        whi_place_key key = key_of(s, &s->members[i]);
        if (!s->members[i].gone && whi_places_lacks(c->places, &key))
            whi_branch_leave(c, s, &s->members[i], 0);
    }
}

// own keeps this PE's members of `members`, which it takes.
static wh_status own(whi_chares *c, whi_branch *s, whi_member *members, size_t count, int parent) {
    size_t here = 0;
    uint64_t all = count;
    while (here < count && members[here].pe == c->pe->number)
        here++;
    s->members = members;
    s->count = s->there = here;
    s->known = true;
    wh_status st = share(c, s, members + here, count - here);
    if (st != WH_OK)
        return st;
    s->reductions = whi_reductions_new(s->in->def.id, s->id, parent, s->child_count);
    if (!s->reductions)
        return WH_ENOMEM;
    s->reductions->root = root_of(s->id);
    s->reductions->members = all;
    whi_branch_take_early(c, s);
    leave_those_gone(c, s);
    return WH_OK;
}

// find_homes has the maker's members first, and each once.
static void find_homes(whi_chares *c, const whi_collection *in, whi_member *members,
                       size_t *count) {
    for (size_t i = 0; i < *count; i++) {
        whi_place_key key = {.collection = in->def.id, .dims = in->def.dims};
        memcpy(key.index, members[i].index, sizeof(key.index));
        members[i].pe = (int)whi_collection_home(c, &key);
    }
    *count = whi_members_sort(members, *count, c->pe->number, c->pe->pes);
}

static void make(whi_chares *c, const whi_head *head, whi_collection *in, wh_pe_msg *msg) {
    whi_member *members;
    size_t count;
    int parent, root = root_of(head->section.id);
    whi_branch *s = whi_branch_of(c, head->section.id, in);
    wh_status st = s ? whi_members_decode(msg->data, msg->size, in->def.dims, c->pe->number,
                                          c->pe->pes, &parent, &members, &count)
                     : WH_ENOMEM;
    if (st == WH_OK && (s->known || (parent < 0) != (root == c->pe->number))) {
        whi_free(members);
        st = WH_EPROTOCOL;
    }
    if (st == WH_OK) {
        if (parent < 0)
            find_homes(c, in, members, &count);
        st = own(c, s, members, count, parent);
    }
    if (st != WH_OK)
        whi_pe_fail(c->pe, "a section of %s cannot be made: %s",
                    whi_say_collection(c, in->def.id).text, wh_status_text(st));
}

// ---- Messages.

// call_element sends a call to where an element is, of which it is no error that it has ended meanwhile.
static wh_status call_element(whi_chares *c, const whi_place_key *key, unsigned entry, int64_t ref,
                              const void *args, size_t size) {
    whi_call *call = whi_call_new(c, key, entry, size);
    if (!call)
        return WH_ENOMEM;
    if (size)
        memcpy(call->msg->pub.data, args, size);
    call->ref = ref;
    call->from = (uint32_t)c->pe->number;
    call->follows = true;
    return whi_call_send(c, call);
}

wh_status whi_branch_forget(whi_chares *c, const whi_place_key *key, uint64_t id) {
    return call_element(c, key, WHI_ENTRY_FORGET, (int64_t)id, NULL, 0);
}

static wh_status call_member(whi_chares *c, const whi_branch *s, const whi_member *m,
                             const whi_head *head, const wh_pe_msg *msg) {
    whi_place_key key = key_of(s, m);
    return head->section.what == WHI_SECTION_DESTROY
               ? whi_branch_forget(c, &key, s->id)
               : call_element(c, &key, head->section.entry, head->section.ref, msg->data,
                              msg->size);
}

static wh_status pass_on(whi_chares *c, const whi_branch *s, const whi_head *head,
                         const wh_pe_msg *msg) {
    wh_status st = WH_OK;
    for (int i = 0; st == WH_OK && i < s->child_count; i++)
        st = whi_chares_tell(c, s->children[i], head, msg->data, msg->size);
    for (size_t i = 0; st == WH_OK && i < s->count; i++)
        if (!s->members[i].gone)
            st = call_member(c, s, &s->members[i], head, msg);
    return st;
}

// note_destroyed returns the number below which all sections of its maker are destroyed.
static int64_t note_destroyed(whi_chares *c, const whi_branch *s, int64_t below) {
    int root = root_of(s->id);
    bool own = root == c->pe->number;
    whi_destroyed_add(&c->destroyed, s->id, own || below < 0 ? 0 : (uint64_t)below);
    return own ? (int64_t)whi_destroyed_below(&c->destroyed, (uint32_t)root) : below;
}

void whi_section_take(whi_chares *c, const whi_head *head, wh_pe_msg *msg) {
    whi_collection *in = whi_collection_find(c, head->section.collection);
    if (in && !in->known) {
        wh_pe_msg_keep(msg);
        c->pe->quiet.made++;
        whi_queue_push(&in->inserts, &whi_msg_of(msg)->link);
        return;
    }
    if (in && head->section.what == WHI_SECTION_MAKE) {
        make(c, head, in, msg);
        return;
    }
    if (in && head->section.what == WHI_SECTION_GIVE) {
        whi_branch_give(c, head, msg);
        return;
    }
    whi_branch *s = in ? whi_hash_get(&c->sections, head->section.id) : NULL;
    if (!s || !s->known || s->in != in) {
        wh_proxy proxy = {.collection = head->section.collection};
        whi_chares_error(c, &proxy,
                         "PE %d has called a section of %s that is destroyed, or was never made",
                         msg->source, whi_say_collection(c, proxy.collection).text);
        return;
    }
    whi_head told = *head;
    if (head->section.what == WHI_SECTION_DESTROY)
        told.section.ref = note_destroyed(c, s, head->section.ref);
    wh_status st = pass_on(c, s, &told, msg);
    if (st != WH_OK && st != WH_EPEER)
        whi_pe_fail(c->pe, "a message to a section cannot be sent: %s", wh_status_text(st));
    if (head->section.what == WHI_SECTION_DESTROY) {
        whi_hash_remove(&c->sections, s->id);
        free_section(s);
    }
}

whi_reductions *whi_section_reductions(whi_chares *c, uint64_t id, size_t *there) {
    whi_branch *s = whi_hash_get(&c->sections, id);
    if (!s || !s->known)
        return NULL;
    *there = s->there;
    return s->reductions;
}

bool whi_section_is_made(const whi_chares *c, const whi_collection *in) {
    size_t cursor = 0;
    uint64_t id;
    const whi_branch *s;
    while (whi_hash_count(&c->sections) && (s = whi_hash_next(&c->sections, &cursor, &id)))
        if (s->known && s->in == in && s->there)
            return true;
    return false;
}

// ---- For users.

WHI_COLD static wh_status refuse_create(const wh_pe *pe, const wh_proxy *collection, int dims,
                                        const int32_t *indices, size_t count) {
    const whi_chares *c = whi_chares_get(pe);
    const whi_collection *in = whi_hash_get(&c->collections, collection->collection + 1ull);
    whi_text of = whi_say_collection(c, collection->collection);
    if (collection->collection < (unsigned)pe->pes)
        return whi_refuse(
            WH_EINVAL, "E-CHARE-17",
            "wh_section_create: %s: sections are of arrays and groups: give the proxy of "
            "one",
            collection->collection ? "the proxy names no collection" : of.text);
    if (!count || !indices)
        return whi_refuse(
            WH_EINVAL, "E-CHARE-17",
            "wh_section_create: a section of %s has %zu elements%s: give at least one "
            "index",
            of.text, count, indices ? "" : ", and indices is NULL");
    return whi_refuse(WH_EINVAL, "E-CHARE-17",
                      "wh_section_create: dims is %d, and an index of %s has %d dimensions", dims,
                      of.text, in->known ? in->def.dims : WH_CHARE_DIMS_MAX);
}

wh_status wh_section_create(wh_pe *pe, wh_proxy collection, int dims, const int32_t *indices,
                            size_t count, wh_section *out) {
    whi_chares *c = whi_chares_get(pe);
    if (!c)
        return whi_refuse_unregistered(pe, "wh_section_create", WH_EINVAL);
    whi_collection *in = whi_collection_find(c, collection.collection);
    if (!in)
        return WH_ENOMEM;
    if (collection.collection < (unsigned)pe->pes || dims < 1 || dims > WH_CHARE_DIMS_MAX ||
        !count || !indices || (in->known && in->def.dims != dims))
        return refuse_create(pe, &collection, dims, indices, count);
    if (in->ended)
        return whi_refuse_proxy(pe, "wh_section_create", &collection, WH_ENOTFOUND);
    if (count > WHI_MEMBERS_MAX || c->next_section == UINT32_MAX)
        return WH_ELIMIT;
    wh_section made = {
        .collection = collection.collection, .pe = pe->number, .number = c->next_section + 1};
    whi_member *members = whi_calloc(count, sizeof(*members));
    void *bytes = whi_malloc(whi_members_encoded_size(dims, count));
    wh_status st = members && bytes ? WH_OK : WH_ENOMEM;
    for (size_t i = 0; st == WH_OK && i < count; i++)
        memcpy(members[i].index, indices + i * (size_t)dims, (size_t)dims * sizeof(*indices));
    if (st == WH_OK) {
        whi_head head = {.kind = WHI_HEAD_SECTION,
                         .section = {.what = WHI_SECTION_MAKE,
                                     .collection = made.collection,
                                     .id = whi_section_id(&made)}};
        whi_members_encode(members, count, dims, -1, bytes);
        st = whi_chares_tell(c, pe->number, &head, bytes, whi_members_encoded_size(dims, count));
    }
    whi_free(members);
    whi_free(bytes);
    if (st != WH_OK)
        return st;
    c->next_section++;
    *out = made;
    return WH_OK;
}

static wh_status to_root(wh_pe *pe, const wh_section *s, whi_section_what what, unsigned entry,
                         const void *args, size_t size, int64_t ref) {
    whi_chares *c = whi_chares_get(pe);
    const char *call = what == WHI_SECTION_CALL ? "wh_section_send" : "wh_section_destroy";
    if (!c)
        return whi_refuse_unregistered(pe, call, WH_EINVAL);
    if (size && !args)
        return whi_refuse_data(call, "args", size);
    if (entry >= WHI_ENTRY_MAX)
        return whi_refuse(WH_EINVAL, "E-CHARE-17",
                          "%s: entry %u: entries are numbered from 0, as they stand in their class",
                          call, entry);
    if (whi_pe_lacks(pe, s->pe) || s->collection < (unsigned)pe->pes)
        return whi_refuse_section(call, s);
    whi_head head = {.kind = WHI_HEAD_SECTION,
                     .section = {.what = (uint8_t)what,
                                 .collection = s->collection,
                                 .id = whi_section_id(s),
                                 .entry = (uint16_t)entry,
                                 .ref = ref}};
    return whi_chares_tell(c, s->pe, &head, args, size);
}

wh_status wh_section_send(wh_pe *pe, wh_section section, unsigned entry, const void *args,
                          size_t size, int64_t ref) {
    return to_root(pe, &section, WHI_SECTION_CALL, entry, args, size, ref);
}

wh_status wh_section_destroy(wh_pe *pe, wh_section section) {
    return to_root(pe, &section, WHI_SECTION_DESTROY, 0, NULL, 0, 0);
}
