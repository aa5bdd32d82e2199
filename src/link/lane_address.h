// SPDX-License-Identifier: BSD-3-Clause
//
// The address of a lane of UCX, which one side tells the other in pieces: LANE_ADDRESS (wire.h).
#ifndef WHI_LINK_LANE_ADDRESS_H
#define WHI_LINK_LANE_ADDRESS_H

#include "net/lane.h"

typedef struct whi_link whi_link;

// The peer's, as far as it has come.  Zeroed, it is empty.
typedef struct whi_lane_address {
    uint8_t *bytes;
    uint32_t size, got;
} whi_lane_address;

// whi_lane_address_add takes a piece.  WH_OK: that was the last one.  WH_PENDING: there are more.  WH_EPROTOCOL: it does not
// fit to those before it.
wh_status whi_lane_address_add(whi_lane_address *address, const whi_hdr *hdr, const void *piece);

// whi_lane_address_drop frees it.
void whi_lane_address_drop(whi_lane_address *address);

// whi_lane_address_tell tells the peer that of a lane of ours, by `send`; `flags` are those of the records.
typedef wh_status (*whi_lane_address_fn)(whi_link *link, const whi_hdr *hdr, const void *payload);
wh_status whi_lane_address_tell(whi_link *link, const whi_lane *lane, uint8_t flags,
                                whi_lane_address_fn send);

// whi_lane_address_refuse tells the peer, in the same way, that there will be none, and why.
wh_status whi_lane_address_refuse(whi_link *link, const char *why, uint8_t flags,
                                  whi_lane_address_fn send);

#endif
