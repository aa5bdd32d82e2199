// SPDX-License-Identifier: BSD-3-Clause
//
// The local name of a worker: an abstract AF_UNIX socket where peers of this host come to upgrade.
#ifndef WHI_LINK_LOCAL_H
#define WHI_LINK_LOCAL_H

#include "link/room.h"

// whi_local_name returns the worker's name, opening the socket at the first call; "" when there is none to be had.
const char *whi_local_name(wh_worker *worker);
void whi_local_close(wh_worker *worker);

#endif
