// SPDX-License-Identifier: BSD-3-Clause
//
// How the address of a lane of UCX passes between two workers, see lane_address.h.
#include "link/lane_address.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "link/wire.h"
#include "net/ucx/ucx.h"

wh_status whi_lane_address_add(whi_lane_address *address, const whi_hdr *hdr, const void *piece) {
    bool first = hdr->arg == 0 && !address->bytes;
    if (!hdr->size || hdr->tag > WHI_LANE_ADDRESS_MAX || hdr->arg != address->got ||
        (!first && hdr->tag != address->size) || hdr->size > hdr->tag - hdr->arg)
        return WH_EPROTOCOL;
    if (first) {
        address->bytes = whi_malloc(hdr->tag);
        address->size = (uint32_t)hdr->tag;
    }
    if (!address->bytes)
        return WH_ENOMEM;
    memcpy(address->bytes + address->got, piece, hdr->size);
    address->got += hdr->size;
    return address->got == address->size ? WH_OK : WH_PENDING;
}

void whi_lane_address_drop(whi_lane_address *address) {
    whi_free(address->bytes);
    *address = (whi_lane_address){.bytes = NULL};
}

wh_status whi_lane_address_tell(whi_link *link, const whi_lane *lane, uint8_t flags,
                                whi_lane_address_fn send) {
    uint8_t *address = whi_malloc(WHI_LANE_ADDRESS_MAX);
    if (!address)
        return WH_ENOMEM;
    static_assert((int)WHI_UCX_ADDRESS_MAX <= (int)WHI_LANE_ADDRESS_MAX, "addresses fit");
    size_t size = whi_ucx_lane_address(lane, address, WHI_LANE_ADDRESS_MAX);
    wh_status st = WH_OK;
    for (size_t at = 0; at < size && st == WH_OK; at += WHI_LANE_PIECE) {
        size_t piece = size - at < WHI_LANE_PIECE ? size - at : WHI_LANE_PIECE;
        whi_hdr hdr = {.size = (uint32_t)piece,
                       .cls = WHI_CLASS_LANE_ADDRESS,
                       .flags = flags,
                       .aux = WHI_LANE_UCX,
                       .tag = size,
                       .arg = at};
        st = send(link, &hdr, address + at);
    }
    whi_free(address);
    return st;
}

wh_status whi_lane_address_refuse(whi_link *link, const char *why, uint8_t flags,
                                  whi_lane_address_fn send) {
    char text[WHI_CONTROL_MAX];
    int size = snprintf(text, sizeof(text), "%s", why);
    whi_hdr hdr = {.size = (uint32_t)(size < WHI_CONTROL_MAX ? size : WHI_CONTROL_MAX - 1),
                   .cls = WHI_CLASS_LANE_ADDRESS,
                   .flags = flags | WHI_FLAG_NO_LANE,
                   .aux = WHI_LANE_UCX};
    return send(link, &hdr, text);
}
