// SPDX-License-Identifier: BSD-3-Clause
//
// What the rooms below ask of the rma room, see room.h.
#include "rma/room.h"

#include "message/deliver.h"
#include "message/endpoint.h"
#include "rma/native.h"
#include "rma/rma.h"

static void link_made(whi_link *link) {
    whi_hash_init(&whi_memory_on(link)->natives);
    whi_hash_init(&whi_memory_on(link)->leases);
}

static void link_freed(whi_link *link) {
    whi_rma_link_ended(link);
}

static void link_disconnected(whi_link *link) {
    whi_share_link_ended(link);
}

static bool settled(wh_endpoint *ep) {
    return whi_native_settled(ep, whi_memory_at(ep)->native);
}

static const whi_message_up message_up = {.link_made = link_made,
                                          .link_freed = link_freed,
                                          .link_disconnected = link_disconnected,
                                          .settled = settled};

static wh_status on_mapped(whi_link *link, const whi_hdr *hdr, const void *payload) {
    if (hdr->size && !link->rx->ops->access)
        return whi_link_broken(link, hdr, "a control record with that payload");
    return whi_rkey_mapped(link, hdr, payload) == WH_OK
               ? WH_OK
               : whi_link_broken(link, hdr, "memory that nobody asked for");
}

static wh_status on_map(whi_link *link, const whi_hdr *hdr, const void *payload) {
    (void)payload;
    wh_endpoint *ep;
    wh_status st = whi_ep_find(link, hdr, &ep);
    return st == WH_OK ? whi_serve_map(link, ep, hdr) : st;
}

static wh_status on_recall(whi_link *link, const whi_hdr *hdr, const void *payload) {
    (void)payload;
    wh_status st = hdr->cls == WHI_CLASS_RECALL ? whi_native_recalled(link, hdr)
                                                : whi_share_returned(link, hdr);
    return st == WH_OK ? WH_OK : whi_link_broken(link, hdr, "memory that was not lent");
}

static wh_status on_answer(whi_link *link, const whi_hdr *hdr, const void *payload) {
    (void)payload;
    return whi_rma_answered(link, hdr) == WH_OK
               ? WH_OK
               : whi_link_broken(link, hdr, "an answer that does not fit its question");
}

static wh_status on_access(wh_endpoint *ep, const whi_hdr *hdr, const void *payload) {
    return whi_serve(ep, hdr, payload) == WH_OK
               ? WH_OK
               : whi_link_broken(ep->link, hdr, "a remote access that makes no sense");
}

static wh_status init(wh_worker *worker) {
    whi_rma_room *room = whi_memory_of(worker);
    whi_list_init(&room->shares);
    room->messages.up = &message_up;
    room->messages.links.link_size = sizeof(whi_link_memory);
    room->messages.ep_size = sizeof(whi_ep_memory);
    whi_flush_init(worker);
    whi_ordered_on(worker, WHI_CLASS_PUT, on_access);
    whi_ordered_on(worker, WHI_CLASS_GET, on_access);
    whi_ordered_on(worker, WHI_CLASS_ATOMIC, on_access);
    whi_control_on(worker, WHI_CLASS_MAP, on_map, 0);
    whi_control_on(worker, WHI_CLASS_MAPPED, on_mapped, WHI_CONTROL_MAX);
    whi_control_on(worker, WHI_CLASS_RMA_ANSWER, on_answer, 0);
    whi_control_on(worker, WHI_CLASS_RECALL, on_recall, 0);
    whi_control_on(worker, WHI_CLASS_RECALLED, on_recall, 0);
    return WH_OK;
}

static void asked(wh_worker *worker) {
    whi_share_run(worker);
}

static void finish(wh_worker *worker) {
    whi_share_worker_ended(worker);
}

const whi_room whi_rma_room_table = {.name = "rma", .init = init, .asked = asked, .finish = finish};
