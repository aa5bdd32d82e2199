// SPDX-License-Identifier: BSD-3-Clause
//
// Sending: eager or announced, then granted and pushed.
#ifndef WHI_MESSAGE_SEND_H
#define WHI_MESSAGE_SEND_H

#include "message/endpoint.h"

// whi_send_post is `post` of what goes by its endpoint's queue.
wh_status whi_send_post(wh_request *req);

// whi_send_start_message is `start` of all messages: eager or announced.  whi_send_granted and whi_send_moved are their
// `granted` and `moved`, unless they have parts.
wh_status whi_send_start_message(wh_request *req);
wh_status whi_send_granted(const wh_request *req, const whi_hdr *hdr);
void whi_send_moved(wh_request *req);

extern const whi_req_ops whi_tag_send_ops;

// whi_send_name gives a request a name that the peer may use; whi_send_unname takes it back.  whi_send_ordered puts a record
// that carries its endpoint's next number on the lane.
WH_CHECK wh_status whi_send_name(wh_request *req);
void whi_send_unname(wh_request *req);
wh_status whi_send_ordered(wh_endpoint *ep, whi_hdr *hdr, const void *payload);

// whi_send_withdraw ends a send that the peer has not begun to take.
void whi_send_withdraw(wh_request *req, wh_status why);

// whi_send_taken ends an announced send whose offer the peer has taken: it has all, and its word of that is on its way.
void whi_send_taken(wh_request *req);

// whi_send_init registers GRANT and ACK.
void whi_send_init(wh_worker *worker);

// whi_send_back goes on with a send that has got the last chunk back that a lane held.
void whi_send_back(whi_link *link, wh_request *req);

// whi_send_unheld does so when nothing holds it any more.
void whi_send_unheld(whi_link *link, wh_request *req);

// whi_send_took goes on with a send of which the peer has taken the next bytes by itself, at most so many; it was held, and in
// no list.
void whi_send_took(whi_link *link, wh_request *req, uint64_t most);

// whi_send_again goes on with one that has waited for memory in which its next bytes are packed; it is in no list.
void whi_send_again(whi_link *link, wh_request *req);

// whi_send_push moves chunks of the granted sends, each in turn, and returns how many; with `rest_only` no more than
// the rest of the chunk that the lane has announced.
unsigned whi_send_push(whi_link *link, bool rest_only);

// whi_send_push_beside does so with those that go by the bulk lane.
unsigned whi_send_push_beside(whi_link *link);

#endif
