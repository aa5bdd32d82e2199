// SPDX-License-Identifier: BSD-3-Clause
//
// Long messages: tagged ones, larger than other records may be, whose payload follows their header unasked.
//
// Only some lanes have them (lane.h, long_limit): the stream lane, which takes at once what would otherwise wait for a round
// trip.  Owner's thread.
#ifndef WHI_MESSAGE_LONG_H
#define WHI_MESSAGE_LONG_H

#include "message/endpoint.h"

// Larger messages are announced: the round trip is little of what they take, and what the socket does not take of a long
// record at once is copied.
enum { WHI_LONG_MAX = 64 * 1024 };

// whi_long_may says whether a send may go as one now.
bool whi_long_may(const wh_request *req);

// whi_long_begin begins to receive one, in its turn: into the buffer of the receive that it has matched, or into memory
// of its own.  It returns the receive and where the payload goes; NULL: no memory.
wh_request *whi_long_begin(wh_endpoint *ep, const whi_hdr *hdr, whi_span *span);

// whi_long_landed ends that receive.
void whi_long_landed(wh_request *req, const whi_hdr *hdr);

#endif
