// SPDX-License-Identifier: BSD-3-Clause
//
// What stands in front of a message between PEs, and what a PE says of itself when it connects.
//
// The head follows, and zeros up to a multiple of 16, so that both it and the data are aligned in the memory that the engine
// keeps them in.
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

enum {
    WHI_ENVELOPE_SIZE = 8,
    WHI_ENVELOPE_MAX = (WHI_ENVELOPE_SIZE + WH_PE_HEAD_MAX + 15) / 16 * 16,
};
_Static_assert(WHI_ENVELOPE_MAX <= WH_AM_HEADER_MAX, "it fits");

static inline size_t whi_envelope_space(size_t head_size) {
    return (WHI_ENVELOPE_SIZE + head_size + 15) / 16 * 16;
}

// whi_envelope_write returns the bytes written to `to`, which has WHI_ENVELOPE_MAX.
static inline size_t whi_envelope_write(const whi_envelope *envelope, const void *head, void *to) {
    size_t space = whi_envelope_space(envelope->head_size);
    whi_writer w;
    whi_writer_init(&w, to, space);
    whi_writer_u16(&w, envelope->handler);
    whi_writer_u16(&w, envelope->head_size);
    whi_writer_u32(&w, (uint32_t)envelope->priority);
    whi_writer_bytes(&w, head, envelope->head_size);
    memset(w.next, 0, (size_t)(w.end - w.next));
    return space;
}

// whi_envelope_read says whether `size` bytes are an envelope with its head, which then begins at WHI_ENVELOPE_SIZE.
static inline bool whi_envelope_read(whi_envelope *envelope, const void *from, size_t size) {
    whi_reader r;
    whi_reader_init(&r, from, size);
    envelope->handler = whi_reader_u16(&r);
    envelope->head_size = whi_reader_u16(&r);
    envelope->priority = (int32_t)whi_reader_u32(&r);
    return whi_reader_ok(&r) && envelope->head_size <= WH_PE_HEAD_MAX &&
           size == whi_envelope_space(envelope->head_size);
}

// What an endpoint between PEs is for.
typedef enum whi_lane_use { WHI_USE_CONTROL, WHI_USE_DATA, WHI_USES } whi_lane_use;

enum { WHI_TICKET_SIZE = 16, WHI_GREETING_SIZE = 12 + WHI_TICKET_SIZE, WHI_GREETING_VERSION = 1 };
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
