// SPDX-License-Identifier: BSD-3-Clause
//
// Keys, stamps and controls as bytes, little-endian.
//
// A key is a byte of the number of dimensions and of how wide the others are, collection (1, 2 or 4), and the index (1, 2 or 4 for
// each dimension), no wider than they need: with it a call of few arguments has space in one cache line.  A stamp is a byte of flags and what
// those say is there: entry (8), via (8), at (8), source (4), which is otherwise who has sent it.  A message to an element
// that has never moved has a stamp of one byte.
#include "rt/move/stamp.h"

enum { HAS_ENTRY = 8, HAS_VIA = 16, HAS_AT = 32, HAS_SOURCE = 64 };
enum { FLAGS = WHI_STAMP_SETTLED | HAS_ENTRY | HAS_VIA | HAS_AT | HAS_SOURCE };

wh_status whi_place_key_make(uint32_t collection, const int32_t *index, int dims,
                             whi_place_key *key) {
    if (dims < 1 || dims > WHI_PLACE_DIMS_MAX)
        return WH_EINVAL;
    whi_place_key_set(key, collection, index, dims);
    return WH_OK;
}

// Widths as powers of two.
enum { DIMS = 7, INDEX_WIDTH = 3, COLLECTION_WIDTH = 5, WIDTH = 3, WIDTH_MAX = 2 };

static unsigned collection_width(uint32_t collection) {
    return collection <= UINT8_MAX ? 0 : collection <= UINT16_MAX ? 1 : WIDTH_MAX;
}

static unsigned index_width(const whi_place_key *key) {
    uint32_t all = 0;
    for (int i = 0; i < key->dims; i++)
        all |= (uint32_t)(key->index[i] ^ (key->index[i] >> 31));
    return all <= INT8_MAX ? 0 : all <= INT16_MAX ? 1 : WIDTH_MAX;
}

static uint8_t *store(uint8_t *to, uint32_t value, unsigned width) {
    if (width == WIDTH_MAX) {
        whi_store_u32(to, value);
    } else {
        to[0] = (uint8_t)value;
        if (width)
            to[1] = (uint8_t)(value >> 8);
    }
    return to + (1u << width);
}

static uint32_t load(const uint8_t *from, unsigned width) {
    return width == 0   ? from[0]
           : width == 1 ? from[0] | (uint32_t)from[1] << 8
                        : whi_load_u32(from);
}

static int32_t load_signed(const uint8_t *from, unsigned width) {
    uint32_t value = load(from, width);
    return width == 0 ? (int8_t)value : width == 1 ? (int16_t)value : (int32_t)value;
}

void whi_place_key_write(whi_writer *to, const whi_place_key *key) {
    unsigned wide = collection_width(key->collection), index = index_width(key);
    uint8_t *at = whi_writer_space(to, 1 + (1u << wide) + ((size_t)key->dims << index));
    if (!at)
        return;
    *at++ = (uint8_t)(key->dims | index << INDEX_WIDTH | wide << COLLECTION_WIDTH);
    at = store(at, key->collection, wide);
    for (int i = 0; i < key->dims; i++)
        at = store(at, (uint32_t)key->index[i], index);
}

// There is one encoding of each key.
void whi_place_key_read(whi_reader *from, whi_place_key *key) {
    uint8_t first = whi_reader_u8(from), dims = first & DIMS;
    unsigned index = first >> INDEX_WIDTH & WIDTH, wide = first >> COLLECTION_WIDTH;
    const uint8_t *at = NULL;
    if (dims < 1 || dims > WHI_PLACE_DIMS_MAX || index > WIDTH_MAX || wide > WIDTH_MAX)
        whi_reader_fail(from);
    else
        at = whi_reader_bytes(from, (1u << wide) + ((size_t)dims << index));
    if (!at) {
        *key = (whi_place_key){.collection = 0};
        return;
    }
    int32_t indices[WHI_PLACE_DIMS_MAX];
    uint32_t collection = load(at, wide);
    at += 1u << wide;
    for (int i = 0; i < dims; i++, at += 1u << index)
        indices[i] = load_signed(at, index);
    whi_place_key_set(key, collection, indices, dims);
    if (collection_width(key->collection) != wide || index_width(key) != index)
        whi_reader_fail(from);
}

static void number_write(whi_writer *to, uint64_t number) {
    if (number)
        whi_writer_u64(to, number);
}

// A number that is said to be there is not 0: there is one encoding of each stamp.
static uint64_t number_read(whi_reader *from, bool there) {
    uint64_t number = there ? whi_reader_u64(from) : 0;
    if (there && !number)
        whi_reader_fail(from);
    return number;
}

static void stamp_write(whi_writer *to, const whi_place_stamp *stamp) {
    unsigned flags = stamp->flags | HAS_SOURCE * (stamp->at != stamp->entry || stamp->via != 0);
    flags |= (stamp->entry ? HAS_ENTRY : 0u) | (stamp->via ? HAS_VIA : 0u);
    flags |= stamp->at ? HAS_AT : 0u;
    whi_writer_u8(to, (uint8_t)flags);
    if (flags == stamp->flags)
        return;
    number_write(to, stamp->entry);
    number_write(to, stamp->via);
    number_write(to, stamp->at);
    if (flags & HAS_SOURCE)
        whi_writer_u32(to, stamp->source);
}

// What has been passed on names its source; what has not comes from there.
static void stamp_read(whi_reader *from, uint32_t sender, uint32_t pes, whi_place_stamp *stamp) {
    uint8_t flags = whi_reader_u8(from);
    *stamp = (whi_place_stamp){.source = sender, .flags = flags & WHI_STAMP_SETTLED};
    if (!flags)
        return;  // of an element that has never moved
    stamp->entry = number_read(from, flags & HAS_ENTRY);
    stamp->via = number_read(from, flags & HAS_VIA);
    stamp->at = number_read(from, flags & HAS_AT);
    bool passed = stamp->at != stamp->entry || stamp->via != 0;
    if (flags & HAS_SOURCE)
        stamp->source = whi_reader_u32(from);
    if (flags & ~FLAGS || passed != !!(flags & HAS_SOURCE) || stamp->source >= pes ||
        stamp->entry > stamp->at || stamp->via > stamp->at || (stamp->entry && stamp->via) ||
        ((flags & WHI_STAMP_SETTLED) && !stamp->at))
        whi_reader_fail(from);
}

void whi_place_message_write(whi_writer *to, const whi_place_message *message) {
    whi_place_key_write(to, &message->key);
    stamp_write(to, &message->stamp);
}

void whi_place_message_read(whi_reader *from, uint32_t sender, uint32_t pes,
                            whi_place_message *message) {
    *message = (whi_place_message){.kind = WHI_PLACE_MESSAGE};
    whi_place_key_read(from, &message->key);
    stamp_read(from, sender, pes, &message->stamp);
}

size_t whi_place_message_encode(const whi_place_message *message, void *bytes) {
    whi_writer to;
    whi_writer_init(&to, bytes, WHI_PLACE_ENCODED_MAX);
    whi_place_message_write(&to, message);
    return whi_writer_size(&to);
}

wh_status whi_place_message_decode(const void *bytes, size_t size, uint32_t from, uint32_t pes,
                                   whi_place_message *message, size_t *used) {
    whi_reader reader;
    whi_reader_init(&reader, bytes, size);
    whi_place_message_read(&reader, from, pes, message);
    if (!whi_reader_ok(&reader))
        return WH_EPROTOCOL;
    *used = size - whi_reader_left(&reader);
    return WH_OK;
}

size_t whi_place_control_encode(const whi_place_control *control, void *bytes) {
    whi_writer to;
    whi_writer_init(&to, bytes, WHI_PLACE_ENCODED_MAX);
    whi_writer_u8(&to, control->kind);
    whi_place_key_write(&to, &control->key);
    if (control->kind <= WHI_PLACE_IN_ORDER)
        stamp_write(&to, &control->stamp);
    if (control->kind != WHI_PLACE_END)
        whi_writer_u64(&to, control->number);
    return whi_writer_size(&to);
}

// Whether the fields of a control go together.
static bool makes_sense(const whi_place_control *c) {
    const whi_place_stamp *s = &c->stamp;
    switch (c->kind) {
    case WHI_PLACE_MARKER: return !s->flags && c->number != s->entry;
    case WHI_PLACE_HOME_MARKER: return !s->flags && s->via && c->number != s->via;
    case WHI_PLACE_END: return !s->flags && s->at && !s->entry && !s->via;
    case WHI_PLACE_NEW:
    case WHI_PLACE_LEAVE:
    case WHI_PLACE_RELEASE: return c->number != 0;
    default: return false;
    }
}

wh_status whi_place_control_decode(const void *bytes, size_t size, uint32_t from, uint32_t pes,
                                   whi_place_control *control) {
    whi_reader reader;
    whi_reader_init(&reader, bytes, size);
    whi_place_control read = {.kind = whi_reader_u8(&reader)};
    read.stamp.source = from;
    whi_place_key_read(&reader, &read.key);
    if (read.kind <= WHI_PLACE_IN_ORDER)
        stamp_read(&reader, from, pes, &read.stamp);
    if (read.kind != WHI_PLACE_END)
        read.number = whi_reader_u64(&reader);
    if (!whi_reader_done(&reader) || !makes_sense(&read))
        return WH_EPROTOCOL;
    *control = read;
    return WH_OK;
}
