// SPDX-License-Identifier: BSD-3-Clause
//
// Sends whose payload is the caller's again when the call returns.
//
// Small ones are in the lane by then.  A large one can be with the peer, if that is at hand: the call announces it and waits for the
// answer, looking at nothing else that comes, and moves the payload from where it is.  What has not moved when that
// takes too long is copied, and sent as any other.  After a wait in vain some sends do without, so that one to a peer
// that is busy costs little more than its copy.  Owner's thread.
#ifndef WHI_MESSAGE_COPIED_H
#define WHI_MESSAGE_COPIED_H

#include "message/endpoint.h"

// Cycles without anything that moves after which a payload is copied, and one more for each two bytes of it, as its slowest read
// takes.  A variable for tests.
extern uint64_t whi_copied_patience;

// whi_copied_may_wait says whether the next such send on an endpoint is to wait for its peer.  If not, it begins with
// whi_copied_keep.
bool whi_copied_may_wait(wh_endpoint *ep);

// whi_copied_keep has a send read its payload in `copy` from now on.
void whi_copied_keep(wh_request *req, void *copy);

// whi_copied_wait gives the peer the payload of a send that is pending, or copies what it does not take.  The request may
// be gone after it.
void whi_copied_wait(wh_request *req, void *copy);

#endif
