// SPDX-License-Identifier: BSD-3-Clause
//
// Listener inside comm.
#ifndef WHI_COMM_LISTENER_H
#define WHI_COMM_LISTENER_H

#include <wherry/listener.h>

#include "link/link.h"

uint64_t whi_listener_id(const wh_listener *listener);
const char *whi_listener_secret(const wh_listener *listener);
bool whi_listener_any_user(const wh_listener *listener);

// whi_listener_opened handles OPEN: the endpoint goes to its listener's accept function, or is refused.
wh_status whi_listener_opened(whi_link *link, const whi_hdr *hdr);

// whi_listener_pause stops taking connections for a moment, when there are no descriptors for them.
void whi_listener_pause(wh_worker *worker);

// whi_listener_close_all closes the sockets of all listeners of a worker; their handles stay the user's.
void whi_listener_close_all(wh_worker *worker);

#endif
