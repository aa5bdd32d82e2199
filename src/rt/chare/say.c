// SPDX-License-Identifier: BSD-3-Clause
//
// What a program calls its elements, entries and callbacks, for sentences about them.
#include <stdarg.h>
#include <stdio.h>

#include "rt/chare/why.h"

enum { NAMES_MAX = 12 };  // in a list

__attribute__((format(printf, 2, 3))) static void add(whi_text *to, const char *format, ...) {
    size_t used = strlen(to->text);
    va_list args;
    va_start(args, format);
    vsnprintf(to->text + used, sizeof(to->text) - used, format, args);
    va_end(args);
}

// ---- Collections and elements.

static const whi_collection *known(const whi_chares *c, uint32_t id) {
    const whi_collection *in = c ? whi_hash_get(&c->collections, id + 1ull) : NULL;
    return in && in->known ? in : NULL;
}

whi_text whi_say_collection(const whi_chares *c, uint32_t collection) {
    whi_text say = {""};
    const whi_collection *in = known(c, collection);
    if (collection == WHI_SINGLES_ID)
        add(&say, "the single chares");
    else if (!in)
        add(&say, "collection %u, which this PE has not heard of yet", collection);
    else {
        const char *cls = whi_collection_class(in);
        add(&say, "the %s of class %s", whi_collection_kind_name(in),
            cls       ? cls
            : in->cls ? in->cls->name
                      : "?");
    }
    return say;
}

static void add_index(whi_text *to, const wh_proxy *proxy) {
    int dims = proxy->dims < WH_CHARE_DIMS_MAX ? proxy->dims : WH_CHARE_DIMS_MAX;
    for (int i = 0; i < dims; i++)
        add(to, "%s%d", i ? ", " : "(", proxy->index[i]);
    add(to, ")");
}

static const wh_class *class_of(const whi_chares *c, const wh_proxy *proxy) {
    const whi_collection *in = known(c, proxy->collection);
    if (in && in->cls)
        return &in->cls->cls;
    const whi_element *element = whi_proxy_element(c, proxy);
    return element ? element->cls : NULL;
}

whi_text whi_say_proxy(const whi_chares *c, const wh_proxy *proxy) {
    if (!proxy->dims)
        return whi_say_collection(c, proxy->collection);
    whi_text say = {""};
    if (proxy->collection != WHI_SINGLES_ID) {
        add(&say, "element ");
        add_index(&say, proxy);
        add(&say, " of %s", whi_say_collection(c, proxy->collection).text);
        return say;
    }
    const whi_element *element = whi_proxy_element(c, proxy);
    add(&say, "single chare %d of those that PE %d has made on PE %d", proxy->index[2],
        proxy->index[1], proxy->index[0]);
    if (element)
        add(&say, ", of class %s", whi_element_class(element));
    return say;
}

whi_text whi_say_key(const whi_chares *c, const whi_place_key *key) {
    wh_proxy proxy = whi_proxy_of(key);
    return whi_say_proxy(c, &proxy);
}

// ---- Entries.

whi_text whi_say_entry(const whi_chares *c, const wh_proxy *proxy, unsigned entry) {
    whi_text say = {""};
    const wh_class *cls = class_of(c, proxy);
    if (cls && entry < cls->entry_count)
        add(&say, "entry %s", cls->entries[entry].name);
    else
        add(&say, "entry %u", entry);
    return say;
}

whi_text whi_say_entries(const wh_class *cls) {
    whi_text say = {""};
    for (size_t i = 0; i < cls->entry_count && i < NAMES_MAX; i++)
        add(&say, "%s%zu %s", i ? ", " : "", i, cls->entries[i].name);
    if (cls->entry_count > NAMES_MAX)
        add(&say, " and %zu more", cls->entry_count - NAMES_MAX);
    if (!cls->entry_count)
        add(&say, "none");
    return say;
}

// ---- What is registered.

// after finds the name that follows another one in alphabetical order; NULL: there is none.
static const char *after(const whi_chares *c, whi_named_kind kind, const char *last) {
    const char *next = NULL;
    size_t cursor = 0;
    uint64_t id;
    const whi_named *named;
    while ((named = whi_hash_next(&c->named, &cursor, &id)))
        if (named->kind == kind && (!last || strcmp(named->name, last) > 0) &&
            (!next || strcmp(named->name, next) < 0))
            next = named->name;
    return next;
}

whi_text whi_say_names(const whi_chares *c, whi_named_kind kind) {
    whi_text say = {""};
    if (kind == WHI_NAMED_MAP)
        add(&say, "block, round-robin");
    if (kind == WHI_NAMED_BALANCER)
        add(&say, "none, greedy, refine, distributed");
    const char *name = NULL;
    for (int i = 0; (name = after(c, kind, name)); i++) {
        if (i == NAMES_MAX) {
            add(&say, " and more");
            break;
        }
        add(&say, "%s%s", *say.text ? ", " : "", name);
    }
    if (!*say.text)
        add(&say, "none");
    return say;
}

// ---- Callbacks.

whi_text whi_say_callback(const whi_chares *c, const wh_callback *callback) {
    whi_text say = {""};
    const whi_named *named;
    switch (callback->kind) {
    case WH_CALLBACK_NONE: add(&say, "none"); break;
    case WH_CALLBACK_SEND:
        add(&say, "%s of ", whi_say_entry(c, &callback->proxy, callback->entry).text);
        add(&say, "%s", whi_say_proxy(c, &callback->proxy).text);
        break;
    case WH_CALLBACK_FUNCTION:
        named = whi_named_find(c, callback->function, WHI_NAMED_FUNCTION);
        add(&say, "function %s on PE %d", named ? named->name : "(not registered here)",
            callback->pe);
        break;
    case WH_CALLBACK_FUTURE: add(&say, "a future of PE %d", callback->future.pe); break;
    case WH_CALLBACK_EXIT: add(&say, "the end of the job"); break;
    }
    return say;
}

whi_text whi_say_type(wh_type_id type) {
#define NAME(name, in_c) #name,
    static const char *const names[] = {WH_TYPE_LIST(NAME)};
#undef NAME
    whi_text say = {""};
    if ((unsigned)type < sizeof(names) / sizeof(*names))
        add(&say, "%s", names[type]);
    else
        add(&say, "%d, which is none", (int)type);
    return say;
}
