// SPDX-License-Identifier: BSD-3-Clause
//
// Memory of a peer's that is reached through UCX, without a record that the peer serves (native.c), and memory of ours
// that peers reach so (share.c).
//
// An initiator asks for a key's memory (MAP) and gets what UCX needs (MAPPED), once per link and key.  From then on the
// owner's side of the link holds a lease: the memory is not taken from UCX, and not given back to its user, before the
// lease has ended.  It ends when the owner wants the memory back (RECALL) and the initiator has answered that all it wrote
// is there and that it will use the key no more (RECALLED); or when the connection of the link's lane has closed, after which
// UCX lets the peer do nothing more.  Each side's owner thread, but for whi_share_recall.
#ifndef WHI_RMA_NATIVE_H
#define WHI_RMA_NATIVE_H

#include "message/endpoint.h"
#include "rma/mr.h"
#include "rma/room.h"

// whi_native_may says whether this link and the setting allow it, for both sides.
bool whi_native_may(const whi_link *link);

// ---- the initiator's side

typedef struct whi_native whi_native;

// What MAPPED says over ucx, before the bytes of UCX's key.
typedef struct whi_native_head {
    uint64_t address;  // of the memory, at its owner
    uint64_t size;
    uint32_t access;  // WH_MR_*
    uint32_t reserved;
} whi_native_head;
static_assert(sizeof(whi_native_head) == 24, "wire layout");

// whi_native_find gives what the link has for a key, held for whoever asks, or NULL.  whi_native_release drops a hold.
whi_native *whi_native_find(whi_link *link, const whi_key *key);
void whi_native_release(whi_native *native);

// whi_native_open takes what the owner has sent.
WH_CHECK wh_status whi_native_open(whi_link *link, uint64_t id, const void *payload, size_t size);

// whi_native_allows says whether the memory may be reached so for `access`, as of now.
bool whi_native_allows(const whi_native *native, unsigned access);

// whi_native_start starts a put or get of host memory: WH_OK done, WH_PENDING, WH_EAGAIN, or the link is doomed.
wh_status whi_native_start(wh_request *req, const whi_native *native);

// whi_native_settled says whether the first `count` accesses that the endpoint made so are in the peer's memory.  If not, it
// sees to it that the endpoint goes on (whi_ep_settle, its queue) when they are.
bool whi_native_settled(wh_endpoint *ep, uint64_t count);

// whi_native_recalled handles RECALL.  whi_native_link_ended forgets all, when the link's lane has closed.
wh_status whi_native_recalled(whi_link *link, const whi_hdr *hdr);
void whi_native_link_ended(whi_link *link);

// ---- the owner's side

// whi_share_answer writes the payload of a MAPPED, at most WHI_CONTROL_MAX bytes, for memory that the caller has begun an
// access of, and gives the link its lease.
WH_CHECK wh_status whi_share_answer(whi_link *link, wh_mr *mr, void *payload, uint32_t *size);

// whi_share_recall asks for a registration's leases to be ended.  Any thread; under the lock of the table.
void whi_share_recall(wh_mr *mr);

// whi_share_run tells the initiators of what is recalled.
void whi_share_run(wh_worker *worker);

// whi_share_returned handles RECALLED.
wh_status whi_share_returned(whi_link *link, const whi_hdr *hdr);

// whi_share_link_ended ends the leases of a link whose connection has closed; whi_share_worker_ended all of a worker whose
// domain is gone.
void whi_share_link_ended(whi_link *link);
void whi_share_worker_ended(wh_worker *worker);

#endif
