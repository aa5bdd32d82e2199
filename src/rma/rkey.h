// SPDX-License-Identifier: BSD-3-Clause
//
// Key of a peer's memory: what its owner has said of it, and how it is reached, if not by records: mapped, or through UCX.
//
// It is the user's and that of the requests that use it, and belongs to the owner thread of its endpoint's worker.
#ifndef WHI_RMA_RKEY_H
#define WHI_RMA_RKEY_H

#include "message/endpoint.h"
#include "rma/mr.h"
#include "rma/room.h"

enum { WHI_MAP_UNASKED, WHI_MAP_ASKED, WHI_MAP_DONE, WHI_MAP_NEVER };

struct wh_rkey {
    wh_endpoint *ep;  // held
    whi_key key;
    // Written by other threads: in a word of its own (request.h says why).
    _Alignas(8) _Atomic uint32_t submitted;  // their requests that the owner has yet to take over
    _Alignas(8) uint32_t refs;               // the user's and one per request
    uint8_t map;                             // WHI_MAP_*
    whi_region *region;
    unsigned char *base;        // of the memory, once mapped
    struct whi_native *native;  // how UCX reaches it (native.h), held; NULL: not that way
    whi_mr_shared *shared;
};

// whi_rkey_release releases a key for its user or a request; its last one frees it.
void whi_rkey_release(wh_rkey *rkey);

// whi_rkey_take_over makes a request of another thread hold its key as the owner's do.
void whi_rkey_take_over(wh_rkey *rkey);

// whi_rkey_ask asks the owner for its memory if it may be had and the link has not got it.  One at a time per link: over
// shared memory each passes a descriptor.
void whi_rkey_ask(wh_rkey *rkey);

// whi_rkey_mapped handles the answer, MAPPED, which comes with a descriptor over shared memory, with a whi_native_head and
// UCX's key over ucx.
wh_status whi_rkey_mapped(whi_link *link, const whi_hdr *hdr, const void *payload);

#endif
