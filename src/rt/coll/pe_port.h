// SPDX-License-Identifier: BSD-3-Clause
//
// The port of a real PE: messages of collectives are its buffers.  It is made when the PE is first asked for its team, and closed
// with the PE.
#ifndef WHI_RT_COLL_PE_PORT_H
#define WHI_RT_COLL_PE_PORT_H

#include <wherry/coll.h>

#include "rt/coll/port.h"

typedef struct whi_coll_pe_port {
    whi_coll_port port;
    wh_pe *pe;
    wh_team *all;  // the team of all PEs, held
} whi_coll_pe_port;

// whi_coll_port_of finds or makes the port of a PE; NULL: no memory.
whi_coll_pe_port *whi_coll_port_of(wh_pe *pe);

#endif
