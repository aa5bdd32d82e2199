// SPDX-License-Identifier: BSD-3-Clause
//
// Elements, collections and their reductions in print, as the program calls them.
#include "rt/chare/reduce.h"

const char *whi_element_class(const whi_element *element) {
    const wh_class *cls = element->cls;
    const char *name = cls->alias && !element->destructed ? cls->alias(&element->pub) : NULL;
    return name ? name : cls->name;
}

void whi_element_print(const whi_element *element, FILE *file) {
    fputs(whi_element_class(element), file);
    whi_dump_index(file, element->pub.proxy.index, element->pub.proxy.dims);
}

const char *whi_collection_class(const whi_collection *in) {
    if (!in->cls)
        return NULL;
    if (!in->cls->cls.alias)
        return in->cls->name;
    return whi_list_linked(&in->elements)
               ? whi_element_class(whi_container_of(in->elements.next, whi_element, link))
               : NULL;
}

const char *whi_collection_kind_name(const whi_collection *in) {
    static const char *const kinds[WHI_COLLECTION_KINDS] = {[WHI_SINGLES] = "single chares",
                                                            [WHI_GROUP] = "group",
                                                            [WHI_NODE_GROUP] = "node group",
                                                            [WHI_ARRAY] = "array"};
    return in->known ? kinds[in->def.kind] : "collection";
}

void whi_collection_print(const whi_collection *in, FILE *file) {
    const char *cls = whi_collection_class(in), *kind = whi_collection_kind_name(in);
    fprintf(file, cls ? "%s (%s %u)" : "%s%s %u", cls ? cls : "", kind, in->def.id);
}

const whi_element *whi_proxy_element(const whi_chares *c, const wh_proxy *proxy) {
    whi_place_key key;
    return whi_place_key_make(proxy->collection, proxy->index, proxy->dims, &key) == WH_OK
               ? whi_places_find(c->places, &key)
               : NULL;
}

void whi_proxy_print(const whi_chares *c, const wh_proxy *proxy, FILE *file) {
    const whi_element *element = whi_proxy_element(c, proxy);
    if (element) {
        whi_element_print(element, file);
        return;
    }
    const whi_collection *in = whi_hash_get(&c->collections, proxy->collection + 1ull);
    const char *cls = in && in->known ? whi_collection_class(in) : NULL;
    if (cls)
        fputs(cls, file);
    else if (proxy->collection == WHI_SINGLES_ID)
        fputs("chare ", file);
    else
        fprintf(file, "element of collection %u, ", proxy->collection);
    whi_dump_index(file, proxy->index, proxy->dims);
}

void whi_reductions_print(const whi_reductions *of, const char *kind, const whi_collection *in,
                          uint64_t count, uint64_t members, FILE *file) {
    fprintf(file, "  reduction %llu of %s", (unsigned long long)of->next + 1, kind);
    whi_collection_print(in, file);
    fprintf(file, ": %llu of %llu contributions are here, where it ends", (unsigned long long)count,
            (unsigned long long)members);
    fputs(of->awaited ? "; elements are still inserted (wh_array_done)\n" : "\n", file);
}
