// SPDX-License-Identifier: BSD-3-Clause
//
// Active messages inside the engine.
#ifndef WHI_MESSAGE_AM_H
#define WHI_MESSAGE_AM_H

#include <wherry/am.h>

#include "message/endpoint.h"

// whi_am_arrived runs the handler of an arrived active message, in its turn.
wh_status whi_am_arrived(wh_endpoint *ep, const whi_hdr *hdr, const void *payload);

// whi_am_forget_handlers ends the registrations of a worker.
void whi_am_forget_handlers(wh_worker *worker);

#endif
