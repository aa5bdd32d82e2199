// SPDX-License-Identifier: BSD-3-Clause
//
// Classes, maps, functions and reducers, which PEs name to each other by the hashes of their names.
#include "base/alloc.h"
#include "base/log.h"
#include "base/opts.h"
#include "rt/chare/why.h"

uint64_t wh_function_id(const char *name) {
    return whi_named_id(WHI_NAMED_FUNCTION, name);
}

uint64_t wh_reducer_id(const char *name) {
    return whi_named_id(WHI_NAMED_REDUCER, name);
}

// By whi_named_kind.
static const char *const calls[] = {"wh_class_register", "wh_map_register", "wh_function_register",
                                    "wh_reducer_register", "wh_balancer_register"};

static wh_status add(wh_pe *pe, const whi_named *what, const char *name) {
    if (!name || !*name)
        return whi_refuse(WH_EINVAL, "E-CHARE-03",
                          "%s: PE %d registers something without a name: give it one, the same on "
                          "all PEs",
                          calls[what->kind], pe->number);
    whi_chares *c = whi_chares_of(pe);
    if (!c)
        return WH_ENOMEM;
    uint64_t id = whi_named_id(what->kind, name);
    whi_named *there = whi_hash_get(&c->named, id);
    if (there) {
        whi_log(WHI_ERROR, "E-CHARE-01",
                "PE %d registers \"%s\" when there is \"%s\" of the same %s: take another name",
                pe->number, name, there->name, strcmp(name, there->name) ? "hash" : "name");
        return WH_EINVAL;
    }
    whi_named *named = whi_malloc(sizeof(*named));
    char *copy = whi_strdup(name);
    if (named && copy) {
        *named = *what;
        named->id = id;
        named->name = copy;
        if (whi_hash_put(&c->named, id, named) == WH_OK)
            return WH_OK;
    }
    whi_free(named);
    whi_free(copy);
    return WH_ENOMEM;
}

// copy_entries makes the table of entries this library's.
static wh_status copy_entries(const wh_class *cls, wh_entry **out) {
    wh_entry *entries = whi_calloc(cls->entry_count + 1, sizeof(*entries));
    if (!entries)
        return WH_ENOMEM;
    wh_status st = WH_OK;
    if (cls->entry_count)
        st = whi_opts_take_array(entries, sizeof(*entries), cls->entries, cls->entry_size,
                                 cls->entry_count, "wh_entry");
    for (size_t i = 0; st == WH_OK && i < cls->entry_count; i++)
        if (!entries[i].fn || !entries[i].name)
            st = whi_refuse(WH_EINVAL, "E-CHARE-03",
                            "wh_class_register: entry %zu (%s) of class %s has no %s", i,
                            entries[i].name ? entries[i].name : "?", cls->name ? cls->name : "?",
                            entries[i].fn ? "name" : "function");
    if (st == WH_OK)
        *out = entries;
    else
        whi_free(entries);
    return st;
}

WHI_COLD static wh_status refuse_class(const wh_class *cls) {
    const char *name = cls && cls->name ? cls->name : "?";
    if (!cls)
        return whi_refuse(WH_EINVAL, "E-CHARE-03", "wh_class_register: the class is NULL");
    if (!cls->pack != !cls->unpack)
        return whi_refuse(
            WH_EINVAL, "E-CHARE-03",
            "wh_class_register: class %s has %s, but no %s: elements that move, or are "
            "saved, need both",
            name, cls->pack ? "pack" : "unpack", cls->pack ? "unpack" : "pack");
    return whi_refuse(
        WH_EINVAL, "E-CHARE-03",
        "wh_class_register: class %s has %zu entries, at %p: it may have %d, and needs "
        "their table",
        name, cls->entry_count, (const void *)cls->entries, WHI_ENTRY_MAX);
}

wh_status wh_class_register(wh_pe *pe, const wh_class *cls) {
    WHI_OPTS(wh_class, cls);
    if (!cls || cls->entry_count > WHI_ENTRY_MAX || (cls->entry_count && !cls->entries) ||
        !cls->pack != !cls->unpack)
        return refuse_class(cls);
    whi_named named = {.kind = WHI_NAMED_CLASS, .cls = *cls};
    wh_entry *entries;
    wh_status st = copy_entries(cls, &entries);
    if (st != WH_OK)
        return st;
    named.cls.entries = entries;
    st = add(pe, &named, cls->name);
    if (st != WH_OK)
        whi_free(entries);
    return st;
}

wh_status wh_map_register(wh_pe *pe, const char *name, wh_map_fn fn, void *arg) {
    whi_named named = {.kind = WHI_NAMED_MAP, .map = fn, .arg = arg};
    return fn ? add(pe, &named, name) : whi_refuse_function("wh_map_register");
}

wh_status wh_function_register(wh_pe *pe, const char *name, wh_function_fn fn, void *arg) {
    whi_named named = {.kind = WHI_NAMED_FUNCTION, .function = fn, .arg = arg};
    return fn ? add(pe, &named, name) : whi_refuse_function("wh_function_register");
}

wh_status wh_reducer_register(wh_pe *pe, const char *name, wh_reducer_fn fn, void *arg) {
    whi_named named = {.kind = WHI_NAMED_REDUCER, .reducer = fn, .arg = arg};
    return fn ? add(pe, &named, name) : whi_refuse_function("wh_reducer_register");
}

wh_status wh_balancer_register(wh_pe *pe, const char *name, wh_balancer_fn fn, void *arg) {
    if (name && whi_balancer_kind_of(whi_named_id(WHI_NAMED_BALANCER, name)) != WHI_BALANCER_CUSTOM)
        return whi_refuse(WH_EINVAL, "E-CHARE-03",
                          "wh_balancer_register: \"%s\" is a strategy of the library: take another "
                          "name",
                          name);
    whi_named named = {.kind = WHI_NAMED_BALANCER, .balancer = fn, .arg = arg};
    return fn ? add(pe, &named, name) : whi_refuse_function("wh_balancer_register");
}

void whi_named_free_all(whi_chares *c) {
    size_t cursor = 0;
    uint64_t id;
    whi_named *named;
    while ((named = whi_hash_next(&c->named, &cursor, &id))) {
        whi_free((void *)(uintptr_t)named->cls.entries);
        whi_free(named->name);
        whi_free(named);
    }
    whi_hash_fini(&c->named);
}
