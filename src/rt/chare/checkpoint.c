// SPDX-License-Identifier: BSD-3-Clause
//
// Writing a checkpoint.
//
// PE 0 is asked, waits until the job is quiet, and has all PEs write what they have.  When all files are on the disk, it writes the index
// under a temporary name and renames it: from then on the new checkpoint counts.  The files of the former one go after that.
#include <stdlib.h>

#include "rt/chare/checkpoint.h"
#include "rt/chare/disk.h"
#include "rt/chare/why.h"

#include "base/log.h"

enum { WROTE_SIZE = 20, MEMBER_SIZE = 12 };

typedef struct asked {  // of the PE that has asked
    whi_list link;
    uint64_t number;
    wh_callback callback;
    char folder[];
} asked;

struct whi_writing {  // of PE 0
    char folder[WHI_CHECKPOINT_FOLDER_MAX + 1];
    int asker;        // PE
    uint64_t number;  // as that one calls it
    uint64_t former;  // number of the one before; 0: there is none
    uint32_t former_pes;
    whi_saved_index index;
    uint32_t missing;  // PEs that have not answered
    wh_status status;
};

static void tell(whi_chares *c, int dest, whi_checkpoint_what what, const void *data, size_t size) {
    whi_head head = {.kind = WHI_HEAD_CHECKPOINT, .checkpoint = {.what = (uint8_t)what}};
    if (whi_chares_tell(c, dest, &head, data, size) == WH_ENOMEM)
        whi_pe_fail(c->pe, "there is no memory for a checkpoint");
}

wh_status wh_checkpoint_write(wh_pe *pe, const char *folder, const wh_callback *callback) {
    size_t length = folder ? strlen(folder) : 0;
    whi_chares *c = pe ? whi_chares_get(pe) : NULL;
    if (!c || !length || length > WHI_CHECKPOINT_FOLDER_MAX || !callback)
        return whi_checkpoint_refuse(pe, "wh_checkpoint_write", folder, callback);
    asked *a = whi_malloc(sizeof(*a) + length + 1);
    if (!a)
        return WH_ENOMEM;
    *a = (asked){.number = c->asked_count + 1, .callback = *callback};
    memcpy(a->folder, folder, length + 1);
    whi_head head = {.kind = WHI_HEAD_CHECKPOINT,
                     .checkpoint = {.what = WHI_CHECKPOINT_ASK, .number = a->number}};
    wh_status st = whi_chares_tell(c, 0, &head, folder, length);
    if (st != WH_OK) {
        whi_free(a);
        return st;
    }
    c->asked_count++;
    whi_list_push_back(&c->asked, &a->link);
    return WH_OK;
}

static wh_status take_done(whi_chares *c, const whi_head *head, const wh_pe_msg *msg) {
    whi_reader from;
    whi_reader_init(&from, msg->data, msg->size);
    wh_status st = (wh_status)(int32_t)whi_reader_u32(&from);
    if (msg->source || !whi_reader_done(&from))
        return WH_EPROTOCOL;
    whi_list_foreach(node, &c->asked) {
        asked *a = whi_container_of(node, asked, link);
        if (a->number != head->checkpoint.number)
            continue;
        whi_list_remove(&a->link);
        whi_checkpoint_fire(c, &a->callback, st);
        whi_free(a);
        return WH_OK;
    }
    return WH_EPROTOCOL;
}

// A callback is a message, which nobody would handle any more, but for a function of this PE.
static void call_function(whi_chares *c, const wh_callback *callback, wh_status status) {
    const whi_named *named = callback->kind == WH_CALLBACK_FUNCTION && callback->pe == c->pe->number
                                 ? whi_named_find(c, callback->function, WHI_NAMED_FUNCTION)
                                 : NULL;
    _Alignas(16) int32_t value = status;
    wh_call call = {.struct_size = sizeof(call),
                    .args = &value,
                    .size = sizeof(value),
                    .ref = callback->ref,
                    .source = c->pe->number};
    if (named)
        named->function(c->pe, &call, named->arg);
}

void whi_checkpoint_end(whi_chares *c, bool call) {
    whi_list *node;
    while ((node = whi_list_pop_front(&c->asked))) {
        asked *a = whi_container_of(node, asked, link);
        whi_log(
            WHI_WARN, "W-CHARE-03",
            "wh_checkpoint_write: the job has ended before PE %d heard that the checkpoint in %s is "
            "written, so it may hold the one before, or none: unless it was ended on purpose, or by an "
            "error, call wh_pe_exit in the callback (in Python charm.exit() behind the await)",
            c->pe->number, a->folder);
        if (call)
            call_function(c, &a->callback, WH_ECANCELLED);
        whi_free(a);
    }
}

// ---- Each PE.

static int by_id(const void *a, const void *b) {
    const whi_saved_collection *x = a, *y = b;
    return x->def.id < y->def.id ? -1 : x->def.id > y->def.id;
}

// list lists the collections that are known here.  WH_ENOMEM.
static wh_status list(whi_chares *c, whi_saved_index *index) {
    size_t cursor = 0;
    uint64_t id;
    const whi_collection *in;
    index->collections =
        whi_calloc(whi_hash_count(&c->collections) + 1, sizeof(*index->collections));
    if (!index->collections)
        return WH_ENOMEM;
    while ((in = whi_hash_next(&c->collections, &cursor, &id))) {
        if (!in->known || in->ended || in->def.kind == WHI_SINGLES)
            continue;
        whi_saved_collection *saved = &index->collections[index->count++];
        saved->def = in->def;
        saved->def.flags &= (uint8_t)~WH_ARRAY_INSERTING;
        whi_list_foreach(node, (whi_list *)(uintptr_t)&in->elements) saved->members +=
            whi_container_of(node, whi_element, link)->reduces;
    }
    qsort(index->collections, index->count, sizeof(*index->collections), by_id);
    return WH_OK;
}

static wh_status write_own(whi_chares *c, const char *folder, uint64_t number, uint64_t *size,
                           uint64_t *hash) {
    whi_blob bytes = {.data = NULL};
    char name[WHI_DISK_NAME_MAX];
    wh_status st = whi_saved_begin(&bytes, (uint32_t)c->pe->number, number);
    if (st == WH_OK)
        st = whi_checkpoint_collect(c, &bytes);
    if (st == WH_OK)
        st = whi_saved_end(&bytes);
    whi_checkpoint_name(name, sizeof(name), number, (uint32_t)c->pe->number);
    if (st == WH_OK)
        st = whi_disk_write(folder, name, bytes.data, bytes.size);
    *size = bytes.size;
    *hash = st == WH_OK ? whi_saved_hash(bytes.data, bytes.size) : 0;
    whi_blob_fini(&bytes);
    return st;
}

// write_part writes what this PE has, and answers.
static void write_part(whi_chares *c, const char *folder, uint64_t number) {
    whi_saved_index own = {.number = number};
    uint64_t size = 0, hash = 0;
    wh_status st = list(c, &own);
    if (st == WH_OK)
        st = write_own(c, folder, number, &size, &hash);
    size_t bytes = WROTE_SIZE + (size_t)own.count * MEMBER_SIZE;
    void *answer = whi_malloc(bytes);
    if (!answer) {
        whi_pe_fail(c->pe, "there is no memory for a checkpoint");
    } else {
        whi_writer to;
        whi_writer_init(&to, answer, bytes);
        whi_writer_u32(&to, (uint32_t)st);
        whi_writer_u64(&to, size);
        whi_writer_u64(&to, hash);
        for (uint32_t i = 0; i < own.count; i++) {
            whi_writer_u32(&to, own.collections[i].def.id);
            whi_writer_u64(&to, own.collections[i].members);
        }
        tell(c, 0, WHI_CHECKPOINT_WROTE, answer, bytes);
    }
    whi_free(answer);
    whi_saved_index_fini(&own);
}

static wh_status take_write(whi_chares *c, const whi_head *head, const wh_pe_msg *msg) {
    char folder[WHI_CHECKPOINT_FOLDER_MAX + 1] = "";
    if (!c->pe->number || msg->source != whi_tree_parent(c->pe->number) || !msg->size ||
        msg->size >= sizeof(folder))
        return WH_EPROTOCOL;
    memcpy(folder, msg->data, msg->size);
    wh_status st = whi_tree_tell(c, 0, head, msg->data, msg->size);
    if (st == WH_OK)
        write_part(c, folder, head->checkpoint.number);
    return st;
}

// ---- PE 0.

static void remove_files(const char *folder, uint64_t number, uint32_t pes) {
    char name[WHI_DISK_NAME_MAX];
    for (uint32_t i = 0; number && i < pes; i++) {
        whi_checkpoint_name(name, sizeof(name), number, i);
        whi_disk_remove(folder, name);
    }
}

static wh_status write_index(const struct whi_writing *w) {
    whi_blob bytes = {.data = NULL};
    wh_status st = whi_saved_index_encode(&w->index, &bytes);
    if (st == WH_OK)
        st = whi_disk_write(w->folder, WHI_CHECKPOINT_INDEX, bytes.data, bytes.size);
    whi_blob_fini(&bytes);
    return st;
}

// answer tells the PE that has asked how it went.
static void answer(whi_chares *c, int asker, uint64_t number, wh_status status) {
    uint8_t bytes[4];
    whi_writer to;
    whi_writer_init(&to, bytes, sizeof(bytes));
    whi_writer_u32(&to, (uint32_t)status);
    whi_head head = {.kind = WHI_HEAD_CHECKPOINT,
                     .checkpoint = {.what = WHI_CHECKPOINT_DONE, .number = number}};
    if (whi_chares_tell(c, asker, &head, bytes, sizeof(bytes)) == WH_ENOMEM)
        whi_pe_fail(c->pe, "there is no memory for a checkpoint");
}

static void finish(whi_chares *c) {
    struct whi_writing *w = c->writing;
    c->writing = NULL;
    if (w->status == WH_OK)
        w->status = write_index(w);
    if (w->status == WH_OK)
        remove_files(w->folder, w->former, w->former_pes);
    else
        remove_files(w->folder, w->index.number, w->index.pes);
    answer(c, w->asker, w->number, w->status);
    whi_saved_index_fini(&w->index);
    whi_free(w);
}

static wh_status take_wrote(whi_chares *c, const wh_pe_msg *msg) {
    struct whi_writing *w = c->writing;
    whi_reader from;
    whi_reader_init(&from, msg->data, msg->size);
    wh_status st = (wh_status)(int32_t)whi_reader_u32(&from);
    if (!w || !w->missing || c->pe->number || msg->source >= (int)w->index.pes)
        return WH_EPROTOCOL;
    whi_saved_file *file = &w->index.files[msg->source];
    file->size = whi_reader_u64(&from);
    file->hash = whi_reader_u64(&from);
    if (st != WH_OK && w->status == WH_OK)
        w->status = st;
    for (uint32_t i = 0; whi_reader_left(&from) && i < w->index.count; i++) {
        if (whi_reader_u32(&from) != w->index.collections[i].def.id)
            return WH_EPROTOCOL;  // at rest all PEs know the same ones
        w->index.collections[i].members += whi_reader_u64(&from);
    }
    if (!whi_reader_done(&from))
        return WH_EPROTOCOL;
    if (--w->missing == 0)
        finish(c);
    return WH_OK;
}

// begin: nothing is under way.
static void begin(wh_pe *pe, void *arg) {
    whi_chares *c = arg;
    struct whi_writing *w = c->writing;
    whi_saved_index *index = &w->index;
    w->missing = index->pes = (uint32_t)pe->pes;
    index->local = (uint32_t)whi_wire_local(pe->wire);
    index->files = whi_calloc(index->pes, sizeof(*index->files));
    wh_status st = index->files ? list(c, index) : WH_ENOMEM;
    for (uint32_t i = 0; st == WH_OK && i < index->count; i++)
        index->collections[i].members = 0;  // all PEs say how many they have, this one, too
    whi_head head = {.kind = WHI_HEAD_CHECKPOINT,
                     .checkpoint = {.what = WHI_CHECKPOINT_WRITE, .number = index->number}};
    if (st == WH_OK)
        st = whi_tree_tell(c, 0, &head, w->folder, strlen(w->folder));
    if (st == WH_OK)
        write_part(c, w->folder, index->number);
    else
        whi_pe_fail(pe, "a checkpoint cannot be written: %s", wh_status_text(st));
}

// former finds out which checkpoint there is.
static wh_status find_former(struct whi_writing *w) {
    whi_blob bytes = {.data = NULL};
    whi_saved_index there;
    wh_status st = whi_checkpoint_index(w->folder, &bytes, &there);
    if (st == WH_OK) {
        w->former = there.number;
        w->former_pes = there.pes;
        whi_saved_index_fini(&there);
    }
    w->index.number = w->former + 1;
    whi_blob_fini(&bytes);
    return st == WH_ENOTFOUND ? WH_OK : st;
}

static wh_status take_ask(whi_chares *c, const whi_head *head, const wh_pe_msg *msg) {
    uint64_t number = head->checkpoint.number;
    if (c->pe->number || !msg->size || msg->size > WHI_CHECKPOINT_FOLDER_MAX)
        return WH_EPROTOCOL;
    if (c->writing || c->reading) {
        answer(c, msg->source, number, WH_EBUSY);
        return WH_OK;
    }
    struct whi_writing *w = whi_calloc(1, sizeof(*w));
    if (!w)
        return WH_ENOMEM;
    w->asker = msg->source;
    w->number = number;
    memcpy(w->folder, msg->data, msg->size);
    wh_status st = find_former(w);
    if (st == WH_OK) {
        c->writing = w;
        return wh_pe_on_quiescence(c->pe, begin, c);
    }
    answer(c, msg->source, number, st);
    whi_free(w);
    return WH_OK;
}

wh_status whi_checkpoint_write_take(whi_chares *c, const whi_head *head, wh_pe_msg *msg) {
    if (head->checkpoint.what == WHI_CHECKPOINT_ASK)
        return take_ask(c, head, msg);
    if (head->checkpoint.what == WHI_CHECKPOINT_DONE)
        return take_done(c, head, msg);
    if (head->checkpoint.what == WHI_CHECKPOINT_WRITE)
        return take_write(c, head, msg);
    if (head->checkpoint.what == WHI_CHECKPOINT_WROTE)
        return take_wrote(c, msg);
    return WH_EPROTOCOL;
}

void whi_checkpoint_free(whi_chares *c) {
    whi_checkpoint_end(c, false);
    if (c->writing)
        whi_saved_index_fini(&c->writing->index);
    whi_free(c->writing);
    whi_free(c->reading);
}
