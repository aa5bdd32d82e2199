// SPDX-License-Identifier: BSD-3-Clause
#include "rt/wire/msg.h"

#include <string.h>

#include "base/alloc.h"
#include "rt/wire/state.h"

// head_space has space for the envelope, too, so that a message goes out in one piece: without a priority, as nearly always.
static size_t head_space(size_t head_size) {
    return whi_envelope_space_of(head_size, 0);
}

whi_msg *whi_msg_new(whi_wire *wire, size_t head_size, size_t size) {
    if (size > WHI_MSG_SIZE_MAX)
        return NULL;
    size_t room = head_space(head_size) + size;
    bool large = room > WHI_MSG_ROOM;
    whi_msg *msg;
    if (large) {
        msg = whi_blocks_get(&wire->blocks, sizeof(*msg) + room);
    } else if (wire->free) {
        msg = whi_container_of(wire->free, whi_msg, link);
        wire->free = msg->link.next;
        wire->free_count--;
    } else {
        msg = whi_aligned_alloc(64, sizeof(*msg) + WHI_MSG_ROOM);
    }
    if (!msg)
        return NULL;
    msg->pub = (wh_pe_msg){.head = msg->own,
                           .head_size = head_size,
                           .data = msg->own + head_space(head_size),
                           .size = size};
    msg->link.next = NULL;
    msg->above = NULL;
    msg->wire = wire;
    msg->am = NULL;
    msg->heap = NULL;
    msg->charged = 0;
    msg->failed = WH_OK;
    msg->arriving = msg->gated = msg->control = msg->lent = false;
    msg->large = large;
    msg->floor = 0;
    msg->number = 0;
    return msg;
}

whi_msg *whi_msg_lend(whi_wire *wire, size_t head_size, const void *data, size_t size) {
    whi_msg *msg = size <= WHI_MSG_SIZE_MAX ? whi_msg_new(wire, head_size, 0) : NULL;
    if (!msg)
        return NULL;
    msg->lent = true;
    msg->pub.data = (void *)(uintptr_t)data;
    msg->pub.size = size;
    return msg;
}

bool whi_msg_open(whi_msg *msg) {
    if (!msg->am)
        return true;
    if (!msg->am->header_size)
        return false;
    msg->pub.head = msg->am->header;
    msg->pub.data = (char *)(uintptr_t)msg->am->data;
    return true;
}

whi_msg *whi_msg_own(whi_msg *msg, size_t head_room) {
    whi_wire *wire = msg->wire;
    if (!whi_msg_open(msg))
        return NULL;
    if (head_room < msg->pub.head_size)
        head_room = msg->pub.head_size;
    bool takes = !msg->am && msg->heap;  // its data need not be copied
    whi_msg *own = whi_msg_new(wire, head_room, takes ? 0 : msg->pub.size);
    if (!own)
        return NULL;
    void *head = own->own, *data = own->pub.data;
    own->pub = msg->pub;
    own->pub.head = head;
    own->pub.data = takes ? msg->pub.data : data;
    own->above = msg->above;
    own->floor = msg->floor;
    own->number = msg->number;
    if (msg->pub.head_size)
        memcpy(head, msg->pub.head, msg->pub.head_size);
    if (takes) {
        own->heap = msg->heap;
        msg->heap = NULL;
    } else if (msg->pub.size) {
        memcpy(data, msg->pub.data, msg->pub.size);
    }
    whi_msg_free(msg);
    return own;
}

void whi_msg_free(whi_msg *msg) {
    whi_wire *wire = msg->wire;
    if (msg->am)
        wh_am_drop(msg->am);
    whi_blocks_put(&wire->blocks, msg->heap);
    whi_msg_uncharge(msg);
    if (msg->large) {
        whi_blocks_put(&wire->blocks, msg);
        return;
    }
    if (wire->free_count == WHI_MSG_FREE_MAX) {
        whi_free(msg);
        return;
    }
    msg->link.next = wire->free;
    wire->free = &msg->link;
    wire->free_count++;
}
