// SPDX-License-Identifier: BSD-3-Clause
//
// Offers: announced payloads that the receiver takes out of the sender's memory by itself, over a lane that can.
//
// The announcement carries the offer and the addresses of the payload's pieces.  Who has matched it fetches and answers ACK,
// or, where that is slower, or not possible, or the offer was revoked meanwhile, asks for chunks as for any other announcement.
// The sender revokes before its user gets the buffer back, however the send ends.
#ifndef WHI_MESSAGE_OFFER_H
#define WHI_MESSAGE_OFFER_H

#include "link/wire.h"
#include "message/request.h"

// whi_offer_size returns the bytes that an offer takes between an announcement and what else is in its payload.
static inline size_t whi_offer_size(const whi_announce *announce) {
    return announce->count ? (1 + (size_t)announce->count) * sizeof(uint64_t) : 0;
}

// whi_offer_split reads what an announced record begins with.  What follows it, the offer first if there is one, is at
// *payload then.  False: these bytes are no announcement.
bool whi_offer_split(const whi_hdr *hdr, const void **payload, size_t *size,
                     whi_announce *announce);

// whi_offer_may says whether the payload of a send that is not an object is offered when it is announced, if its lane can: it is memory
// in one piece, and was not announced for want of credit alone, when it is better sent than read.
bool whi_offer_may(const wh_request *req);

// whi_offer_write makes an offer of a send's payload, if its lane can and there is space, and returns the bytes that it has
// written behind the announcement.  `long_size`: of a payload that could go as a long record instead (long.h); 0: it could not.
size_t whi_offer_write(wh_request *req, whi_announce *announce, void *to, size_t space,
                       uint64_t long_size);

// whi_offer_revoke ends the offer of a send.  True: nobody has taken it, or it never had one.
bool whi_offer_revoke(wh_request *req);

// whi_offer_read notes the offer of a message with the receive that has matched it.
void whi_offer_read(wh_request *req, const whi_announce *announce, const void *offer);

// whi_offer_address returns the address of a piece.
uint64_t whi_offer_address(const void *offer, size_t piece);

// whi_offer_fetch takes the offer that a receive has noted, unless the payload is to come by the bulk lane: `fetched` of its
// operations follows (request.h).  Nothing is read here, but behind the polls of each pass a turn of the oldest: short ones that
// have come together are read together, and in a call of the user's, what that would send next may be what the peer needs to have
// something to do, too.
void whi_offer_fetch(wh_request *req);

// whi_offer_due is the room's: a turn of the oldest fetches.
unsigned whi_offer_due(wh_worker *worker);

// whi_offer_came says that `size` more bytes are here of a payload that was asked for instead.
void whi_offer_came(wh_request *req, uint64_t size);

#endif
