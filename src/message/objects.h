// SPDX-License-Identifier: BSD-3-Clause
//
// Objects on the wire: building an envelope, reading one, giving each frame its memory.
#ifndef WHI_MESSAGE_OBJECTS_H
#define WHI_MESSAGE_OBJECTS_H

#include "message/recv.h"

// whi_object_make_envelope turns the request's header into the whole envelope, which it then owns: the header is the
// user's only until the call returns or the request completes, whichever is first to need it.
WH_CHECK wh_status whi_object_make_envelope(wh_request *req);

// whi_object_data_size returns the bytes of the frames that follow; whi_object_next_segment moves on to the next of them.
uint64_t whi_object_data_size(const wh_request *req);
void whi_object_next_segment(wh_request *req);

// whi_object_follows says whether frame `index` of a sent object is a segment of its own when announced.
bool whi_object_follows(const wh_request *req, size_t index);

// whi_object_arrived handles a matched object: `payload` is its envelope, whole or (size 0) to be fetched.  An error is
// the peer's fault.
wh_status whi_object_arrived(wh_request *req, uint8_t flags, uint32_t send_id, uint64_t length,
                             const void *payload, size_t size);

// whi_object_sink, whi_object_landed: a chunk of a granted object.
wh_status whi_object_sink(wh_request *req, const whi_hdr *hdr, whi_span *span);
wh_status whi_object_landed(wh_request *req, const whi_hdr *hdr);

// whi_object_is_whole says whether all of a receive's object is here, so that nothing but its user's memory is awaited.
bool whi_object_is_whole(const wh_request *req);

// whi_object_withdraw ends a receive that waits for the user's memory.
void whi_object_withdraw(wh_request *req, wh_status why);

// whi_object_drop drops an object that is not whole; whi_object_forget that, and the request's frames.
void whi_object_drop(wh_request *req);
void whi_object_forget(wh_request *req);

#endif
