// SPDX-License-Identifier: BSD-3-Clause
//
// What PEs keep of load balancing, and how they tell each other.
//
// The root is the PE that made the array, as for reductions.
#include "base/alloc.h"
#include "base/opts.h"
#include "rt/chare/step.h"
#include "rt/chare/why.h"

void whi_balance_fail(whi_chares *c, const whi_balance *b, wh_status st) {
    whi_pe_fail(c->pe, "the elements of %s cannot be balanced: %s",
                whi_say_collection(c, b->in->def.id).text, wh_status_text(st));
}

void whi_balance_tell(whi_chares *c, const whi_balance *b, int dest, whi_balance_what what,
                      const void *data, size_t size) {
    whi_head head = {
        .kind = WHI_HEAD_BALANCE,
        .balance = {.what = (uint8_t)what, .collection = b->in->def.id, .step = b->step}};
    if (whi_chares_tell(c, dest, &head, data, size) == WH_ENOMEM)
        whi_balance_fail(c, b, WH_ENOMEM);  // of a PE that is lost its loss has told
}

whi_balance *whi_balance_of(whi_chares *c, whi_collection *in) {
    if (in->balance)
        return in->balance;
    in->balance = whi_calloc(1, sizeof(*in->balance));
    if (in->balance) {
        in->balance->in = in;
        whi_rng_init(&in->balance->rng, (uint64_t)in->def.id << 32 | (unsigned)c->pe->number);
    }
    return in->balance;
}

void whi_balance_free(whi_balance *b) {
    if (!b)
        return;
    whi_blob_fini(&b->up);
    whi_gossip_fini(&b->gossip);
    whi_free(b->own);
    whi_free(b->keys);
    whi_free(b);
}

// ---- The tree, whose root is that of the collection.

static int root_of(const whi_chares *c, const whi_balance *b) {
    return whi_collection_root(c, b->in->def.id);
}

static int place_of(const whi_chares *c, const whi_balance *b, int pe) {
    return (pe - root_of(c, b) + c->pe->pes) % c->pe->pes;
}

int whi_balance_parent(const whi_chares *c, const whi_balance *b) {
    int at = place_of(c, b, c->pe->number);
    return at ? (whi_tree_parent(at) + root_of(c, b)) % c->pe->pes : -1;
}

// child_of returns by which child of this PE another one lies in the tree; -1: by none.
static int child_of(const whi_chares *c, const whi_balance *b, int pe) {
    int own = place_of(c, b, c->pe->number), at = place_of(c, b, pe);
    while (at > own && whi_tree_parent(at) != own)
        at = whi_tree_parent(at);
    return at > own ? (at + root_of(c, b)) % c->pe->pes : -1;
}

void whi_balance_tell_children(whi_chares *c, const whi_balance *b, const void *data, size_t size) {
    whi_head head = {.kind = WHI_HEAD_BALANCE,
                     .balance = {.what = b->asked, .collection = b->in->def.id, .step = b->step}};
    if (whi_tree_tell(c, root_of(c, b), &head, data, size) == WH_ENOMEM)
        whi_balance_fail(c, b, WH_ENOMEM);
}

// tell_moves sends each child what concerns it and those below it.
void whi_balance_tell_moves(whi_chares *c, whi_balance *b, const void *data, size_t size) {
    int pes = c->pe->pes, at = place_of(c, b, c->pe->number);
    int first = whi_tree_first_child(at), count = whi_tree_children(at, pes);
    for (int i = 0; i < count; i++) {
        int child = (first + i + root_of(c, b)) % pes;
        whi_blob part = {.data = NULL};
        whi_moves moves;
        whi_reader from;
        whi_reader_init(&from, data, size);
        const uint8_t *block = from.next;
        for (; whi_decide_next(&from, pes, &moves); block = from.next) {
            size_t bytes = (size_t)(from.next - block);
            void *to = child_of(c, b, (int)moves.pe) == child ? whi_blob_add(&part, bytes) : NULL;
            if (to)
                memcpy(to, block, bytes);
            else if (child_of(c, b, (int)moves.pe) == child)
                whi_balance_fail(c, b, WH_ENOMEM);
        }
        whi_balance_tell(c, b, child, WHI_BALANCE_MOVES, part.data, part.size);
        whi_blob_fini(&part);
    }
}

// ---- Of a step that has ended.

wh_status wh_balance_last(wh_pe *pe, wh_proxy array, wh_balance_step *step) {
    const whi_chares *c = pe ? whi_chares_get(pe) : NULL;
    if (!pe || !step)
        return whi_refuse(WH_EINVAL, "E-CHARE-15", "wh_balance_last: %s is NULL",
                          pe ? "step" : "pe");
    const whi_collection *in = c ? whi_hash_get(&c->collections, array.collection + 1ull) : NULL;
    if (in && in->known && !in->def.balance)
        return whi_refuse(
            WH_ENOTFOUND, "E-CHARE-15",
            "wh_balance_last: %s is not balanced: make it with `balance` and `resume` "
            "(wh_array_opts)",
            whi_say_collection(c, array.collection).text);
    if (!in || !in->balance || !in->balance->resumed)
        return WH_ENOTFOUND;
    return whi_opts_give(step, &in->balance->last, sizeof(in->balance->last), "wh_balance_step");
}
