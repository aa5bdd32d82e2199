// SPDX-License-Identifier: BSD-3-Clause
//
// Long messages: larger than other records may be, with a payload that follows unasked.
//
// A tagged one is one record, and meets its receive when its header has come.  An active message's handler has to have its
// header first, so that is a record of its own, and the payload is the next one.
//
// Only some lanes have them (lane.h, long_limit): the stream and the shm lane, which take at once what would otherwise wait
// for a round trip.  Owner's thread.
#ifndef WHI_MESSAGE_LONG_H
#define WHI_MESSAGE_LONG_H

#include "message/endpoint.h"

// Larger messages are announced: the round trip is little of what they take, and what the socket does not take of a long
// record at once is copied.
enum { WHI_LONG_MAX = 64 * 1024 };

// whi_long_size returns the bytes of a send that is of a kind, and of a size, that may go as one; 0: it is not.
uint64_t whi_long_size(const wh_request *req);

// whi_long_may says whether a send may go as one now; `prefix` bytes stand before its payload.
bool whi_long_may(const wh_request *req, size_t prefix);

// whi_long_awaited is told of an announced message whose receive was there before it.  If it is small enough to go unasked, it
// is taken for one that lacked credit, and its sender gets more: such messages cost no memory.  (One that was announced
// because its reader was behind, or reads it faster, is not told apart.)
void whi_long_awaited(wh_endpoint *ep, uint8_t flags, uint64_t size);

// whi_long_begin begins to receive one, in its turn: into the buffer of the receive that it has matched, or into memory
// of its own.  It returns the receive and where the payload goes; NULL: no memory.
wh_request *whi_long_begin(wh_endpoint *ep, const whi_hdr *hdr, whi_span *span);

// whi_long_announced notes that the payload of an active message is in the next record; false: it cannot be.
// whi_long_expect has it come to `req`, which has been accepted, and which has failed if that cannot be.  Else it is thrown
// away.
bool whi_long_announced(wh_endpoint *ep, const whi_hdr *hdr);
void whi_long_expect(wh_request *req, uint64_t size);

// whi_long_follow begins to receive that.
wh_status whi_long_follow(wh_endpoint *ep, const whi_hdr *hdr, whi_span *span, wh_request **req);

// whi_long_landed ends the receive of a long message.
void whi_long_landed(wh_request *req, const whi_hdr *hdr);

#endif
