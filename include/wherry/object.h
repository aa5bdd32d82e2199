// SPDX-License-Identifier: BSD-3-Clause
//
// Objects: one message of a small header and any number of frames, received blind.
//
// The receiver needs to know neither number nor sizes: when the object's head arrives, its allocator is
// asked for each frame's memory (wh_worker_set_allocator), or the destinations given with the receive are
// used.  Objects match object receives only, in order, by tag and mask as in tag.h.
#ifndef WHERRY_OBJECT_H
#define WHERRY_OBJECT_H

#include <stddef.h>
#include <stdint.h>

#include <wherry/endpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WH_OBJECT_FRAMES_MAX 1048576      // frames in one object
#define WH_OBJECT_HEADER_MAX (64u << 20)  // bytes of the user's header

// One part of an object.  It may grow at its end: an array of frames comes with the size of an element, as for qsort, and
// one that the library lends (wh_object_frame) is never the begin of an array.  Zero in a field means its default.
typedef struct wh_frame {
    void *data;       // borrowed from the call until the completion
    size_t size;      // bytes, zero allowed
    wh_mem_kind mem;  // WH_MEM_AUTO: detected
    int device;       // for device memory
    const wh_type
        *type;  // its layout, as in request.h: `size` counts elements then; default: bytes
} wh_frame;

// wh_object_send sends `header` and `count` frames as one message.  The frame array itself is copied.
// `frame_size` is sizeof(wh_frame), or anything when there are no frames.
WH_API WH_CHECK wh_status wh_object_send(wh_endpoint *ep, const void *header, size_t header_size,
                                         const wh_frame *frames, size_t count, size_t frame_size,
                                         uint64_t tag, const wh_op_opts *opts, wh_request **req);

// wh_object_recv receives the next object of the endpoint that it accepts; result.object is the object.
// With `count` > 0, frames[i] receives frame i: its size must be at least that of the frame, or the
// receive ends with WH_ETRUNCATED; frames beyond `count`, or whose data is NULL, are allocated.
WH_API WH_CHECK wh_status wh_object_recv(wh_endpoint *ep, const wh_frame *frames, size_t count,
                                         size_t frame_size, uint64_t tag, uint64_t mask,
                                         const wh_op_opts *opts, wh_request **req);
WH_API WH_CHECK wh_status wh_worker_object_recv(wh_worker *worker, const wh_frame *frames,
                                                size_t count, size_t frame_size, uint64_t tag,
                                                uint64_t mask, const wh_op_opts *opts,
                                                wh_request **req);

// The same, waiting.  timeout_ms: negative for no limit, 0 for at once.
WH_API WH_CHECK wh_status wh_object_send_wait(wh_endpoint *ep, const void *header,
                                              size_t header_size, const wh_frame *frames,
                                              size_t count, size_t frame_size, uint64_t tag,
                                              int timeout_ms);
WH_API WH_CHECK wh_status wh_object_recv_wait(wh_endpoint *ep, uint64_t tag, uint64_t mask,
                                              int timeout_ms, wh_object **object);

// wh_object_probe describes the first object that has come, is unmatched, and that a receive would
// get: WH_OK with tag and source in `result`, which may be NULL, or WH_ENOTFOUND.  It leaves the
// object where it is.  Of a large one only the head has come: a receive fetches the rest.  Objects on
// their way to a handler (below) are not among them.  Owner only.
WH_API WH_CHECK wh_status wh_object_probe(wh_endpoint *ep, uint64_t tag, uint64_t mask,
                                          wh_result *result);
WH_API WH_CHECK wh_status wh_worker_object_probe(wh_worker *worker, uint64_t tag, uint64_t mask,
                                                 wh_result *result);

// Called in progress with an object that has arrived whole.  The callee owns the object and ends it
// with wh_object_free; `ep`, where it came from, is borrowed.
typedef void (*wh_object_fn)(wh_endpoint *ep, wh_object *object, void *arg);

// wh_worker_set_object sets who gets the objects that no posted receive accepts, of all endpoints of
// the worker, in the order of the sends of each endpoint; those of different endpoints pass each
// other.  Frames get their memory from the worker's allocators, for which wh_object_arg returns `arg`.
//
// NULL unsets it.  Objects that have come before a handler is set go to it, unless a receive has taken
// them; those on their way to it when it is unset wait for the next one.  What waits goes with its
// endpoint when you close that.  An object that cannot be had (its sender has gone or withdrawn it, an
// allocator rejects it, it is larger than the limits) is not handed over, and when its sender has gone
// none that was sent behind it.  Owner only.
WH_API WH_CHECK wh_status wh_worker_set_object(wh_worker *worker, wh_object_fn fn, void *arg);

// wh_object_header returns the user's header and its size; it lives as long as the object.
WH_API const void *wh_object_header(const wh_object *object, size_t *size);

// wh_object_count returns the number of frames.
WH_API size_t wh_object_count(const wh_object *object);

// wh_object_frame returns frame `index`; its data is NULL until it was allocated, and of one that was received into a given
// destination that destination's, with a layout its origin.  `size` is in bytes, and type NULL: what came.  Borrowed.
WH_API const wh_frame *wh_object_frame(const wh_object *object, size_t index);

// wh_object_tag returns the tag that it was sent with.
WH_API uint64_t wh_object_tag(const wh_object *object);

// wh_endpoint_set_allocator sets who allocates frames of memory kind `kind` of objects from this endpoint, as
// wh_worker_set_allocator does for all; NULL: as for all.  Owner only.
WH_API WH_CHECK wh_status wh_endpoint_set_allocator(wh_endpoint *ep, wh_mem_kind kind,
                                                    const wh_allocator *allocator);

// wh_object_arg returns the `arg` of the options of the receive that the object is for, so that an
// allocator knows whom it works for, or that of the worker's handler; NULL once the receive has ended.
WH_API void *wh_object_arg(const wh_object *object);

// wh_object_endpoint returns the endpoint that it comes from, borrowed, for allocators; NULL when that is no
// longer open, and once the receive has ended (its result tells the source).
WH_API wh_endpoint *wh_object_endpoint(const wh_object *object);

// wh_object_take_frame gives the memory of frame `index` to the caller, who frees it as its allocator says, or,
// when none was asked, with wh_mem_free_kind and the frame's memory kind, from any thread and whenever;
// NULL when it lies in the object itself or was the caller's already.
WH_API void *wh_object_take_frame(wh_object *object, size_t index);

// wh_object_accept answers an allocator's WH_PENDING: `data` is the memory of frame `index`, NULL
// rejects the object.  The receive goes on when all frames have memory.  Owner only, outside of
// callbacks too.  An object that has arrived whole is not harmed by the end of its endpoint, unless
// you abort that or destroy the worker.  When others are still to be fetched and the sender goes or
// withdraws the message meanwhile, the receive ends (WH_EPEER, WH_ECANCELLED), from any source too,
// and the object is gone when its callback has returned.  So it is when the receive is cancelled or its
// time is over, but the message is left to the next receive then, in its old place.  An object for the worker's handler has no
// callback: it stays until each frame was answered for, which then gives WH_ECANCELLED (`data` is
// still the caller's), or the worker is destroyed.
WH_API WH_CHECK wh_status wh_object_accept(wh_object *object, size_t index, void *data);

// wh_object_free ends the object and frees the frames that were allocated for it and not taken.
WH_API void wh_object_free(wh_object *object);

#ifdef __cplusplus
}
#endif
#endif
