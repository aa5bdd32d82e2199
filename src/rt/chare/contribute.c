// SPDX-License-Identifier: BSD-3-Clause
//
// What elements contribute to sections, wherever they are.
//
// An element counts its contributions to each section, and takes the counts along when it moves.  So each contribution knows the
// reduction that it belongs to, and they may come to the member's home, where the section's tree has it, in any order.  When
// an element ends, its counts go home with the order of its messages: what is on its way still counts, what would follow does not.
#include "base/alloc.h"
#include "base/log.h"
#include "rt/chare/branch.h"
#include "rt/chare/why.h"

// ---- At a member's home.

// What came before its section.
typedef struct early {
    whi_queue_node node;
    whi_place_key key;
    uint64_t number;       // of the reduction
    whi_partial *partial;  // NULL: the element has ended, and takes part no more from `number` on
} early;

static whi_member *find_member(const whi_chares *c, const whi_branch *s, const whi_place_key *key) {
    return whi_members_find(s->members, s->count, c->pe->number, key->index);
}

static void add(whi_chares *c, const whi_branch *s, const whi_place_key *key, uint64_t number,
                whi_partial *partial) {
    whi_member *m = find_member(c, s, key);
    const whi_reductions *of = s->reductions;
    if (!m || (m->gone && number >= m->contributed) || (of->parent < 0 && number < of->next)) {
        wh_proxy proxy = whi_proxy_of(key);
        whi_partial_free(partial);
        whi_chares_error(c, &proxy, "%s contributes to a section that it does not belong to",
                         whi_say_key(c, key).text);
        return;
    }
    m->contributed += !m->gone;
    if (whi_reductions_add(c, s->reductions, number, partial, s->there) == WH_ENOMEM)
        whi_pe_fail(c->pe, "there is no memory for a reduction");
}

void whi_branch_leave(whi_chares *c, whi_branch *s, whi_member *m, uint64_t contributed) {
    m->gone = true;
    m->contributed = contributed;
    s->there--;
    whi_reductions_leave(c, s->reductions, contributed);
}

// keep takes `partial`.
static wh_status keep(whi_branch *s, const whi_place_key *key, uint64_t number,
                      whi_partial *partial) {
    early *e = s ? whi_malloc(sizeof(*e)) : NULL;
    if (!e) {
        whi_partial_free(partial);
        return WH_ENOMEM;
    }
    *e = (early){.key = *key, .number = number, .partial = partial};
    whi_queue_push(&s->early, &e->node);
    return WH_OK;
}

void whi_branch_take_early(whi_chares *c, whi_branch *s) {
    whi_queue_node *node;
    while ((node = whi_queue_pop(&s->early))) {
        early *e = whi_container_of(node, early, node);
        whi_member *m = find_member(c, s, &e->key);
        if (e->partial)
            add(c, s, &e->key, e->number, e->partial);
        else if (m && !m->gone)
            whi_branch_leave(c, s, m, e->number);
        whi_free(e);
    }
}

void whi_branch_drop_early(whi_branch *s) {
    whi_queue_node *node;
    while ((node = whi_queue_pop(&s->early))) {
        early *e = whi_container_of(node, early, node);
        whi_partial_free(e->partial);
        whi_free(e);
    }
}

static uint64_t count_in(const whi_share *shares, uint32_t count, uint64_t section) {
    for (uint32_t i = 0; i < count; i++)
        if (shares[i].section == section)
            return shares[i].count;
    return 0;
}

void whi_section_went(whi_chares *c, const whi_place_key *key, const whi_share *shares,
                      uint32_t count) {
    whi_collection *in = whi_collection_get(c, key->collection);
    size_t cursor = 0;
    uint64_t id;
    whi_branch *s;
    while (whi_hash_count(&c->sections) && (s = whi_hash_next(&c->sections, &cursor, &id))) {
        whi_member *m = s->known && s->in == in ? find_member(c, s, key) : NULL;
        if (m && !m->gone)
            whi_branch_leave(c, s, m, count_in(shares, count, id));
    }
    for (uint32_t i = 0; i < count; i++) {
        if (whi_destroyed_has(&c->destroyed, shares[i].section))
            continue;
        s = whi_branch_of(c, shares[i].section, in);
        if (!s || (!s->known && keep(s, key, shares[i].count, NULL) != WH_OK))
            whi_pe_fail(c->pe, "there is no memory to end an element of a section");
    }
}

// refuse_late has a contribution to a section that is destroyed come to nothing, and its element forget it.
static wh_status refuse_late(whi_chares *c, const whi_place_key *key, uint64_t id,
                             whi_partial *partial) {
    whi_partial_free(partial);
    if (c->late != id)  // else each of them would say it
        whi_log(WHI_WARN, "W-CHARE-15",
                "%s contributes to section %u of PE %u, which is destroyed: that comes to nothing; "
                "destroy a section when all reductions over it have ended",
                whi_say_key(c, key).text, (unsigned)id, (unsigned)(id >> 32));
    c->late = id;
    return whi_branch_forget(c, key, id);
}

static wh_status give(whi_chares *c, const whi_place_key *key, uint64_t id, uint64_t number,
                      whi_partial *partial) {
    if (whi_destroyed_has(&c->destroyed, id))
        return refuse_late(c, key, id, partial);
    whi_branch *s = whi_branch_of(c, id, whi_collection_get(c, key->collection));
    if (!s || !s->known)
        return keep(s, key, number, partial);
    add(c, s, key, number, partial);
    return WH_OK;
}

// The part stands in front of the index.
void whi_branch_give(whi_chares *c, const whi_head *head, wh_pe_msg *msg) {
    const whi_collection *in = whi_collection_get(c, head->section.collection);
    whi_place_key key = {.collection = in->def.id, .dims = in->def.dims};
    size_t index = 4 * (size_t)in->def.dims;
    whi_partial *partial = NULL;
    wh_status st = msg->size > index && head->section.ref >= 0 ? WH_OK : WH_EPROTOCOL;
    if (st == WH_OK) {
        whi_reader from;
        whi_reader_init(&from, (const char *)msg->data + msg->size - index, index);
        for (int d = 0; d < in->def.dims; d++)
            key.index[d] = (int32_t)whi_reader_u32(&from);
        st = whi_collection_home(c, &key) == (uint32_t)c->pe->number
                 ? whi_partial_decode(msg->data, msg->size - index, &partial)
                 : WH_EPROTOCOL;
    }
    if (st == WH_OK)
        st = give(c, &key, head->section.id, (uint64_t)head->section.ref, partial);
    if (st != WH_OK)
        whi_pe_fail(c->pe, "a part of a reduction that PE %d has sent cannot be taken: %s",
                    msg->source, wh_status_text(st));
}

// ---- Where the element is.

// send_home takes `partial`.
static wh_status send_home(whi_chares *c, const whi_place_key *key, uint64_t id, uint64_t number,
                           whi_partial *partial) {
    size_t part = whi_partial_encoded_size(partial), index = 4 * (size_t)key->dims;
    char *bytes = whi_malloc(part + index);
    wh_status st = WH_ENOMEM;
    if (bytes) {
        whi_writer to;
        whi_partial_encode(partial, bytes);
        whi_writer_init(&to, bytes + part, index);
        for (int d = 0; d < key->dims; d++)
            whi_writer_u32(&to, (uint32_t)key->index[d]);
        whi_head head = {.kind = WHI_HEAD_SECTION,
                         .section = {.what = WHI_SECTION_GIVE,
                                     .collection = key->collection,
                                     .id = id,
                                     .ref = (int64_t)number}};
        st = whi_chares_tell(c, (int)whi_collection_home(c, key), &head, bytes, part + index);
    }
    whi_free(bytes);
    whi_partial_free(partial);
    return st;
}

// share_in finds or makes the count of a section.  NULL: no memory.
static whi_share *share_in(whi_element *element, uint64_t section) {
    whi_waits *w = whi_waits_of(element);
    for (uint32_t i = 0; w && i < w->share_count; i++)
        if (w->shares[i].section == section)
            return &w->shares[i];
    whi_share *more = w ? whi_realloc(w->shares, (w->share_count + 1) * sizeof(*more)) : NULL;
    if (!more)
        return NULL;
    w->shares = more;
    more[w->share_count] = (whi_share){.section = section};
    return &more[w->share_count++];
}

wh_status wh_section_contribute(wh_chare *self, wh_section which, const wh_contribution *parts,
                                size_t count, size_t part_size, const wh_callback *callback) {
    whi_chares *c = self ? whi_chares_get(self->pe) : NULL;
    whi_element *element = (whi_element *)self;
    whi_partial *partial;
    if (!c)
        return whi_refuse(WH_EINVAL, "E-CHARE-17", "wh_section_contribute: self is NULL");
    if (whi_pe_lacks(c->pe, which.pe))
        return whi_refuse_section("wh_section_contribute", &which);
    if (which.collection != self->proxy.collection)
        return whi_refuse(WH_EINVAL, "E-CHARE-17",
                          "wh_section_contribute: %s is not of the section, which is one of %s",
                          whi_say_proxy(c, &self->proxy).text,
                          whi_say_collection(c, which.collection).text);
    if (element->dying)
        return WH_ECLOSED;
    wh_status st = whi_contribution(self, "wh_section_contribute", parts, count, part_size,
                                    callback, &partial);
    if (st != WH_OK)
        return st;
    uint64_t id = whi_section_id(&which);
    whi_share *share = share_in(element, id);
    if (!share) {
        whi_partial_free(partial);
        return WH_ENOMEM;
    }
    whi_place_key key = whi_element_key(element);
    uint64_t number = share->count++;  // what fires may contribute
    bool home = whi_collection_home(c, &key) == (uint32_t)c->pe->number;
    st = home ? give(c, &key, id, number, partial) : send_home(c, &key, id, number, partial);
    if (st == WH_ENOMEM && (share = share_in(element, id)))
        share->count--;  // it has not
    return st;
}
