// SPDX-License-Identifier: BSD-3-Clause
//
// Receiving: messages meet receives, at once or by a grant.
#ifndef WHI_MESSAGE_RECV_H
#define WHI_MESSAGE_RECV_H

#include "message/endpoint.h"

// whi_recv_post starts a receive: WH_OK done, WH_PENDING accepted, else nothing happened.
wh_status whi_recv_post(wh_request *req);

// whi_recv_kept returns the first kept message of a kind (WHI_MATCH_*) that a receive of (endpoint or NULL, tag, mask) would
// get; NULL: none.
static inline whi_message *whi_recv_kept(wh_worker *worker, wh_endpoint *ep, int which,
                                         uint64_t tag, uint64_t mask) {
    return whi_match_find(&whi_messages_of(worker)->match[which], ep ? &ep->match[which] : NULL, ep,
                          tag, mask);
}

extern const whi_req_ops whi_tag_recv_ops;

// whi_recv_withdraw ends a receive that has not matched.
void whi_recv_withdraw(wh_request *req, wh_status why);

// whi_recv_message handles an arrived tag or object message, in its turn.  `req` is the receive that whi_plain_match has
// found for it, or NULL.
wh_status whi_recv_message(wh_endpoint *ep, const whi_hdr *hdr, const void *payload,
                           wh_request *req);

// whi_recv_grant asks the sender of an announced message for `accept` bytes of its data (or its envelope).
void whi_recv_grant(wh_request *req, int part, uint64_t accept);

// whi_recv_meet_kept joins a pending receive with a message that was kept and that the match table has no more, and frees
// that.
void whi_recv_meet_kept(wh_request *req, whi_message *msg);

// whi_recv_keep_for_others makes a kept message again of an object that its receive leaves; NULL: no memory.
// whi_recv_give_to_others gives it, once that receive has ended, to another one, or keeps it in its old place.
whi_message *whi_recv_keep_for_others(const wh_request *req, const whi_hdr *hdr,
                                      const void *payload);
void whi_recv_give_to_others(whi_message *msg);

// whi_recv_bind makes a receive from any source one of the endpoint that it matched.
void whi_recv_bind(wh_request *req, wh_endpoint *ep);

// whi_recv_regain gives a receive whose message is gone its place back.
void whi_recv_regain(wh_request *req);

// whi_recv_set_apart takes a receive that waits for nothing but its user's memory from its endpoint, which has ended, to those
// of the worker.
void whi_recv_set_apart(wh_request *req);

// whi_recv_withdrawn handles WITHDRAW; `broken`: of a payload that was granted and cannot be had.
void whi_recv_withdrawn(wh_endpoint *ep, uint32_t send_id, bool broken);

// whi_recv_end_withdrawn does the rest of that once no lane holds chunks of the receive.
void whi_recv_end_withdrawn(wh_request *req);

// whi_recv_taken receives a message that wh_tag_take has taken; whi_recv_drop_taken throws it away.
wh_status whi_recv_taken(wh_request *req, whi_message *msg, const wh_op_opts *opts,
                         wh_request **out);
void whi_recv_drop_taken(whi_message *msg);

// whi_recv_sink and whi_recv_landed are `sink` and `landed` of tag and active messages.
wh_status whi_recv_sink(wh_request *req, const whi_hdr *hdr, whi_span *span);
wh_status whi_recv_landed(wh_request *req, const whi_hdr *hdr);

// whi_recv_copy copies a payload that is here into the receive's buffer and returns how the receive ends; whi_recv_finish ends it
// so.  whi_recv_land does both, now or when the caller's stream has come to it.
wh_status whi_recv_copy(wh_request *req, uint64_t tag, const void *payload, uint64_t size);
void whi_recv_finish(wh_request *req, wh_status st);
void whi_recv_land(wh_request *req, uint64_t tag, const void *payload, uint64_t size);

// whi_recv_refuse ends a receive whose message holds other elements than it expects.
void whi_recv_refuse(wh_request *req, uint8_t flags, uint32_t send_id, uint64_t length);

// whi_recv_count counts a message that was received.
static inline void whi_recv_count(wh_endpoint *ep, uint64_t size) {
    ep->counters.received_messages++;
    ep->counters.received_bytes += size;
}

// whi_recv_arrived is `arrived` of tag messages.
wh_status whi_recv_arrived(wh_request *req, uint8_t flags, const whi_announce *announce,
                           uint64_t length, const void *payload, size_t size);

// whi_recv_places and whi_recv_fetched are `places` and `fetched` of these.
unsigned whi_recv_places(const wh_request *req, whi_place places[WHI_OFFER_PIECES]);
void whi_recv_fetched(wh_request *req, bool all);

// whi_recv_offered notes what was announced with an active message, before whi_recv_am.
void whi_recv_offered(wh_request *req, const whi_announce *announce, const void *offer);

// whi_recv_am receives the payload of an active message: here (`payload`), or announced.
void whi_recv_am(wh_request *req, uint8_t flags, uint16_t signature, uint32_t send_id,
                 const void *payload, uint64_t size, uint64_t cost);

// whi_recv_clashes says whether a message of `length` bytes holds other elements than a receive expects.
bool whi_recv_clashes(const wh_request *req, uint16_t signature, uint64_t length);

// whi_recv_answer tells the sender of an announced or synchronous message that it is done with.
void whi_recv_answer(wh_endpoint *ep, uint32_t send_id, wh_status status);

// whi_recv_init registers WITHDRAW.
void whi_recv_init(wh_worker *worker);

// whi_message_new keeps a copy of an arrived message; NULL: no memory.  whi_message_free ends it.
whi_message *whi_message_new(wh_endpoint *ep, const whi_hdr *hdr, const void *payload);
void whi_message_free(whi_message *msg);

// whi_message_unname makes an announced message one that cannot be asked for or withdrawn.  whi_recv_settle gives back what
// a message that is done with has cost, and frees it.
void whi_message_unname(whi_message *msg);
void whi_recv_settle(whi_message *msg);

// whi_recv_land_kept ends a receive with a kept message whose payload is here now.
void whi_recv_land_kept(wh_request *req, whi_message *msg);

// whi_ahead_init sets up the prefetch of messages (ahead.c).
void whi_ahead_init(wh_worker *worker);

// whi_ahead_keep keeps a long message whose payload is on its way unasked, and returns the request that
// brings it; NULL: no memory.
wh_request *whi_ahead_keep(wh_endpoint *ep, const whi_hdr *hdr);

// whi_ahead_bring makes the request that brings the payload of a message that is kept without; NULL: no memory for it now.
// whi_ahead_brings says whether a request is one.
wh_request *whi_ahead_bring(whi_message *msg);
bool whi_ahead_brings(const wh_request *req);

// whi_recv_meet_followed joins a pending receive with a kept active message whose payload is here, or follows.
void whi_recv_meet_followed(wh_request *req, whi_message *msg);

// What an endpoint has kept, when it ends (recv_end.c): whi_recv_drop_messages drops all, for its user is gone;
// whi_recv_drop_lost what is lost with the peer, and what would then be out of order.
void whi_recv_drop_messages(wh_endpoint *ep);
void whi_recv_drop_lost(wh_endpoint *ep);

// whi_recv_outlives says whether a matched receive goes on without its endpoint: one from any source that has a place to go
// back to.  It ends there if it was cancelled.  Of a parked object, which an allocator knows, the user must hear.
bool whi_recv_outlives(const wh_request *req);

// whi_recv_has_all says whether a receive has all of its object, and only its user has yet to say where to, or all of its
// message, and waits for a stream of the user's.
bool whi_recv_has_all(const wh_request *req);

#endif
