// SPDX-License-Identifier: BSD-3-Clause
//
// Dial: the connecting side, from an address to a link on which the endpoint is opened.
#ifndef WHI_LINK_DIAL_H
#define WHI_LINK_DIAL_H

#include <wherry/endpoint.h>

#include "link/address.h"
#include "link/link.h"

typedef struct whi_dial whi_dial;

// whi_dial_new makes an endpoint and its dial, which begins with whi_dial_host (a name, or numbers) or whi_dial_blob.
WH_CHECK wh_status whi_dial_new(wh_worker *worker, const wh_endpoint_opts *opts, wh_endpoint **ep,
                                whi_dial **dial);
void whi_dial_host(whi_dial *dial, const char *address, const char *host, uint16_t port);
void whi_dial_blob(whi_dial *dial, const whi_blob *blob);

// whi_dial_drop_ep ends the dial of an endpoint that has been opened or has ended.
void whi_dial_drop_ep(wh_endpoint *ep);

// whi_dial_again dials once more for an endpoint whose link was lost before it was opened; false: it was tried
// often enough.
bool whi_dial_again(wh_endpoint *ep, wh_status why);

// whi_dial_link_made lets dials that wait for a link to that peer use it.
void whi_dial_link_made(wh_worker *worker, whi_link *link);

// whi_dial_committed says whether a dial of this worker has confirmed a handshake with that peer.
bool whi_dial_committed(const wh_worker *worker, const uint8_t uuid[16]);

// whi_self_link returns the link of a worker to itself, made at the first call.  Both its ends know `secret` from now on,
// which the handshake has proven.
WH_CHECK wh_status whi_self_link(wh_worker *worker, const char *secret, whi_link **link);

// whi_self_owns says whether a uuid is one of the two that name the ends of that link.
bool whi_self_owns(const wh_worker *worker, const uint8_t uuid[16]);

#endif
