// SPDX-License-Identifier: BSD-3-Clause
//
// What stands in front of a message's data between PEs, and what a PE says of itself when it connects.
//
// In front of the data: the head, zeros up to a multiple of 16, and the envelope in the last bytes of that, so that both head and
// data are aligned in the memory that the engine keeps them in.  A short head and the envelope are 16 bytes, and with as many of data one
// cache line of the shared-memory lane.
#ifndef WHI_RT_WIRE_ENVELOPE_H
#define WHI_RT_WIRE_ENVELOPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/am.h>
#include <wherry/rt.h>

#include "base/bytes.h"

typedef struct whi_envelope {
    uint16_t handler;
    uint16_t head_size;
    int32_t priority;
} whi_envelope;

// The envelope: priority (4), if it is not 0; handler (2), bytes of the head (2), of which the highest bit says that there is a
// priority.
enum {
    WHI_ENVELOPE_SIZE = 4,
    WHI_ENVELOPE_PRIORITY = 4,
    WHI_ENVELOPE_MAX = (WH_PE_HEAD_MAX + WHI_ENVELOPE_SIZE + WHI_ENVELOPE_PRIORITY + 15) / 16 * 16,
    WHI_ENVELOPE_HAS_PRIORITY = 0x8000,
};
_Static_assert(WHI_ENVELOPE_MAX <= WH_AM_HEADER_MAX, "it fits");
_Static_assert(WH_PE_HEAD_MAX < WHI_ENVELOPE_HAS_PRIORITY, "the bit is free");

// whi_envelope_space_of and whi_envelope_space return the bytes of head and envelope together.
static inline size_t whi_envelope_space_of(size_t head_size, int32_t priority) {
    size_t size = WHI_ENVELOPE_SIZE + (priority ? WHI_ENVELOPE_PRIORITY : 0u);
    return (head_size + size + 15) / 16 * 16;
}
static inline size_t whi_envelope_space(const whi_envelope *envelope) {
    return whi_envelope_space_of(envelope->head_size, envelope->priority);
}

// whi_envelope_write returns the bytes written to `to`, which has WHI_ENVELOPE_MAX; the head may be there already.
static inline size_t whi_envelope_write(const whi_envelope *envelope, const void *head, void *to) {
    size_t space = whi_envelope_space(envelope);
    uint8_t *bytes = to;
    uint32_t word = envelope->head_size | (envelope->priority ? WHI_ENVELOPE_HAS_PRIORITY : 0u);
    if (envelope->head_size && head != to)
        memcpy(bytes, head, envelope->head_size);
    memset(bytes + envelope->head_size, 0, space - envelope->head_size);
    if (envelope->priority)
        whi_store_u32(bytes + space - 8, (uint32_t)envelope->priority);
    whi_store_u32(bytes + space - 4, word << 16 | envelope->handler);
    return space;
}

// whi_envelope_read says whether `size` bytes are a head, which they begin with, and its envelope.
static inline bool whi_envelope_read(whi_envelope *envelope, const void *from, size_t size) {
    if (size < 16)
        return false;
    const uint8_t *end = (const uint8_t *)from + size;
    uint32_t word = whi_load_u32(end - 4);
    bool priority = word >> 16 & WHI_ENVELOPE_HAS_PRIORITY;
    envelope->handler = (uint16_t)word;
    envelope->head_size = (uint16_t)(word >> 16 & ~(uint32_t)WHI_ENVELOPE_HAS_PRIORITY);
    envelope->priority = priority ? (int32_t)whi_load_u32(end - 8) : 0;
    return envelope->head_size <= WH_PE_HEAD_MAX && priority == (envelope->priority != 0) &&
           size == whi_envelope_space(envelope);
}

// What an endpoint between PEs is for.
typedef enum whi_lane_use { WHI_USE_CONTROL, WHI_USE_DATA, WHI_USES } whi_lane_use;

enum { WHI_TICKET_SIZE = 16, WHI_GREETING_SIZE = 12 + WHI_TICKET_SIZE, WHI_GREETING_VERSION = 2 };
#define WHI_GREETING_MAGIC 0x52485757u  // "WWHR"

typedef struct whi_greeting {
    whi_lane_use use;
    uint32_t pe;                      // who connects
    uint8_t ticket[WHI_TICKET_SIZE];  // of its job
} whi_greeting;

static inline void whi_greeting_write(const whi_greeting *greeting, void *to) {
    whi_writer w;
    whi_writer_init(&w, to, WHI_GREETING_SIZE);
    whi_writer_u32(&w, WHI_GREETING_MAGIC);
    whi_writer_u16(&w, WHI_GREETING_VERSION);
    whi_writer_u16(&w, (uint16_t)greeting->use);
    whi_writer_u32(&w, greeting->pe);
    whi_writer_bytes(&w, greeting->ticket, WHI_TICKET_SIZE);
}

// whi_greeting_read: WH_EPROTOCOL for what is no greeting, WH_EVERSION for one of another version.
WH_CHECK static inline wh_status whi_greeting_read(whi_greeting *greeting, const void *from,
                                                   size_t size) {
    whi_reader r;
    whi_reader_init(&r, from, size);
    uint32_t magic = whi_reader_u32(&r);
    uint16_t version = whi_reader_u16(&r), use = whi_reader_u16(&r);
    if (!whi_reader_ok(&r) || magic != WHI_GREETING_MAGIC)
        return WH_EPROTOCOL;
    if (version != WHI_GREETING_VERSION)
        return WH_EVERSION;
    greeting->use = (whi_lane_use)use;
    greeting->pe = whi_reader_u32(&r);
    whi_reader_copy(&r, greeting->ticket, WHI_TICKET_SIZE);
    return whi_reader_done(&r) && use < WHI_USES ? WH_OK : WH_EPROTOCOL;
}

#endif
