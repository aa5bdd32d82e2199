// SPDX-License-Identifier: BSD-3-Clause
//
// Acceptor: the accepting side of a handshake, one fixed record per connection until it has succeeded.
#ifndef WHI_LINK_ACCEPTOR_H
#define WHI_LINK_ACCEPTOR_H

#include "link/hello.h"
#include "link/room.h"

// A listening socket.
typedef struct whi_door {
    wh_worker *worker;
    wh_listener *listener;  // NULL: the local name
    int fd;
    whi_watch watch;
    whi_timer pause;
} whi_door;

// whi_door_open takes the connections that come at `fd` from now on, in the worker's progress; it owns `fd` from a success on.
// When there is no descriptor or memory for one, it looks again a moment later.
WH_CHECK wh_status whi_door_open(whi_door *door, wh_worker *worker, int fd, wh_listener *listener);

// whi_door_close closes the socket.
void whi_door_close(whi_door *door);

// whi_acceptor_pending says whether a handshake with that peer has been answered and waits for its confirmation.
bool whi_acceptor_pending(const wh_worker *worker, const uint8_t uuid[16]);

// whi_acceptor_drop_all ends the handshakes of a listener (NULL: all).
void whi_acceptor_drop_all(wh_worker *worker, const wh_listener *listener);

// whi_hello_mine fills in what this worker says of itself, with a fresh nonce; `secret`: the handshake has one.
WH_CHECK wh_status whi_hello_mine(wh_worker *worker, whi_hello_step step, bool secret,
                                  whi_hello *hello);

#endif
