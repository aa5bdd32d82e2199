// SPDX-License-Identifier: BSD-3-Clause
//
// Objects on the wire: building an envelope, reading one, giving each frame its memory.
#ifndef WHI_MESSAGE_OBJECTS_H
#define WHI_MESSAGE_OBJECTS_H

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

// whi_object_make_envelope turns the request's header into the whole envelope, which it then owns: the header is the
// user's only until the call returns or the request completes, whichever is first to need it.
WH_CHECK wh_status whi_object_make_envelope(wh_request *req);

#endif
