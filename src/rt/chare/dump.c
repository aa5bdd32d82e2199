// SPDX-License-Identifier: BSD-3-Clause
//
// What the chares of a PE wait for, in print: by class, element and entry.
#include "rt/chare/branch.h"

enum { CLASSES_MAX = 8, ABSENT_MAX = 4 };  // that are told by name

// ---- Which elements there are.

typedef struct classes {
    const char *name[CLASSES_MAX];
    size_t count[CLASSES_MAX], others;
    int used;
} classes;

static void count_class(classes *all, const char *name) {
    int at = 0;
    while (at < all->used && all->name[at] != name && strcmp(all->name[at], name) != 0)
        at++;
    if (at == CLASSES_MAX) {
        all->others++;
        return;
    }
    all->used += at == all->used;
    all->name[at] = name;
    all->count[at]++;
}

static void dump_singles(const whi_collection *in, FILE *file) {
    classes all = {.used = 0};
    whi_list_foreach(node, (whi_list *)(uintptr_t)&in->elements)
        count_class(&all, whi_element_class(whi_container_of(node, whi_element, link)));
    for (int i = 0; i < all.used; i++)
        fprintf(file, "%s%zu of %s", i ? ", " : "  single chares: ", all.count[i], all.name[i]);
    if (all.others)
        fprintf(file, ", %zu of other classes", all.others);
    fputs(all.used ? "\n" : "", file);
}

// most_contributed returns to how many reductions the element here has contributed that is furthest.
static uint64_t most_contributed(const whi_collection *in, bool *differ) {
    uint64_t most = 0;
    bool first = true;
    *differ = false;
    whi_list_foreach(node, (whi_list *)(uintptr_t)&in->elements) {
        const whi_element *element = whi_container_of(node, whi_element, link);
        if (!element->reduces)
            continue;
        *differ = *differ || (!first && element->contributed != most);
        most = element->contributed > most ? element->contributed : most;
        first = false;
    }
    return most;
}

static void dump_elements(const whi_chares *c, whi_dump *to) {
    size_t cursor = 0, told = 0;
    uint64_t id;
    const whi_collection *in;
    while ((in = whi_hash_next(&c->collections, &cursor, &id))) {
        if (!in->known || !in->count)
            continue;
        if (in->def.kind == WHI_SINGLES) {
            dump_singles(in, to->file);
        } else if (whi_dump_line(&told)) {
            fprintf(to->file, "  elements: %zu of ", in->count);
            whi_collection_print(in, to->file);
            bool differ;
            uint64_t most = most_contributed(in, &differ);
            if (most && !differ)
                fprintf(to->file, ", each has contributed to %llu reductions",
                        (unsigned long long)most);
            fputs(in->inserting ? ", and wh_array_done has not been called\n" : "\n", to->file);
        }
    }
    whi_dump_rest(to, told, "arrays and groups");
}

// ---- Reductions.

static void dump_absent(const whi_collection *in, uint64_t number, whi_dump *to) {
    size_t members = 0, absent = 0;
    whi_list_foreach(node, (whi_list *)(uintptr_t)&in->elements) {
        const whi_element *element = whi_container_of(node, whi_element, link);
        members += element->reduces;
        absent += element->reduces && element->contributed < number;
    }
    fprintf(to->file, "  reduction %llu of ", (unsigned long long)number);
    whi_collection_print(in, to->file);
    fprintf(to->file,
            ": %zu of its %zu elements here have contributed; not yet: ", members - absent,
            members);
    size_t told = 0;
    whi_list_foreach(each, (whi_list *)(uintptr_t)&in->elements) {
        const whi_element *element = whi_container_of(each, whi_element, link);
        if (!element->reduces || element->contributed >= number || told == ABSENT_MAX)
            continue;
        fputs(told++ ? ", " : "", to->file);
        whi_element_print(element, to->file);
    }
    if (absent > told)
        fprintf(to->file, " and %zu more", absent - told);
    fputc('\n', to->file);
}

// ---- Sections: on each PE how far the members are that have their home there, and at the root what is missing.

// A PE's members of a section that have not ended, and how many of them have contributed less often than the furthest one.
typedef struct progress {
    size_t members, absent;
    uint64_t most;
} progress;

static progress progress_of(const whi_branch *s) {
    progress p = {.members = 0};
    for (size_t i = 0; i < s->count; i++) {
        const whi_member *m = &s->members[i];
        p.members += !m->gone;
        p.most = !m->gone && m->contributed > p.most ? m->contributed : p.most;
    }
    for (size_t i = 0; i < s->count; i++)
        p.absent += !s->members[i].gone && s->members[i].contributed < p.most;
    return p;
}

static void dump_absent_members(const whi_chares *c, const whi_branch *s, const progress *p,
                                FILE *file) {
    fprintf(file, "  reduction %llu of a section of ", (unsigned long long)p->most);
    whi_collection_print(s->in, file);
    fprintf(file,
            ": %zu of its %zu members here have contributed; not yet: ", p->members - p->absent,
            p->members);
    size_t told = 0;
    for (size_t i = 0; i < s->count && told < ABSENT_MAX; i++) {
        const whi_member *m = &s->members[i];
        if (m->gone || m->contributed == p->most)
            continue;
        wh_proxy proxy =
            wh_proxy_at((wh_proxy){.collection = s->in->def.id}, s->in->def.dims, m->index);
        fputs(told++ ? ", " : "", file);
        whi_proxy_print(c, &proxy, file);
    }
    if (p->absent > told)
        fprintf(file, " and %zu more", p->absent - told);
    fputc('\n', file);
}

static void dump_members(const whi_chares *c, const whi_branch *s, whi_dump *to) {
    progress p = progress_of(s);
    if (p.absent) {
        dump_absent_members(c, s, &p, to->file);
        to->waits = true;
    } else if (p.members) {
        fprintf(to->file, "  members: %zu of a section of ", p.members);
        whi_collection_print(s->in, to->file);
        fprintf(to->file, ", each has contributed to %llu reductions\n",
                (unsigned long long)p.most);
    }
}

static void dump_sections(const whi_chares *c, whi_dump *to) {
    size_t cursor = 0, told = 0;
    uint64_t id, count, members;
    const whi_branch *s;
    while ((s = whi_hash_next(&c->sections, &cursor, &id))) {
        if (!s->known || !whi_dump_line(&told))
            continue;
        if (whi_reductions_missing(s->reductions, &count, &members)) {
            whi_reductions_print(s->reductions, "a section of ", s->in, count, members, to->file);
            to->waits = true;
        }
        dump_members(c, s, to);
    }
    whi_dump_rest(to, told, "sections");
}

static void dump_reductions(const whi_chares *c, whi_dump *to) {
    size_t cursor = 0, told = 0;
    uint64_t id;
    const whi_collection *in;
    while ((in = whi_hash_next(&c->collections, &cursor, &id))) {
        bool differ;
        uint64_t most = most_contributed(in, &differ), count, members;
        bool missing = in->reductions && whi_reductions_missing(in->reductions, &count, &members);
        if ((!differ && !missing) || !whi_dump_line(&told))
            continue;
        if (missing)
            whi_reductions_print(in->reductions, "", in, count, members, to->file);
        to->waits = true;
        if (differ)
            dump_absent(in, most, to);
    }
    whi_dump_rest(to, told, "arrays and groups whose reductions lack contributions");
    dump_sections(c, to);
}

// ---- What waits.

static size_t length(const whi_queue *queue) {
    size_t count = 0;
    for (const whi_queue_node *node = queue->first; node; node = node->next)
        count++;
    return count;
}

static void dump_early(const whi_chares *c, whi_dump *to) {
    size_t cursor = 0, told = 0;
    uint64_t id;
    const whi_collection *in;
    while ((in = whi_hash_next(&c->collections, &cursor, &id))) {
        size_t early = length(&in->waiting) + length(&in->inserts);
        if (early && whi_dump_line(&told))
            fprintf(to->file,
                    "  %zu messages wait for collection %u, which has not been made yet\n", early,
                    in->def.id);
        to->waits = to->waits || early;
    }
    whi_dump_rest(to, told, "collections that messages wait for");
}

// Calls whose buffers are arriving go on by themselves.
static void dump_buffers(const whi_element *element, whi_dump *to, size_t *told) {
    size_t posted = length(&element->waits->posted);
    to->busy = to->busy || posted || whi_queue_first(&element->waits->ahead);
    if (!posted || !whi_dump_line(told))
        return;
    fputs("  ", to->file);
    whi_element_print(element, to->file);
    fprintf(to->file, ": %zu calls wait for their buffers\n", posted);
}

static void dump_waits(const whi_chares *c, whi_dump *to) {
    size_t cursor = 0, kept = 0, wanted = 0, posted = 0;
    uint64_t id;
    const whi_collection *in;
    while ((in = whi_hash_next(&c->collections, &cursor, &id)))
        whi_list_foreach(node, (whi_list *)(uintptr_t)&in->elements) {
            const whi_element *element = whi_container_of(node, whi_element, link);
            if (!element->waits)
                continue;
            whi_when_dump(element, to, &kept, &wanted);
            dump_buffers(element, to, &posted);
        }
    whi_dump_rest(to, kept, "kinds of messages that are kept");
    whi_dump_rest(to, wanted, "messages that elements have asked for");
    whi_dump_rest(to, posted, "elements with calls that wait for their buffers");
}

void whi_chares_dump(const void *state, whi_dump *to) {
    const whi_chares *c = state;
    if (c->current) {
        fputs("  an entry runs of ", to->file);
        whi_element_print(c->current, to->file);
        fputc('\n', to->file);
    }
    to->busy = to->busy || c->current || whi_hash_count(&c->gates) || whi_hash_count(&c->states);
    dump_elements(c, to);
    dump_reductions(c, to);
    dump_early(c, to);
    dump_waits(c, to);
    whi_balance_dump(c, to);
}

bool whi_chares_awaited(const void *state, const wh_wait *wait, FILE *file) {
    const whi_chares *c = state;
    return whi_future_awaited(c, wait, file) || whi_when_awaited(c, wait, file);
}

whi_words whi_chares_name(const void *state, const whi_msg *msg) {
    (void)state;
    const whi_call *call = msg->above;
    const whi_element *element = call->element;
    if (!element || element->destructed)
        return (whi_words){.name = "chares"};
    bool known = call->entry < element->cls->entry_count;
    return (whi_words){.name = whi_element_class(element),
                       .part = known ? element->cls->entries[call->entry].name : NULL};
}
