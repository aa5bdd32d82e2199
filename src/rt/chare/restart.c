// SPDX-License-Identifier: BSD-3-Clause
//
// Reading a checkpoint.
//
// The PE that is asked reads the index and tells all.  Each PE makes the collections, reads its share of the files and sends each element
// to where it is at first in this job.  When nothing is under way any more, all elements are there.
#include "base/log.h"
#include "rt/chare/checkpoint.h"
#include "rt/chare/disk.h"
#include "rt/chare/why.h"

enum { KEY_MAX = 64 };

struct whi_reading {  // of the PE that was asked
    wh_callback callback;
    wh_status status;
};

// ---- The PE that is asked.

// check says whether this PE has what the checkpoint names.
static wh_status check(whi_chares *c, const char *folder, const whi_saved_index *index) {
    for (uint32_t i = 0; i < index->count; i++) {
        const whi_collection_def *def = &index->collections[i].def;
        const whi_named *cls = whi_named_find(c, def->cls, WHI_NAMED_CLASS);
        const char *why = !cls               ? "its class is not registered"
                          : !cls->cls.unpack ? "its class does not say how it is unpacked"
                          : !whi_map_is_known(c, def->map) ? "its map is not registered"
                          : !whi_balancer_is_known(c, def->balance)
                              ? "its balancer is not registered"
                          : def->balance && def->resume >= cls->cls.entry_count
                              ? "its class lacks the entry `resume`"
                          : def->id < (unsigned)c->pe->pes ? "this job has too many PEs for it"
                                                           : NULL;
        if (why) {
            whi_log(WHI_ERROR, "E-CHARE-13",
                    "collection %u of %s%s%s cannot be made: %s; there are: %s", def->id, folder,
                    cls ? ", of class " : "", cls ? cls->name : "", why,
                    whi_say_names(c, !cls                                     ? WHI_NAMED_CLASS
                                     : !whi_map_is_known(c, def->map)         ? WHI_NAMED_MAP
                                     : whi_balancer_is_known(c, def->balance) ? WHI_NAMED_CLASS
                                                                              : WHI_NAMED_BALANCER)
                        .text);
            return WH_EINVAL;
        }
    }
    return WH_OK;
}

static void on_quiet(wh_pe *pe, void *arg) {
    (void)pe;
    whi_chares *c = arg;
    struct whi_reading *r = c->reading;
    c->reading = NULL;
    whi_checkpoint_fire(c, &r->callback, r->status);
    whi_free(r);
}

// begin tells all PEs.  The data is the length of the folder's name, the name, the index.
static wh_status begin(whi_chares *c, const char *folder, const whi_blob *index) {
    size_t length = strlen(folder), size = 4 + length + index->size;
    void *data = whi_malloc(size);
    if (!data)
        return WH_ENOMEM;
    whi_writer to;
    whi_writer_init(&to, data, size);
    whi_writer_u32(&to, (uint32_t)length);
    whi_writer_bytes(&to, folder, length);
    whi_writer_bytes(&to, index->data, index->size);
    whi_head head = {.kind = WHI_HEAD_CHECKPOINT,
                     .checkpoint = {.what = WHI_CHECKPOINT_READ, .from = (uint32_t)c->pe->number}};
    wh_status st = whi_chares_tell(c, c->pe->number, &head, data, size);
    whi_free(data);
    return st == WH_OK ? wh_pe_on_quiescence(c->pe, on_quiet, c) : st;
}

wh_status wh_checkpoint_read(wh_pe *pe, const char *folder, const wh_callback *callback) {
    whi_chares *c = pe ? whi_chares_get(pe) : NULL;
    size_t length = folder ? strlen(folder) : 0;
    if (!c || !length || length > WHI_CHECKPOINT_FOLDER_MAX || !callback)
        return whi_checkpoint_refuse(pe, "wh_checkpoint_read", folder, callback);
    if (whi_hash_count(&c->collections) > 1 || c->reading || c->writing)
        return whi_refuse(WH_EBUSY, "E-CHARE-16", "wh_checkpoint_read: %s is not read: %s", folder,
                          c->reading || c->writing
                              ? "another checkpoint is being read or written"
                              : "this job has made collections already: read it first of all");
    whi_blob bytes = {.data = NULL};
    whi_saved_index index = {.number = 0};
    wh_status st = whi_checkpoint_index(folder, &bytes, &index);
    if (st == WH_ENOTFOUND)
        whi_log(WHI_INFO, "I-CHARE-01", "there is no checkpoint in %s yet", folder);
    if (st == WH_OK)
        st = check(c, folder, &index);
    struct whi_reading *r = st == WH_OK ? whi_calloc(1, sizeof(*r)) : NULL;
    if (st == WH_OK && !r)
        st = WH_ENOMEM;
    if (st == WH_OK) {
        r->callback = *callback;
        c->reading = r;
        st = begin(c, folder, &bytes);
        if (st != WH_OK)
            c->reading = NULL;
        if (st != WH_OK)
            whi_free(r);
    }
    whi_saved_index_fini(&index);
    whi_blob_fini(&bytes);
    return st;
}

// ---- Each PE: its share of the files.

static void tell(whi_chares *c, int dest, whi_checkpoint_what what, uint64_t number, uint32_t from,
                 const void *data, size_t size) {
    whi_head head = {.kind = WHI_HEAD_CHECKPOINT,
                     .checkpoint = {.what = (uint8_t)what, .number = number, .from = from}};
    if (whi_chares_tell(c, dest, &head, data, size) == WH_ENOMEM)
        whi_pe_fail(c->pe, "there is no memory for a checkpoint");
}

static void report(whi_chares *c, uint32_t root, wh_status st) {
    uint8_t bytes[4];
    whi_writer to;
    whi_writer_init(&to, bytes, sizeof(bytes));
    whi_writer_u32(&to, (uint32_t)st);
    tell(c, (int)root, WHI_CHECKPOINT_FAILED, 0, root, bytes, sizeof(bytes));
}

// send sends an element to a PE: what is packed, so that it is aligned, then its key.
static wh_status send(whi_chares *c, int dest, const whi_saved_element *element, uint32_t root) {
    uint8_t *bytes = whi_malloc(element->size + KEY_MAX);
    if (!bytes)
        return WH_ENOMEM;
    whi_writer to;
    memcpy(bytes, element->data, element->size);
    whi_writer_init(&to, bytes + element->size, KEY_MAX);
    whi_place_key_write(&to, &element->key);
    whi_writer_u8(&to, element->reduces);
    tell(c, dest, WHI_CHECKPOINT_ELEMENT, element->size, root, bytes,
         element->size + whi_writer_size(&to));
    whi_free(bytes);
    return WH_OK;
}

// send_all sends an element to where it is in this job; one of a group to all PEs that take its state.
static wh_status send_all(whi_chares *c, const whi_saved_index *index, whi_saved_element *element,
                          uint32_t root) {
    const whi_collection *in = whi_collection_find(c, element->key.collection);
    uint32_t here = (uint32_t)c->pe->pes, local = (uint32_t)whi_wire_local(c->pe->wire);
    uint32_t old = index->pes, stride = 1;
    if (!in)
        return WH_ENOMEM;
    if (in->def.kind == WHI_ARRAY)
        return send(c, (int)whi_collection_home(c, &element->key), element, root);
    if (in->def.kind == WHI_NODE_GROUP) {
        old /= index->local;
        here /= local;
        stride = local;
    }
    if (element->key.index[0] < 0 || (uint32_t)element->key.index[0] >= old)
        return WH_EPROTOCOL;
    wh_status st = WH_OK;
    for (uint32_t at = (uint32_t)element->key.index[0]; st == WH_OK && at < here; at += old) {
        element->key.index[0] = (int32_t)at;
        st = send(c, (int)(at * stride), element, root);
    }
    return st;
}

static wh_status read_file(whi_chares *c, const char *folder, const whi_saved_index *index,
                           uint32_t pe, uint32_t root) {
    char name[WHI_DISK_NAME_MAX];
    const char *why = "an element in it cannot be";
    whi_blob bytes = {.data = NULL};
    whi_saved_element element;
    whi_reader from;
    whi_checkpoint_name(name, sizeof(name), index->number, pe);
    wh_status st = whi_disk_read(folder, name, true, &bytes);
    if (st == WH_OK)
        st = whi_saved_open(&from, bytes.data, bytes.size, pe, index, &why);
    while (st == WH_OK && whi_reader_left(&from)) {
        st = whi_saved_next(&from, index, &element, &why);
        if (st == WH_OK)
            st = send_all(c, index, &element, root);
    }
    if (st == WH_EPROTOCOL)
        whi_log(WHI_ERROR, "E-CHARE-13", "%s/%s cannot be used: %s", folder, name, why);
    whi_blob_fini(&bytes);
    return st;
}

static wh_status make_collections(whi_chares *c, const whi_saved_index *index) {
    wh_status st = WH_OK;
    for (uint32_t i = 0; st == WH_OK && i < index->count; i++)
        st = whi_collection_restore(c, &index->collections[i].def, index->collections[i].members);
    return st;
}

static wh_status take_read(whi_chares *c, const whi_head *head, const void *data, size_t size) {
    char folder[WHI_CHECKPOINT_FOLDER_MAX + 1] = "";
    const char *why;
    whi_saved_index index;
    whi_reader from;
    whi_reader_init(&from, data, size);
    uint32_t length = whi_reader_u32(&from), root = head->checkpoint.from;
    const void *name = whi_reader_bytes(&from, length);
    if (!name || length >= sizeof(folder))
        return WH_EPROTOCOL;
    memcpy(folder, name, length);
    size_t left = whi_reader_left(&from);
    wh_status st = whi_tree_tell(c, (int)root, head, data, size);
    if (st == WH_OK)
        st = whi_saved_index_decode(whi_reader_bytes(&from, left), left, &index, &why);
    if (st != WH_OK)
        return st;
    st = check(c, folder, &index);
    if (st == WH_OK)
        st = make_collections(c, &index);
    for (uint32_t pe = (uint32_t)c->pe->number; st == WH_OK && pe < index.pes;
         pe += (uint32_t)c->pe->pes)
        st = read_file(c, folder, &index, pe, root);
    if (st != WH_OK)
        report(c, root, st);
    whi_saved_index_fini(&index);
    return WH_OK;
}

// ---- Elements.

static wh_status make(whi_chares *c, whi_collection *in, const whi_place_key *key, bool reduces,
                      const void *data, size_t size) {
    whi_element *element = whi_element_new(c, in, in->cls, key);
    if (!element)
        return WH_ENOMEM;
    element->reduces = reduces;
    wh_status st = whi_places_insert(c->places, key, element);
    if (st != WH_OK)
        return st;
    whi_element_enter(element);
    st = element->cls->unpack(&element->pub, data, size);
    whi_element_leave(c, element);
    if (st != WH_OK)
        whi_log(WHI_ERROR, "E-CHARE-13",
                "unpack of class %s returns \"%s\" for the %zu bytes that pack has made of %s",
                in->cls->name, wh_status_text(st), size, whi_say_key(c, key).text);
    return st;
}

static wh_status take_element(whi_chares *c, const whi_head *head, wh_pe_msg *msg) {
    size_t size = head->checkpoint.number <= msg->size ? (size_t)head->checkpoint.number : 0;
    whi_place_key key;
    whi_reader from;
    whi_reader_init(&from, msg->data, msg->size);
    (void)whi_reader_bytes(&from, size);
    whi_place_key_read(&from, &key);
    uint8_t reduces = whi_reader_u8(&from);
    if (!whi_reader_done(&from) || head->checkpoint.number > msg->size || reduces > 1)
        return WH_EPROTOCOL;
    whi_collection *in = whi_collection_find(c, key.collection);
    if (in && !in->known) {  // the other PE was told earlier
        wh_pe_msg_keep(msg);
        c->pe->quiet.made++;
        whi_queue_push(&in->inserts, &whi_msg_of(msg)->link);
        return WH_OK;
    }
    if (!in || !in->cls || !in->cls->cls.unpack || in->def.dims != key.dims)
        return in ? WH_EPROTOCOL : WH_ENOMEM;
    wh_status st = make(c, in, &key, reduces, msg->data, size);
    if (st != WH_OK)
        report(c, head->checkpoint.from, st);
    return WH_OK;
}

static wh_status take_failed(whi_chares *c, const wh_pe_msg *msg) {
    whi_reader from;
    whi_reader_init(&from, msg->data, msg->size);
    wh_status st = (wh_status)(int32_t)whi_reader_u32(&from);
    if (!c->reading || !whi_reader_done(&from))
        return WH_EPROTOCOL;
    if (c->reading->status == WH_OK)
        c->reading->status = st;
    return WH_OK;
}

wh_status whi_checkpoint_read_take(whi_chares *c, const whi_head *head, wh_pe_msg *msg) {
    if (head->checkpoint.what == WHI_CHECKPOINT_READ)
        return take_read(c, head, msg->data, msg->size);
    if (head->checkpoint.what == WHI_CHECKPOINT_ELEMENT)
        return take_element(c, head, msg);
    if (head->checkpoint.what == WHI_CHECKPOINT_FAILED)
        return take_failed(c, msg);
    return WH_EPROTOCOL;
}
