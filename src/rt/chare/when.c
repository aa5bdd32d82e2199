// SPDX-License-Identifier: BSD-3-Clause
//
// Entries that run when their element asks for them, and entries that are user-level threads.
//
// Calls that nobody has asked for are parked with their element, in memory that holds nothing of their senders.
#include "base/alloc.h"
#include "rt/chare/why.h"

typedef struct want {
    whi_queue_node link;
    unsigned entry;
    int64_t ref;
    struct thread *thread;  // NULL: the entry itself runs
} want;

// An entry that runs as a thread.
typedef struct thread {
    whi_list link;
    whi_chares *chares;
    whi_element *element;
    whi_call *call;  // that it runs
    whi_call *got;   // the one that it has waited for
    whi_ult *ult;
    wh_wait wait;
    wh_call pub;
} thread;

whi_waits *whi_waits_of(whi_element *element) {
    whi_waits *w = element->waits;
    if (w || !(w = whi_malloc(sizeof(*w))))
        return w;
    whi_parked_init(&w->parked);
    whi_queue_init(&w->wants);
    whi_list_init(&w->threads);
    whi_queue_init(&w->ahead);
    whi_queue_init(&w->kept);
    whi_queue_init(&w->posted);
    w->had = w->due = 0;
    w->shares = NULL;
    w->share_count = 0;
    return element->waits = w;
}

static bool matches(int64_t ref, const whi_call *call) {
    return ref == WH_REF_ANY || ref == call->ref;
}

static want *take_want(whi_waits *w, const whi_call *call) {
    for (whi_queue_node **at = &w->wants.first; *at; at = &(*at)->next) {
        want *wanted = whi_container_of(*at, want, link);
        if (wanted->entry != call->entry || !matches(wanted->ref, call))
            continue;
        whi_queue_take_out(&w->wants, at);
        return wanted;
    }
    return NULL;
}

// ---- Calls that come.

bool whi_when_take(whi_chares *c, whi_element *element, whi_call *call) {
    if (call->wanted)
        return true;
    whi_waits *w = whi_waits_of(element);
    if (!w || !whi_call_own(call)) {
        whi_pe_fail(c->pe, "there is no memory to keep a message");
        return false;
    }
    want *wanted = take_want(w, call);
    if (!wanted) {
        if (whi_parked_put(&w->parked, call) != WH_OK) {
            whi_call_free(c, call);
            whi_pe_fail(c->pe, "there is no memory to keep a message");
        }
        return false;
    }
    thread *t = wanted->thread;
    whi_free(wanted);
    if (!t)
        return true;
    t->got = call;
    wh_pe_resume(c->pe, &t->wait);
    return false;
}

// ---- What the element asks for.

static wh_status add_want(whi_waits *w, unsigned entry, int64_t ref, thread *t) {
    want *wanted = whi_malloc(sizeof(*wanted));
    if (!wanted)
        return WH_ENOMEM;
    *wanted = (want){.entry = entry, .ref = ref, .thread = t};
    whi_queue_push(&w->wants, &wanted->link);
    return WH_OK;
}

static wh_status check(const whi_element *element, const char *call, unsigned entry) {
    if (entry >= element->cls->entry_count || !(element->cls->entries[entry].flags & WH_ENTRY_WHEN))
        return whi_refuse_entry(element, call, entry);
    return element->dying ? WH_ECLOSED : WH_OK;
}

wh_status wh_chare_when(wh_chare *self, unsigned entry, int64_t ref) {
    whi_element *element = (whi_element *)self;
    wh_status st = check(element, "wh_chare_when", entry);
    if (st != WH_OK)
        return st;
    whi_waits *w = whi_waits_of(element);
    if (!w)
        return WH_ENOMEM;
    whi_call *call = whi_parked_take(&w->parked, entry, ref);
    if (!call)
        return add_want(w, entry, ref, NULL);
    call->wanted = true;
    call->msg->pub.priority = INT32_MIN;  // it has waited, and is next
    self->pe->quiet.made++;
    whi_call_deliver(whi_chares_get(self->pe), element, call);
    return WH_OK;
}

static thread *running(whi_waits *w) {
    whi_ult *here = whi_ult_here();
    for (whi_list *node = w->threads.next; here && node != &w->threads; node = node->next) {
        thread *t = whi_container_of(node, thread, link);
        if (t->ult == here)
            return t;
    }
    return NULL;
}

bool whi_when_is_here(const whi_element *element) {
    return element->waits && running(element->waits);
}

wh_status wh_chare_wait(wh_chare *self, unsigned entry, int64_t ref, const wh_call **out) {
    whi_element *element = (whi_element *)self;
    thread *t = element->waits ? running(element->waits) : NULL;
    if (!t)
        return whi_refuse_wait(self->pe, "wh_chare_wait");
    wh_status st = check(element, "wh_chare_wait", entry);
    if (st != WH_OK)
        return st;
    if (t->got)
        whi_call_free(t->chares, t->got);
    t->got = whi_parked_take(&element->waits->parked, entry, ref);
    if (!t->got) {
        t->wait = (wh_wait){.thread = NULL};
        st = add_want(element->waits, entry, ref, t);
        if (st == WH_OK)
            st = wh_pe_wait(self->pe, &t->wait);
        if (st == WH_OK && !t->got)
            st = WH_ECLOSED;
    }
    if (st != WH_OK)
        return st;
    if (t->got->buffers) {
        whi_buffers_refuse(t->chares, t->got);
        whi_call_free(t->chares, t->got);
        t->got = NULL;
        return whi_refuse(
            WH_ENOTSUP, "E-CHARE-07",
            "wh_chare_wait: a call of entry %s of class %s had buffers, which are only "
            "for entries that run: ask for it by wh_chare_when; it is lost",
            element->cls->entries[entry].name, element->cls->name);
    }
    t->pub = whi_call_public(t->got);
    *out = &t->pub;
    return WH_OK;
}

// ---- Moves.

uint32_t whi_when_count(const whi_element *element) {
    uint32_t count = 0;
    if (element->waits)
        for (whi_queue_node *node = element->waits->wants.first; node; node = node->next)
            count++;
    return count;
}

// Threads do not move, so what is wanted is for entries to run.
void whi_when_write(const whi_element *element, whi_writer *to) {
    if (!element->waits)
        return;
    for (whi_queue_node *node = element->waits->wants.first; node; node = node->next) {
        const want *wanted = whi_container_of(node, want, link);
        whi_writer_u64(to, wanted->entry);
        whi_writer_u64(to, (uint64_t)wanted->ref);
    }
}

wh_status whi_when_read(whi_element *element, whi_reader *from, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint64_t entry = whi_reader_u64(from);
        int64_t ref = (int64_t)whi_reader_u64(from);
        if (!whi_reader_ok(from) || entry >= element->cls->entry_count)
            return WH_EPROTOCOL;
        whi_waits *w = whi_waits_of(element);
        wh_status st = w ? add_want(w, (unsigned)entry, ref, NULL) : WH_ENOMEM;
        if (st != WH_OK)
            return st;
    }
    return WH_OK;
}

// ---- Threads.

static void free_thread(thread *t) {
    if (t->got)
        whi_call_free(t->chares, t->got);
    if (t->call)
        whi_call_free(t->chares, t->call);
    whi_list_remove(&t->link);
    whi_free(t);
}

static void body(wh_pe *pe, void *arg) {
    thread *t = arg;
    whi_element *element = t->element;
    whi_chares *c = t->chares;
    t->ult = whi_ult_here();
    wh_call pub = whi_call_public(t->call);
    const wh_entry *entry = &element->cls->entries[t->call->entry];
    whi_thread_name(whi_element_class(element), entry->name, element->pub.proxy.index,
                    element->pub.proxy.dims);
    (void)whi_pe_charge(pe, element->sync ? &element->sync->spent : NULL);
    entry->fn(&element->pub, &pub);
    (void)whi_pe_charge(pe, NULL);
    free_thread(t);
    whi_element_leave(c, element);
}

void whi_when_spawn(whi_chares *c, whi_element *element, whi_call *call) {
    whi_waits *w = whi_waits_of(element);
    thread *t = w && whi_call_own(call) ? whi_calloc(1, sizeof(*t)) : NULL;
    if (!t) {
        whi_call_free(c, call);
        whi_pe_fail(c->pe, "there is no memory for a threaded entry");
        return;
    }
    t->chares = c;
    t->element = element;
    t->call = call;
    whi_list_push_back(&w->threads, &t->link);
    whi_element_enter(element);
    wh_status st = wh_pe_spawn(c->pe, body, t);
    if (st == WH_OK)
        return;
    free_thread(t);
    whi_element_leave(c, element);
    whi_pe_fail(c->pe, "a threaded entry of class %s cannot start: %s", element->cls->name,
                wh_status_text(st));
}

// ---- In print.

static void print_ref(int64_t ref, FILE *file) {
    if (ref == WH_REF_ANY)
        fprintf(file, "any reference");
    else
        fprintf(file, "reference %lld", (long long)ref);
}

void whi_when_dump(const whi_element *element, whi_dump *to, size_t *kept, size_t *wanted) {
    const whi_waits *w = element->waits;
    const whi_list *cursor = NULL;
    whi_parked_group group;
    while (whi_parked_next(&w->parked, &cursor, &group)) {
        to->waits = true;
        if (!whi_dump_line(kept))
            continue;
        fputs("  ", to->file);
        whi_element_print(element, to->file);
        fprintf(to->file, " keeps %zu messages for %s with ", group.count,
                element->cls->entries[group.entry].name);
        print_ref(group.ref, to->file);
        fputs(", which it has not asked for\n", to->file);
    }
    for (const whi_queue_node *node = w->wants.first; node; node = node->next) {
        const want *each = whi_container_of((whi_queue_node *)(uintptr_t)node, want, link);
        to->waits = true;
        if (each->thread || !whi_dump_line(wanted))
            continue;  // of threads theirs tell
        fputs("  ", to->file);
        whi_element_print(element, to->file);
        fprintf(to->file, " has asked for a message for %s with ",
                element->cls->entries[each->entry].name);
        print_ref(each->ref, to->file);
        fputs(", and it has not come\n", to->file);
    }
}

static bool awaited_by(const whi_element *element, const wh_wait *wait, FILE *file) {
    const whi_queue_node *node = element->waits ? element->waits->wants.first : NULL;
    for (; node; node = node->next) {
        const want *each = whi_container_of((whi_queue_node *)(uintptr_t)node, want, link);
        if (!each->thread || &each->thread->wait != wait)
            continue;
        fprintf(file, "a message for %s with ", element->cls->entries[each->entry].name);
        print_ref(each->ref, file);
        return true;
    }
    return false;
}

bool whi_when_awaited(const whi_chares *c, const wh_wait *wait, FILE *file) {
    size_t cursor = 0;
    uint64_t id;
    const whi_collection *in;
    while ((in = whi_hash_next(&c->collections, &cursor, &id)))
        whi_list_foreach(node, (whi_list *)(uintptr_t)&in->elements) {
            if (awaited_by(whi_container_of(node, whi_element, link), wait, file))
                return true;
        }
    return false;
}

// ---- The end.

static void free_call(whi_chares *c, whi_call *call) {
    if (!c->closing)
        whi_buffers_refuse(c, call);
    whi_call_free(c, call);
}

static void free_wants(whi_chares *c, whi_waits *w) {
    whi_queue_node *node;
    whi_call *call;
    while ((node = whi_queue_pop(&w->wants))) {
        want *wanted = whi_container_of(node, want, link);
        if (wanted->thread && !c->closing)
            wh_pe_resume(c->pe, &wanted->thread->wait);
        whi_free(wanted);
    }
    while ((call = whi_parked_pop(&w->parked)))
        free_call(c, call);
    while ((node = whi_queue_pop(&w->ahead)))
        free_call(c, whi_container_of(node, whi_call, place.node));
}

void whi_when_close(whi_chares *c, whi_element *element) {
    if (element->waits)
        free_wants(c, element->waits);
}

// Threads are left only at the end of the PE, which has ended them where they were.
void whi_when_free(whi_chares *c, whi_element *element) {
    whi_waits *w = element->waits;
    if (!w)
        return;
    free_wants(c, w);
    whi_queue_node *posted;
    while ((posted = whi_queue_pop(&w->posted)))  // only at the end of the PE
        whi_call_free(c, whi_container_of(posted, whi_call, place.node));
    while ((posted = whi_queue_pop(&w->kept)))  // likewise
        whi_call_free(c, whi_container_of(posted, whi_call, place.node));
    whi_list *node;
    while ((node = whi_list_first(&w->threads)))
        free_thread(whi_container_of(node, thread, link));
    whi_free(w->shares);
    whi_parked_fini(&w->parked);
    whi_free(w);
    element->waits = NULL;
}
