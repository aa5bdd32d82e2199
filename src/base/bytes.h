// SPDX-License-Identifier: BSD-3-Clause
//
// Cursors over wire formats: little-endian, bounds-checked, with an error that sticks.
//
// A reader that would pass the end of its bytes fails, and from then on yields zeros and NULLs; a
// writer that would pass the end of its buffer fails and writes nothing more.  So a decoder reads
// all its fields and asks once, at the end, whether they were all there.  Neither cursor allocates
// or owns bytes; each belongs to one thread.  The bytes must not change while they are read: copy
// what another process can write to before reading it.
#ifndef WHI_BASE_BYTES_H
#define WHI_BASE_BYTES_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct whi_reader {
    const uint8_t *next, *end;
    bool failed;
} whi_reader;

typedef struct whi_writer {
    uint8_t *begin, *next, *end;
    bool failed;
} whi_writer;

// whi_reader_init starts reading `size` bytes at `data`, which may be NULL when size is 0.
static inline void whi_reader_init(whi_reader *reader, const void *data, size_t size) {
    // An empty string stands in for NULL, so that whi_reader_bytes returns NULL on failure only.
    reader->next = data ? data : (const void *)"";
    reader->end = reader->next + size;
    reader->failed = false;
}

// whi_reader_left returns the bytes not yet read; 0 after a failure.
static inline size_t whi_reader_left(const whi_reader *reader) {
    return (size_t)(reader->end - reader->next);
}

// whi_reader_ok says whether everything that was asked for was there.
static inline bool whi_reader_ok(const whi_reader *reader) {
    return !reader->failed;
}

// whi_reader_done says whether everything was there and nothing is left over.
static inline bool whi_reader_done(const whi_reader *reader) {
    return !reader->failed && reader->next == reader->end;
}

// whi_reader_fail fails the reader by hand: for a decoder that met a value it does not accept.
static inline void whi_reader_fail(whi_reader *reader) {
    reader->failed = true;
    reader->next = reader->end;
}

// whi_reader_bytes passes over `size` bytes and returns where they are, or NULL when there are
// fewer.
static inline const void *whi_reader_bytes(whi_reader *reader, size_t size) {
    if (reader->failed || size > whi_reader_left(reader)) {
        whi_reader_fail(reader);
        return NULL;
    }
    const uint8_t *at = reader->next;
    reader->next += size;
    return at;
}

// whi_reader_copy reads `size` bytes into `to`; on failure `to` is filled with zeros.
static inline void whi_reader_copy(whi_reader *reader, void *to, size_t size) {
    const void *from = whi_reader_bytes(reader, size);
    if (!size)
        return;
    if (from)
        memcpy(to, from, size);
    else
        memset(to, 0, size);
}

// whi_load_u32 reads a number from bytes that are known to be there.
static inline uint32_t whi_load_u32(const void *from) {
    uint32_t value;
    memcpy(&value, from, sizeof(value));
    return le32toh(value);
}

static inline uint8_t whi_reader_u8(whi_reader *reader) {
    uint8_t value;
    whi_reader_copy(reader, &value, sizeof(value));
    return value;
}

static inline uint16_t whi_reader_u16(whi_reader *reader) {
    uint16_t value;
    whi_reader_copy(reader, &value, sizeof(value));
    return le16toh(value);
}

static inline uint32_t whi_reader_u32(whi_reader *reader) {
    uint32_t value;
    whi_reader_copy(reader, &value, sizeof(value));
    return le32toh(value);
}

static inline uint64_t whi_reader_u64(whi_reader *reader) {
    uint64_t value;
    whi_reader_copy(reader, &value, sizeof(value));
    return le64toh(value);
}

// whi_reader_f64 reads a double, of IEEE 754, as the bits of a u64; any bits may come, also no number.
static inline double whi_reader_f64(whi_reader *reader) {
    uint64_t bits = whi_reader_u64(reader);
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

// whi_writer_init starts writing into `size` bytes at `data`.
static inline void whi_writer_init(whi_writer *writer, void *data, size_t size) {
    writer->begin = writer->next = data;
    writer->end = size ? writer->begin + size : writer->begin;
    writer->failed = false;
}

// whi_writer_size returns the bytes written so far; after a failure, those before it.
static inline size_t whi_writer_size(const whi_writer *writer) {
    return (size_t)(writer->next - writer->begin);
}

// whi_writer_ok says whether everything has found its place.
static inline bool whi_writer_ok(const whi_writer *writer) {
    return !writer->failed;
}

// whi_writer_space passes over `size` bytes for the caller to fill, and returns where they are, or
// NULL when the buffer is too small.
static inline void *whi_writer_space(whi_writer *writer, size_t size) {
    if (writer->failed || size > (size_t)(writer->end - writer->next)) {
        writer->failed = true;
        return NULL;
    }
    uint8_t *at = writer->next;
    writer->next = size ? at + size : at;
    return at;
}

// whi_writer_bytes writes a copy of `size` bytes.
static inline void whi_writer_bytes(whi_writer *writer, const void *data, size_t size) {
    void *to = whi_writer_space(writer, size);
    if (to && size)
        memcpy(to, data, size);
}

// whi_store_u32 writes a number to space that is known to be there.
static inline void whi_store_u32(void *to, uint32_t value) {
    value = htole32(value);
    memcpy(to, &value, sizeof(value));
}

static inline void whi_writer_u8(whi_writer *writer, uint8_t value) {
    whi_writer_bytes(writer, &value, sizeof(value));
}

static inline void whi_writer_u16(whi_writer *writer, uint16_t value) {
    value = htole16(value);
    whi_writer_bytes(writer, &value, sizeof(value));
}

static inline void whi_writer_u32(whi_writer *writer, uint32_t value) {
    value = htole32(value);
    whi_writer_bytes(writer, &value, sizeof(value));
}

static inline void whi_writer_u64(whi_writer *writer, uint64_t value) {
    value = htole64(value);
    whi_writer_bytes(writer, &value, sizeof(value));
}

static inline void whi_writer_f64(whi_writer *writer, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    whi_writer_u64(writer, bits);
}

#endif
