// SPDX-License-Identifier: BSD-3-Clause
//
// Objects on the wire: building an envelope, reading one, giving each frame its memory.
#ifndef WHI_MESSAGE_OBJECTS_H
#define WHI_MESSAGE_OBJECTS_H

#include <string.h>

#include "message/plain.h"
#include "message/recv.h"

// What the request of an object, sent or received, has of its own.
typedef struct whi_object_own {
    wh_object *object;   // being received
    whi_buffer *frames;  // of an object that is sent, or destinations that were given
    size_t frame_count;
    whi_buffer frame;          // where `frames` points when there is one
    whi_allocator *allocator;  // of this receive alone (frames.c)
    uint8_t envelope_made;     // of one that is sent: the buffer is its envelope, and the request's
    uint8_t packs_all;         // none of its frames follows its envelope
} whi_object_own;
static_assert(sizeof(whi_object_own) <= WHI_REQ_OWN, "it fits");

static inline whi_object_own *whi_object_of(const wh_request *req) {
    return (whi_object_own *)(uintptr_t)req->own;
}

extern const whi_req_ops whi_object_send_ops, whi_object_recv_ops;

// Host frames up to WHI_PACKED_MAX ride in the envelope, less when there are so many that it would exceed WHI_PACKED_ALL: what a
// receiver allocates for an envelope must be bounded.
enum { WHI_PACKED_MAX = 4096, WHI_PACKED_ALL = 1 << 20 };

// An envelope that is being written: the next entry of its table, and the next packed byte.
typedef struct whi_envelope_writer {
    char *table, *at;
} whi_envelope_writer;

// whi_envelope_begin writes what an envelope of `count` frames begins with, and the user's header.
static inline whi_envelope_writer whi_envelope_begin(char *to, size_t count, const void *header,
                                                     size_t header_size) {
    whi_envelope envelope = whi_envelope_of(count, header_size);
    memcpy(to, &envelope, sizeof(envelope));
    whi_envelope_writer w = {.table = to + sizeof(envelope)};
    w.at = w.table + count * sizeof(whi_wire_frame);
    if (header_size)
        memcpy(w.at, header, header_size);
    w.at += header_size;
    return w;
}

// whi_envelope_frame writes a frame's entry, and its bytes unless they follow; without `data` it leaves their place empty.
static inline void whi_envelope_frame(whi_envelope_writer *w, const void *data, size_t size,
                                      wh_mem_kind kind, uint16_t signature, bool follows) {
    whi_wire_frame frame = {.size = size,
                            .kind = (uint8_t)kind,
                            .flags = follows ? WHI_FRAME_FOLLOWS : 0,
                            .signature = signature};
    memcpy(w->table, &frame, sizeof(frame));
    w->table += sizeof(frame);
    if (follows)
        return;
    if (data)
        whi_plain_copy(w->at, data, size);
    w->at += size;
}

// whi_object_make_envelope turns the request's header into the whole envelope, which it then owns: the header is the
// user's only until the call returns or the request completes, whichever is first to need it.
WH_CHECK wh_status whi_object_make_envelope(wh_request *req);

#endif
