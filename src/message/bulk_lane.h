// SPDX-License-Identifier: BSD-3-Clause
//
// Payloads over a link's bulk lane (link/bulk_lane.h): which ones go by it, and what becomes of them.
//
// The sender says in its announcement that it would have the payload go so, the receiver decides with its grant.  What was granted
// so comes by that lane and no other, and the receiver answers ACK when all of it is there: the two lanes keep no order between
// each other, so that nothing else tells the sender that it may go on to close.
#ifndef WHI_MESSAGE_BULK_LANE_H
#define WHI_MESSAGE_BULK_LANE_H

#include "message/request.h"

// What a request knows of it, in `bulk`.
enum {
    WHI_BULK_WISHED = 1 << 0,   // a receive: its sender would have the payload go so
    WHI_BULK_GRANTED = 1 << 1,  // it goes so
};

static inline bool whi_bulk_granted(const wh_request *req) {
    return req->bulk & WHI_BULK_GRANTED;
}

// whi_bulk_wishes says whether the announcement of a send is to have the flag, and begins to open the lane then.
bool whi_bulk_wishes(const wh_request *req);

// whi_bulk_takes says whether `size` bytes that a receive is about to ask for are to come so.
bool whi_bulk_takes(const wh_request *req, uint64_t size);

// whi_bulk_take_grant takes the flag of a GRANT for a send; where the lane could not be opened, which the peer was told, the payload
// goes by the other.  WH_EPEER: the lane has been lost meanwhile.
wh_status whi_bulk_take_grant(wh_request *req, const whi_hdr *hdr);

// whi_bulk_list puts a granted send among those that move chunks, over either lane.
void whi_bulk_list(whi_link *link, wh_request *req);

// whi_bulk_fail ends a transfer that was under way on the lane; whi_bulk_lost all of a link.  `unused`: the peer has never had the
// lane, and sends what was granted by the other.
void whi_bulk_fail(wh_request *req, const char *sentence);
void whi_bulk_lost(whi_link *link, bool unused, const char *sentence);

// whi_bulk_is_cuda says whether a buffer is one run of CUDA memory that stays on its device.
bool whi_bulk_is_cuda(const whi_buffer *buf);

// whi_bulk_is_direct says whether a lane moves such a buffer by itself, on a bulk lane or on that of a link.
bool whi_bulk_is_direct(const whi_link *link, const whi_lane *lane, const whi_buffer *buf);

#endif
