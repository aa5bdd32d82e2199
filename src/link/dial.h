// SPDX-License-Identifier: BSD-3-Clause
//
// Dial: the connecting side, from an address to a link on which the endpoint is opened.
#ifndef WHI_LINK_DIAL_H
#define WHI_LINK_DIAL_H

#include "link/address.h"
#include "link/link.h"

typedef struct whi_dial whi_dial;

// What whoever dials is told, in progress.  Either function may end the dial.
typedef struct whi_dial_up {
    // There is a link to the peer, which knows the secret; `listener` there takes the endpoint, 0 being the worker's address.
    void (*linked)(void *arg, whi_link *link, uint64_t listener);
    // There will be none.  The sentence names the target.
    void (*failed)(void *arg, wh_status status, const char *sentence);
} whi_dial_up;

// whi_dial_new makes a dial that whoever dials ends with whi_dial_end.  It begins with whi_dial_host (a name, or numbers) or
// whi_dial_blob.  `secret` may be NULL, and `timeout_ms` 0, for what the configuration says.
WH_CHECK wh_status whi_dial_new(wh_worker *worker, const char *secret, int32_t timeout_ms,
                                const whi_dial_up *up, void *arg, whi_dial **dial);
void whi_dial_host(whi_dial *dial, const char *address, const char *host, uint16_t port);
void whi_dial_blob(whi_dial *dial, const whi_blob *blob);

// whi_dial_end ends a dial, whatever its state.  Its memory stays until the end of the pass.
void whi_dial_end(whi_dial *dial);

// whi_dial_again dials once more after a link that it has found was lost (`why`) before anything could be opened on it.  False:
// it was tried often enough, or that would not help.
bool whi_dial_again(whi_dial *dial, wh_status why);

// whi_dial_link_made lets dials that wait for a link to that peer use it.
void whi_dial_link_made(wh_worker *worker, whi_link *link);

// whi_dial_committed says whether a dial of this worker has confirmed a handshake with that peer.
bool whi_dial_committed(const wh_worker *worker, const uint8_t uuid[16]);

// whi_self_link returns the link of a worker to itself, made at the first call.  Both its ends know `secret` from now on,
// which the handshake has proven; `fd` is the connection by which the worker has found itself.
WH_CHECK wh_status whi_self_link(wh_worker *worker, const char *secret, int fd, whi_link **link);

// whi_self_owns says whether a uuid is one of the two that name the ends of that link.
bool whi_self_owns(const wh_worker *worker, const uint8_t uuid[16]);

#endif
