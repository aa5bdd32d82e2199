// SPDX-License-Identifier: BSD-3-Clause
//
// Messages from other processes.
//
// A message whose data has come with it stays with the engine until its handler has run, and holds its sender's credit.  The
// data of a larger one is asked for when the inbox has space for it; until then it stays with the sender.
#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "rt/wire/state.h"

const void *whi_msg_head(const whi_msg *msg) {
    if (!msg->am)
        return msg->pub.head;
    return msg->am->header_size ? msg->am->header : NULL;
}

static void landed(whi_msg *msg, wh_status st) {
    msg->arriving = false;
    msg->failed = st;
    msg->wire->up->arrived(msg->wire->owner, msg, st);
}

static void on_landed(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    landed(arg, result->status);
}

static void on_refused(wh_post *post) {
    whi_msg *msg = whi_container_of(post, whi_msg, post);
    landed(msg, msg->failed);
}

// refuse ends a message in the next progress: space is given back, and asked for anew, in the middle of other things.
static void refuse(whi_msg *msg, wh_status st) {
    msg->failed = st;
    msg->post.fn = on_refused;
    wh_worker_post(msg->wire->worker, &msg->post);
}

// place_of returns where the data of a message goes in its block, which has a page more than that: to the same place in its page as
// at the sender, where that keeps it aligned for its handler.
static void *place_of(const wh_am *am, void *block) {
    enum { DATA_ALIGN = 16 };
    static_assert(WHI_BLOCK_ALIGN % DATA_ALIGN == 0, "the beginning is aligned");
    if (!block || am->page_offset % DATA_ALIGN)
        return block;
    return (char *)block + (am->page_offset - (uintptr_t)block) % WH_AM_PAGE;
}

// ask has the data of a message sent.  The head is the message's own.
static void ask(whi_msg *msg) {
    whi_wire *wire = msg->wire;
    wh_am *am = msg->am;
    msg->am = NULL;
    msg->charged = msg->pub.size;
    wire->inbox += msg->charged;
    msg->heap = whi_blocks_get(&wire->blocks, WH_AM_PAGE + msg->pub.size);
    msg->pub.data = place_of(am, msg->heap);
    if (!msg->heap) {
        wh_am_drop(am);
        refuse(msg, WH_ENOMEM);
        return;
    }
    wh_status st = wh_am_recv(am, msg->pub.data, msg->pub.size,
                              &(wh_op_opts){.size = sizeof(wh_op_opts),
                                            .timeout_ms = -1,
                                            .mem = WH_MEM_HOST,
                                            .done = on_landed,
                                            .arg = msg},
                              NULL);
    if (st != WH_PENDING) {
        wh_am_drop(am);
        refuse(msg, st);
    }
}

static bool space(const whi_wire *wire, size_t size) {
    return !wire->inbox || (wire->inbox < wire->inbox_max && size <= wire->inbox_max - wire->inbox);
}

void whi_wire_uncharge(whi_wire *wire, size_t size) {
    wire->inbox -= size;
    whi_queue_node *node;
    while (!wire->closed && (node = whi_queue_first(&wire->asking))) {
        whi_msg *msg = whi_container_of(node, whi_msg, ask);
        if (!space(wire, msg->pub.size))
            return;
        whi_queue_pop(&wire->asking);
        ask(msg);
    }
}

// announced makes a message of one whose data is still with its sender.
static wh_status announced(whi_wire *wire, whi_peer *peer, const whi_envelope *envelope,
                           wh_am *am) {
    whi_msg *msg = whi_msg_new(wire, envelope->head_size, 0);
    if (!msg)
        return WH_ENOMEM;
    memcpy(msg->own, am->header, envelope->head_size);
    msg->pub.source = peer->pe;
    msg->pub.handler = envelope->handler;
    msg->pub.priority = envelope->priority;
    msg->pub.size = am->size;
    msg->arriving = true;
    msg->am = am;
    wire->up->message(wire->owner, msg);
    if (whi_queue_empty(&wire->asking) && space(wire, msg->pub.size))
        ask(msg);
    else
        whi_queue_push(&wire->asking, &msg->ask);
    return WH_OK;
}

static wh_status take(whi_wire *wire, whi_peer *peer, const whi_envelope *envelope, wh_am *am) {
    if (am->size && !am->data)
        return announced(wire, peer, envelope, am);
    whi_msg *msg = whi_msg_new(wire, 0, 0);
    if (!msg)
        return WH_ENOMEM;
    msg->pub = (wh_pe_msg){.source = peer->pe,
                           .handler = envelope->handler,
                           .priority = envelope->priority,
                           .head_size = envelope->head_size,
                           .size = am->size};
    msg->am = am;
    wire->up->message(wire->owner, msg);
    return WH_OK;
}

wh_status whi_wire_arrive(wh_am *am, void *arg) {
    whi_wire *wire = arg;
    whi_peer *peer = wh_endpoint_data(am->ep);
    whi_envelope envelope;
    if (!peer || peer->in[WHI_USE_DATA] != am->ep || peer->lost != WH_OK || wire->closed)
        return WH_OK;
    if (!whi_envelope_read(&envelope, am->header, am->header_size)) {
        whi_peer_reject(peer, "it has sent a message without an envelope");
        return WH_OK;
    }
    wh_status st = take(wire, peer, &envelope, am);
    if (st == WH_OK)
        return WH_PENDING;
    whi_peer_cut(peer, st, "there was no memory for its message");
    return WH_OK;
}
