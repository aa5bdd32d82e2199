// SPDX-License-Identifier: BSD-3-Clause
//
// Checkpoints as bytes, little-endian.
//
// Every file begins with "WHERRYCP", the version, and what it is (4 bytes each).  A description of a collection is that of the message
// that makes one (head.c).
#include "rt/chare/saved.h"

#include "base/hash.h"

enum { VERSION = 1, INDEX = 1, DATA = 2, TITLE = 16, HASH = 8, INDEX_HEAD = 24, DATA_HEAD = 16 };
static const char magic[8] = {'W', 'H', 'E', 'R', 'R', 'Y', 'C', 'P'};

uint64_t whi_saved_hash(const void *data, size_t size) {
    return whi_hash_bytes(data, size);
}

static void write_title(whi_writer *to, uint32_t what) {
    whi_writer_bytes(to, magic, sizeof(magic));
    whi_writer_u32(to, VERSION);
    whi_writer_u32(to, what);
}

static wh_status add_hash(whi_blob *to) {
    uint64_t hash = whi_saved_hash(to->data, to->size);
    whi_writer end;
    void *bytes = whi_blob_add(to, HASH);
    if (!bytes)
        return WH_ENOMEM;
    whi_writer_init(&end, bytes, HASH);
    whi_writer_u64(&end, hash);
    return WH_OK;
}

// check_whole leaves a reader behind the title, with the hash taken off.
static wh_status check_whole(whi_reader *from, const void *data, size_t size, uint32_t what,
                             const char **why) {
    whi_reader end;
    if (size < TITLE + HASH || memcmp(data, magic, sizeof(magic)) != 0) {
        *why = "it is no checkpoint, or only the begin of one";
        return WH_EPROTOCOL;
    }
    whi_reader_init(&end, (const char *)data + size - HASH, HASH);
    whi_reader_init(from, data, size - HASH);
    (void)whi_reader_bytes(from, sizeof(magic));
    if (whi_reader_u32(from) != VERSION)
        *why = "another version of Wherry has written it";
    else if (whi_reader_u32(from) != what)
        *why = "it is another file of a checkpoint";
    else if (whi_reader_u64(&end) != whi_saved_hash(data, size - HASH))
        *why = "it has been changed or cut off: its hash is wrong";
    else
        return WH_OK;
    return WH_EPROTOCOL;
}

// ---- The index.

static wh_status encode_collection(const whi_saved_collection *saved, whi_blob *to) {
    whi_head head = {.kind = WHI_HEAD_CREATE, .create = saved->def};
    uint8_t bytes[WHI_HEAD_MAX];
    size_t size = whi_head_encode(&head, bytes);
    void *space = whi_blob_add(to, 12 + size);
    if (!space)
        return WH_ENOMEM;
    whi_writer w;
    whi_writer_init(&w, space, 12 + size);
    whi_writer_u64(&w, saved->members);
    whi_writer_u32(&w, (uint32_t)size);
    whi_writer_bytes(&w, bytes, size);
    return WH_OK;
}

wh_status whi_saved_index_encode(const whi_saved_index *index, whi_blob *to) {
    whi_writer w;
    void *head = whi_blob_add(to, TITLE + INDEX_HEAD);
    if (!head)
        return WH_ENOMEM;
    whi_writer_init(&w, head, TITLE + INDEX_HEAD);
    write_title(&w, INDEX);
    whi_writer_u64(&w, index->number);
    whi_writer_u32(&w, index->pes);
    whi_writer_u32(&w, index->local);
    whi_writer_u32(&w, index->count);
    whi_writer_u32(&w, 0);
    for (uint32_t i = 0; i < index->count; i++)
        if (encode_collection(&index->collections[i], to) != WH_OK)
            return WH_ENOMEM;
    size_t size = (size_t)index->pes * 16;
    void *files = whi_blob_add(to, size);
    if (!files)
        return WH_ENOMEM;
    whi_writer_init(&w, files, size);
    for (uint32_t i = 0; i < index->pes; i++) {
        whi_writer_u64(&w, index->files[i].size);
        whi_writer_u64(&w, index->files[i].hash);
    }
    return add_hash(to);
}

static void decode_collection(whi_reader *from, uint32_t pes, whi_saved_collection *saved) {
    whi_head head = {.kind = 0};
    saved->members = whi_reader_u64(from);
    uint32_t size = whi_reader_u32(from);
    const void *bytes = whi_reader_bytes(from, size);
    if (!bytes || whi_head_decode(bytes, size, 0, pes, &head) != WH_OK ||
        head.kind != WHI_HEAD_CREATE)
        whi_reader_fail(from);
    saved->def = head.create;
}

void whi_saved_index_fini(whi_saved_index *index) {
    whi_free(index->collections);
    whi_free(index->files);
    *index = (whi_saved_index){.number = 0};
}

static wh_status decode_index(whi_reader *from, whi_saved_index *index) {
    index->number = whi_reader_u64(from);
    index->pes = whi_reader_u32(from);
    index->local = whi_reader_u32(from);
    index->count = whi_reader_u32(from);
    uint32_t reserved = whi_reader_u32(from);
    if (!whi_reader_ok(from) || reserved || !index->pes || index->pes > WHI_SAVED_PES_MAX ||
        !index->local || index->pes % index->local || index->count > whi_reader_left(from) / 12 ||
        index->pes > whi_reader_left(from) / 16)
        return WH_EPROTOCOL;
    index->collections = whi_calloc((size_t)index->count + 1, sizeof(*index->collections));
    index->files = whi_calloc(index->pes, sizeof(*index->files));
    if (!index->collections || !index->files)
        return WH_ENOMEM;
    for (uint32_t i = 0; i < index->count; i++) {
        decode_collection(from, index->pes, &index->collections[i]);
        if (i && index->collections[i].def.id <= index->collections[i - 1].def.id)
            whi_reader_fail(from);
    }
    for (uint32_t i = 0; i < index->pes; i++) {
        index->files[i].size = whi_reader_u64(from);
        index->files[i].hash = whi_reader_u64(from);
    }
    return whi_reader_done(from) ? WH_OK : WH_EPROTOCOL;
}

wh_status whi_saved_index_decode(const void *data, size_t size, whi_saved_index *index,
                                 const char **why) {
    whi_reader from;
    *index = (whi_saved_index){.number = 0};
    wh_status st = check_whole(&from, data, size, INDEX, why);
    if (st != WH_OK)
        return st;
    st = decode_index(&from, index);
    *why = "what it says cannot be";
    if (st != WH_OK)
        whi_saved_index_fini(index);
    return st;
}

// ---- A PE's file.

wh_status whi_saved_begin(whi_blob *to, uint32_t pe, uint64_t number) {
    whi_writer w;
    void *head = whi_blob_add(to, TITLE + DATA_HEAD);
    if (!head)
        return WH_ENOMEM;
    whi_writer_init(&w, head, TITLE + DATA_HEAD);
    write_title(&w, DATA);
    whi_writer_u32(&w, pe);
    whi_writer_u32(&w, 0);
    whi_writer_u64(&w, number);
    return WH_OK;
}

void *whi_saved_add(whi_blob *to, const whi_saved_element *element) {
    uint8_t head[64];
    whi_writer w;
    whi_writer_init(&w, head, sizeof(head));
    whi_place_key_write(&w, &element->key);
    whi_writer_u8(&w, element->reduces);
    whi_writer_u64(&w, element->size);
    size_t used = whi_writer_size(&w);
    uint8_t *bytes = whi_blob_add(to, used + element->size);
    if (!bytes)
        return NULL;
    memcpy(bytes, head, used);
    return bytes + used;
}

wh_status whi_saved_end(whi_blob *to) {
    return add_hash(to);
}

wh_status whi_saved_open(whi_reader *from, const void *data, size_t size, uint32_t pe,
                         const whi_saved_index *index, const char **why) {
    wh_status st = check_whole(from, data, size, DATA, why);
    if (st != WH_OK)
        return st;
    *why = "it belongs to another checkpoint, or another PE";
    const whi_saved_file *file = &index->files[pe];
    if (whi_reader_u32(from) != pe || whi_reader_u32(from) != 0 ||
        whi_reader_u64(from) != index->number || file->size != size ||
        file->hash != whi_saved_hash(data, size))
        return WH_EPROTOCOL;
    return WH_OK;
}

static const whi_saved_collection *find(const whi_saved_index *index, uint32_t id) {
    size_t low = 0, high = index->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (index->collections[middle].def.id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < index->count && index->collections[low].def.id == id ? &index->collections[low]
                                                                      : NULL;
}

wh_status whi_saved_next(whi_reader *from, const whi_saved_index *index, whi_saved_element *element,
                         const char **why) {
    whi_place_key_read(from, &element->key);
    element->reduces = whi_reader_u8(from);
    uint64_t size = whi_reader_u64(from);
    element->data = size <= whi_reader_left(from) ? whi_reader_bytes(from, (size_t)size) : NULL;
    element->size = (size_t)size;
    const whi_saved_collection *in = find(index, element->key.collection);
    *why = "an element in it cannot be";
    if (!element->data || !whi_reader_ok(from) || element->reduces > 1 || !in ||
        in->def.dims != element->key.dims)
        return WH_EPROTOCOL;
    return WH_OK;
}
