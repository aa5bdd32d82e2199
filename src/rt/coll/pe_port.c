// SPDX-License-Identifier: BSD-3-Clause
#include "rt/coll/pe_port.h"

#include "base/alloc.h"
#include "base/list.h"
#include "rt/coll/team.h"
#include "rt/pe/pe.h"

static wh_pe *pe_of(whi_coll_port *port) {
    return whi_container_of(port, whi_coll_pe_port, port)->pe;
}

static wh_status send(whi_coll_port *port, uint32_t to, uint64_t tag, const void *buf, size_t size,
                      const wh_op_opts *opts, wh_request **req) {
    wh_pe *pe = pe_of(port);
    if (whi_pe_gone(pe))
        return WH_ECLOSED;
    return wh_pe_send_buffer(pe, (int)to, buf, size, tag, opts, req);
}

static wh_status recv(whi_coll_port *port, uint32_t from, uint64_t tag, void *buf, size_t size,
                      const wh_op_opts *opts, wh_request **req) {
    wh_pe *pe = pe_of(port);
    if (whi_pe_gone(pe))
        return WH_ECLOSED;
    // Who waits for a PE that has never sent anything hears of its loss by an endpoint to it only.
    wh_endpoint *ep;
    wh_status st = whi_wire_endpoint(pe->wire, (int)from, WHI_USE_CONTROL, &ep);
    return st == WH_OK ? wh_pe_recv_buffer(pe, (int)from, buf, size, tag, opts, req) : st;
}

static void gone(whi_coll_port *port) {
    whi_free(whi_container_of(port, whi_coll_pe_port, port));
}

static const whi_coll_port_ops ops = {.send = send, .recv = recv, .gone = gone};

// close_port follows the end of the PE's worker, and with that of all operations.
static void close_port(void *state) {
    whi_coll_pe_port *port = state;
    wh_team *all = port->all;
    port->pe->floors[WHI_FLOOR_COLL].state = NULL;
    whi_coll_port_close(&port->port);
    wh_team_free(all);
}

whi_coll_pe_port *whi_coll_port_of(wh_pe *pe) {
    whi_floor *floor = &pe->floors[WHI_FLOOR_COLL];
    if (floor->state)
        return floor->state;
    whi_coll_pe_port *port = whi_calloc(1, sizeof(*port));
    if (!port)
        return NULL;
    port->pe = pe;
    whi_coll_port_init(&port->port, &ops, pe->worker, (uint32_t)pe->number, (uint32_t)pe->pes,
                       WH_PE_TAG_COLL);
    if (whi_team_new(&port->port, NULL, (uint32_t)pe->pes, 0, &port->all) != WH_OK) {
        whi_free(port);
        return NULL;
    }
    *floor = (whi_floor){.state = port, .destroy = close_port};
    return port;
}

wh_status wh_pe_team(wh_pe *pe, wh_team **team) {
    if (!pe || !team)
        return WH_EINVAL;
    whi_coll_pe_port *port = whi_coll_port_of(pe);
    if (!port)
        return WH_ENOMEM;
    port->all->holds++;
    *team = port->all;
    return WH_OK;
}
