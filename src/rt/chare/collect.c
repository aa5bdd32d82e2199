// SPDX-License-Identifier: BSD-3-Clause
//
// What a PE has of a checkpoint: its elements, if all of them can be saved; and what both who write and who read use.
#include <stdio.h>

#include "base/log.h"
#include "rt/chare/checkpoint.h"
#include "rt/chare/disk.h"
#include "rt/chare/reduce.h"
#include "rt/chare/why.h"

void whi_checkpoint_name(char *name, size_t size, uint64_t number, uint32_t pe) {
    snprintf(name, size, "%llu.pe-%u", (unsigned long long)number, pe);
}

wh_status whi_checkpoint_index(const char *folder, whi_blob *bytes, whi_saved_index *index) {
    const char *why = NULL;
    wh_status st = whi_disk_read(folder, WHI_CHECKPOINT_INDEX, false, bytes);
    if (st != WH_OK)
        return st;
    st = whi_saved_index_decode(bytes->data, bytes->size, index, &why);
    if (st == WH_EPROTOCOL)
        whi_log(WHI_ERROR, "E-CHARE-13", "%s/%s cannot be used: %s", folder, WHI_CHECKPOINT_INDEX,
                why);
    return st;
}

wh_status whi_checkpoint_refuse(const wh_pe *pe, const char *call, const char *folder,
                                const wh_callback *callback) {
    size_t length = folder ? strlen(folder) : 0;
    if (!pe || !whi_chares_get(pe))
        return whi_refuse_unregistered(pe, call, WH_EINVAL);
    if (!callback)
        return whi_refuse(WH_EINVAL, "E-CHARE-16",
                          "%s: callback is NULL: it is told how it went, or begin one of kind "
                          "WH_CALLBACK_NONE",
                          call);
    return whi_refuse(WH_EINVAL, "E-CHARE-16",
                      "%s: the name of the folder %s: give one of at most %d bytes", call,
                      length ? "is too long" : "is missing", WHI_CHECKPOINT_FOLDER_MAX);
}

void whi_checkpoint_fire(whi_chares *c, const wh_callback *callback, wh_status status) {
    int32_t value = status;
    wh_status st = c->reduce.fire(c->pe, callback, &value, sizeof(value));
    if (st == WH_OK)
        return;
    whi_text why = whi_why_callback(c->pe, callback, &value, sizeof(value), st);
    whi_chares_error(c, NULL, "the callback of a checkpoint cannot be carried out: %s",
                     *why.text ? why.text : wh_status_text(st));
}

// ---- Whether it can be saved.

static bool waits(const whi_element *element) {
    const whi_waits *w = element->waits;
    return w && (!whi_parked_empty(&w->parked) || whi_queue_first(&w->wants) ||
                 whi_queue_first(&w->posted) || whi_queue_first(&w->ahead) ||
                 !whi_list_empty(&w->threads));
}

// hindrance says why an element cannot be saved, or returns NULL.
static const char *hindrance(whi_chares *c, whi_element *element, wh_status *status) {
    *status = WH_ENOTSUP;
    if (element->collection->def.kind == WHI_SINGLES)
        return "it is a single chare";
    if (!element->cls->pack)
        return "its class has no pack and unpack (wh_class)";
    *status = WH_EBUSY;
    if (element->running || element->queued || element->moves_to >= 0 || waits(element))
        return "it waits for something";
    if (element->sync && element->sync->waits)
        return "it waits at its sync point";
    const char *why = element->cls->stays ? element->cls->stays(&element->pub, true) : NULL;
    whi_place_key key = whi_element_key(element);
    return why ? why
           : c->pe->above && c->pe->above->has(c->pe, &key)
               ? "it has a channel, or another element has opened one to it"
               : NULL;
}

static wh_status refuse(const whi_chares *c, const whi_collection *in, wh_status st,
                        const char *why) {
    return whi_refuse(st, "E-CHARE-12", "%s cannot be saved: %s",
                      whi_say_collection(c, in->def.id).text, why);
}

static bool is_reducing(const whi_reductions *of) {
    return of && !whi_list_empty(&of->rounds);
}

static wh_status refuse_element(const whi_chares *c, const whi_element *element, wh_status st,
                                const char *why) {
    return whi_refuse(st, "E-CHARE-12", "%s cannot be saved: %s",
                      whi_say_proxy(c, &element->pub.proxy).text, why);
}

static wh_status save(whi_chares *c, whi_element *element, whi_blob *to) {
    wh_status st;
    const char *why = hindrance(c, element, &st);
    if (why)
        return refuse_element(c, element, st, why);
    whi_saved_element saved = {.key = whi_element_key(element),
                               .reduces = element->reduces,
                               .size = element->cls->pack(&element->pub, NULL)};
    if (saved.size == WH_PACK_FAILED)
        return refuse_element(c, element, WH_ENOTSUP, "its class cannot pack it");
    // Packed to memory that is aligned as the unpacked is.
    void *bytes = whi_aligned_alloc(16, (saved.size + 16) / 16 * 16);
    void *space = bytes ? whi_saved_add(to, &saved) : NULL;
    st = space ? WH_OK : WH_ENOMEM;
    size_t packed = space ? element->cls->pack(&element->pub, bytes) : saved.size;
    if (packed != saved.size)
        st = whi_refuse(
            WH_EINVAL, "E-CHARE-12",
            "pack of class %s returns %zu bytes when it is asked for the size, and %zu when "
            "it writes %s: it must return the same",
            element->cls->name, saved.size, packed, whi_say_proxy(c, &element->pub.proxy).text);
    if (st == WH_OK)
        memcpy(space, bytes, saved.size);
    whi_free(bytes);
    return st;
}

wh_status whi_checkpoint_collect(whi_chares *c, whi_blob *to) {
    size_t cursor = 0;
    uint64_t id;
    whi_collection *in;
    while ((in = whi_hash_next(&c->collections, &cursor, &id))) {
        if (!in->known || in->ended)
            continue;
        if (in->inserting)
            return refuse(c, in, WH_EBUSY, "its elements are still inserted: see wh_array_done");
        if (is_reducing(in->reductions) || is_reducing(in->syncs))
            return refuse(c, in, WH_EBUSY,
                          "some elements have contributed to a reduction, or reached "
                          "a sync point, and others have not");
        if (whi_section_is_made(c, in))
            return refuse(c, in, WH_EBUSY, "there are sections of it, which would be lost");
        whi_list_foreach(node, &in->elements) {
            wh_status st = save(c, whi_container_of(node, whi_element, link), to);
            if (st != WH_OK)
                return st;
        }
    }
    return WH_OK;
}
