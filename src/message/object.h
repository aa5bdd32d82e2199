// SPDX-License-Identifier: BSD-3-Clause
//
// Object: a received message of frames, as its user holds it.
#ifndef WHI_MESSAGE_OBJECT_H
#define WHI_MESSAGE_OBJECT_H

#include <wherry/object.h>

#include "message/request.h"
#include "message/room.h"
#include "worker/worker.h"

typedef enum whi_frame_origin {
    WHI_FRAME_NONE,
    WHI_FRAME_INSIDE,     // in the object's own copy of the envelope
    WHI_FRAME_ALLOCATED,  // by the library: freed with the object unless taken, as the next
    WHI_FRAME_ASKED,      // by an allocator
    WHI_FRAME_GIVEN,      // a destination of the user's
} whi_frame_origin;

typedef struct whi_object_frame {
    wh_frame pub;
    const void *packed;  // its bytes in the envelope
    uint8_t origin;      // whi_frame_origin
    bool follows;        // comes as a segment of its own
    bool waiting;        // for wh_object_accept
    uint16_t signature;  // of its elements, as its sender says
    whi_buffer buffer;   // its own memory, once it has it; a destination has one already
    uint64_t from;       // the sender's address of it, when it was offered
} whi_object_frame;

struct wh_object {
    size_t count;
    uint64_t tag;
    uint64_t total;  // bytes of all frames and the header
    uint64_t data;   // bytes of the frames that follow
    const void *header;
    size_t header_size;
    wh_request *request;  // while it is being received
    size_t waiting;       // frames that have no memory yet
    // Its receive has completed without a word to the user, who has yet to answer for frames.
    wh_worker *detached_from;
    whi_list detached_link;
    bool announced;
    whi_allocator allocators[WHI_MEM_KINDS];  // set when memory is asked for
    whi_object_frame frames[];                // behind them a copy of the envelope
};

// whi_object_detach keeps an object whose receive has completed until its user has answered for all frames that an allocator
// has put off, or the worker goes; it frees it at once if there is none.  whi_object_answer_detached takes such an answer.
void whi_object_detach(wh_object *object, wh_worker *worker);
wh_status whi_object_answer_detached(wh_object *object, size_t index);
void whi_object_free_detached(wh_worker *worker);

// whi_object_envelope returns the object's copy of its envelope.
const void *whi_object_envelope(const wh_object *object, size_t *size);

// whi_object_read makes the object of an envelope, in one piece of memory.  `announced` says whether frames may follow it.
// WH_EPROTOCOL: the bytes are no envelope; WH_ENOMEM.
wh_status whi_object_read(const void *bytes, size_t size, bool announced, wh_object **object);

#endif
