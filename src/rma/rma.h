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

// What the request of an access, ours or the peer's, has of its own.
typedef struct whi_access_own {
    wh_rkey *rkey;              // of ours: the peer's memory, held
    struct wh_mr *mr;           // of one that we serve: our memory, held
    uint64_t remote;            // offset there
    uint64_t operand, compare;  // of an atomic
    uint16_t op;                // wh_atomic_op
    bool native;                // UCX has it
    bool counted;               // a fence among those that its endpoint's queue holds
} whi_access_own;
static_assert(sizeof(whi_access_own) <= WHI_REQ_OWN, "it fits");

static inline whi_access_own *whi_access_of(const wh_request *req) {
    return (whi_access_own *)(uintptr_t)req->own;
}

extern const whi_req_ops whi_put_ops, whi_get_ops, whi_atomic_ops, whi_fence_ops;  // rma.c
extern const whi_req_ops whi_serve_put_ops, whi_serve_get_ops;                     // serve.c

// whi_rma_served notes that the peer has served the first `count` accesses of an endpoint.
void whi_rma_served(wh_endpoint *ep, uint64_t count);

// whi_rma_withdraw_moving completes an access of ours, which is under way and withdrawn, before the peer has had its say.
// False: nothing has happened, because a lane uses the buffer, or there is no memory.  whi_rma_may_withdraw says that much for
// both sides.
bool whi_rma_withdraw_moving(wh_request *req, wh_status why);
bool whi_rma_may_withdraw(const wh_request *req);

// whi_rma_completed follows the completion of an access of ours that was at `stage`.
void whi_rma_completed(wh_request *req, whi_req_stage stage);

// whi_flush_init registers the records of flushes (flush.c).
void whi_flush_init(wh_worker *worker);

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

#endif
