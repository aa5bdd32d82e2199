// SPDX-License-Identifier: BSD-3-Clause
//
// Delivery: each record that a link receives goes to the code of its class, in its endpoint's order.
//
// Owner's thread.
#ifndef WHI_MESSAGE_DELIVER_H
#define WHI_MESSAGE_DELIVER_H

#include "message/records.h"

// whi_deliver_long is the sink of a long message: it says where the payload goes, and which receive of
// ours gets it; NULL: it is thrown away.
wh_status whi_deliver_long(whi_link *link, const whi_hdr *hdr, whi_span *span,
                           wh_request **landing);

// whi_deliver_early takes what has waited for a record of endpoint `number` that has just come, or
// for the endpoint to be open.
wh_status whi_deliver_early(whi_link *link, uint32_t number);

// The upcalls of lanes: records (deliver.c), and chunks of granted payloads (chunk.c).  `arg` is the link.
wh_status whi_deliver(void *arg, const whi_hdr *hdr, const void *payload);
wh_status whi_chunk_sink(void *arg, const whi_hdr *hdr, whi_span *span);
wh_status whi_chunk_landed(void *arg, const whi_hdr *hdr);
void whi_chunk_sent(void *arg, const whi_hdr *hdr);
void whi_chunk_lost(void *arg, const whi_hdr *hdr);

// The same of the bulk lane; not_one refuses any other record.
wh_status whi_chunk_sink_beside(void *arg, const whi_hdr *hdr, whi_span *span);
wh_status whi_chunk_landed_beside(void *arg, const whi_hdr *hdr);
wh_status whi_chunk_not_one(void *arg, const whi_hdr *hdr, const void *payload);

// whi_chunk_link_ended does what is left for a link that ends: its copies, and the chunks of staging that its lane has.
void whi_chunk_link_ended(whi_link *link);

// whi_chunk_stored goes on with a receive that was held by a chunk of staging, which is in its memory now.
void whi_chunk_stored(whi_link *link, wh_request *req, const whi_hdr *hdr);

// whi_chunk_dropped lets go of a receive that was held for a part which has not come.
void whi_chunk_dropped(whi_link *link, wh_request *req);

#endif
