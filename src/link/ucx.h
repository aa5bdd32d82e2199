// SPDX-License-Identifier: BSD-3-Clause
//
// What the links do with UCX: one domain per worker, made when the first link needs it, and one lane per link.
//
// Owner's thread.
#ifndef WHI_LINK_UCX_H
#define WHI_LINK_UCX_H

#include "link/link.h"

// whi_worker_lanes returns the lanes that this worker can use with a peer.  UCX takes what a peer says of itself as it is, and
// may abort the process over it: unless the setting names the lane, it is for peers of whom a secret is asked.  Where
// ucx has to serve alone, its domain is made here, so that a peer does not hear of a lane that does not work;
// whi_worker_ucx_why says why it does not, "" otherwise.
uint32_t whi_worker_lanes(wh_worker *worker, bool secret);
// whi_link_lanes returns those that both ends of a link can use.
uint32_t whi_link_lanes(const whi_link *link);
const char *whi_worker_ucx_why(const wh_worker *worker);

// whi_worker_ucx_ready makes the domain, if that has not been done, and says whether there is one.
bool whi_worker_ucx_ready(wh_worker *worker);

// whi_worker_ucx_pass is the domain's part of a pass that looks at everything; returns the number of events.
unsigned whi_worker_ucx_pass(wh_worker *worker);

// whi_worker_ucx_arm readies the domain for a sleep: WH_EBUSY, or WH_OK and the sleep must end within ucx_nap_ns.
wh_status whi_worker_ucx_arm(wh_worker *worker);

// whi_worker_ucx_busy notes that something happens: the next sleeps are short.
void whi_worker_ucx_busy(wh_worker *worker);

// whi_worker_ucx_end ends the domain.  All links are dropped.
void whi_worker_ucx_end(wh_worker *worker);

#endif
