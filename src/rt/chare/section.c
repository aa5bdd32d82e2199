// SPDX-License-Identifier: BSD-3-Clause
//
// Sections: a tree of the PEs that have members, with the section's maker as its root.
//
// The maker finds out where the members are at home, and each PE of the tree gets what concerns it and those below
// it: its members, its parent, its children.  Messages go to the maker and down; what members contribute goes up.  All
// of it is in the order of ordinary messages, so that nothing comes before the section but contributions, which wait.
#include <wherry/section.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "rt/chare/members.h"
#include "rt/chare/reduce.h"

// A contribution that came before the section.
typedef struct early {
    whi_queue_node node;
    wh_proxy element;
    whi_partial *partial;
} early;

typedef struct branch {  // what this PE has of a section
    uint64_t id;
    whi_collection *in;
    bool known;
    whi_member *members;  // that are at home here, by index
    size_t count, there;  // of them, of those that have not ended
    int children[WHI_TREE_ARITY];
    int child_count;
    whi_reductions *reductions;
    whi_queue early;
} branch;

static uint64_t id_of(const wh_section *s) {
    return (uint64_t)(uint32_t)s->pe << 32 | s->number;
}

static int root_of(uint64_t id) {
    return (int)(id >> 32);
}

static whi_member *find_member(const whi_chares *c, const branch *s, const wh_proxy *element) {
    return whi_members_find(s->members, s->count, c->pe->number, element->index);
}

static branch *need(whi_chares *c, uint64_t id, whi_collection *in) {
    branch *s = whi_hash_get(&c->sections, id);
    if (s || !(s = whi_hash_make(&c->sections, id, sizeof(*s))))
        return s;
    s->id = id;
    s->in = in;
    whi_queue_init(&s->early);
    return s;
}

static void free_section(branch *s) {
    whi_queue_node *node;
    while ((node = whi_queue_pop(&s->early))) {
        early *e = whi_container_of(node, early, node);
        whi_partial_free(e->partial);
        whi_free(e);
    }
    whi_reductions_free(s->reductions);
    whi_free(s->members);
    whi_free(s);
}

void whi_section_free_all(whi_chares *c) {
    size_t cursor = 0;
    uint64_t id;
    branch *s;
    while ((s = whi_hash_next(&c->sections, &cursor, &id)))
        free_section(s);
    whi_hash_fini(&c->sections);
}

// ---- Making.

static wh_status send_part(whi_chares *c, const branch *s, const whi_member *members,
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
static wh_status share(whi_chares *c, branch *s, const whi_member *members, size_t count) {
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

static void add(whi_chares *c, branch *s, const wh_proxy *element, whi_partial *partial) {
    whi_member *m = find_member(c, s, element);
    if (!m || m->gone) {
        whi_partial_free(partial);
        whi_chares_error(c, element,
                         "element (%d, ...) contributes to a section that it does not belong to",
                         element->index[0]);
        return;
    }
    if (whi_reductions_add(c, s->reductions, m->contributed++, partial, s->there) == WH_ENOMEM)
        whi_pe_fail(c->pe, "there is no memory for a reduction");
}

static whi_place_key key_of(const branch *s, const whi_member *m) {
    whi_place_key key = {.collection = s->in->def.id, .dims = s->in->def.dims};
    memcpy(key.index, m->index, sizeof(key.index));
    return key;
}

static void leave(whi_chares *c, branch *s, whi_member *m) {
    m->gone = true;
    s->there--;
    whi_reductions_leave(c, s->reductions, m->contributed);
}

// leave_those_gone takes those out that ended before the section came here.
static void leave_those_gone(whi_chares *c, branch *s) {
    for (size_t i = 0; i < s->count; i++) {
        whi_place_key key = key_of(s, &s->members[i]);
        if (whi_places_lacks(c->places, &key))
            leave(c, s, &s->members[i]);
    }
}

// own keeps this PE's members of `members`, which it takes.
static wh_status own(whi_chares *c, branch *s, whi_member *members, size_t count, int parent) {
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
    leave_those_gone(c, s);
    whi_queue_node *node;
    while ((node = whi_queue_pop(&s->early))) {
        early *e = whi_container_of(node, early, node);
        add(c, s, &e->element, e->partial);
        whi_free(e);
    }
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
    branch *s = need(c, head->section.id, in);
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
        whi_pe_fail(c->pe, "a section of collection %u cannot be made: %s", in->def.id,
                    wh_status_text(st));
}

// ---- Messages.

static wh_status call_member(whi_chares *c, const branch *s, const whi_member *m,
                             const whi_head *head, const wh_pe_msg *msg) {
    whi_place_key key = key_of(s, m);
    whi_call *call = whi_call_new(c, &key, head->section.entry, msg->size);
    if (!call)
        return WH_ENOMEM;
    if (msg->size)
        memcpy(call->msg->pub.data, msg->data, msg->size);
    call->ref = head->section.ref;
    return whi_call_send(c, call);
}

static wh_status pass_on(whi_chares *c, const branch *s, const whi_head *head,
                         const wh_pe_msg *msg) {
    wh_status st = WH_OK;
    for (int i = 0; st == WH_OK && i < s->child_count; i++)
        st = whi_chares_tell(c, s->children[i], head, msg->data, msg->size);
    for (size_t i = 0; st == WH_OK && head->section.what == WHI_SECTION_CALL && i < s->count; i++)
        if (!s->members[i].gone)
            st = call_member(c, s, &s->members[i], head, msg);
    return st;
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
    branch *s = in ? whi_hash_get(&c->sections, head->section.id) : NULL;
    if (!s || !s->known || s->in != in) {
        wh_proxy proxy = {.collection = head->section.collection};
        whi_chares_error(
            c, &proxy,
            "PE %d has called a section of collection %u that is destroyed, or was never made",
            msg->source, proxy.collection);
        return;
    }
    wh_status st = pass_on(c, s, head, msg);
    if (st != WH_OK && st != WH_EPEER)
        whi_pe_fail(c->pe, "a message to a section cannot be sent: %s", wh_status_text(st));
    if (head->section.what == WHI_SECTION_DESTROY) {
        whi_hash_remove(&c->sections, s->id);
        free_section(s);
    }
}

whi_reductions *whi_section_reductions(whi_chares *c, uint64_t id, size_t *there) {
    branch *s = whi_hash_get(&c->sections, id);
    if (!s || !s->known)
        return NULL;
    *there = s->there;
    return s->reductions;
}

bool whi_section_holds(const whi_chares *c, const whi_element *element) {
    size_t cursor = 0;
    uint64_t id;
    const branch *s;
    while (whi_hash_count(&c->sections) && (s = whi_hash_next(&c->sections, &cursor, &id)))
        if (s->known && s->in == element->collection && find_member(c, s, &element->pub.proxy))
            return true;
    return false;
}

void whi_section_ended(whi_chares *c, const whi_element *element) {
    size_t cursor = 0;
    uint64_t id;
    branch *s;
    while (whi_hash_count(&c->sections) && (s = whi_hash_next(&c->sections, &cursor, &id))) {
        whi_member *m = s->known && s->in == element->collection
                            ? find_member(c, s, &element->pub.proxy)
                            : NULL;
        if (!m || m->gone)
            continue;
        leave(c, s, m);
    }
}

// furthest returns to how many reductions the member here has contributed that is furthest; *have of them have.
static uint64_t furthest(const branch *s, size_t *have) {
    uint64_t most = 0;
    *have = 0;
    for (size_t i = 0; i < s->count; i++)
        if (!s->members[i].gone && s->members[i].contributed > most)
            most = s->members[i].contributed;
    for (size_t i = 0; i < s->count; i++)
        *have += !s->members[i].gone && s->members[i].contributed == most;
    return most;
}

void whi_section_dump(const whi_chares *c, whi_dump *to) {
    size_t cursor = 0, told = 0, have;
    uint64_t id, count, members;
    const branch *s;
    while ((s = whi_hash_next(&c->sections, &cursor, &id))) {
        uint64_t most = s->known ? furthest(s, &have) : 0;
        bool missing = s->known && whi_reductions_missing(s->reductions, &count, &members);
        if (!s->known || (have == s->there && !missing) || !whi_dump_line(&told))
            continue;
        if (missing)
            whi_reductions_print(s->reductions, "a section of ", s->in, count, members, to->file);
        to->waits = true;
        if (have == s->there)
            continue;
        fprintf(to->file, "  reduction %llu of a section of ", (unsigned long long)most);
        whi_collection_print(s->in, to->file);
        fprintf(to->file, ": %zu of its %zu members here have contributed\n", have, s->there);
    }
    whi_dump_rest(to, told, "sections whose reductions lack contributions");
}

// ---- For users.

wh_status wh_section_create(wh_pe *pe, wh_proxy collection, int dims, const int32_t *indices,
                            size_t count, wh_section *out) {
    whi_chares *c = whi_chares_get(pe);
    if (!c)
        return WH_EINVAL;  // nothing is registered, so there is no collection
    whi_collection *in = whi_collection_find(c, collection.collection);
    if (!in)
        return WH_ENOMEM;
    if (collection.collection < (unsigned)pe->pes || dims < 1 || dims > WH_CHARE_DIMS_MAX ||
        !count || !indices || (in->known && in->def.dims != dims))
        return WH_EINVAL;
    if (in->ended)
        return WH_ENOTFOUND;
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
                                     .id = id_of(&made)}};
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
    if (!c || s->pe < 0 || s->pe >= pe->pes || s->collection < (unsigned)pe->pes ||
        (size && !args) || entry >= WHI_ENTRY_MAX)
        return WH_EINVAL;
    whi_head head = {.kind = WHI_HEAD_SECTION,
                     .section = {.what = (uint8_t)what,
                                 .collection = s->collection,
                                 .id = id_of(s),
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

wh_status wh_section_contribute(wh_chare *self, wh_section which, const wh_contribution *parts,
                                size_t count, size_t part_size, const wh_callback *callback) {
    whi_chares *c = self ? whi_chares_get(self->pe) : NULL;
    whi_element *element = (whi_element *)self;
    whi_partial *partial;
    if (!c || which.collection != self->proxy.collection || which.pe < 0 || which.pe >= c->pe->pes)
        return WH_EINVAL;
    if (element->dying)
        return WH_ECLOSED;
    whi_place_key key = whi_element_key(element);
    if (whi_collection_home(c, &key) != (uint32_t)c->pe->number)
        return WH_ENOTSUP;
    wh_status st = whi_contribution(self, parts, count, part_size, callback, &partial);
    if (st != WH_OK)
        return st;
    branch *s = need(c, id_of(&which), element->collection);
    if (s && s->known) {
        add(c, s, &self->proxy, partial);
        return WH_OK;
    }
    early *e = s ? whi_malloc(sizeof(*e)) : NULL;
    if (!e) {
        whi_partial_free(partial);
        return WH_ENOMEM;
    }
    e->element = self->proxy;
    e->partial = partial;
    whi_queue_push(&s->early, &e->node);
    return WH_OK;
}
