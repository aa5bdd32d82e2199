// SPDX-License-Identifier: BSD-3-Clause
//
// What a PE has of a checkpoint: its elements, if all of them can be saved; and what both who write and who read use.
#include <stdio.h>

#include "base/log.h"
#include "rt/chare/checkpoint.h"
#include "rt/chare/disk.h"
#include "rt/chare/reduce.h"

void whi_checkpoint_name(char *name, size_t size, uint64_t number, uint32_t pe) {
    snprintf(name, size, "%llu.pe-%u", (unsigned long long)number, pe);
}

wh_status whi_checkpoint_index(const char *folder, bool must, whi_blob *bytes,
                               whi_saved_index *index) {
    const char *why = NULL;
    wh_status st = whi_disk_read(folder, WHI_CHECKPOINT_INDEX, must, bytes);
    if (st != WH_OK)
        return st;
    st = whi_saved_index_decode(bytes->data, bytes->size, index, &why);
    if (st == WH_EPROTOCOL)
        whi_log(WHI_ERROR, "E-CHARE-13", "%s/%s cannot be used: %s", folder, WHI_CHECKPOINT_INDEX,
                why);
    return st;
}

void whi_checkpoint_fire(whi_chares *c, const wh_callback *callback, wh_status status) {
    int32_t value = status;
    wh_status st = c->reduce.fire(c->pe, callback, &value, sizeof(value));
    if (st != WH_OK)
        whi_chares_error(c, NULL, "the callback of a checkpoint cannot be carried out: %s",
                         wh_status_text(st));
}

// ---- Whether it can be saved.

static bool waits(const whi_element *element) {
    const whi_waits *w = element->waits;
    return w && (!whi_parked_empty(&w->parked) || whi_queue_first(&w->wants) ||
                 whi_queue_first(&w->posted) || whi_queue_first(&w->ahead) ||
                 !whi_list_empty(&w->threads));
}

// hindrance says why an element cannot be saved, or returns NULL.
static const char *hindrance(whi_chares *c, const whi_element *element, wh_status *status) {
    *status = WH_ENOTSUP;
    if (element->collection->def.kind == WHI_SINGLES)
        return "it is a single chare";
    if (!element->cls->pack)
        return "its class does not say how it is packed";
    *status = WH_EBUSY;
    if (element->running || element->queued || element->moves_to >= 0 || waits(element))
        return "it waits for something";
    if (element->sync && element->sync->waits)
        return "it waits at its sync point";
    return whi_move_hindrance(c, element);
}

static wh_status refuse(const whi_collection *in, wh_status st, const char *why) {
    whi_log(WHI_ERROR, "E-CHARE-12", "collection %u cannot be saved: %s", in->def.id, why);
    return st;
}

static bool is_reducing(const whi_reductions *of) {
    return of && !whi_list_empty(&of->rounds);
}

static wh_status save(whi_chares *c, whi_element *element, whi_blob *to) {
    wh_status st;
    const char *why = hindrance(c, element, &st);
    if (why) {
        whi_log(WHI_ERROR, "E-CHARE-12",
                "element (%d, ...) of collection %u, of class %s, cannot be saved: %s",
                element->pub.proxy.index[0], element->pub.proxy.collection, element->cls->name,
                why);
        return st;
    }
    whi_saved_element saved = {.key = whi_element_key(element),
                               .reduces = element->reduces,
                               .size = element->cls->pack(&element->pub, NULL)};
    // Packed to memory that is aligned as the unpacked is.
    void *bytes = whi_aligned_alloc(16, (saved.size + 16) / 16 * 16);
    void *space = bytes ? whi_saved_add(to, &saved) : NULL;
    st = space ? WH_OK : WH_ENOMEM;
    if (space && element->cls->pack(&element->pub, bytes) != saved.size)
        st = refuse(element->collection, WH_EINVAL,
                    "an element packs another number of bytes than it has said");
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
            return refuse(in, WH_EBUSY, "its elements are still inserted");
        if (is_reducing(in->reductions) || is_reducing(in->syncs))
            return refuse(in, WH_EBUSY,
                          "some elements have contributed to a reduction, or reached "
                          "a sync point, and others have not");
        whi_list_foreach(node, &in->elements) {
            wh_status st = save(c, whi_container_of(node, whi_element, link), to);
            if (st != WH_OK)
                return st;
        }
    }
    return WH_OK;
}
