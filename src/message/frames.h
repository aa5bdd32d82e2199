// SPDX-License-Identifier: BSD-3-Clause
//
// Memory of an arriving object's frames: whom to ask for it, and how it is freed.
#ifndef WHI_MESSAGE_FRAMES_H
#define WHI_MESSAGE_FRAMES_H

#include "message/endpoint.h"
#include "message/object.h"
#include "message/objects.h"

// whi_frames_allocator returns who allocates memory of a kind for a receive: the receive's own
// allocator, else its endpoint's, else its worker's.  It may be one that allocates nothing.
static inline const whi_allocator *whi_frames_allocator(const wh_request *req, wh_mem_kind kind) {
    if (whi_object_of(req)->allocator)
        return whi_object_of(req)->allocator;
    if (req->ep->allocators && req->ep->allocators[kind].set)
        return &req->ep->allocators[kind];
    return &whi_messages_of(req->worker)->allocators[kind];
}

// whi_frames_asks says whether an allocator is asked for so many bytes.
static inline bool whi_frames_asks(const whi_allocator *a, uint64_t size) {
    return a->alloc && size >= a->threshold;
}

// whi_frames_given says whether a receive's user has given a destination for a frame.
static inline bool whi_frames_given(const whi_buffer *destination) {
    return destination->ptr || destination->type;
}

// whi_frames_give gives a frame its memory: a destination, packed bytes where they lie, or an
// allocation.  WH_PENDING: the user gives it later.
wh_status whi_frames_give(wh_request *req, wh_object *object, size_t index);

// whi_frames_free frees what was allocated for a frame; whi_frames_must_free says whether anything was.
void whi_frames_free(wh_object *object, whi_object_frame *f);
static inline bool whi_frames_must_free(const whi_object_frame *f) {
    return f->pub.data && (f->origin == WHI_FRAME_ASKED || f->origin == WHI_FRAME_ALLOCATED);
}

// whi_frames_own gives a receive an allocator of its own, which the request frees with
// whi_frames_disown.
WH_CHECK wh_status whi_frames_own(wh_request *req, const wh_allocator *allocator);
void whi_frames_disown(wh_request *req);

// whi_frames_release ends the buffers that a request has of its user's frames.
void whi_frames_release(wh_request *req);

// whi_frames_init readies a worker's watch over the memory that the pool keeps; whi_frames_fini
// ends it, also when it was never readied.
void whi_frames_init(wh_worker *worker);
void whi_frames_fini(wh_worker *worker);

#endif
