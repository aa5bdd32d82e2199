// SPDX-License-Identifier: BSD-3-Clause
//
// Delivery: each record that a link receives goes to the code of its class, in its endpoint's order.
//
// A room registers the classes that it handles when it is set up.  A handler that finds its record
// wrong answers whi_link_broken.  Owner's thread.
#ifndef WHI_MESSAGE_DELIVER_H
#define WHI_MESSAGE_DELIVER_H

#include "message/room.h"

// whi_ordered_on registers who handles the records of a class that have a sequence number, each in
// its turn; the endpoint is open.  whi_control_on does for control records, which may have at most
// `payload_max` bytes of payload.
void whi_ordered_on(wh_worker *worker, uint8_t cls, whi_ordered_fn fn);
void whi_control_on(wh_worker *worker, uint8_t cls, whi_control_fn fn, size_t payload_max);

// whi_deliver_early takes what has waited for a record of endpoint `number` that has just come, or
// for the endpoint to be open.
wh_status whi_deliver_early(whi_link *link, uint32_t number);

// whi_ep_of_number returns the endpoint of a number, or NULL; whi_ep_known says whether there has
// been one.
wh_endpoint *whi_ep_of_number(whi_link *link, uint32_t number);
bool whi_ep_known(const whi_link *link, uint32_t number);

// The upcalls of lanes: records (deliver.c), and chunks of granted payloads (chunk.c).
wh_status whi_deliver(void *link, const whi_hdr *hdr, const void *payload);
wh_status whi_chunk_sink(void *link, const whi_hdr *hdr, whi_span *span);
wh_status whi_chunk_landed(void *link, const whi_hdr *hdr);
void whi_chunk_sent(void *link, const whi_hdr *hdr);
void whi_chunk_lost(void *link, const whi_hdr *hdr);

#endif
