// SPDX-License-Identifier: BSD-3-Clause
//
// Acceptor: the accepting side of a handshake, one fixed record per connection until it has succeeded.
#ifndef WHI_LINK_ACCEPTOR_H
#define WHI_LINK_ACCEPTOR_H

#include "base/clock.h"
#include "link/hello.h"
#include "link/room.h"

// whi_acceptor_accept_all takes the connections that wait at `fd`; `listener` is NULL for the local name.  False: there is no
// descriptor or memory for one, and its owner looks at `fd` again after WHI_ACCEPTOR_PAUSE_NS, since it stays readable.
#define WHI_ACCEPTOR_PAUSE_NS (100 * WHI_NS_PER_MS)
bool whi_acceptor_accept_all(wh_worker *worker, int fd, wh_listener *listener);

// whi_acceptor_pending says whether a handshake with that peer has been answered and waits for its confirmation.
bool whi_acceptor_pending(const wh_worker *worker, const uint8_t uuid[16]);

// whi_acceptor_drop_all ends the handshakes of a listener (NULL: all).
void whi_acceptor_drop_all(wh_worker *worker, const wh_listener *listener);

// whi_hello_mine fills in what this worker says of itself, with a fresh nonce; `secret`: the handshake has one.
WH_CHECK wh_status whi_hello_mine(wh_worker *worker, whi_hello_step step, bool secret,
                                  whi_hello *hello);

#endif
