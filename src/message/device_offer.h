// SPDX-License-Identifier: BSD-3-Clause
//
// Offers of device memory: payloads that the receiver copies from the sender's device memory to its own.
//
// The grant says that the receiver takes offers.  The sender then says where a part of its payload is instead of sending it as
// chunks, and leaves that memory alone until it has the answer: taken, or to be sent.  The receiver maps the memory (import.h)
// or has it in its own process, copies on a stream of ours (stage.h), and answers when the copy has passed.  A request has one
// offer out at a time.  docs/design/device-copy.md says why.  Owner's thread.
//
// A layout is packed into memory of the worker's, which has a bound.  A send that finds none waits for what others on its link
// have: their peer, whom it needs itself, gives that back.  For what other peers have it waits only as long as some comes back:
// they might read nothing.
#ifndef WHI_MESSAGE_DEVICE_OFFER_H
#define WHI_MESSAGE_DEVICE_OFFER_H

#include "message/room.h"
#include "message/stage.h"

// whi_device_offer_may says whether device memory may go this way over a link: both ends are one user's and on one host.
bool whi_device_offer_may(const whi_link *link);

// whi_device_offer_may_come says whether a receive may take device memory of its sender's.
bool whi_device_offer_may_come(const wh_request *req);

// whi_device_offer_make offers the next of the `left` bytes that a send has in `buf`.  True: it did, and the send is held and in no
// list of the link's until the answer has come; or the send waits for memory.  False: they go as all others do.
bool whi_device_offer_make(whi_link *link, wh_request *req, whi_buffer *buf, uint64_t left);

// whi_device_offer_packed goes on when a part of a layout is packed: `packed` of whi_stage_up.
void whi_device_offer_packed(const whi_stage_chunk *chunk, wh_status st);

// whi_device_offer_passed goes on when the copy of an offer has passed: `taken` of whi_stage_up.
void whi_device_offer_passed(const whi_stage_chunk *chunk, wh_status st);

// whi_device_offer_look goes on with sends that wait, when memory has come back or they may wait no longer.  Busy: so it is.
unsigned whi_device_offer_look(wh_worker *worker);
static inline bool whi_device_offer_busy(const wh_worker *worker) {
    return whi_messages_of(worker)->device.look;
}

// whi_device_offer_link_ended ends what a link has of it: nobody will answer any more.
void whi_device_offer_link_ended(whi_link *link);

// What follows: of a send, that the peer has taken the next bytes, at most so many, or that it tries again what it has waited
// for; of a receive, which was held, that a part is in its memory, or that it is not.
typedef struct whi_device_up {
    void (*took)(whi_link *link, wh_request *req, uint64_t most);
    void (*again)(whi_link *link, wh_request *req);
    void (*stored)(whi_link *link, wh_request *req, const whi_hdr *hdr);
    void (*dropped)(whi_link *link, wh_request *req);
} whi_device_up;

// whi_device_offer_init registers OFFER and TAKEN.
void whi_device_offer_init(wh_worker *worker, const whi_device_up *up);

#endif
