// SPDX-License-Identifier: BSD-3-Clause
//
// Peer: who is at the other end of a link, as it is told to the user.
//
// The link has one, and so has each endpoint that is opened on it, so that the endpoint can still
// be asked when the link has gone.  Filled in while the link is made and the same from then on.
// Owner's thread.
#ifndef WHI_LINK_PEER_H
#define WHI_LINK_PEER_H

#include <wherry/endpoint.h>

#include "link/hello.h"

typedef struct whi_peer {
    unsigned refs;
    wh_peer_info info;
} whi_peer;

// whi_peer_new makes one that only has a name, held once; NULL: no memory.
whi_peer *whi_peer_new(const uint8_t uuid[16]);
whi_peer *whi_peer_retain(whi_peer *peer);
void whi_peer_release(whi_peer *peer);  // NULL is nothing

// whi_peer_says notes what the peer says of itself, to a worker on the host with that boot id.
void whi_peer_says(whi_peer *peer, const whi_hello *hello, const uint8_t boot_id[16]);

// whi_peer_reached notes the two addresses of the connection that led to it; whi_peer_vouch what
// the kernel says of the other end of a local socket.
void whi_peer_reached(whi_peer *peer, int fd);
void whi_peer_vouch(whi_peer *peer, int local_fd);

#endif
