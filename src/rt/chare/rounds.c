// SPDX-License-Identifier: BSD-3-Clause
//
// Reductions on their way up a tree of PEs.
//
// A PE puts together what its elements and the PEs below it contribute, and sends that up with the number of contributions, so
// that it does not matter where an element was when it contributed.  It sends when all are there that can be
// expected, and in any case when it has nothing else to do: what is expected is a guess, the number decides.  At the
// root a reduction ends when it has a contribution of each member that takes part in it, in the order of the numbers.
#include <stdio.h>

#include "base/alloc.h"
#include "rt/chare/reduce.h"
#include "rt/chare/why.h"

typedef struct round {
    whi_list link;
    uint64_t number;
    uint64_t count;  // contributions in `partial`
    size_t here;     // of elements that are here
    int below;       // messages of PEs below
    whi_partial *partial;
} round;

typedef struct leaver {
    whi_list link;
    uint64_t number;  // of the first reduction that it takes no part in
} leaver;

whi_reductions *whi_reductions_new(uint32_t collection, uint64_t section, int parent,
                                   int children) {
    whi_reductions *of = whi_calloc(1, sizeof(*of));
    if (!of)
        return NULL;
    *of = (whi_reductions){
        .collection = collection, .section = section, .parent = parent, .children = children};
    whi_list_init(&of->link);
    whi_list_init(&of->rounds);
    whi_list_init(&of->leavers);
    return of;
}

static void free_round(round *r) {
    whi_list_remove(&r->link);
    whi_partial_free(r->partial);
    whi_free(r);
}

void whi_reductions_free(whi_reductions *of) {
    whi_list *node;
    if (!of)
        return;
    while ((node = whi_list_first(&of->rounds)))
        free_round(whi_container_of(node, round, link));
    while ((node = whi_list_pop_front(&of->leavers)))
        whi_free(whi_container_of(node, leaver, link));
    whi_list_remove(&of->link);
    whi_free(of);
}

static void fail(whi_chares *c, const whi_reductions *of, const char *why) {
    wh_proxy proxy = {.collection = of->collection};
    whi_chares_error(c, &proxy, "a reduction over %s%s cannot go on: %s",
                     of->section && of->section != WHI_SYNC_SECTION ? "a section of " : "",
                     whi_say_collection(c, of->collection).text, why);
}

// ---- The root.

// members_of takes those out that leave before a reduction.
static uint64_t members_of(whi_reductions *of, uint64_t number) {
    whi_list_foreach(node, &of->leavers) {
        leaver *l = whi_container_of(node, leaver, link);
        if (l->number > number)
            continue;
        of->members--;
        whi_list_remove(&l->link);
        whi_free(l);
    }
    return of->members;
}

WHI_COLD static void cannot_fire(whi_chares *c, const whi_reductions *of,
                                 const wh_callback *callback, const void *value, size_t size,
                                 wh_status st) {
    whi_text why = whi_why_callback(c->pe, callback, value, size, st);
    char text[400];
    snprintf(text, sizeof(text), "its callback cannot be carried out: %s",
             *why.text ? why.text : wh_status_text(st));
    fail(c, of, text);
}

static void fire(whi_chares *c, const whi_reductions *of, const whi_partial *partial) {
    wh_callback callback;
    void *value = NULL;
    size_t size = 0;
    wh_status st = wh_callback_decode(partial->callback, WH_CALLBACK_SIZE, &callback);
    if (st == WH_OK)
        st = whi_partial_value(partial, &value, &size);
    if (st != WH_OK) {
        fail(c, of, wh_status_text(st));
        return;
    }
    st = c->reduce.fire(c->pe, &callback, value, size);
    if (st != WH_OK)
        cannot_fire(c, of, &callback, value, size, st);
    whi_free(value);
}

static void end_rounds(whi_chares *c, whi_reductions *of) {
    while (!of->awaited && c->pe->exit.state < WHI_END_STOPPED) {
        round *r =
            whi_list_empty(&of->rounds) ? NULL : whi_container_of(of->rounds.next, round, link);
        if (!r || r->number != of->next)
            return;
        uint64_t members = members_of(of, r->number);
        if (r->count > members)
            fail(c, of, "there are more contributions than elements");
        if (r->count != members)
            return;
        whi_list_remove(&r->link);  // what fires may contribute
        of->next++;
        if (of->section == WHI_SYNC_SECTION)
            c->balance.reached(c, whi_collection_find(c, of->collection), of->next);
        else
            fire(c, of, r->partial);
        free_round(r);
    }
}

bool whi_reductions_missing(const whi_reductions *of, uint64_t *count, uint64_t *members) {
    if (of->parent >= 0 || !whi_list_linked(&of->rounds))
        return false;
    *count = whi_container_of(of->rounds.next, round, link)->count;
    *members = of->members;
    for (const whi_list *node = of->leavers.next; node != &of->leavers; node = node->next)
        *members -= whi_container_of(node, leaver, link)->number <= of->next;
    return true;
}

// ---- Up the tree.

static wh_status send_up(whi_chares *c, const whi_reductions *of, const round *r) {
    size_t size = whi_partial_encoded_size(r->partial);
    void *bytes = whi_malloc(size);
    if (!bytes)
        return WH_ENOMEM;
    whi_partial_encode(r->partial, bytes);
    whi_head head = {.kind = WHI_HEAD_REDUCE,
                     .reduce = {.what = WHI_REDUCE_PARTIAL,
                                .collection = of->collection,
                                .section = of->section,
                                .number = r->number,
                                .count = r->count}};
    wh_status st = whi_chares_tell(c, of->parent, &head, bytes, size);
    whi_free(bytes);
    return st;
}

static void flush(whi_chares *c, whi_reductions *of, round *r) {
    wh_status st = send_up(c, of, r);
    if (st == WH_ENOMEM)
        whi_pe_fail(c->pe, "there is no memory for a reduction");
    free_round(r);  // of a PE that is lost its loss has told
}

static bool on_idle(wh_pe *pe, void *arg) {
    (void)pe;
    whi_chares *c = arg;
    whi_list *node;
    c->reducing = false;
    while ((node = whi_list_pop_front(&c->reductions))) {
        whi_reductions *of = whi_container_of(node, whi_reductions, link);
        whi_list_foreach(each, &of->rounds) flush(c, of, whi_container_of(each, round, link));
    }
    return false;
}

// progress sends a round up that is likely to be whole, or sees to it that it is sent when there is nothing else to do.
static void progress(whi_chares *c, whi_reductions *of, round *r, size_t members_here) {
    if (of->parent < 0) {
        end_rounds(c, of);
        return;
    }
    if (r->here >= members_here && r->below >= of->children) {
        flush(c, of, r);
        return;
    }
    if (!whi_list_linked(&of->link))
        whi_list_push_back(&c->reductions, &of->link);
    if (c->reducing)
        return;
    c->reducing = true;
    if (wh_pe_on_idle(c->pe, on_idle, c, NULL) != WH_OK)
        whi_pe_fail(c->pe, "there is no memory for a reduction");
}

static bool combine(void *arg, uint64_t function, void *inout, const void *in, size_t size) {
    const whi_named *named = whi_named_find(arg, function, WHI_NAMED_REDUCER);
    if (named && size)
        named->reducer(inout, in, size, named->arg);
    return named != NULL;
}

// need finds or makes a round.
static round *need(whi_reductions *of, uint64_t number) {
    whi_list *at = of->rounds.prev;
    while (at != &of->rounds && whi_container_of(at, round, link)->number > number)
        at = at->prev;
    if (at != &of->rounds && whi_container_of(at, round, link)->number == number)
        return whi_container_of(at, round, link);
    round *r = whi_calloc(1, sizeof(*r));
    if (!r)
        return NULL;
    r->number = number;
    whi_list_insert(at, &r->link);
    return r;
}

WHI_COLD static void differ(whi_chares *c, const whi_reductions *of, const round *r,
                            const whi_partial *partial, const char *why) {
    whi_text what = whi_why_differ(c, r->partial, partial);
    char text[400];
    snprintf(text, sizeof(text), "its elements disagree in contribution %llu: %s%s%s",
             (unsigned long long)r->number + 1, why, *what.text ? ": " : "", what.text);
    fail(c, of, text);
}

// merge takes `partial`.
static wh_status merge(whi_chares *c, whi_reductions *of, round *r, whi_partial *partial) {
    const whi_partial_ops ops = {.combine = combine, .arg = c};
    const char *why = NULL;
    if (!r->partial) {
        r->partial = partial;
        return WH_OK;
    }
    wh_status st = whi_partial_merge(r->partial, partial, &ops, &why);
    if (why)
        differ(c, of, r, partial, why);
    whi_partial_free(partial);
    return st;
}

wh_status whi_reductions_add(whi_chares *c, whi_reductions *of, uint64_t number,
                             whi_partial *partial, size_t members_here) {
    round *r = need(of, number);
    if (!r) {
        whi_partial_free(partial);
        return WH_ENOMEM;
    }
    wh_status st = merge(c, of, r, partial);
    if (st != WH_OK)
        return st;
    r->count++;
    r->here++;
    progress(c, of, r, members_here);
    return WH_OK;
}

static void take_partial(whi_chares *c, whi_reductions *of, const whi_head *head, wh_pe_msg *msg,
                         size_t members_here) {
    whi_partial *partial;
    wh_status st = whi_partial_decode(msg->data, msg->size, &partial);
    if (st == WH_OK &&
        (!head->reduce.count || (of->parent < 0 && head->reduce.number < of->next))) {
        whi_partial_free(partial);
        st = WH_EPROTOCOL;
    }
    round *r = st == WH_OK ? need(of, head->reduce.number) : NULL;
    if (!r) {
        whi_pe_fail(c->pe, "a part of a reduction that PE %d has sent cannot be taken: %s",
                    msg->source, wh_status_text(st == WH_OK ? WH_ENOMEM : st));
        if (st == WH_OK)
            whi_partial_free(partial);
        return;
    }
    st = merge(c, of, r, partial);
    if (st == WH_ENOMEM)  // of all else it has told
        whi_pe_fail(c->pe, "there is no memory for a reduction");
    if (st != WH_OK)
        return;
    r->count += head->reduce.count;
    r->below++;
    progress(c, of, r, members_here);
}

// ---- Members.

static void to_root(whi_chares *c, const whi_reductions *of, whi_reduce_what what, uint64_t number,
                    uint64_t count, int root) {
    whi_head head = {.kind = WHI_HEAD_REDUCE,
                     .reduce = {.what = (uint8_t)what,
                                .collection = of->collection,
                                .section = of->section,
                                .number = number,
                                .count = count}};
    if (whi_chares_tell(c, root, &head, NULL, 0) == WH_ENOMEM)
        whi_pe_fail(c->pe, "there is no memory for a reduction");
}

static void take_leaver(whi_chares *c, whi_reductions *of, uint64_t number) {
    leaver *l = whi_malloc(sizeof(*l));
    if (!l) {
        whi_pe_fail(c->pe, "there is no memory for a reduction");
        return;
    }
    l->number = number;
    whi_list_push_back(&of->leavers, &l->link);
    end_rounds(c, of);
}

void whi_reductions_leave(whi_chares *c, whi_reductions *of, uint64_t number) {
    to_root(c, of, WHI_REDUCE_LEAVE, number, 0, of->root);
}

void whi_reductions_joined(whi_chares *c, whi_reductions *of, uint64_t count) {
    to_root(c, of, WHI_REDUCE_JOINED, 0, count, of->root);
}

void whi_reductions_take(whi_chares *c, whi_reductions *of, const whi_head *head, wh_pe_msg *msg,
                         size_t members_here) {
    if (head->reduce.what == WHI_REDUCE_PARTIAL) {
        take_partial(c, of, head, msg, members_here);
    } else if (of->parent >= 0 || (head->reduce.what == WHI_REDUCE_JOINED && !of->awaited)) {
        whi_pe_fail(c->pe, "PE %d has sent a note about a reduction that cannot be", msg->source);
    } else if (head->reduce.what == WHI_REDUCE_LEAVE) {
        take_leaver(c, of, head->reduce.number);
    } else {
        of->members += head->reduce.count;
        of->awaited--;
        end_rounds(c, of);
    }
}
