// SPDX-License-Identifier: BSD-3-Clause
//
// Who is at the other end of an endpoint, what it has given to be known, and whether it is still
// there.
#include "base/opts.h"
#include "message/endpoint.h"

wh_status whi_ep_learn(wh_endpoint *ep, const whi_link *link, const void *data, size_t size) {
    whi_connect_data *copy;
    wh_status st = whi_connect_data_copy(data, size, "peer", &copy);
    if (st != WH_OK)
        return st;
    assert(!ep->who);  // once
    atomic_store_explicit(&ep->peer_data, copy, memory_order_release);
    ep->who = whi_peer_retain(link->who);
    return WH_OK;
}

static wh_status peer_info_of(const wh_endpoint *ep, wh_peer_info *info) {
    if (!ep->who)
        return ep->state == WHI_EP_CLOSED ? WH_ECLOSED : WH_PENDING;
    return whi_opts_give(info, &ep->who->info, sizeof(*info), "wh_peer_info");
}

wh_status wh_endpoint_peer_info(const wh_endpoint *ep, wh_peer_info *info) {
    if (!ep || !info)
        return WH_EINVAL;
    wh_status st = WHI_OWNED(ep->worker, peer_info_of(ep, info));
    // If its worker is gone, nothing changes any more.
    return st == WH_ECLOSED ? peer_info_of(ep, info) : st;
}

const void *wh_endpoint_peer_data(const wh_endpoint *ep, size_t *size) {
    const whi_connect_data *data =
        ep ? atomic_load_explicit(&ep->peer_data, memory_order_acquire) : NULL;
    if (size)
        *size = data ? data->size : 0;
    return data ? data->bytes : NULL;
}

bool wh_endpoint_lost(const wh_endpoint *ep) {
    return ep && atomic_load_explicit(&ep->lost_flag, memory_order_acquire);
}
