// SPDX-License-Identifier: BSD-3-Clause
//
// Remote memory access: the side that asks (rma.c, rma_end.c) and the side that serves (serve.c).
//
// Memory of a peer on this host that the peer's library has allocated is mapped once and then reached
// directly; over the ucx lane UCX may do it (native.h).  All other accesses are records that the owner's progress serves.  They carry sequence
// numbers, so that a flush comes behind them; what moves by chunks, a large put or any get, completes
// by an answer, and a fence waits for those.
#ifndef WHI_RMA_RMA_H
#define WHI_RMA_RMA_H

#include "rma/rkey.h"

// whi_rma_start tries to start an access, or a fence, that is the first in its endpoint's queue: WH_OK done,
// WH_PENDING under way, WH_EAGAIN and WH_ELIMIT as whi_send_start, else it has failed.
wh_status whi_rma_start(wh_request *req);

// whi_rma_served notes that the peer has served the first `count` accesses of an endpoint.
void whi_rma_served(wh_endpoint *ep, uint64_t count);

// whi_rma_leave ends an access of either side, which is under way and withdrawn, before the peer has had its say.  False:
// nothing has happened, because a lane has the buffer in its hands, or there is no memory.
bool whi_rma_leave(wh_request *req, wh_status why);

// whi_rma_ended follows the end of a request of either side that was at `stage`.
void whi_rma_ended(wh_request *req, whi_req_stage stage);

// whi_rma_answered handles RMA_ANSWER.
wh_status whi_rma_answered(whi_link *link, const whi_hdr *hdr);

// whi_rma_store_old writes the value that an atomic has found, of `size` bytes, to `old`, unless that is NULL.
void whi_rma_store_old(void *old, size_t size, uint64_t value);

// whi_rma_link_ended makes a link that is over, with all its lanes, forget what it knows of memory.
void whi_rma_link_ended(whi_link *link);

// whi_serve handles the records of an initiator, in their turn; whi_serve_map a request for a mapping, which is
// answered even for an endpoint that has ended (NULL): the initiator waits with all others of the link.
wh_status whi_serve(wh_endpoint *ep, const whi_hdr *hdr, const void *payload);
wh_status whi_serve_map(whi_link *link, wh_endpoint *ep, const whi_hdr *hdr);

// whi_serve_leave parts a transfer from its memory, which nothing is at: a get ends, of a put what still comes is thrown away.
void whi_serve_leave(wh_request *req);

// whi_serve_ended tells the initiator of a transfer how that has ended, as far as it does not know.
void whi_serve_ended(wh_request *req);

#endif
