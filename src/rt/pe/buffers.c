// SPDX-License-Identifier: BSD-3-Clause
//
// Buffers between PEs: tags, and sends and receives on the data endpoints.
#include <wherry/tag.h>

#include "base/alloc.h"
#include "rt/pe/pe.h"
#include "rt/pe/refuse.h"

// A number comes round again after 2^28 buffers to the same PE.  Of those fewer are under way: what the receiver has not matched
// is bounded by announce_max and credit of the endpoint, what waits in this PE by its memory (a request each).
wh_status wh_pe_next_tag(wh_pe *pe, int dest, uint64_t *tag) {
    if (whi_pe_lacks(pe, dest))
        return whi_refuse_pe(pe, "wh_pe_next_tag", "dest", dest);
    if (!pe->counters && !(pe->counters = whi_calloc((size_t)pe->pes, sizeof(*pe->counters))))
        return WH_ENOMEM;
    *tag = WH_PE_TAG(WH_PE_TAG_BUFFER, pe->number, pe->counters[dest]++);
    return WH_OK;
}

wh_status wh_pe_send_buffer(wh_pe *pe, int dest, const void *buf, size_t size, uint64_t tag,
                            const wh_op_opts *opts, wh_request **req) {
    if (whi_pe_lacks(pe, dest))
        return whi_refuse_pe(pe, "wh_pe_send_buffer", "dest", dest);
    wh_endpoint *ep;
    wh_status st = whi_wire_endpoint(pe->wire, dest, WHI_USE_DATA, &ep);
    return st == WH_OK ? wh_tag_send(ep, buf, size, tag, opts, req) : st;
}

wh_status wh_pe_recv_buffer(wh_pe *pe, int source, void *buf, size_t size, uint64_t tag,
                            const wh_op_opts *opts, wh_request **req) {
    if (whi_pe_lacks(pe, source))
        return whi_refuse_pe(pe, "wh_pe_recv_buffer", "source", source);
    return whi_wire_recv(pe->wire, source, buf, size, tag, opts, req);
}

wh_status wh_pe_endpoint(wh_pe *pe, int dest, wh_endpoint **ep) {
    if (whi_pe_lacks(pe, dest))
        return whi_refuse_pe(pe, "wh_pe_endpoint", "dest", dest);
    int local = whi_wire_local(pe->wire);
    return dest / local == pe->number / local ? WH_ENOTSUP
                                              : whi_wire_endpoint(pe->wire, dest, WHI_USE_DATA, ep);
}
