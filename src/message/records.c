// SPDX-License-Identifier: BSD-3-Clause
//
// Who handles which records, see records.h.
#include "message/records.h"

void whi_ordered_on(wh_worker *worker, uint8_t cls, whi_ordered_fn fn) {
    assert(cls >= WHI_CLASS_TAG && cls < WHI_CLASS_TAG + WHI_ORDERED_CLASSES);
    whi_messages_of(worker)->ordered[cls - WHI_CLASS_TAG] = fn;
}

void whi_control_on(wh_worker *worker, uint8_t cls, whi_control_fn fn, size_t payload_max) {
    assert(cls >= WHI_CLASS_UNORDERED && cls < WHI_CLASS_UNORDERED + WHI_CONTROL_CLASSES);
    whi_messages_of(worker)->control[cls - WHI_CLASS_UNORDERED] =
        (whi_control_handler){fn, payload_max};
}

bool whi_ep_known(const whi_link *link, uint32_t number) {
    const whi_link_messages *on = whi_messages_on(link);
    bool ours = (number & 1) == (link->active ? 1u : 0u);
    return number && (ours ? number < on->next_number : number <= on->peer_number);
}

wh_status whi_ep_find(whi_link *link, const whi_hdr *hdr, wh_endpoint **ep) {
    *ep = whi_ep_of_number(link, hdr->ep);
    return *ep || whi_ep_known(link, hdr->ep)
               ? WH_OK
               : whi_link_broken(link, hdr, "there is no such endpoint");
}
