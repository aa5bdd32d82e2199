// SPDX-License-Identifier: BSD-3-Clause
//
// Reductions over collections: who takes part.
//
// The root is the PE that made the collection.  An element counts its contributions, and the number says to which reduction one
// belongs.  An array that elements are inserted into has no members until wh_array_done; then each PE says how many
// it has made.  An element that ends says from which number on it is missing.
#include "rt/chare/reduce.h"
#include "base/alloc.h"
#include "base/opts.h"
#include "rt/chare/why.h"

int whi_collection_root(const whi_chares *c, uint32_t collection) {
    return (int)(collection % (unsigned)c->pe->pes);
}

// members_at_first returns how many elements a collection has when it is made.
static uint64_t members_at_first(const whi_chares *c, const whi_collection *in) {
    uint64_t all = 1;
    if (in->def.kind == WHI_GROUP)
        return (uint64_t)c->pe->pes;
    if (in->def.kind == WHI_NODE_GROUP)
        return (uint64_t)(c->pe->pes / whi_wire_local(c->pe->wire));
    for (int i = 0; i < in->def.dims; i++)
        all *= (uint64_t)in->def.shape[i];
    return all;
}

static whi_reductions *make(whi_chares *c, whi_collection *in, uint64_t section) {
    int pes = c->pe->pes, root = whi_collection_root(c, in->def.id);
    int at = (c->pe->number - root + pes) % pes;
    int parent = at ? (whi_tree_parent(at) + root) % pes : -1;
    whi_reductions *of =
        whi_reductions_new(in->def.id, section, parent, whi_tree_children(at, pes));
    if (!of)
        return NULL;
    of->root = root;
    if (parent < 0) {
        of->members =
            in->restored && in->def.kind == WHI_ARRAY ? in->members : members_at_first(c, in);
        of->awaited = in->def.flags & WH_ARRAY_INSERTING ? pes : 0;
    }
    return of;
}

static whi_reductions *reductions_of(whi_chares *c, whi_collection *in) {
    if (!in->reductions)
        in->reductions = make(c, in, 0);
    return in->reductions;
}

// syncs_of returns the reductions that count elements at their sync points.  NULL: no memory, or it is not balanced.
static whi_reductions *syncs_of(whi_chares *c, whi_collection *in) {
    if (!in->syncs && in->def.balance)
        in->syncs = make(c, in, WHI_SYNC_SECTION);
    return in->syncs;
}

void whi_reduce_take(whi_chares *c, const whi_head *head, wh_pe_msg *msg) {
    whi_collection *in = whi_collection_find(c, head->reduce.collection);
    bool sync = head->reduce.section == WHI_SYNC_SECTION;
    whi_reductions *of = !in || !in->known ? NULL : sync ? syncs_of(c, in) : reductions_of(c, in);
    size_t there = of ? in->count : 0;
    if (of && head->reduce.section && !sync &&
        !(of = whi_section_reductions(c, head->reduce.section, &there)))
        return;  // it has been destroyed
    if (of)
        whi_reductions_take(c, of, head, msg, there);
    else
        whi_pe_fail(c->pe, "a part of a reduction over %s of PE %d cannot be taken",
                    whi_say_collection(c, head->reduce.collection).text, msg->source);
}

static void inserted(whi_chares *c, whi_collection *in) {
    whi_reductions *of = in->def.flags & WH_ARRAY_INSERTING ? reductions_of(c, in) : NULL;
    if (of)
        whi_reductions_joined(c, of, in->inserted);
    if (of && (of = syncs_of(c, in)))
        whi_reductions_joined(c, of, in->inserted);
}

static void ended(whi_chares *c, whi_element *element) {
    whi_place_key key = whi_element_key(element);
    const whi_waits *w = element->waits;
    if (whi_collection_home(c, &key) == (uint32_t)c->pe->number)  // others are told
        whi_section_went(c, &key, w ? w->shares : NULL, whi_shares_of(element));
    whi_collection *in = element->collection;
    whi_reductions *of = element->reduces && !in->ended ? reductions_of(c, in) : NULL;
    if (of)
        whi_reductions_leave(c, of, element->contributed);
    if (of && element->sync && (of = syncs_of(c, in)))
        whi_reductions_leave(c, of, element->sync->reached);
}

void whi_reduce_init(whi_chares *c) {
    c->reduce = (whi_reduce_ops){.inserted = inserted,
                                 .ended = ended,
                                 .went = whi_section_went,
                                 .free = whi_reductions_free};
}

wh_status whi_reduce_sync(whi_chares *c, whi_element *element) {
    const wh_callback nothing = {.kind = WH_CALLBACK_NONE};
    whi_partial *partial;
    whi_reductions *of = syncs_of(c, element->collection);
    if (!of)
        return WH_ENOMEM;
    wh_status st = whi_partial_make(&element->pub.proxy, NULL, 0, &nothing, &partial);
    if (st != WH_OK)
        return st;
    st = whi_reductions_add(c, of, element->sync->reached++, partial, element->collection->count);
    if (st != WH_OK)  // it may have been counted
        whi_pe_fail(c->pe, "an element cannot reach its sync point: %s", wh_status_text(st));
    return st;
}

WHI_COLD static wh_status refuse(const wh_chare *self, const char *call,
                                 const wh_contribution *parts, size_t count,
                                 const wh_callback *callback, wh_status st) {
    const whi_chares *c = whi_chares_get(self->pe);
    whi_text why = whi_why_contribution(c, parts, count, callback);
    return whi_refuse(st, "E-CHARE-10", "%s: %s: %s", call, whi_say_proxy(c, &self->proxy).text,
                      *why.text ? why.text : wh_status_text(st));
}

wh_status whi_contribution(const wh_chare *self, const char *call, const wh_contribution *parts,
                           size_t count, size_t part_size, const wh_callback *callback,
                           whi_partial **partial) {
    wh_contribution known[WHI_PARTIAL_PARTS_MAX];
    if (!callback || (count && !parts) || callback->kind == WH_CALLBACK_NONE)
        return refuse(self, call, NULL, count, callback, WH_EINVAL);
    if (count > WHI_PARTIAL_PARTS_MAX)
        return whi_refuse(WH_ELIMIT, "E-CHARE-10",
                          "%s: %zu values are too many: at most %d at once", call, count,
                          WHI_PARTIAL_PARTS_MAX);
    wh_status st = count ? whi_opts_take_array(known, sizeof(*known), parts, part_size, count,
                                               "wh_contribution")
                         : WH_OK;
    if (st != WH_OK)
        return st;
    st = whi_partial_make(&self->proxy, known, count, callback, partial);
    return __builtin_expect(st == WH_OK, 1) || st == WH_ENOMEM
               ? st
               : refuse(self, call, known, count, callback, st);
}

wh_status wh_contribute(wh_chare *self, const wh_contribution *parts, size_t count,
                        size_t part_size, const wh_callback *callback) {
    whi_element *element = (whi_element *)self;
    whi_chares *c = self ? whi_chares_get(self->pe) : NULL;
    whi_partial *partial = NULL;
    if (!c)
        return whi_refuse(WH_EINVAL, "E-CHARE-10", "wh_contribute: self is NULL");
    if (element->dying)
        return WH_ECLOSED;
    if (!element->reduces)
        return whi_refuse_reduction(self, "wh_contribute", WH_ENOTSUP);
    wh_status st =
        whi_contribution(self, "wh_contribute", parts, count, part_size, callback, &partial);
    if (st != WH_OK)
        return st;
    whi_reductions *of = reductions_of(c, element->collection);
    if (!of) {
        whi_partial_free(partial);
        return WH_ENOMEM;
    }
    st = whi_reductions_add(c, of, element->contributed++, partial, element->collection->count);
    if (st == WH_ENOMEM)
        element->contributed--;  // it has not
    return st;
}
