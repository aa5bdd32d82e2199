// SPDX-License-Identifier: BSD-3-Clause
//
// Name resolution in a thread of its own, since the system's may block for long.
#ifndef WHI_LINK_RESOLVE_H
#define WHI_LINK_RESOLVE_H

#include "link/address.h"

typedef struct whi_resolve whi_resolve;

// whi_resolve_start looks `host` up; `*fd` becomes readable when it is done.  The caller ends it with
// whi_resolve_end, at any time.
WH_CHECK wh_status whi_resolve_start(const char *host, uint16_t port, whi_resolve **resolve,
                                     int *fd);

// whi_resolve_take returns the addresses once the descriptor is readable.
size_t whi_resolve_take(whi_resolve *resolve, whi_sockaddr out[WHI_ADDRESSES_MAX]);
void whi_resolve_end(whi_resolve *resolve);

#endif
