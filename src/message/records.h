// SPDX-License-Identifier: BSD-3-Clause
//
// Records: who handles those of a class, and which endpoint they are for.
//
// Whoever handles a class registers it when its room is set up.  A handler that finds its record wrong answers
// whi_link_broken, which fails the link.  Owner's thread.
#ifndef WHI_MESSAGE_RECORDS_H
#define WHI_MESSAGE_RECORDS_H

#include "message/endpoint.h"

// whi_ordered_on registers who handles the records of a class that have a sequence number, each in
// its turn; the endpoint is open.  whi_control_on does for control records, which may have at most
// `payload_max` bytes of payload.
void whi_ordered_on(wh_worker *worker, uint8_t cls, whi_ordered_fn fn);
void whi_control_on(wh_worker *worker, uint8_t cls, whi_control_fn fn, size_t payload_max);

// whi_ep_of_number returns the endpoint of a number, or NULL; whi_ep_known says whether there has
// been one.
static inline wh_endpoint *whi_ep_of_number(whi_link *link, uint32_t number) {
    whi_link_messages *on = whi_messages_on(link);
    if (on->last_ep && on->last_ep->number == number)
        return on->last_ep;
    wh_endpoint *ep = whi_hash_get(&on->eps, number);
    if (ep)
        on->last_ep = ep;
    return ep;
}
bool whi_ep_known(const whi_link *link, uint32_t number);

// whi_ep_find finds the endpoint of a control record.  It is an error when there never was one; NULL with WH_OK: it has ended.
wh_status whi_ep_find(whi_link *link, const whi_hdr *hdr, wh_endpoint **ep);

#endif
