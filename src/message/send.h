// SPDX-License-Identifier: BSD-3-Clause
//
// Sending: eager or announced, then granted and pushed.
#ifndef WHI_MESSAGE_SEND_H
#define WHI_MESSAGE_SEND_H

#include "message/endpoint.h"

// whi_send_post starts a send or flush: WH_OK done, WH_PENDING accepted, else nothing happened.
wh_status whi_send_post(wh_request *req);

// whi_send_start tries to put a send on its lane.  WH_OK: done.  WH_PENDING: announced, or an answer is to come.
// WH_EAGAIN: the lane has no room.  WH_ELIMIT: there are too many announcements, or a fence holds.  WH_EBUSY: a flush that has to wait
// for granted sends.
wh_status whi_send_start(wh_request *req);

// whi_send_withdraw ends a send that the peer has not begun to take.
void whi_send_withdraw(wh_request *req, wh_status why);

// whi_send_init registers GRANT, ACK, FLUSH and FLUSH_ACK.
void whi_send_init(wh_worker *worker);

// whi_send_back goes on with a send that has got the last chunk back that a lane held.
void whi_send_back(whi_link *link, wh_request *req);

// whi_send_push moves chunks of the granted sends, each in turn, and returns how many; with `rest_only` no more than
// the rest of the chunk that the lane has announced.
unsigned whi_send_push(whi_link *link, bool rest_only);

#endif
