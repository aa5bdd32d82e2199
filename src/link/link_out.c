// SPDX-License-Identifier: BSD-3-Clause
//
// What a link sends: control records that found no space, and what the room above has; and the records that are its own.
//
// The order: control first, since peers wait for it; then the queues of endpoints; then chunks of granted payloads, each in
// turn.  A control record that carries a sequence number was numbered when it was handed in here, so nothing of
// its endpoint may overtake it: as long as `controls` is not empty, no message goes to the lane directly.
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "link/lanes.h"

// Few have more payload than WHI_CONTROL_MAX, so those have memory of their own.
typedef struct control {
    whi_queue_node node;
    whi_hdr hdr;
    uint8_t payload[];
} control;

enum { CONTROL_SIZE = sizeof(control) + WHI_CONTROL_MAX };

// A peer that makes us answer so much and never reads has broken the protocol.
static const size_t controls_max = (size_t)CONTROL_SIZE << 20;

static size_t size_of(const whi_hdr *hdr) {
    return hdr->size > WHI_CONTROL_MAX ? sizeof(control) + hdr->size : CONTROL_SIZE;
}

size_t whi_link_control_size(void) {
    return CONTROL_SIZE;
}

void whi_link_free_control(wh_worker *worker, whi_queue_node *node) {
    control *c = whi_container_of(node, control, node);
    if (c->hdr.size > WHI_CONTROL_MAX)
        whi_free(c);
    else
        whi_pool_put(&whi_links_of(worker)->controls, c);
}

static void keep(whi_link *link, const whi_hdr *hdr, const void *payload) {
    size_t size = size_of(hdr);
    bool full = link->control_bytes + size > controls_max;
    control *c = full                  ? NULL
                 : size > CONTROL_SIZE ? whi_malloc(size)
                                       : whi_pool_get(&whi_links_of(link->worker)->controls);
    if (!c) {
        whi_log(WHI_WARN, "W-LNK-03", "%s: %zu control records wait and %s", link->name,
                link->control_count,
                full ? "the peer does not read them" : "there is no memory for another");
        whi_link_doom(link, full ? WH_EPROTOCOL : WH_ENOMEM);
        return;
    }
    c->hdr = *hdr;
    if (hdr->size)
        memcpy(c->payload, payload, hdr->size);
    whi_queue_push(&link->controls, &c->node);
    link->control_count++;
    link->control_bytes += size;
    whi_link_mark(link);
}

void whi_link_control(whi_link *link, const whi_hdr *hdr, const void *payload) {
    assert(hdr->size <= WH_CONNECT_DATA_MAX);  // most have far less: WHI_CONTROL_MAX
    if (link->dead || link->doomed)
        return;
    if (whi_queue_empty(&link->controls) && !link->holding) {
        wh_status st = link->tx->ops->send(link->tx, hdr, payload);
        if (st == WH_OK)
            return;
        if (st != WH_EAGAIN) {
            whi_link_doom(link, st);
            return;
        }
    }
    keep(link, hdr, payload);
}

static unsigned send_controls(whi_link *link) {
    unsigned count = 0;
    whi_queue_node *node;
    while ((node = whi_queue_first(&link->controls))) {
        control *c = whi_container_of(node, control, node);
        wh_status st = link->tx->ops->send(link->tx, &c->hdr, c->payload);
        if (st == WH_EAGAIN) {
            link->pollable.blocked = true;
            break;
        }
        if (st != WH_OK) {
            whi_link_doom(link, st);
            break;
        }
        (void)whi_queue_pop(&link->controls);
        link->control_bytes -= size_of(&c->hdr);
        whi_link_free_control(link->worker, node);
        link->control_count--;
        count++;
    }
    return count;
}

unsigned whi_link_flush_out(whi_link *link) {
    if (link->doomed)
        return 0;
    link->pollable.blocked = link->holding;
    if (link->holding)
        return 0;
    const whi_link_up *up = whi_link_up_of(link);
    // Until a chunk that was begun is whole the lane refuses all else, so it cannot wait behind that.
    unsigned count = up->rest(link);
    if (!link->dead && !link->pollable.blocked)
        count += send_controls(link);
    if (!link->dead && !link->pollable.blocked && !link->doomed)
        count += up->send(link);
    if (link->dead || link->doomed)
        return count + 1;
    bool empty = whi_queue_empty(&link->controls) && up->empty(link);
    // A stream lane may hold the end of a record that the socket did not take.
    bool rest =
        link->control.lane && link->tx == link->control.lane && whi_control_blocked(&link->control);
    if (rest)
        link->pollable.blocked = true;
    if (empty && !rest) {
        whi_pollable_sent(&link->pollable);
        (void)whi_link_want_space(link, false);
        if (link->closing)
            whi_link_drop(link);
    }
    return count;
}

void whi_link_start(whi_link *link) {
    link->kind = whi_lane_kind_for(link);
    if (link->kind)
        link->kind->start(link);
}

static wh_status on_switch(whi_link *link, const whi_hdr *hdr) {
    const whi_lane_kind *kind = whi_lane_kind_of(hdr->aux);
    bool agreed = kind && kind == link->kind && link->fast && link->rx == link->control.lane;
    if (!agreed || kind->switched(link) != WH_OK)
        return whi_link_broken(link, hdr, "that lane was not agreed on");
    return link->dead ? WH_EPROTOCOL : WH_OK;
}

static wh_status on_lane_address(whi_link *link, const whi_hdr *hdr, const void *payload) {
    if (hdr->flags & WHI_FLAG_BULK_LANE) {
        wh_status bulk =
            hdr->aux == WHI_LANE_UCX ? whi_link_bulk_record(link, hdr, payload) : WH_EPROTOCOL;
        return bulk == WH_EPROTOCOL
                   ? whi_link_broken(link, hdr, "a bulk lane that cannot be opened so")
                   : bulk;
    }
    const whi_lane_kind *kind = whi_lane_kind_of(hdr->aux);
    bool wanted =
        kind && kind->address_came && kind->wanted(link) && link->rx == link->control.lane;
    wh_status st = wanted ? kind->address_came(link, hdr, payload) : WH_EPROTOCOL;
    return st == WH_EPROTOCOL ? whi_link_broken(link, hdr, "that lane cannot be opened so") : st;
}

wh_status whi_link_record(whi_link *link, const whi_hdr *hdr, const void *payload) {
    switch (hdr->cls) {
    case WHI_CLASS_SWITCH: return on_switch(link, hdr);
    case WHI_CLASS_LANE_ADDRESS: return on_lane_address(link, hdr, payload);
    default:  // BYE
        link->closing = true;
        if (whi_lane_receives(link) && link->kind->bye)
            link->kind->bye(link);
        return WH_OK;
    }
}
