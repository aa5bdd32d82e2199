// SPDX-License-Identifier: BSD-3-Clause
//
// The listener inside the engine.
#ifndef WHI_LINK_LISTENER_H
#define WHI_LINK_LISTENER_H

#include <wherry/listener.h>

#include "link/link.h"

uint64_t whi_listener_id(const wh_listener *listener);
const char *whi_listener_secret(const wh_listener *listener);
bool whi_listener_any_user(const wh_listener *listener);

// Who takes an endpoint that a peer opens, and what it asks of the peer.
typedef struct whi_taker {
    wh_accept_fn accept;  // NULL: nobody
    void *arg;
    const char *secret;
    bool any_user;
    const whi_connect_data *data;  // or NULL
    wh_answer_fn answer;           // or NULL
} whi_taker;

// whi_listener_find returns who takes an endpoint for listener `id`; 0 is the worker's own address.
whi_taker whi_listener_find(wh_worker *worker, uint64_t id);

// whi_listener_close_all closes the sockets of all listeners of a worker; their handles stay the user's.
void whi_listener_close_all(wh_worker *worker);

#endif
